package reach

import (
	"context"
	"errors"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/deploy"
	"linerate/internal/must"
)

// TestSudoPassword asks once for each target, again where the password was wrong,
// and remembers it for a connection that is made anew.
func TestSudoPassword(t *testing.T) {
	p := &apptest.Person{}
	answers := []string{"wrong", "right", "other"}
	p.Answer = func(_ context.Context, q app.Question) (app.Answer, error) {
		must.True(t, q.Kind == app.Password && q.Host == "nas", "asked %+v", q)
		one := answers[0]
		answers = answers[1:]
		return app.Answer{Secret: []byte(one)}, nil
	}
	o := New(apptest.Env(p), Options{Sudo: true})
	give := o.sudoPassword(t.Context(), "user@nas")
	for _, want := range []string{"wrong", "right"} {
		got := must.Get(give("nas"))(t)
		must.Need(t, string(got) == want, "%q", got)
		clear(got) // as who got it may do
	}
	anew := o.sudoPassword(t.Context(), "user@nas")
	if got, err := anew("nas"); err != nil || string(got) != "right" || len(p.Asked()) != 2 {
		t.Errorf("anew: %q, %v, asked %d times", got, err, len(p.Asked()))
	}
	got := must.Get(o.sudoPassword(t.Context(), "user@desk")("nas"))(t)
	must.True(t, string(got) == "other", "of another host: %q", got)
}

// TestNobodyTypesAPassword: deploy is told in its own word.
func TestNobodyTypesAPassword(t *testing.T) {
	o := New(apptest.Env(&apptest.Person{}), Options{Sudo: true})
	must.Is(t, must.Err(o.sudoPassword(t.Context(), "user@nas")("nas")), deploy.ErrNobody)
	gone := errors.New("the page is gone")
	o = New(apptest.Env(&apptest.Person{Answer: func(context.Context, app.Question) (app.Answer, error) { return app.Answer{}, gone }}), Options{})
	must.Is(t, must.Err(o.sudoPassword(t.Context(), "user@nas")("nas")), gone)
}

// TestWarnedOnce tells a warning once, however often a host is opened.
func TestWarnedOnce(t *testing.T) {
	p := &apptest.Person{}
	e := &Ends{env: apptest.Env(p)}
	e.warn([]string{"others may read it"})
	e.warn([]string{"others may read it", "old"})
	got := apptest.Told[app.Warning](p)
	must.True(t, len(got) == 2 && got[1].Text == "old" && len(e.Warnings) == 2, "%+v, %q", got, e.Warnings)
	o := New(apptest.Env(p), Options{})
	for _, text := range []string{"the secret is shown", "", "the secret is shown"} {
		o.warnOnce(text)
	}
	must.Equal(t, len(apptest.Told[app.Warning](p)), 3, "warnings, with that of the command line")
}

// TestLinesOfTheLab passes on whole lines, and cuts one that has no end.
func TestLinesOfTheLab(t *testing.T) {
	var got []string
	w := &lines{each: func(line string) { got = append(got, line) }}
	long := make([]byte, 3*maxLine)
	for _, part := range []string{"a", "b\r\nc\n", "", string(long), "\nd"} {
		n, err := w.Write([]byte(part))
		must.True(t, n == len(part) && err == nil, "%d, %v", n, err)
	}
	must.True(t, len(got) == 3 && got[0] == "ab" && got[1] == "c" && len(got[2]) <= maxLine, "%d lines, %.20q", len(got), got)
}
