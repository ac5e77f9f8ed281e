package judge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// unseen is the first seed for which only scores are written: authors of rules never see those
// cases.
const unseen = 1000

// caseTime is the timeout of a case.
const caseTime = 90 * time.Second

// Options select what to judge.
type Options struct {
	Program string // linerate
	First   uint64 // seed
	Last    uint64
	Kind    string // only this kind, "" for the one that each seed selects
	Quick   bool   // check --quick unless a case needs a full check
	Out     string // folder for rows.jsonl, wrong.jsonl and table.md
	Talk    io.Writer
}

// Run judges the cases of o that its folder does not hold yet, and returns all rows.
func Run(ctx context.Context, o Options) ([]Row, error) {
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	rows, err := readRows(filepath.Join(o.Out, "rows.jsonl"), o)
	if err != nil {
		return nil, err
	}
	cases, err := o.cases()
	if err != nil {
		return rows, err
	}
	asked := slices.Clone(cases)
	cases = slices.DeleteFunc(cases, func(c faults.Case) bool {
		return slices.ContainsFunc(rows, func(r Row) bool { return r.is(c) })
	})
	var h hosts
	defer h.close()
	began, tried := time.Now(), 0
	for _, c := range cases {
		if ctx.Err() != nil {
			break
		}
		judging := judge
		if c.Machine != nil {
			judging = h.judge
		}
		row, text := judging(ctx, o, c)
		if ctx.Err() != nil {
			break
		}
		tried++
		if err := keep(o, c, row, text); err != nil {
			return rows, err
		}
		rows = append(rows, row)
		left := time.Duration(float64(time.Since(began)) / float64(tried) * float64(len(cases)-tried))
		fmt.Fprintf(o.Talk, "%s about %s left\n", brief(row), left.Round(time.Second))
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return !slices.ContainsFunc(asked, r.is) })
	table := o.Table(rows, o.note())
	return rows, errors.Join(ctx.Err(), os.WriteFile(filepath.Join(o.Out, "table.md"), []byte(table), 0o644))
}

// is reports whether r is the row of c.
func (r Row) is(c faults.Case) bool { return r.Seed == c.Seed && r.Kind == c.Kind }

// cases returns the cases that o selects, in order.
func (o Options) cases() ([]faults.Case, error) {
	var all []faults.Case
	for seed := o.First; seed <= o.Last; seed++ {
		switch o.Kind {
		case "":
			all = append(all, faults.Draw(seed))
			continue
		case Machines:
			for _, k := range faults.MachineKinds() {
				c, _ := faults.OfMachines(k.Name, seed)
				all = append(all, c)
			}
			continue
		case Routers:
			c, _ := faults.OfRouters("", seed)
			all = append(all, c)
			continue
		}
		c, ok := faults.Of(o.Kind, seed)
		if o.ofMachines() {
			c, ok = faults.OfMachines(o.Kind, seed)
		}
		if o.ofRouters() {
			c, ok = faults.OfRouters(o.Kind, seed)
		}
		if !ok {
			return nil, fmt.Errorf("kind %q: there is none, or it cannot be planted here", o.Kind)
		}
		all = append(all, c)
	}
	return all, nil
}

// note describes what was judged.
func (o Options) note() string {
	if o.ofMachines() {
		return fmt.Sprintf("Two machines in QEMU with Debian's kernel 6.1 and the drivers of its cards, which a wire of a known rate joins; every kind from seeds %d to %d, each looked at by linerate test or check --quick. Made by `make judge KIND=%s SEEDS=%d-%d`.", o.First, o.Last, o.Kind, o.First, o.Last)
	}
	if o.ofRouters() {
		return fmt.Sprintf("Labs with routers from seeds %d to %d, each looked at by linerate check --quick, or by the whole check where routers send one ICMP error a second, and where packets are policed. A place is right if it holds the full link and no other node that could exclude it: silent routers, and those that answer late by themselves, cannot. Made by `make judge KIND=%s SEEDS=%d-%d JUDGE=-quick OUT=bin/routers`.", o.First, o.Last, o.Kind, o.First, o.Last)
	}
	what := "linerate check"
	if o.Quick {
		what = "linerate check --quick, the whole check where a case needs both directions at once"
	}
	return fmt.Sprintf("Labs from seeds %d to %d, each looked at by %s, or by linerate test where a connection takes longer to begin than the check's warm-up, or a flag is what is planted. Made by `make judge SEEDS=%d-%d`.", o.First, o.Last, what, o.First, o.Last)
}

