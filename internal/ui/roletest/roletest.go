// Package roletest makes a test program serve as the processes of a lab too: its virtual
// hosts, and the agents and watchdogs in them.
package roletest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/control/wire"
	"linerate/internal/core/knob"
	"linerate/internal/core/units"
	"linerate/internal/host/watchdog"
	"linerate/internal/lab"
)

// Main ends this process with the outcome of the role that its first argument names:
// lab-init, agent, watchdog, or one of more, which gets the other arguments. Without a role,
// it runs the tests of m. The settings of a lab are those of catalogue.
func Main(m *testing.M, catalogue *knob.Index, more map[string]func(args []string) error) {
	labInit := func(args []string) error { // a virtual host, or sets settings in one
		if len(args) > 0 && args[0] == "set" {
			return target.SetInLab(context.Background(), catalogue, args[1:])
		}
		return lab.Child(args)
	}
	roles := map[string]func(args []string) error{"lab-init": labInit, "agent": agent, "watchdog": watch}
	maps.Copy(roles, more)
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		os.Exit(m.Run())
	}
	if err := roles[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// agent serves one session over its standard streams.
func agent(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var o local.Options
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.StringVar(&o.State, "state", "", "")
	f.StringVar(&o.Link, "interface", "", "")
	rate := f.Float64("link-rate", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.Rate = units.BitRate(*rate)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conn, done := wire.Join(os.Stdin, os.Stdout)
	env := app.Env{Version: "v0.0-test", Self: []string{self}, Getenv: os.Getenv, Now: time.Now, Asker: app.NoUser{}, Observer: app.NoUser{}}
	err = local.Serve(ctx, env, conn, o)
	_ = conn.Close()
	_ = os.Stdin.Close()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	return err
}

func watch(args []string) error {
	cfg, err := watchdog.ParseArgs(args)
	if err != nil {
		return err
	}
	return watchdog.Serve(context.Background(), os.Stdin, os.Stdout, cfg)
}
