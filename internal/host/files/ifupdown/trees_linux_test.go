//go:build !slow

package ifupdown_test

// trees is how many to draw.
const trees = 5
