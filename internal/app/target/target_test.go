package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/deploy"
	"linerate/internal/control/wire/mdns"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/program"
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
	env.Getenv = func(key string) string { return map[string]string{configVariable: dir}[key] }
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
	must.Is(t, must.Err(New(apptest.Env(&apptest.Person{}), Options{Sudo: true}).sudoPassword(t.Context(), "user@nas")("nas")), deploy.ErrNoTerminal)
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
	got := apptest.Events[app.Warning](p)
	must.True(t, len(got) == 2 && got[1].Text == "old" && len(e.Warnings) == 2, "%+v, %q", got, e.Warnings)
	o := New(apptest.Env(p), Options{})
	for _, text := range []string{"the secret is shown", "", "the secret is shown"} {
		o.warnOnce(text)
	}
	must.Equal(t, len(apptest.Events[app.Warning](p)), 3, "warnings, with that of the command line")
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

// The kind of an unreachable server's error decides on exit code and hint.
func TestUnreachable(t *testing.T) {
	server := program.Program{Server: "a KIND", Port: "443", OwnPort: "4043", Start: func(port string) string { return "START" + program.At("=:", port) }}
	dial := func(addr net.Addr, err error) error {
		return fmt.Errorf("test: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: err})
	}
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 5201}
	told := fault.New(fault.Unreachable, errors.New("busy"), "wait")
	for name, c := range map[string]struct {
		err        error
		kind       fault.Kind
		says, hint string
	}{
		"nothing":       {nil, 0, "", ""},
		"refused":       {dial(at, fmt.Errorf("connect: %w", syscall.ECONNREFUSED)), fault.Unreachable, "connect to 10.0.0.2:5201: ", "start it with: START"},
		"no such name":  {dial(nil, &net.DNSError{Err: "no such host", Name: "nas", IsNotFound: true}), fault.Unreachable, "lookup nas", "is the name right?"},
		"other program": {errors.New("state 0 was not due"), fault.Failed, "state 0", "is what answers there a KIND?"},
		"told already":  {told, fault.Unreachable, "busy", "wait"},
		"unsupported":   {errors.ErrUnsupported, fault.Unsupported, "unsupported", ""},
	} {
		got := server.Unreachable(t.Context(), c.err, "nas:4043")
		text := ""
		if got != nil {
			text = got.Error()
		}
		must.True(t, (got == nil || fault.KindOf(got) == c.kind) && strings.Contains(text, c.says) && strings.Contains(fault.HintOf(got), c.hint) && (c.hint != "" || fault.HintOf(got) == ""), "%s: %q, kind %d, hint %q", name, text, fault.KindOf(got), fault.HintOf(got))
	}
	must.Equal(t, server.Starts("nas:443")+" "+server.Starts("nas:4043")+" "+server.Starts("[::1]:99"), "START=:443 START START=:99", "ports")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := errors.New("cut")
	must.True(t, server.Unreachable(ctx, err, "nas:4043") == err, "a user who stopped gets a hint") //nolint:errorlint // the same value, unwrapped
}

