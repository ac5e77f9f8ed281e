// Command linerate finds what limits a network, fixes it and proves it.
package main

import (
	"context"
	"os"

	"linerate/internal/ui/cli"
)

var version = "dev" // set by the linker, see the Makefile

func main() { os.Exit(cli.Main(context.Background(), cli.OS(version), os.Args[1:])) }
