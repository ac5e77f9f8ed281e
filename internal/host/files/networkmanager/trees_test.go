//go:build !slow

package networkmanager_test

// trees is how many to draw.
const trees = 8

// machinesDrawn is how many to bring up.
const machinesDrawn = 3
