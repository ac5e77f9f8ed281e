//go:build slow

package networkmanager_test

// trees is how many are drawn.
const trees = 60

// machinesDrawn is how many are brought up.
const machinesDrawn = 44
