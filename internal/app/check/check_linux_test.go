package check_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/check"
	"linerate/internal/app/here"
	"linerate/internal/app/reach"
	"linerate/internal/control/wire"
	"linerate/internal/core/health"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/watchdog"
	"linerate/internal/lab"
	"linerate/internal/lab/labtest"
	"linerate/internal/store/sqlite"
)

// TestMain makes the test program serve as the lab's processes, and as the agents in
// its hosts.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch rest := os.Args[2:]; os.Args[1] {
	case "lab-init":
		if len(rest) > 0 && rest[0] == "set" {
			err = reach.SetInLab(context.Background(), knob.NewIndex(), rest[1:])
			break
		}
		err = lab.Child(rest)
	case "agent":
		err = agentMain(rest)
	case "alone":
		aloneMain()
	case "watchdog":
		cfg, perr := watchdog.ParseArgs(rest)
		if err = perr; err == nil {
			err = watchdog.Serve(context.Background(), os.Stdin, os.Stdout, cfg)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// agentMain is the agent of a virtual host.
func agentMain(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var o here.Options
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	f.StringVar(&o.State, "state", "", "")
	f.StringVar(&o.Link, "interface", "", "")
	rate := f.Float64("link-rate", 0, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	o.Rate = units.BitRate(*rate)
	conn, done := wire.Join(os.Stdin, os.Stdout)
	env := app.Env{Version: "v0.0-test", Self: []string{self}, Getenv: os.Getenv, Now: time.Now, Asker: app.Nobody{}, Observer: app.Nobody{}}
	err = here.Serve(context.Background(), env, conn, o)
	_ = conn.Close()
	_ = os.Stdin.Close()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	return err
}

// looked is a check of a lab, as it was stored.
func looked(t *testing.T, spec string, q check.Request) (model.Session, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	person := &apptest.Person{}
	env := app.Env{Version: "v0.0-test", Self: []string{self}, Getenv: os.Getenv, Now: time.Now, Asker: person, Observer: person}
	near, far, err := reach.Pair("", "lab:"+spec, env)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	e, err := reach.New(env, reach.Options{}).Open(t.Context(), near, far)
	if errors.Is(err, fs.ErrPermission) {
		t.Skipf("virtual hosts need user namespaces or root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	_, err = check.Run(t.Context(), env, e, st, q)
	began := apptest.Told[app.TrialBegan](person)
	if len(began) != 1 || len(apptest.Told[app.Looking](person)) == 0 {
		t.Fatalf("%d sessions, error %v", len(began), err)
	}
	kept, serr := st.Session(t.Context(), began[0].Session.ID)
	if serr != nil || kept.Kind != model.KindCheck || kept.Check == nil || len(kept.Changes) > 0 {
		t.Fatalf("stored: %s, %+v, %v", kept.Kind, kept.Check, serr)
	}
	return kept, err
}

// line returns the line about a thing in direction d.
func line(lines []health.Line, thing string, d model.Direction) health.Line {
	i := slices.IndexFunc(lines, func(l health.Line) bool { return l.Thing == thing && l.Direction == d })
	if i < 0 {
		return health.Line{}
	}
	return lines[i]
}

// wrong says which lines are not in one of the states that a test allows, and whether
// the error is of the kind that it wants.
func wrong(s model.Session, err error, kind app.Kind, want map[string]health.State) string {
	var bad []string
	lines := health.Judge(&s)
	for key, state := range want {
		thing, d, _ := strings.Cut(key, " ")
		if l := line(lines, thing, model.Direction(d)); l.State != state {
			bad = append(bad, fmt.Sprintf("%s is %s (%s, %s), not %s", key, l.State, l.Number, l.Text, state))
		}
	}
	switch {
	case kind < 0 && err != nil:
		bad = append(bad, err.Error())
	case kind >= 0 && (err == nil || app.KindOf(err) != kind):
		bad = append(bad, fmt.Sprintf("error %v", err))
	}
	return strings.Join(bad, "; ")
}

// nothing is no kind of fault.
const nothing app.Kind = -1

// TestCleanPath: on a clean path every line is ok or not to be seen, and there is no
// error; all that belongs to a whole check was measured.
func TestCleanPath(t *testing.T) {
	t.Parallel()
	labtest.Try(t, func() string {
		s, err := looked(t, "rate=50mbit,rtt=4ms", check.Request{Expect: "40M,loss<1%,mtu>=1500", For: "40mbit@20ms", Disk: true})
		if bad := wrong(s, err, nothing, map[string]health.State{
			"reach": health.OK, "mtu to": health.OK, "mtu from": health.OK, "speed to": health.OK, "speed from": health.OK,
			"loss to": health.OK, "loss from": health.OK, "queueing to": health.OK, "link": health.OK, "disk to": health.OK, "disk from": health.OK, "options": health.OK, "clock": health.OK,
		}); bad != "" {
			return bad
		}
		if len(s.Check.Own) != 2 || s.Check.Own[0].Rate.Or(0) < 50e6 || s.Check.Own[1].Rate.Or(0) < 50e6 {
			t.Errorf("what the hosts move to themselves: %+v", s.Check.Own)
		}
		for _, w := range s.Check.Ways {
			if w.Datagrams.Or(0) != 1500 || w.Passes.Or(0) != 1500 || w.Marks.Or(0) != 1 {
				t.Errorf("what passes: %+v", w)
			}
		}
		if _, ok := valueOf(s, model.Both); !ok {
			t.Error("both directions at once were not measured")
		}
		if err := check.Verdict(&model.Session{Check: &model.Check{Expect: "60M"}, Runs: s.Runs, Plan: s.Plan, Hosts: s.Hosts}); app.KindOf(err) != app.Unmet || !strings.Contains(err.Error(), "60M") {
			t.Errorf("60 Mbit/s of 50: %v", err)
		}
		for _, h := range s.Hosts {
			if len(h.Path) == 0 || h.Path[0].Name != "eth0" {
				t.Errorf("the path of %s: %+v", h.Host, h.Path)
			}
		}
		return ""
	})
}

func valueOf(s model.Session, d model.Direction) (model.Run, bool) {
	for _, r := range s.Runs {
		if r.Flow.Direction == d && r.State == model.RunValid {
			return r, true
		}
	}
	return model.Run{}, false
}

// TestSmallWindow: a small receive window makes one direction POOR, and what limits it
// is named.
func TestSmallWindow(t *testing.T) {
	t.Parallel()
	labtest.Try(t, func() string {
		s, err := looked(t, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=64KiB", check.Request{Quick: true})
		if bad := wrong(s, err, app.Found, map[string]health.State{"speed to": health.Poor, "speed from": health.OK, "mtu to": health.OK}); bad != "" {
			return bad
		}
		for _, f := range s.Findings {
			if f.Direction == model.To && f.Limit == "receive window" && f.Host == model.Far {
				return ""
			}
		}
		return fmt.Sprintf("the window is not named: %+v", s.Findings)
	})
}

// TestBlackHoles: larger packets of one direction vanish without a word. The direction
// is BAD with the size that passes, and the other one is measured all the same.
func TestBlackHoles(t *testing.T) {
	t.Parallel()
	for _, d := range []model.Direction{model.To, model.From} {
		key, back := "ab", model.From
		if d == model.From {
			key, back = "ba", model.To
		}
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			labtest.Try(t, func() string {
				s, err := looked(t, "rate=50mbit,rtt=2ms,"+key+".pathmtu=1300", check.Request{Quick: true})
				if bad := wrong(s, err, app.Found, map[string]health.State{
					"reach": health.Bad, "mtu " + string(d): health.Bad, "speed " + string(d): health.Bad, "mtu " + string(back): health.OK, "speed " + string(back): health.OK,
				}); bad != "" {
					return bad
				}
				l := line(health.Judge(&s), "mtu", d)
				for _, w := range s.Check.Ways {
					if want := map[bool]int{true: 1300, false: 1500}[w.Direction == d]; w.Datagrams.Or(0) != want || w.Passes.Or(0) != want {
						return fmt.Sprintf("%d pass: %+v", want, w)
					}
				}
				if !strings.Contains(l.Text, "this way only") || l.Number != "1300" || !strings.Contains(l.Text, "segments of 1160 bytes arrive") {
					return fmt.Sprintf("%+v", l)
				}
				return ""
			})
		})
	}
}

// TestUnevenPath: each direction is held against its own ceiling.
func TestUnevenPath(t *testing.T) {
	t.Parallel()
	labtest.Try(t, func() string {
		s, err := looked(t, "to.rate=5mbit,from.rate=50mbit,rtt=10ms,queue=40KiB", check.Request{Quick: true, Expect: "to.goodput>4M,from.goodput>40M,p99<1s"})
		return wrong(s, err, nothing, map[string]health.State{"speed to": health.OK, "speed from": health.OK, "reach": health.OK})
	})
}

// aloneMain looks at the virtual host that it runs in.
func aloneMain() {
	env := app.Env{Version: "v0.0-test", Getenv: os.Getenv, Now: time.Now, Asker: app.Nobody{}, Observer: app.Nobody{}}
	m, err := check.Alone(context.Background(), env)
	if err != nil {
		fmt.Println("error:", err)
	}
	for _, l := range m.Lines() {
		fmt.Println(l.Thing, l.State, l.Number, l.Text)
	}
	for _, h := range m.Facts.Path {
		fmt.Println("hop", h.Kind, h.Name)
	}
}

// TestAlone: a virtual host and its gateway, the other one, which answers, and then
// drops packets as large as the interface sends.
func TestAlone(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"rate=1gbit,rtt=1ms":                 {"gateway ok ", "mtu ok 1500 ", "errors ok 0 now", "buffers ok ", "hop neighbour "},
		"rate=1gbit,rtt=1ms,to.pathmtu=1400": {"error: found: mtu BAD", "gateway ok ", "mtu BAD 1400 "},
	} {
		spec, err := lab.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		l, err := lab.Start(t.Context(), spec, lab.Config{Command: []string{self, "lab-init"}, Stderr: os.Stderr})
		if errors.Is(err, fs.ErrPermission) {
			t.Skipf("virtual hosts need user namespaces or root: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		var said strings.Builder
		if err := l.Command(t.Context(), model.Near, []string{"ip", "route", "add", "default", "via", l.Addr(model.Far).String()}, nil, &said, &said); err != nil {
			t.Fatalf("no default route: %v, %s", err, said.String())
		}
		labtest.Try(t, func() string {
			said.Reset()
			if err := l.Command(t.Context(), model.Near, []string{self, "alone"}, nil, &said, os.Stderr); err != nil {
				t.Fatal(err)
			}
			for _, part := range want {
				if !strings.Contains(said.String(), part) {
					return fmt.Sprintf("%q is not said:\n%s", part, said.String())
				}
			}
			return ""
		})
	}
}