// TestFit: unsupported traffic of a foreign program is reported before any host is asked,
// with alternatives, and the program's own flags are parsed.
func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		far                string
		flow               model.Flow
		given              program.Values
		engine, says, hint string
	}{
		"bulk":           {"iperf3://nas", model.Flow{Engine: bulk.Name}, nil, bulk.Name, "", ""},
		"requests":       {"iperf2://nas", model.Flow{Engine: requests.Name}, nil, "", "iperf2://nas answers no requests", "linerate serve"},
		"sizes of iperf": {"iperf3://nas", sizes.With(model.Flow{Engine: sizes.Name}, sizes.Params{}), nil, "", "no message sizes", "linerate test"},
		"sizes":          {"netpipe://nas", sizes.With(model.Flow{Engine: sizes.Name}, sizes.Params{}), program.Values{"max": "64"}, sizes.NetPIPE, "", ""},
		"bulk of NPtcp":  {"netpipe://nas", model.Flow{Engine: bulk.Name}, nil, "", "measures message sizes only", "linerate sweep"},
		"time of NPtcp":  {"netpipe://nas", model.Flow{Engine: sizes.Name, Duration: 1}, nil, "", "--time: an NPtcp receiver does not have it", ""},
		"small of NPtcp": {"netpipe://nas", sizes.With(model.Flow{Engine: sizes.Name}, sizes.Params{}), program.Values{"min": "64", "max": "1"}, "", "below the first size", ""},
		"half a login":   {"iperf3://nas", model.Flow{}, program.Values{"username": "x"}, "", "belong together", ""},
		"no rate":        {"iperf2://nas", model.Flow{}, program.Values{"bitrate": "fast"}, "", "--bitrate", ""},
	} {
		far := must.Get(Parse(c.far, testEnv()))(t)
		f, err := far.Fit(testEnv(), c.flow, c.given)
		switch {
		case c.says == "" && (err != nil || f.Engine != c.engine):
			t.Errorf("%s: engine %s, %v", name, f.Engine, err)
		case c.says != "" && (err == nil || fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), c.says) || !strings.Contains(fault.HintOf(err), c.hint)):
			t.Errorf("%s: %v, hint %q", name, err, fault.HintOf(err))
		}
	}
}

// TestFirstHour13SilentForeign: a foreign server that accepts a connection and stays silent
// times out like an agent, and the error says so.
func TestFirstHour13SilentForeign(t *testing.T) {
	t.Parallel()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	env := app.Env{Timeout: time.Second, Asker: app.NoUser{}, Observer: app.NoUser{}, Getenv: func(string) string { return "" }}
	flow := model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: time.Second, Interval: time.Second}
	back := flow
	back.Direction = model.From
	for scheme, flow := range map[string]model.Flow{"iperf3": flow, "iperf2": back, "netpipe": sizes.With(model.Flow{Engine: sizes.Name, Direction: model.To}, sizes.Params{})} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			target := must.Get(Parse(scheme+"://"+l.Addr().String(), env))(t)
			flow = must.Get(target.Fit(env, flow, program.Values{}))(t)
			peer := must.Get(target.foreignPeer(env, model.HostFacts{}, model.DataPath{}))(t)
			_, _, err := peer.Run(t.Context(), flow, func([]model.Sample) {})
			must.True(t, err != nil && strings.Contains(err.Error(), "no answer in 1 s") && fault.KindOf(err) == fault.Unreachable && fault.HintOf(err) != "", "%v, hint %q", err, fault.HintOf(err))
		})
	}
}

// TestFirstHour13SilentDatagrams: a server of iperf 2 that takes datagrams, or a header, and
// never answers counts as missing.
func TestFirstHour13SilentDatagrams(t *testing.T) {
	t.Parallel()
	c := must.Get(new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = c.Close() })
	env := app.Env{Timeout: 5 * time.Second, Asker: app.NoUser{}, Observer: app.NoUser{}, Getenv: func(string) string { return "" }}
	target := must.Get(Parse("iperf2://"+c.LocalAddr().String(), env))(t)
	flow := model.Flow{Engine: udp.Name, Direction: model.To, Streams: 1, Duration: 200 * time.Millisecond, Interval: 200 * time.Millisecond}
	flow.Params = traffic.Write(udp.Params{Rate: udp.DefaultRate})
	peer := must.Get(target.foreignPeer(env, model.HostFacts{}, model.DataPath{}))(t)
	_, _, err := peer.Run(t.Context(), flow, func([]model.Sample) {})
	must.True(t, err != nil && strings.Contains(err.Error(), "no answer") && fault.KindOf(err) == fault.Unreachable && strings.Contains(fault.HintOf(err), "iperf -s -u"), "%v, kind %d, hint %q", err, fault.KindOf(err), fault.HintOf(err))
}

