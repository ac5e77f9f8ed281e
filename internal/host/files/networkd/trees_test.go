//go:build !slow

package networkd_test

// trees is how many are drawn for each kind of file.
const trees = 3
