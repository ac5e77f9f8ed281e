package reach

import (
	"context"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/deploy"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/must"
)

// TestKeepIsRemembered: a person is asked once for each host whether the program may
// stay there, and what was said, or given as a flag, holds from then on. Where nobody is
// asked it goes, and nothing is remembered.
func TestKeepIsRemembered(t *testing.T) {
	dir := t.TempDir()
	p := &apptest.Person{}
	env := apptest.Env(p)
	env.Getenv = func(key string) string {
		if key == configVariable {
			return dir
		}
		return ""
	}
	nas, desk := ssh.Target{User: "me", Host: "nas"}, ssh.Target{User: "me", Host: "nas", Port: 2222}
	answer := func(host ssh.Target, flag Keep, want deploy.Keep, asked int, yes bool) {
		t.Helper()
		got, ask, err := New(env, Options{Keep: flag}).keeping(host)
		must.True(t, err == nil && got == want, "%v, %v, want %v", got, err, want)
		must.Need(t, (ask != nil) == (want == deploy.KeepAsked), "asks: %v", ask != nil)
		if ask != nil {
			got, err := ask(t.Context(), 1000)
			must.True(t, got == yes && err == nil, "answered %v, %v", got, err)
		}
		n := len(p.Asked())
		must.True(t, n == asked, "asked %d times, want %d", n, asked)
	}
	answer(nas, KeepAsRemembered, deploy.KeepAsked, 1, false) // nobody is there
	p.Answer = func(_ context.Context, q app.Question) (app.Answer, error) {
		must.True(t, q.Kind == app.KeepProgram && q.Host == "nas" && q.Count == 1000, "asked %+v", q)
		return app.Answer{Yes: true}, nil
	}
	answer(nas, KeepAsRemembered, deploy.KeepAsked, 2, true)
	answer(nas, KeepAsRemembered, deploy.KeepYes, 2, true)
	answer(desk, KeepAsRemembered, deploy.KeepAsked, 3, true) // another server of that name
	answer(nas, RemoveAgent, deploy.KeepNone, 3, true)
	answer(nas, KeepAsRemembered, deploy.KeepNo, 3, true)
	answer(nas, KeepAgent, deploy.KeepYes, 3, true)
	answer(nas, KeepAsRemembered, deploy.KeepYes, 3, true)
}