// openServer returns a server that admits all clients, and its mDNS announcement.
func openServer(t *testing.T) (tls.Link, mdns.Server) {
	t.Helper()
	id := must.Get(tls.LoadKey(t.TempDir()))(t)
	id.Secret = make([]byte, 32)
	s := must.Get(tls.Listen(t.Context(), "127.0.0.1:0", tls.Config{Identity: id, Open: true, Agent: agenttest.Config(nil)}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	l := s.Link("127.0.0.1")
	return l, mdns.Server{Name: "nas", Port: s.Addr().(*net.TCPAddr).Port, Pin: l.Pin, Addr: netip.MustParseAddr("127.0.0.1")}
}

// TestTrustOnFirstUse: a server named without a link is known by the pin that it showed the
// first time. A host that later takes its name, its address or its place on the network is
// refused with both pins, whatever it announces.
func TestTrustOnFirstUse(t *testing.T) {
	right, announced := openServer(t)
	thief, stolen := openServer(t)
	dir := t.TempDir()
	t.Setenv(configVariable, dir)
	env := apptest.Env(&apptest.Person{})
	env.Getenv = os.Getenv
	named := func(text string, found ...mdns.Server) error {
		t.Helper()
		target := must.Get(Parse(text, testEnv()))(t)
		o := New(env, Options{})
		o.lookup = func(_ context.Context, name string) ([]mdns.Server, error) {
			must.Equal(t, name, "nas", "looked for")
			return found, nil
		}
		peer, err := o.Dial(t.Context(), target)
		if err == nil {
			must.Len(t, peer.Secret, 0, "a secret for somebody who was named without one")
			_ = peer.Control.Close()
		}
		return err
	}
	refused := func(what string, err error, says ...string) {
		t.Helper()
		must.Need(t, err != nil && fault.KindOf(err) == fault.Unreachable && fault.HintOf(err) != "",
			"%s: kind %d, hint %q: %v", what, fault.KindOf(err), fault.HintOf(err), err)
		for _, want := range says {
			must.True(t, strings.Contains(err.Error(), want), "%s: does not say %q: %v", what, want, err)
		}
	}
	refused("two servers of one name, none known", named("nas", stolen, announced), right.Pin, thief.Pin)
	must.Fail(t, must.Err(os.Stat(filepath.Join(dir, knownFile))), "somebody who was refused is remembered")
	must.Do(t, named("NAS", announced))
	b := must.Get(os.ReadFile(filepath.Join(dir, knownFile)))(t)
	must.True(t, string(b) == "nas "+right.Pin+"\n", "remembered %q", b)
	must.OK(t, named("nas", stolen, announced), "the known one of two")
	refused("another pin is announced", named("nas", stolen), right.Pin, thief.Pin)
	mitm := stolen
	mitm.Pin = announced.Pin // announces the right pin, but lacks the key
	refused("the right pin, another key", named("nas", mitm), right.Pin, thief.Pin)

	port := strconv.Itoa(announced.Port)
	must.Do(t, named("127.0.0.1:"+port)) // by address, without mDNS
	must.Do(t, (notes{filepath.Join(dir, knownFile)}).set("127.0.0.1:"+port, thief.Pin))
	refused("another key at the address", named("127.0.0.1:"+port), right.Pin, thief.Pin)
	must.OK(t, named("nas", announced), "the others are remembered still")
	refused("nobody there", named("127.0.0.1:1"))
}

// TestMetAtTheSameTime: servers first met at the same time are all remembered, and one that
// cannot be remembered is not used.
func TestMetAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(configVariable, dir)
	env := apptest.Env(&apptest.Person{})
	env.Getenv = os.Getenv
	o := New(env, Options{})
	var all sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		_, s := openServer(t)
		all.Go(func() {
			target := must.Get(Parse(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), env))(t)
			p, err := o.Dial(t.Context(), target)
			if errs[i] = err; err == nil {
				_ = p.Control.Close()
			}
		})
	}
	all.Wait()
	must.Do(t, errors.Join(errs...))
	must.Len(t, must.Get((notes{filepath.Join(dir, knownFile)}).lines())(t), len(errs), "remembered")
	nowhere := filepath.Join(dir, "nowhere")
	must.Do(t, os.Symlink(filepath.Join(dir, "gone"), nowhere))
	t.Setenv(configVariable, nowhere)
	_, s := openServer(t)
	_, err := o.Dial(t.Context(), must.Get(Parse(net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), env))(t))
	must.Fail(t, err)
	must.Contain(t, fault.HintOf(err), configVariable, "hint")
}
