// Command record makes the runs anew that docs/diagnosis.md quotes and that need more
// than the keys of a lab: each is a lab, or two hosts in one, in which something is
// planted that the command line of linerate cannot say.
//
//	record -list              # what there is
//	record dead ecn-removed   # these, and what linerate says of them
//
// The tests of internal/core/diagnose hold what is said of each; with -update they
// write the page. Root and a control group of version 1 are needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"linerate/bench/internal/judge"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	program := flags.String("program", "bin/linerate", "linerate")
	folder := flags.String("out", "internal/core/diagnose/testdata", "folder of the recordings")
	list := flags.Bool("list", false, "list the recordings and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	path, err := filepath.Abs(*program)
	if err != nil {
		return err
	}
	for _, r := range recordings() {
		if *list {
			fmt.Fprintf(out, "%s: %s\n", r.Name, r.Planted)
			continue
		}
		if flags.NArg() > 0 && !slices.Contains(flags.Args(), r.Name) {
			continue
		}
		text, findings, err := judge.Record(ctx, path, r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		for _, f := range findings {
			fmt.Fprintf(out, "%s: %s %s: %s\n", r.Name, f.Direction, f.Rule, diagnose.Sentence(f, func(h model.Host) string { return string(h) }))
		}
		if err := os.WriteFile(filepath.Join(*folder, r.Name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
