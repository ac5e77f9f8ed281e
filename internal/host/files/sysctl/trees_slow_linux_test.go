//go:build slow

package sysctl_test

// trees is how many to draw for each program.
const trees = 60
