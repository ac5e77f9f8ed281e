// Command bench compares linerate with C programs for the same tasks, over a veth pair between
// two network namespaces, in rounds that hold one run of each in alternating order, and writes
// a Markdown section for each claim.
//
// It needs a network namespace in which it may create interfaces, and a mount namespace with
// its own /run: bench/run creates both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"linerate/bench/internal/claims"
	"linerate/bench/internal/observe"
	"linerate/bench/internal/results"
	"linerate/bench/internal/side"
	"linerate/bench/internal/stand"
	"linerate/internal/core/lists"
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

// run runs the command, or one of the processes that it starts from itself.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "end":
			return side.Run(ctx, args[1:], os.Stdout)
		case "observe":
			return observe.Run(ctx, args[1:], os.Stdin, os.Stdout)
		case "cost":
			return runCost(args[1:])
		}
	}
	o, chosen, err := parse(args)
	if err != nil {
		return err
	}
	return compare(ctx, o, chosen)
}

func runCost(args []string) error {
	flags := flag.NewFlagSet("cost", flag.ContinueOnError)
	device := flags.String("device", "", "interface")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return side.RunCost(*device, os.Stdout)
}

// options are the command line.
type options struct {
	bench  claims.Bench
	output string
}

// parse returns the claims to run.
func parse(args []string) (*options, []claims.Claim, error) {
	o := &options{}
	all := claims.All()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.bench.Rounds, "rounds", 0, "rounds, each with one run of every program; 0 is each claim's own number")
	flags.DurationVar(&o.bench.Duration, "duration", 0, "time of a run, of a size in sweep, whole seconds; 0 is each claim's own")
	flags.BoolVar(&o.bench.Quick, "quick", false, "one short round, to try it out; the figures mean nothing")
	flags.StringVar(&o.output, "o", "", "document whose sections are replaced by what was run; \"\" prints them")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: bench/run [options] [CLAIM...], claims: %s\n", strings.Join(names(all), " "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	var faults []error
	if o.bench.Rounds < 0 || o.bench.Duration < 0 || o.bench.Duration%time.Second != 0 {
		faults = append(faults, fmt.Errorf("%d rounds of %v: want whole seconds", o.bench.Rounds, o.bench.Duration))
	}
	if o.bench.Quick && o.output != "" {
		faults = append(faults, errors.New("-quick and -o exclude each other: the figures of a quick run are not worth keeping"))
	}
	for _, name := range flags.Args() {
		if !slices.Contains(names(all), name) {
			faults = append(faults, fmt.Errorf("no claim %q: there are %s", name, strings.Join(names(all), ", ")))
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(c claims.Claim) bool {
		return flags.NArg() > 0 && !slices.Contains(flags.Args(), c.Name)
	})
	return o, chosen, errors.Join(faults...)
}

func names(list []claims.Claim) []string {
	out := lists.Each(list, func(c claims.Claim) string { return c.Name })
	return out
}

// head begins the document.
const head = `# Measured against peers

Paired runs, interleaved and in alternating order, of linerate and of C programs in the
same two network namespaces, made by ` + "`bench/run -o bench/RESULTS.md`" + `. Only ratios are
claims; the machine is virtual and has two cores. A run of single claims replaces their
sections and their rows of the summary only.`

// compare runs the claims and writes the document after each, so that a failure of a later one
// loses nothing.
func compare(ctx context.Context, o *options, chosen []claims.Claim) error {
	doc, err := document(o.output)
	if err != nil {
		return err
	}
	b := &o.bench
	b.Talk = os.Stderr
	if b.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	if b.Work, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.Work)
	if b.Stand, err = stand.Make(ctx); err != nil {
		return err
	}
	var failed []error
	for _, c := range chosen {
		fmt.Fprintf(b.Talk, "%s\n", c.Name)
		section, err := c.Run(ctx, b)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		doc.Replace(section)
		if o.output != "" {
			if err := os.WriteFile(o.output, []byte(doc.Render(head, names(claims.All()))), 0o644); err != nil {
				return err
			}
		}
	}
	if o.output == "" {
		fmt.Print(doc.Render(head, names(claims.All())))
	}
	return errors.Join(failed...)
}

// document reads the existing document.
func document(path string) (*results.Document, error) {
	if path == "" {
		return results.Parse(""), nil
	}
	return results.Read(path)
}
