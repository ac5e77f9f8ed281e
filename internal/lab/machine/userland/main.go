// Command userland is process 1 and the few programs of a FreeBSD root that has no
// other: it is what the machines of tests run beside linerate, where a real userland
// is not at hand. By the name that it is called by it is
//
//	init      remounts the root for writing, sets up the interfaces that the loader's
//	          environment names (linerate.em0="10.0.0.9/24"), starts the guest and
//	          collects orphans; it runs no scripts of rc.d(8), as there is no shell
//	peek      tells settings and interfaces by system calls of its own, as a judge of
//	          what linerate says and does
//	env       starts a program with more in its environment
//	in        starts a program in a folder
//	reboot    restarts the machine at once
//
// It is for tests only and is no part of the program.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	if name == "userland" && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if err := run(name, args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
