package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
)

// document is linerate/session/v1.
type document struct {
	Schema  string
	Session model.Session
	Report  report.Document
}

// goodput returns the values of all valid runs in one direction, ascending.
func (d document) goodput(direction model.Direction) []float64 {
	var out []float64
	for _, r := range d.Session.Runs {
		if v, ok := r.Value(direction, model.Goodput); ok && r.State == model.RunValid {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// TestDeadDirection: where full packets vanish one way, that is the first finding, the
// other direction is measured all the same, and the command ends with an error. A run that
// ends with nothing received is an answer and is not repeated; one that a busy machine cut
// short is.
func TestDeadDirection(t *testing.T) {
	t.Parallel()
	needLab(t)
	for dead, other := range map[model.Direction]model.Direction{model.To: model.From, model.From: model.To} {
		t.Run(string(dead), func(t *testing.T) {
			t.Parallel()
			r := run(t, command(t, "test", "lab:rate=50mbit,rtt=5ms,"+string(dead)+".blackhole=1300", "-t", "500ms", "--omit", "300ms", "--json", "-q"))
			d := decode[document](t, r.out)
			r.ends(t, 5, "nothing arrived in direction "+string(dead))
			answers := 0
			for _, r := range d.Session.Runs {
				if strings.Contains(r.Reason, "no bytes arrived in direction "+string(dead)) {
					answers++
				}
				t.Logf("attempt %d, direction %s: %s %s", r.Attempt, r.Flow.Direction, r.State, r.Reason)
			}
			must.True(t, len(d.goodput(other)) != 0 && len(d.goodput(dead)) == 0 && answers == 1, "%v, %v, %d runs in which nothing arrived", d.goodput(other), d.goodput(dead), answers)
			f := d.Session.Findings
			must.True(t, len(f) >= 2 && f[0].Rule == "M2" && f[0].Direction == dead && f[1].Direction == other, "findings %+v", f)
		})
	}
}

// TestTraceOfRouters: a test asks the routers on the way there and back; one that does not
// answer is a hole.
func TestTraceOfRouters(t *testing.T) {
	t.Parallel()
	needLab(t)
	r := succeed(t, "test", "lab:rate=20mbit,rtt=2ms,hops=2,hop1.silent", "-t", "1s", "--omit", "0s", "--json=full", "-q", "--wait", "0s")
	got := map[model.Direction]string{}
	for _, run := range decode[document](t, r.out).Session.Runs {
		for _, e := range run.Ends {
			if e.Trace == nil {
				continue
			}
			for _, h := range e.Trace.Hops {
				got[e.Trace.Direction] += fmt.Sprintf("%d %s %t;", h.TTL, h.Address, h.Arrived)
			}
		}
	}
	must.Equal(t, got[model.To], "1  false;2 10.99.1.2 false;3 10.99.2.2 true;", "there")
	must.Equal(t, got[model.From], "1 10.99.2.1 false;2  false;3 10.99.0.1 true;", "and back")
}

// TestFirstHour23LabExitCode: the exit code of a program in a lab is that of the lab, and 128
// and the number of the signal that ended it.
func TestFirstHour23LabExitCode(t *testing.T) {
	t.Parallel()
	needLab(t)
	for program, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137} {
		r := run(t, command(t, "lab", "lan", "--", "sh", "-c", program))
		must.True(t, r.code == want && r.err == "", "%s: exit code %d, want %d\n%s", program, r.code, want, r.err)
	}
}
