// Command tuning measures linerate tune in labs with badly configured hosts: how close it comes
// to the optimum, at what cost, whether its claims are true, and whether both hosts are
// restored. It compares with an exhaustive search in the same labs and writes a section of
// bench/RESULTS.md.
//
// Each finished case is stored, so that an interrupted run continues where it was. It needs
// Linux, and root or user namespaces.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"linerate/internal/lab/mistuned"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tuning:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	program, folder, output, cases string
	fresh, all                     bool
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "inside":
			return inside(ctx, args[1:])
		case "tree":
			return printTree(os.Stdout)
		}
	}
	var o options
	flags := flag.NewFlagSet("tuning", flag.ContinueOnError)
	flags.StringVar(&o.program, "linerate", "bin/linerate", "the program that is measured")
	flags.StringVar(&o.folder, "kept", "bin/tuning", "folder in which cases are kept that are done")
	flags.StringVar(&o.output, "o", "", "document whose section is replaced; \"\" prints it")
	flags.StringVar(&o.cases, "cases", "", "names of cases, with commas; \"\" is all of them")
	flags.BoolVar(&o.fresh, "fresh", false, "measure again what is kept")
	flags.BoolVar(&o.all, "all", false, "the exhaustive search also where tune filled the wire")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(o.cases)
	if err != nil {
		return err
	}
	if o.program, err = filepath.Abs(o.program); err != nil {
		return err
	}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return err
	}
	for _, c := range chosen {
		if err := o.once(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return o.write()
}

// choose returns the cases with these names, all if there are none.
func choose(names string) ([]mistuned.Case, error) {
	all := mistuned.List()
	if names == "" {
		return all, nil
	}
	var out []mistuned.Case
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(c mistuned.Case) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no case %q", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// once measures a case that is not stored yet.
func (o options) once(ctx context.Context, c mistuned.Case) error {
	file := filepath.Join(o.folder, c.Name+".json")
	if _, err := os.Stat(file); err == nil && !o.fresh {
		return nil
	}
	r, err := o.measure(ctx, c)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, r.Line())
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// write writes the section from all stored cases.
func (o options) write() error {
	var rows []mistuned.Row
	for _, c := range mistuned.List() {
		text, err := os.ReadFile(filepath.Join(o.folder, c.Name+".json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var r mistuned.Row
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return section(rows).Keep(o.output)
}
