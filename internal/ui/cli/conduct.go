package cli

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/reach"
	"linerate/internal/control/experiment"
	"linerate/internal/core/analysis"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// job is a session to carry out: its plan is complete, its hosts are open.
type job struct {
	session model.Session
	ends    *reach.Ends
	store   results
	resumed bool
}

// newSessionID returns an ID that sorts by time and is unique enough for one
// store: 20 random bits beside the second.
func newSessionID(now time.Time) string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	word := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
	return now.UTC().Format("20060102T150405") + "-" + word[:4]
}

// conduct runs the job's plan to its end, keeps everything, and returns the
// session as stored. Also when it returns an error, what was measured is kept
// and the session says how it stands.
func (a *console) conduct(ctx context.Context, j *job) (model.Session, error) {
	keep := context.WithoutCancel(ctx)
	if err := j.begin(keep); err != nil {
		return j.session, err
	}
	if err := j.settle(ctx); err != nil { // of a session before that lost a host
		return j.session, err
	}
	live := a.newLive(j.session)
	out, err := experiment.Run(ctx, experiment.Config{
		Plan: j.session.Plan, Past: j.session.Runs, Runner: j.ends.Runner,
		Reconnect: func(ctx context.Context) (experiment.Runner, error) {
			if err := j.ends.Reopen(ctx); err != nil {
				return nil, err
			}
			return j.ends.Runner, j.settle(ctx)
		},
		Record: func(ctx context.Context, r model.Run, s []model.Sample, c []model.Change) error {
			j.session.Changes = append(j.session.Changes, c...)
			return j.store.AddRun(ctx, j.session.ID, r, s, c)
		},
		Observe: live.observe, Now: a.Now,
	})
	live.close()
	_ = j.settle(keep) // as far as the hosts can be reached; notUndone tells of the rest
	j.session.Runs = out.Runs
	j.session.State, j.session.Reason = out.State, out.Reason
	j.session.Ended = a.Now()
	conclude(&j.session, j.samples(keep), out.Result)
	j.lookInside(keep)
	if serr := j.store.UpdateSession(keep, j.session); serr != nil {
		err = errors.Join(err, serr)
	}
	if left := notUndone(j.session.Changes); len(left) > 0 {
		err = errors.Join(err, &app.Fault{Kind: app.NotUndone,
			Err:  fmt.Errorf("not undone: %s", strings.Join(left, "; ")),
			Hint: "run linerate undo on that host"})
	}
	return j.session, err
}

// newSession returns the session of a plan on e, not yet stored.
func (a *console) newSession(kind model.Kind, title string, e *reach.Ends, p model.Plan) model.Session {
	now := a.Now()
	return model.Session{
		ID: newSessionID(now), Kind: kind, Title: title, Command: reach.RedactAll(os.Args), Near: e.NearText, Far: e.FarText,
		Version: a.Version, Created: now.Round(0), State: model.SessionRunning, Plan: p, Hosts: e.Hosts,
		WireRate: e.WireRate, Warnings: e.Warnings,
	}
}

// begin stores the session before its first run.
func (j *job) begin(ctx context.Context) error {
	if j.resumed {
		j.session.State, j.session.Reason = model.SessionRunning, ""
		return j.store.UpdateSession(ctx, j.session)
	}
	return j.store.CreateSession(ctx, j.session)
}

// settle finds out what became of changes whose undo nobody saw, because their
// agent or its watchdog was lost in the middle of it: whoever is left has put
// them back, and the host says so.
func (j *job) settle(ctx context.Context) error {
	asked := false
	for i, c := range j.session.Changes {
		if c.State != model.ChangeApplied {
			continue
		}
		client := j.ends.Near
		if c.Host == model.Far {
			client = j.ends.Far
		}
		if client == nil {
			return fmt.Errorf("read %s: no session with host %s", c.Knob, c.Host)
		}
		values, err := client.ReadKnobs(ctx, []model.KnobID{c.Knob})
		if err != nil {
			return err
		}
		j.session.Changes[i], asked = settled(c, values[c.Knob]), true
	}
	if !asked {
		return nil
	}
	return j.store.SetChanges(context.WithoutCancel(ctx), j.session.ID, j.session.Changes)
}

