// Command userland is process 1 and the few programs of a FreeBSD root that has no
// other: it is what the machines of tests run beside linerate, where a real userland
// is not at hand. By the name that it is called by it is
//
//	init      remounts the root for writing, has sh run /etc/rc, starts the guest and
//	          collects orphans
//	sh        a shell that is not FreeBSD's (mvdan.cc/sh), for the scripts of rc.d(8):
//	          /etc/rc and /etc/rc.subr are small ones of this root
//	sysctl    sets variables, or those of sysctl.conf(5)
//	ifconfig  sets an address or an MTU
//	sync      writes what the kernel has in memory
//	peek      tells settings and interfaces by system calls of its own, as a judge of
//	          what linerate says and does
//	env       starts a program with more in its environment
//	in        starts a program in a folder
//	listen    starts a program for each connection to a port
//	sshd      runs commands over ssh (golang.org/x/crypto/ssh), with uname, mkdir and what
//	          else linerate asks of a host that it copies itself to
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
