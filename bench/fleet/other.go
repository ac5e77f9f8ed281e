//go:build !linux

// Command fleet needs Linux.
package main

import "os"

func main() {
	println("fleet: it needs Linux")
	os.Exit(1)
}
