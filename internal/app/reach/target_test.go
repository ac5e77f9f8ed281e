package reach

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/deploy"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/must"
)

const (
	pin  = "uP2W8hvl0QyUPsbPpt7JYhtjzyVTAmKDCJOIOCmeqzk"
	link = "linerate://" + pin + ".c2VjcmV0IG9mIHRoZSB0ZXN0IGFuZCBub3RoaW5nIGVsc2U@nas:5299"
)

func testEnv() app.Env { return app.Env{Getenv: os.Getenv} }

func TestParseTarget(t *testing.T) {
	got, err := Parse(link, testEnv())
	must.True(t, err == nil && got.Kind == Serve && got.Link.Addr == "nas:5299" && got.Link.Pin == pin && got.Link.Secret != "", "link: %+v, %v", got, err)
	must.True(t, !strings.Contains(got.String(), "secret") && strings.Contains(got.String(), pin), "what is kept of a link: %s", got)
	got, err = Parse("exec:10.0.0.2 ip netns exec b linerate agent", testEnv())
	must.True(t, err == nil && got.Kind == Exec && got.Addr == "10.0.0.2" && slices.Equal(got.Argv, strings.Fields("ip netns exec b linerate agent")),
		"exec: %+v, %v", got, err)
	got, err = Parse("lab:rate=1gbit,far.tcp.sack=off", testEnv())
	must.True(t, err == nil && got.Kind == Lab && got.Spec.To.Rate == 1e9 && len(got.Spec.Knobs) == 1, "lab: %+v, %v", got, err)
	for in, want := range map[string]ssh.Target{
		"someone@nas": {User: "someone", Host: "nas"}, "ssh://nas": {Host: "nas"}, "ssh://root@[fe80::1]:2222": {User: "root", Host: "fe80::1", Port: 2222},
		"root@fe80::1%eth0": {User: "root", Host: "fe80::1%eth0"}, "ssh://root@[fe80::1%eth0]:22": {User: "root", Host: "fe80::1%eth0", Port: 22},
	} {
		got, err := Parse(in, testEnv())
		must.True(t, err == nil && got.Kind == SSH && got.SSH == want && got.Text == in, "%s: %+v, %v", in, got, err)
	}
	for _, in := range []string{
		"", "a b", "-x", "nas\x1b[2J", "nas/x", ":5299", "someone@nas:22", "ssh://", "ssh://someone:secret@nas", "x@-oProxyCommand=id", "exec:", "exec:10.0.0.2",
		"lab:rate=fast",
	} {
		got, err := Parse(in, testEnv())
		must.True(t, err != nil && fault.KindOf(err) == fault.Usage, "%q: %+v, %v", in, got, err)
	}
}

// TestInterfaces: every form takes the interface of a link-local address after %.
func TestInterfaces(t *testing.T) {
	pin := strings.Repeat("p", 43)
	for in, want := range map[string]string{
		"iperf3://[fe80::1%eth0]": "[fe80::1%eth0]:5201", "iperf3://[fe80::1%25eth0]:99": "[fe80::1%eth0]:99", "iperf3://fe80::1%eth0": "[fe80::1%eth0]:5201",
		"iperf2://[fe80::1%eth0]:99": "[fe80::1%eth0]:99", "exec:fe80::1%eth0 agent": "fe80::1%eth0", "linerate://" + pin + "@[fe80::1%eth0]:99": "[fe80::1%eth0]:99",
		"fe80::1%eth0": "[fe80::1%eth0]:5299", "[fe80::1%eth0]:99": "[fe80::1%eth0]:99", "iperf3://10.0.0.2": "10.0.0.2:5201",
	} {
		got, err := Parse(in, testEnv())
		must.Equal(t, got.Addr+got.Link.Addr, want, "%s: %v", in, err)
	}
}

// TestParseLinkAt reads links from a file and the environment, warns about a file that others
// may read, and never shows the content of a file without a link.
func TestParseLinkAt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nas.link")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		must.Do(t, os.Chmod(file, mode))
	}
	write(link+"\n", 0o600)
	got := must.Get(Parse("@"+file, testEnv()))(t)
	must.True(t, got.Kind == Serve && got.Link.Secret != "" && got.Warning == "" && !strings.Contains(got.Text, "secret"), "%+v", got)
	if runtime.GOOS != "windows" {
		write(link, 0o640)
		got := must.Get(Parse("@"+file, testEnv()))(t)
		must.True(t, got.Warning == file+" holds a secret, and others may read it: chmod 600 "+file, "%+v", got)
	}
	t.Setenv(linkVariable, " "+link+" ")
	got, err := Parse("@", testEnv())
	must.True(t, err == nil && got.Link.Addr == "nas:5299", "%+v, %v", got, err)
	t.Setenv(linkVariable, "")
	write("hunter2 "+link, 0o600)
	for _, in := range []string{"@", "@" + file, "@" + file + ".none", "@" + filepath.Dir(file)} {
		got, err := Parse(in, testEnv())
		must.True(t, err != nil && fault.KindOf(err) == fault.Usage && (fault.HintOf(err) != "" || in == "@"+file || in == "@"+filepath.Dir(file)) && !strings.Contains(err.Error(), "hunter2"), "%s: %+v, %v", in, got, err)
	}
}

