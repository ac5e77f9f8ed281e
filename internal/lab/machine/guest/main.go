// Command guest runs inside the machines of package machine: it answers the harness on its line
// and runs the harness's commands, as the user that it was started as. As process 1 of Linux it
// prepares a Debian root first (init_linux.go).
//
//	guest /dev/virtio-ports/linerate    the line is this file, opened until it exists
//
// Use it only in test machines: it obeys any program that has the line.
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	if os.Getpid() == 1 {
		fmt.Fprintln(os.Stderr, "guest:", initialize())
		time.Sleep(time.Hour) // exiting from process 1 would stop the kernel and hide the message
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
