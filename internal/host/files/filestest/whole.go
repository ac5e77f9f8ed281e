//go:build !slow

package filestest

// whole says that all trees are drawn.
const whole = false
