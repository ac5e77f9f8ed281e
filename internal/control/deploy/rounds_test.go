//go:build !slow && linux

package deploy_test

// rounds is how many agents are started while somebody swaps their programs.
const rounds = 2
