//go:build !slow

package main

// everyFault injects each fault into every operation on every host; without it, into one.
const everyFault = false
