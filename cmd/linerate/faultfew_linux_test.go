//go:build !slow

package main

// everyFault has each fault come into every operation on every host; without it, into one.
const everyFault = false
