//go:build !slow && linux

package deploy_test

// rounds is how many agents start while another process swaps their programs.
const rounds = 2
