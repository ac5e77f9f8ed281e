// Command tcp compares the tcpbulk engine with iperf3 over a veth pair between
// two network namespaces, in rounds that hold one run of each, in alternating
// order, and prints the ratios within rounds as a Markdown table.
//
// It needs a network namespace in which it may make interfaces, and a mount
// namespace with a /run of its own: bench/run makes both.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	rounds     int
	duration   time.Duration
	congestion string
	nagle      bool
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "end" {
		return runEnd(ctx, args[1:])
	}
	var o options
	flags := flag.NewFlagSet("tcp", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 3, "rounds, each with one run of every kind")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "time of a run, whole seconds")
	flags.StringVar(&o.congestion, "congestion", "cubic", "congestion control of both")
	flags.BoolVar(&o.nagle, "nagle", false, "leave Nagle's algorithm on for both")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.rounds < 1 || o.duration < time.Second || o.duration%time.Second != 0 {
		return fmt.Errorf("%d rounds of %v: want at least one, of whole seconds", o.rounds, o.duration)
	}
	return compare(ctx, os.Stdout, o)
}
