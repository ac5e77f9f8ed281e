// Package lab runs a virtual network on one Linux machine: two hosts, a wire between them and,
// if requested, routers on the path. It needs no root if user namespaces are allowed.
//
// Its processes:
//
//  1. The controller, which called Start. It holds one socket to each process below; traffic
//     does not pass through it.
//  2. The wire process: process 1 of a new PID namespace, in new user, network, mount and IPC
//     namespaces. It moves frames (package wire), and keeps the routers: a network namespace
//     each, in which no process runs.
//  3. The near and the far host: a process each with its own network, mount and UTS namespace,
//     which owns the interface eth0 and starts programs on request.
//  4. Programs in the hosts: agents (Lab.Dial) and others (Lab.Command).
//
// Nothing outlives the controller: the kernel kills the wire process when the controller's
// thread ends (PR_SET_PDEATHSIG), and the wire process exits when the controller's socket
// closes; with process 1 the kernel kills everything in its PID namespace (pid_namespaces(7)).
package lab

import "errors"

// Child is the entry point of the lab's own processes: Config.Command must lead to a call of it
// with the arguments that follow, before the program does anything else. It returns when the
// process must exit, with an error if it failed.
func Child(args []string) error {
	if len(args) == 0 {
		return errors.New("lab process without a role: it is started by the lab, not by hand")
	}
	return child(args)
}
