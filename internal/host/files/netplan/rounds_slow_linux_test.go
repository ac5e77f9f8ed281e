//go:build slow

package netplan_test

// rounds is how often each way of owning the interface is drawn.
const rounds = 10
