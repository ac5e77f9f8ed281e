// Command record repeats the runs that docs/diagnosis.md quotes and that need more than the
// keys of a lab: each is a lab, or two hosts in one, with a fault that linerate's command line
// cannot express.
//
//	record -list              # all recordings
//	record dead ecn-removed   # these, and linerate's findings
//
// Recordings that need a card, a disk or a kernel of their own run in two machines in QEMU,
// whose images make vm creates; the program must be a Linux one without cgo.
//
// The tests of internal/core/diagnose check the findings of each; with -update they write the
// page. Root and a control group of version 1 are needed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"linerate/bench/internal/judge"
	"linerate/bench/internal/machines"
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
	var m started
	defer m.close()
	var failed error
	for _, r := range m.all() {
		if *list {
			fmt.Fprintf(out, "%s: %s\n", r.name, r.planted)
			continue
		}
		if flags.NArg() > 0 && !slices.Contains(flags.Args(), r.name) {
			continue
		}
		text, findings, err := r.make(ctx, path)
		if err == nil {
			err = os.WriteFile(filepath.Join(*folder, r.name+".json"), text, 0o644)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
			continue
		}
		for _, f := range findings {
			fmt.Fprintf(out, "%s: %s %s: %s\n", r.name, f.Direction, f.Rule, diagnose.Sentence(f, func(h model.Host) string { return string(h) }))
		}
	}
	return failed
}

// recording is a recording in a lab or in machines.
type recording struct {
	name, planted string
	make          func(ctx context.Context, program string) ([]byte, []model.Finding, error)
}

// started holds the machines, once the first recording needs them.
type started struct{ both *machines.Two }

func (m *started) close() {
	if m.both != nil {
		m.both.Close()
	}
}

func (m *started) all() []recording {
	var out []recording
	for _, r := range recordings() {
		out = append(out, recording{r.Name, r.Planted, func(ctx context.Context, program string) ([]byte, []model.Finding, error) {
			return judge.Record(ctx, program, r)
		}})
	}
	for _, r := range machineRecordings() {
		out = append(out, recording{r.name, r.planted, func(ctx context.Context, program string) ([]byte, []model.Finding, error) {
			if m.both == nil {
				var err error
				if m.both, err = machines.Start(ctx, program, cards()); err != nil {
					return nil, nil, err
				}
			}
			return r.record(ctx, m.both)
		}})
	}
	return out
}
