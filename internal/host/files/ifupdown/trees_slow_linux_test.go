//go:build slow

package ifupdown_test

// trees is how many are drawn.
const trees = 80
