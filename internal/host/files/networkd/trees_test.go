//go:build !slow

package networkd_test

// trees is how many to draw for each kind of file.
const trees = 3
