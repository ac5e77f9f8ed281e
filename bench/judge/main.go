// Command judge creates labs with a known limit, runs linerate in them, and scores its
// findings.
//
//	judge -seeds 0-29                    # the case of each seed
//	judge -seeds 0-9 -kind loss-middle   # one kind
//	judge -seeds 0-2 -kind machines      # all kinds that need two machines in QEMU, see make vm
//	judge -seeds 0-59 -kind routers      # the place of the full link, in labs with routers
//	judge -again                         # the current rules on earlier measurements
//	judge -count                         # how often each rule was right: for diagnose.judged
//	judge -list                          # the kinds
//
// Finished cases are stored in -out, and not measured again: a stopped run continues where it
// was.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"linerate/bench/internal/judge"
	"linerate/bench/internal/results"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, talk io.Writer) error {
	flags := flag.NewFlagSet("judge", flag.ContinueOnError)
	seeds := flags.String("seeds", "0-29", "first and last seed, as 0-29")
	list := flags.Bool("list", false, "list the kinds and end")
	again := flags.Bool("again", false, "measure nothing: the rules of this program on what -out holds")
	count := flags.Bool("count", false, "as -again, and print how often each rule was right")
	document := flags.String("o", "", "Markdown document whose section is replaced")
	o := judge.Options{Talk: talk}
	flags.StringVar(&o.Program, "program", "bin/linerate", "linerate")
	flags.StringVar(&o.Kind, "kind", "", "only this kind")
	flags.StringVar(&o.Out, "out", "bin/judge", "folder of what is finished")
	flags.BoolVar(&o.Quick, "quick", false, "the quick check wherever a case does not need the whole one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list {
		return kinds(out)
	}
	var err error
	if o.First, o.Last, err = span(*seeds); err != nil {
		return err
	}
	if *again || *count {
		return lookAgain(o, *count, out)
	}
	if o.Program, err = program(o.Program); err != nil {
		return err
	}
	if what := o.Missing(); what != "" {
		_, err := fmt.Fprintf(out, "skipped: %s: %s\n", o.Kind, what)
		return err
	}
	rows, err := judge.Run(ctx, o)
	if len(rows) > 0 {
		text, rerr := os.ReadFile(filepath.Join(o.Out, "table.md"))
		err = errors.Join(err, rerr)
		fmt.Fprintf(out, "%s\n", text)
		if *document != "" && err == nil {
			err = replace(*document, string(text), o, rows)
		}
	}
	return err
}

// lookAgain scores the rules that this program was built with.
func lookAgain(o judge.Options, count bool, out io.Writer) error {
	rows, err := judge.Again(o)
	if err != nil {
		return err
	}
	text := o.Table(rows, "The same runs, and the rules of today.")
	if count {
		text = judge.Counts(rows)
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// program returns the path of linerate, which must exist.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: make build makes it", err)
	}
	return filepath.Abs(path)
}

// span parses "0-29", or one seed.
func span(text string) (first, last uint64, err error) {
	low, high, ok := strings.Cut(text, "-")
	if !ok {
		high = low
	}
	first, err1 := strconv.ParseUint(low, 10, 64)
	last, err2 := strconv.ParseUint(high, 10, 64)
	if err1 != nil || err2 != nil || last < first {
		return 0, 0, fmt.Errorf("seeds %q: write the first and the last one, as 0-29", text)
	}
	return first, last, nil
}

// kinds lists the catalogue.
func kinds(out io.Writer) error {
	for _, k := range judge.Kinds() {
		word := "limits"
		switch {
		case k.Skip != "":
			word = "skipped"
		case k.Harmless:
			word = "harmless"
		}
		text := k.Says
		if k.Skip != "" {
			text += ": " + k.Skip
		}
		if _, err := fmt.Fprintf(out, "%-22s %-8s %s\n", k.Name, word, text); err != nil {
			return err
		}
	}
	return nil
}

// replace puts the table into the document in place of the old one.
func replace(file, body string, o judge.Options, rows []judge.Row) error {
	name, title := o.Claim()
	return results.Section{Name: name, Title: title, Body: body, Verdicts: o.Verdicts(rows)}.Keep(file)
}
