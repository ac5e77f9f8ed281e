//go:build linux

// Command fleet tests many hosts of a fleet through hundreds of faults: real hubs on a real
// PostgreSQL, the real agent of each host, real tickets over TLS; only
// the traffic of the hosts is simulated. Then it compares what the hosts logged themselves with
// what the hubs stored: no host in two runs at a time, no finished run lost or stored twice.
//
// It needs root, for a network and mounts of its own, and PostgreSQL's server programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	program, output, folder string
	hosts, faults           int
	together, rounds        int
	length                  time.Duration
	seed                    uint64
}

func run(ctx context.Context, args []string) error {
	if len(args) > 2 && args[0] == "hosts" {
		return hosts(ctx, args[1], args[2:])
	}
	var o options
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.StringVar(&o.program, "linerate", "bin/linerate", "the program whose hub is tested")
	flags.StringVar(&o.output, "o", "", "document whose section is replaced; \"\" prints it")
	flags.StringVar(&o.folder, "kept", "bin/fleet", "folder for the logs")
	flags.IntVar(&o.hosts, "hosts", 1000, "how many hosts")
	flags.IntVar(&o.together, "together", 25, "how many hosts share a process, which is killed as a whole")
	flags.IntVar(&o.rounds, "rounds", 12, "looks of each host an hour")
	flags.IntVar(&o.faults, "faults", 200, "how many faults")
	flags.DurationVar(&o.length, "for", 25*time.Minute, "how long the faults go on")
	flags.Uint64Var(&o.seed, "seed", 1, "of the faults and their times")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, path := range []*string{&o.program, &o.folder} {
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if os.Getenv(inside) == "" {
		return again(ctx, args)
	}
	return o.test(ctx)
}

// inside is set in the process that has a network and mounts of its own.
const inside = "LINERATE_FLEET_TEST"

// again runs this command with a network and mounts of its own.
func again(ctx context.Context, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Run(); err != nil {
		if errors.Is(err, syscall.EPERM) {
			return errors.New("it needs root: run it with sudo")
		}
		return err
	}
	return nil
}

// test starts a fleet, has faults happen, and audits what is left.
func (o options) test(ctx context.Context) error {
	w, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	happened, err := w.suffer(ctx)
	if err != nil {
		return err
	}
	a, err := w.audit(ctx)
	if err != nil {
		return err
	}
	if err := w.section(a, happened).Keep(o.output); err != nil {
		return err
	}
	return a.err()
}
