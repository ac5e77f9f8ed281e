//go:build slow

package networkmanager_test

// trees is how many are drawn.
const trees = 60
