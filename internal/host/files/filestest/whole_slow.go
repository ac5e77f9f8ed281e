//go:build slow

package filestest

const whole = true
