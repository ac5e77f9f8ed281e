//go:build !slow

package filestest

// whole means that the test draws all trees.
const whole = false
