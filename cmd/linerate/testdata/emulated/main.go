// Command emulated is the agent of another CPU, run by EMULATOR, which also runs the processes
// that it starts.
package main

import (
	"context"
	"os"

	"linerate/internal/ui/agent"
)

func main() {
	os.Exit(agent.Main(context.Background(), "emulated", []string{os.Getenv("EMULATOR"), os.Args[0]}, os.Args[1:]))
}
