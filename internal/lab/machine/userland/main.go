// Command userland is process 1 and the few programs of a FreeBSD root that has no others: test
// machines run them beside linerate if there is no real userland. The name that it is called by
// selects
//
//	init      remounts the root for writing, has sh run /etc/rc, starts the guest and
//	          reaps orphans
//	sh        a shell that is not FreeBSD's (mvdan.cc/sh), for the scripts of rc.d(8):
//	          /etc/rc and /etc/rc.subr are small ones of this root
//	sysctl    sets variables, or those of sysctl.conf(5)
//	ifconfig  sets an address or an MTU
//	sync      writes what the kernel has in memory
//	peek      reports settings and interfaces by its own system calls, to check what
//	          linerate reports and does
//	env       starts a program with additions to its environment
//	in        starts a program in a folder
//	listen    starts a program for each connection to a port
//	sshd      runs commands over ssh (golang.org/x/crypto/ssh), with uname, mkdir and whatever
//	          else linerate needs on a host that it copies itself to
//	reboot    restarts the machine at once
//
// It is for tests only and is not part of linerate.
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
