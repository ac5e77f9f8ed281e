// Package lab runs a virtual network of two hosts, a wire between them and, if asked,
// routers on the way, on one Linux machine, without root where user namespaces are allowed.
//
// Its processes:
//
//  1. The controller, which called Start. It holds one socket to each process
//     below and none of the traffic passes it.
//  2. The wire process: process 1 of a new PID namespace, in new user, network,
//     mount and IPC namespaces. It moves frames (package wire), and keeps the
//     routers: a network namespace each, in which no process runs.
//  3. The near and the far host: a process each with its own network, mount and UTS
//     namespace, which owns the interface eth0 and starts programs on request.
//  4. Programs in the hosts: agents (Lab.Dial) and others (Lab.Command).
//
// Nothing outlives the controller: the wire process is killed by the kernel
// when the controller's thread ends (PR_SET_PDEATHSIG) and ends by itself when
// the controller's socket closes; and with process 1 the kernel kills everything
// in its PID namespace (pid_namespaces(7)).
package lab

import "errors"

// Child is the entry of the lab's own processes: Config.Command must lead to a
// call of it with the arguments that follow, before the program does anything
// else. It returns when the process shall end, with an error if it broke.
func Child(args []string) error {
	if len(args) == 0 {
		return errors.New("lab process without a role: it is started by the lab, not by hand")
	}
	return child(args)
}
