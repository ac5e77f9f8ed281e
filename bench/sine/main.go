// Command sine tests verdicts in a lab whose rate swings as a slow sine: how many sessions of
// two equal settings end with a verdict that they differ, and how many sessions with a true
// difference of 5 % find it. Every session is one linerate run of the real program, and its own
// verdict is counted. It writes a section of bench/RESULTS.md.
//
// Each finished session is stored, so that an interrupted run continues where it was. It needs
// Linux, and root or user namespaces.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/model"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sine:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	program, folder, output string
	side, most              int
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("sine", flag.ContinueOnError)
	flags.StringVar(&o.program, "linerate", "bin/linerate", "the program that is measured")
	flags.StringVar(&o.folder, "kept", "bin/sine", "folder in which sessions are kept that are done")
	flags.StringVar(&o.output, "o", "", "document whose section is replaced; \"\" prints it")
	flags.IntVar(&o.side, "side", 3, "sessions at a time, each in a lab of its own")
	flags.IntVar(&o.most, "most", 0, "at most so many sessions of a kind, to try it out; 0 is all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.side < 1 || o.most < 0 || o.most > 0 && o.output != "" {
		return errors.New("-side is at least 1, and -most excludes -o: the figures of a part are not worth keeping")
	}
	var err error
	if o.program, err = filepath.Abs(o.program); err != nil {
		return err
	}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return err
	}
	began := time.Now()
	for _, k := range kinds() {
		if o.most > 0 {
			k.sessions = min(k.sessions, o.most)
		}
		if err := o.all(ctx, k); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %d sessions, %v since the beginning\n", k.name, k.sessions, time.Since(began).Round(time.Second))
	}
	return o.write()
}

// all runs the sessions of a kind that are not stored yet, several at a time.
func (o options) all(ctx context.Context, k kind) error {
	errs := make([]error, k.sessions)
	turns := make(chan struct{}, o.side)
	var wg sync.WaitGroup
	for i := range k.sessions {
		turns <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-turns }()
			errs[i] = o.once(ctx, k, i)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// once runs a session, unless it is stored, and stores its result.
func (o options) once(ctx context.Context, k kind, i int) error {
	if _, err := os.Stat(o.file(k, i)); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, o.program, k.args(i)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its lab
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("session %d: %w\n%s", i, err, said.String())
	}
	s, err := decode(out.Bytes())
	if err != nil {
		return fmt.Errorf("session %d: %w", i, err)
	}
	fmt.Fprintln(os.Stderr, k.name, i, period(i), verdict(s).Outcome)
	return os.WriteFile(o.file(k, i), out.Bytes(), 0o644)
}

// file returns the file of a session.
func (o options) file(k kind, i int) string {
	return filepath.Join(o.folder, fmt.Sprintf("%s-%02d.json", k.name, i))
}

// decode parses the document of linerate run --json.
func decode(text []byte) (model.Session, error) {
	var doc struct{ Session model.Session }
	if err := json.Unmarshal(text, &doc); err != nil {
		return model.Session{}, err
	}
	if verdict(doc.Session).Outcome == "" {
		return model.Session{}, errors.New("it has no verdict on the goodput")
	}
	return doc.Session, nil
}

// verdict returns a session's verdict on its candidate.
func verdict(s model.Session) model.Verdict {
	i := slices.IndexFunc(s.Verdicts, func(v model.Verdict) bool { return !v.IsTwin && v.Metric == model.Goodput })
	if i < 0 {
		return model.Verdict{}
	}
	return s.Verdicts[i]
}

// write writes the section of all stored sessions.
func (o options) write() error {
	var rows []row
	for _, k := range kinds() {
		r := row{kind: k}
		for i := range k.sessions {
			text, err := os.ReadFile(o.file(k, i))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			s, err := decode(text)
			if err != nil {
				return fmt.Errorf("%s: %w", o.file(k, i), err)
			}
			r.add(s)
		}
		rows = append(rows, r)
	}
	return section(rows).Keep(o.output)
}
