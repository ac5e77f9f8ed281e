// Command guest runs inside the machines of package machine: it answers the harness
// on its line and runs what it is told, as whoever it was started as. As process 1 of
// Linux it prepares a Debian root first (init_linux.go).
//
//	guest /dev/virtio-ports/linerate    the line is this file, opened until it is there
//
// It is for machines of tests only: it obeys whoever holds the line.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	if os.Getpid() == 1 {
		fmt.Fprintln(os.Stderr, "guest:", initialize())
		time.Sleep(time.Hour) // a process 1 that ends stops the kernel, and with it the message
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: guest FILE (the line to the harness)")
		os.Exit(2)
	}
	for {
		if err := serve(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
