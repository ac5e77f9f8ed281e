package check_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/check"
	"linerate/internal/app/target"
	"linerate/internal/core/health"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
	"linerate/internal/ui/roletest"
)

// TestMain makes the test program serve as the lab's processes, and as the agents in
// its hosts.
func TestMain(m *testing.M) {
	roletest.Main(m, knob.NewIndex(), map[string]func([]string) error{"alone": aloneMain})
}

// looked checks a lab, and returns the session as stored.
func looked(t testing.TB, spec string, q check.Request) (model.Session, error) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	person := &apptest.Person{}
	env := app.Env{Version: "v0.0-test", Self: []string{self}, Getenv: os.Getenv, Now: time.Now, Asker: person, Observer: person}
	near, far, err := target.Pair("", "lab:"+spec, env)
	must.Do(t, err)
	st := must.Get(sqlite.Open(t.Context(), sqlite.Memory))(t)
	defer st.Close()
	e, err := target.New(env, target.Options{}).Open(t.Context(), near, far)
	must.SkipIf(t, errors.Is(err, fs.ErrPermission), "virtual hosts need user namespaces or root: %v", err)
	must.Do(t, err)
	defer e.Close()
	_, err = check.Run(t.Context(), env, e, st, q)
	began := apptest.Events[app.TrialBegan](person)
	must.Need(t, len(began) == 1 && len(apptest.Events[app.Looking](person)) != 0, "%d sessions, error %v", len(began), err)
	kept := must.Get(st.Session(t.Context(), began[0].Session.ID))(t)
	must.Need(t, kept.Kind == model.KindCheck && kept.Check != nil && len(kept.Changes) == 0, "stored: %s, %+v", kept.Kind, kept.Check)
	return kept, err
}

// TestQuickCheckInALab: a check carries out its plan between two hosts and is stored. The
// tests with the tag truth compare its findings with the truth.
func TestQuickCheckInALab(t *testing.T) {
	t.Parallel()
	s, err := looked(t, "rate=50mbit,rtt=4ms", check.Request{Quick: true})
	must.Need(t, err == nil || fault.KindOf(err) == fault.Found, "%v", err)
	must.True(t, len(s.Check.Ways) == 2 && len(s.Runs) != 0 && len(s.Runs) <= len(s.Plan.Tests),
		"%d directions, %d runs of %d tests", len(s.Check.Ways), len(s.Runs), len(s.Plan.Tests))
	seen := map[string]bool{}
	for _, l := range health.Judge(&s) {
		seen[l.Thing+" "+string(l.Direction)] = true
	}
	for _, want := range []string{"reach ", "mtu to", "mtu from", "speed to", "speed from", "link ", "options "} {
		must.True(t, seen[want], "no line about %s: %v", want, seen)
	}
	for _, h := range s.Hosts {
		must.True(t, len(h.Path) != 0 && h.Path[0].Name == "eth0", "the path of %s: %+v", h.Host, h.Path)
	}
}

// aloneMain checks the virtual host that it runs in.
func aloneMain([]string) error {
	env := app.Env{Version: "v0.0-test", Getenv: os.Getenv, Now: time.Now, Asker: app.NoUser{}, Observer: app.NoUser{}}
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
	return nil
}
