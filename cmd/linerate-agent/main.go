// Command linerate-agent is what linerate copies to a far host: the part that measures and
// changes the machine that it runs on.
package main

import (
	"context"
	"os"

	"linerate/internal/ui/agent"
)

var version = "dev" // set by the linker, see the Makefile

func main() { os.Exit(agent.Main(context.Background(), version, nil, os.Args[1:])) }
