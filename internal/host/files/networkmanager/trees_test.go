//go:build !slow

package networkmanager_test

// trees is how many are drawn.
const trees = 8

// machinesDrawn is how many are brought up.
const machinesDrawn = 3