// brief formats a row for the terminal. For an unseen seed it omits the kind.
func brief(r Row) string {
	if r.Seed >= unseen {
		return fmt.Sprintf("seed %d: %.0f s,", r.Seed, r.Seconds)
	}
	if r.Place != "" {
		return fmt.Sprintf("seed %d: %-16s %s: %s; %.0f s, late %.1f %%,", r.Seed, r.Kind, r.Place, r.Named, r.Seconds, 100*r.Late)
	}
	word := map[bool]string{true: "right", false: "WRONG"}
	text := fmt.Sprintf("seed %d: %-24s first %s, all %s: %s", r.Seed, r.Kind, word[r.First], word[r.All], r.answer())
	if r.Failed != "" {
		text += " (" + r.Failed + ")"
	}
	if !r.Bit {
		text += " (did not bite)"
	}
	return fmt.Sprintf("%s; %.0f s, late %.1f %%,", text, r.Seconds, 100*r.Late)
}

// readRows reads the rows of an earlier run. It ignores a truncated last line.
func readRows(file string, o Options) ([]Row, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []Row
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var r Row
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Seed >= o.First && r.Seed <= o.Last {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// keep writes a row, and the document that it was judged from.
func keep(o Options, c faults.Case, r Row, text []byte) error {
	if err := appendLine(filepath.Join(o.Out, "rows.jsonl"), r); err != nil {
		return err
	}
	if r.Seed >= unseen {
		return nil
	}
	return appendLine(filepath.Join(o.Out, evidenceFile), kept{c, r, compact(text)})
}

// compact returns a document in one line, nil if it is invalid.
func compact(text []byte) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}

func appendLine(file string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// Command returns the arguments that measure a case.
func Command(c faults.Case, quick bool) []string {
	args := []string{"test"}
	if c.Check {
		args = []string{"check"}
		if quick && !c.Full {
			args = append(args, "--quick")
		}
	}
	args = append(append(args, "lab:"+c.Spec), c.Args...)
	return append(args, "--json=full", "--quiet")
}

// judge measures a case and scores it; text is the document printed by linerate.
func judge(ctx context.Context, o Options, c faults.Case) (row Row, text []byte) {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	argv := Command(c, o.Quick)
	failed := func(why string) Row {
		return Row{Seed: c.Seed, Kind: c.Kind, Clean: c.Clean, Bit: true, Failed: why}
	}
	g, err := newGroup(len(c.Plants) > 0)
	if err != nil {
		return failed(err.Error()), nil
	}
	defer g.remove()
	folder, err := os.MkdirTemp("", "judge")
	if err != nil {
		return failed(err.Error()), nil
	}
	defer os.RemoveAll(folder)
	db := []string{"--db", filepath.Join(folder, "db")}
	cmd := exec.CommandContext(ctx, o.Program, append(argv, db...)...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	cmd.WaitDelay = 5 * time.Second
	began, before, late := time.Now(), usage(g), g.sleeper()
	if err := g.start(cmd); err != nil {
		late()
		return failed(err.Error()), nil
	}
	undo := g.plant(ctx, cmd.Process.Pid, c.Plants)
	err = cmd.Wait()
	planted, share, after := undo(), late(), usage(g)
	var d struct {
		Session *model.Session `json:"session"`
	}
	switch {
	case planted != nil:
		row = failed("plant: " + planted.Error())
	case json.Unmarshal(out.Bytes(), &d) != nil || d.Session == nil:
		row = failed(strings.TrimSpace(fmt.Sprintf("no document: %v: %s", err, lastLine(talk.String()))))
	default:
		row = Score(c, d.Session, before.stolen(after))
	}
	row.Seconds, row.Others, row.Late = time.Since(began).Seconds(), before.others(after), share
	row.Command = strings.Join(argv[:1], " ")
	if slices.Contains(argv, "--quick") {
		row.Command += " --quick"
	}
	// Rules also read samples, which only the store has.
	whole, err := exec.CommandContext(ctx, o.Program, append([]string{"show", "last", "--json=full", "--samples"}, db...)...).Output()
	if err != nil {
		return row, out.Bytes()
	}
	return row, whole
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