func TestParsePair(t *testing.T) {
	near, far, err := Pair("", "lab:lan", testEnv())
	must.True(t, err == nil && near.Kind == Here && far.Kind == Lab, "%+v %+v %v", near, far, err)
	near, _, err = Pair("exec:10.0.0.1 ssh a linerate agent", link, testEnv())
	must.True(t, err == nil && near.Kind == Exec, "%+v %v", near, err)
	for _, pair := range [][2]string{{"lab:lan", link}, {link, "lab:lan"}, {"a b", link}, {"", "a b"}} {
		_, _, err := Pair(pair[0], pair[1], testEnv())
		must.True(t, err != nil && fault.KindOf(err) == fault.Usage, "%q: %v", pair, err)
	}
}

// TestRedact demands that no secret is stored or shown.
func TestRedact(t *testing.T) {
	got := RedactAll([]string{"linerate", "test", link, "--title", "x", "linerate://%zz", "--far=" + link, "linerate://" + pin + ".c2VjcmV0@nas,desk", "exec:10.0.0.2 ssh b linerate test " + link})
	text := strings.Join(got, " ")
	must.True(t, !strings.Contains(text, "c2VjcmV0") && strings.Contains(text, pin) && !strings.Contains(text, "%zz"), "%q", got)
	must.True(t, got[0] == "linerate" && got[4] == "x", "%q", got)
}

// TestKeepIsRemembered: the user is asked once per host whether the program may stay there,
// and the answer, or a flag, is remembered. Without a terminal the program is removed, and
// nothing is remembered.
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
		must.Equal(t, len(p.Asked()), asked, "asked")
	}
	answer(nas, KeepAsRemembered, deploy.KeepAsked, 1, false) // there is no terminal
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

// TestContract: the rate given for a path is remembered for that path only, until it is
// forgotten, and takes precedence over that of the interfaces.
func TestContract(t *testing.T) {
	dir := t.TempDir()
	at := func(text, host string) Contract {
		env := apptest.Env(&apptest.Person{})
		env.Getenv = func(name string) string { return map[string]string{configVariable: dir}[name] }
		var o Options
		if text != "" {
			o.Contract = must.Get(ParseContract(text))(t)
		}
		return New(env, o).remembered(Target{}, Target{Kind: SSH, Text: host})
	}
	must.Equal(t, at("", "nas").To, 0, "before")
	must.Equal(t, at("to=50mbit,from=10mbit", "nas").Source, "--rate", "given")
	c := at("", "nas")
	must.Equal(t, c.To, 50e6, "to")
	must.Equal(t, c.From, 10e6, "from")
	must.Equal(t, at("", "other").To, 0, "of another path")
	must.Equal(t, at("none", "nas").To, 0, "forgotten")
	must.Equal(t, at("", "nas").To, 0, "once forgotten")

	e := Ends{Hosts: make([]model.HostFacts, 2), WireRate: fact.Known(units.BitRate(1e9), "sysfs")}
	e.agreed(c)
	must.Equal(t, e.WireRate.Or(0), 10e6, "the path")
	must.Equal(t, e.Hosts[0].PathRate.Or(0), 50e6, "to the far end")
	for _, text := range []string{"", "fast", "1", "to=1mbit,to=2mbit", "1mbit,2mbit", "both=1mbit"} {
		must.Fail(t, must.Err(ParseContract(text)), text)
	}
}

// TestSudoPassword asks once for each target, again if the password was wrong, and remembers
// it for new connections.
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
		clear(got) // the caller may do so
	}
	anew := o.sudoPassword(t.Context(), "user@nas")
	if got, err := anew("nas"); err != nil || string(got) != "right" || len(p.Asked()) != 2 {
		t.Errorf("anew: %q, %v, asked %d times", got, err, len(p.Asked()))
	}
	got := must.Get(o.sudoPassword(t.Context(), "user@desk")("nas"))(t)
	must.True(t, string(got) == "other", "of another host: %q", got)
}

// TestNobodyTypesAPassword: deploy gets its own error value.
func TestNobodyTypesAPassword(t *testing.T) {
	must.Is(t, must.Err(New(apptest.Env(&apptest.Person{}), Options{Sudo: true}).sudoPassword(t.Context(), "user@nas")("nas")), deploy.ErrNobody)
	gone := errors.New("the page is gone")
	o := New(apptest.Env(&apptest.Person{Answer: func(context.Context, app.Question) (app.Answer, error) { return app.Answer{}, gone }}), Options{})
	must.Is(t, must.Err(o.sudoPassword(t.Context(), "user@nas")("nas")), gone)
}

// TestWarnedOnce reports a warning once, however often a host is opened.
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
		must.Equal(t, must.Get(w.Write([]byte(part)))(t), len(part))
	}
	must.True(t, len(got) == 3 && got[0] == "ab" && got[1] == "c" && len(got[2]) <= maxLine, "%d lines, %.20q", len(got), got)
}

// TestOtherFamily: a server without an address of the family of --bind is a mistake of the
// command line; that it does not answer is not.
func TestOtherFamily(t *testing.T) {
	l := tls.Link{Addr: "127.0.0.1:1", Pin: pin}
	six := model.Egress{Bind: "::1"}
	_, err := tls.Dial(t.Context(), l, six)
	must.Equal(t, fault.KindOf(otherFamily(l.Addr, six, err)), fault.Usage)
	four := model.Egress{Bind: "127.0.0.1"}
	_, err = tls.Dial(t.Context(), l, four)
	must.True(t, err != nil && otherFamily(l.Addr, four, err) == nil, "%v", err)
}