// settled returns c as the host's value says that it ended.
func settled(c model.Change, now fact.Of[string]) model.Change {
	k, ok := knob.ByID(c.Knob)
	if !ok {
		return c
	}
	value, known := now.Get()
	if !known {
		c.Detail = "its undo was not seen, and its value is unknown: " + now.Reason()
		return c
	}
	old, errOld := k.Decode(runtime.GOOS, c.Old)
	wrote, errNew := k.Decode(runtime.GOOS, c.New)
	switch {
	case errOld == nil && value == old:
		c.State, c.Detail = model.ChangeUndone, "its undo was not seen; the host holds the old value"
	case errNew == nil && value == wrote:
		c.Detail = "its undo was not seen, and it still holds what linerate wrote"
	default:
		c.State = model.ChangeForeign
		c.Detail = fmt.Sprintf("holds %q, which linerate did not write: left alone", value)
	}
	return c
}

// tellForeign says which settings were not put back because they are somebody
// else's by now.
func (a *console) tellForeign(changes []model.Change) {
	for _, c := range changes {
		if c.State == model.ChangeForeign {
			a.talk("%s on %s was changed by somebody else meanwhile: it %s", c.Knob, c.Host, c.Detail)
		}
	}
}

// samples are those of the runs that are diagnosed, as far as they were kept.
func (j *job) samples(ctx context.Context) map[int][]model.Sample {
	out := map[int][]model.Sample{}
	for _, r := range diagnose.Looked(&j.session) {
		if kept, err := j.store.Samples(ctx, j.session.ID, r.Number); err == nil {
			out[r.Number] = kept
		}
	}
	return out
}

// conclude fills in what follows from the runs: findings and verdicts. samples
// are those of the runs of diagnose.Looked.
func conclude(s *model.Session, samples map[int][]model.Sample, r analysis.Result) {
	s.Findings = diagnose.Session(s, samples)
	if s.Kind != model.KindRun {
		return
	}
	s.Verdicts, s.Plateaus, s.Noise = r.Verdicts, r.Plateaus, r.Noise
	for _, w := range r.Warnings {
		if !slices.Contains(s.Warnings, w) {
			s.Warnings = append(s.Warnings, w)
		}
	}
}

// lookInside adds what the seconds of the runs show: a warm-up that is too short,
// stalls. Runs whose samples could not be kept are passed over.
func (j *job) lookInside(ctx context.Context) {
	if j.session.Kind != model.KindRun {
		return
	}
	var inside analysis.Inside
	for _, r := range analysis.Counted(j.session.Plan, j.session.Runs) {
		if samples, err := j.store.Samples(ctx, j.session.ID, r.Number); err == nil {
			inside.Add(r, samples)
		}
	}
	for _, w := range inside.Warnings() {
		if !slices.Contains(j.session.Warnings, w) {
			j.session.Warnings = append(j.session.Warnings, w)
		}
	}
}

// notUndone lists the changes whose undo failed.
func notUndone(changes []model.Change) []string {
	var out []string
	for _, c := range changes {
		if c.State == model.ChangeFailed || c.State == model.ChangeApplied {
			why := c.Detail
			if why == "" {
				why = "its undo was not seen"
			}
			out = append(out, fmt.Sprintf("%s on %s (%s)", c.Knob, c.Host, why))
		}
	}
	return out
}

// resumeHint says how to go on with an interrupted session.
func (a *console) resumeHint(s model.Session) string {
	line := "hosts undone, data kept; go on with: linerate run --resume " + s.ID
	if strings.HasPrefix(s.Near, "exec:") || strings.HasPrefix(s.Far, "exec:") {
		line += " --allow-exec"
	}
	if a.db != "" && a.db != ":memory:" {
		line += " --db " + a.db
	}
	if a.db == ":memory:" {
		line = "hosts undone; the data were in memory only and cannot be resumed"
	}
	return line
}

// defaultOmit is the warm-up of statistics.md 1, rule 1: max(3 s, 20 RTT).
func defaultOmit(rtt fact.Of[time.Duration]) time.Duration {
	return max(3*time.Second, 20*rtt.Or(0))
}
