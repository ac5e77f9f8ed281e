package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// Recording is a run of linerate that docs/diagnosis.md quotes, with changes to its hosts
// besides the settings of their lab.
type Recording struct {
	Name    string
	Planted string         // for readers, "" if the lab's settings say it all
	Args    []string       // of linerate
	Near    string         // a shell script, run in the near host's network as soon as its agent runs
	Far     string         // the same in the far host's
	Plants  []faults.Plant // applied like the judge's plants
	Pair    string         // a script that creates other hosts inside a lab; Near, Far and Plants are then unused
}

// recorded is a recording in the format of the tests of core/diagnose.
type recorded struct {
	Planted string         `json:"planted,omitempty"`
	Session *model.Session `json:"session"`
	Samples []model.Sample `json:"samples"`
}

// Record repeats a recording and returns its text, and linerate's findings.
func Record(ctx context.Context, program string, r Recording) (text []byte, findings []model.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	folder, err := os.MkdirTemp("", "record")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(folder)
	db := filepath.Join(folder, "db")
	if err := r.run(ctx, program, db); err != nil {
		return nil, nil, err
	}
	whole, err := exec.CommandContext(ctx, program, "show", "last", "--json=full", "--samples", "--db", db).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("linerate show: %w", err)
	}
	return Recorded(whole, r.Planted)
}

// Recorded converts the document of linerate show --json=full --samples to a recording, and
// returns its findings.
func Recorded(whole []byte, planted string) (text []byte, findings []model.Finding, err error) {
	var d document
	if err := json.Unmarshal(whole, &d); err != nil || d.Session == nil {
		return nil, nil, fmt.Errorf("no session: %w", err)
	}
	findings = d.Session.Findings
	text, err = json.Marshal(d.recorded(planted))
	return append(text, '\n'), findings, err
}

// run runs linerate. A direction in which nothing arrives is a failure of the command, but is
// recorded.
func (r Recording) run(ctx context.Context, program, db string) error {
	if r.Pair != "" {
		script := r.Pair + "\nexec linerate " + words(append(r.Args, "--quiet", "--db", db))
		cmd := exec.CommandContext(ctx, program, "lab", "lan", "--", "sh", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", r.Name, err, text)
		}
		return nil
	}
	g, err := newGroup(len(r.Plants) > 0)
	if err != nil {
		return err
	}
	defer g.remove()
	cmd := exec.CommandContext(ctx, program, append(slices.Clone(r.Args), "--quiet", "--db", db)...)
	if err := g.start(cmd); err != nil {
		return err
	}
	undo := g.plant(ctx, cmd.Process.Pid, r.Plants)
	end := r.scripts(ctx, cmd.Process.Pid)
	_ = cmd.Wait() // the session has the result
	return errors.Join(undo(), end())
}

// words quotes arguments for a shell.
func words(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = "'" + a + "'"
	}
	return strings.Join(quoted, " ")
}

// scripts runs the scripts of both hosts; end stops them.
func (r Recording) scripts(ctx context.Context, program int) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i, script := range []string{r.Near, r.Far} {
		if script == "" {
			continue
		}
		all.Go(func() {
			pid, err := agent(ctx, program, []model.Host{model.Near, model.Far}[i])
			if err != nil {
				errs[i] = err
				return
			}
			text, err := exec.CommandContext(ctx, "nsenter", "--net", "--target", strconv.Itoa(pid), "sh", "-c", script).CombinedOutput()
			if err != nil && ctx.Err() == nil {
				errs[i] = fmt.Errorf("%w: %s", err, text)
			}
		})
	}
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

// recorded returns the parts of a document that rules read.
func (d document) recorded(planted string) recorded {
	s := d.Session
	out := recorded{Planted: planted, Session: s}
	looked := map[int]bool{}
	for _, run := range diagnose.Looked(s) {
		looked[run.Number] = true
	}
	for _, r := range d.Samples {
		if looked[r.Run] {
			out.Samples = append(out.Samples, r.Samples...)
		}
	}
	s.Findings = nil
	s.Command[0] = "linerate"
	if i := slices.Index(s.Command, "--quiet"); i > 0 { // and --db: both are last
		s.Command = s.Command[:i]
	}
	s.Near, s.Far = "lab", "nas"
	for i, name := range []string{"desk", "nas"} {
		if i >= len(s.Hosts) {
			break
		}
		s.Hosts[i].Name = name
		for id, v := range s.Hosts[i].Knobs {
			if !v.IsKnown() {
				delete(s.Hosts[i].Knobs, id)
			}
		}
	}
	return out
}
