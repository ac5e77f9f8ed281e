//go:build slow

package sysctl_test

// trees is how many are drawn for each program.
const trees = 60
