//go:build slow

package must

// Slow reports whether tests are to be thorough, which takes long: the build tag slow.
const Slow = true
