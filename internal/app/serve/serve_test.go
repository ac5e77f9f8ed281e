package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// heard is an Observer that keeps the message lines and errors of a server.
type heard struct {
	app.NoUser
	mu    sync.Mutex
	lines []string
}

func (h *heard) Observe(e app.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e := e.(type) {
	case app.Serving:
		h.lines = append(h.lines, e.Line)
	case app.Trouble:
		h.lines = append(h.lines, "trouble: "+e.Err.Error())
	}
}

// said waits until a line contains text.
func (h *heard) said(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		h.mu.Lock()
		found := slices.ContainsFunc(h.lines, func(l string) bool { return strings.Contains(l, text) })
		all := strings.Join(h.lines, "\n")
		h.mu.Unlock()
		if found {
			return
		}
		must.Need(t, !time.Now().After(deadline), "nobody said %q:\n%s", text, all)
		time.Sleep(20 * time.Millisecond)
	}
}

func world(h *heard) app.Env {
	return app.Env{
		Version: "test", Self: []string{"/nowhere/linerate"}, Now: time.Now,
		Getenv: func(string) string { return "" }, Asker: h, Observer: h,
	}
}

// inChild runs the test again in a process of its own that is not root, since a server gives
// up the rights of its whole process. It returns true in that process.
func inChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv("LINERATE_TEST_CHILD") == t.Name() {
		return true
	}
	dir := t.TempDir()
	self := must.Get(os.Executable())(t)
	c := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	if os.Geteuid() == 0 {
		// only root may be able to reach the program's directory
		program := filepath.Join(dir, "test")
		must.Do(t, os.WriteFile(program, must.Get(os.ReadFile(self))(t), 0o755))
		for d := dir; d != filepath.Dir(d) && d != os.TempDir(); d = filepath.Dir(d) {
			must.Do(t, os.Chmod(d, 0o755))
		}
		c.Path = program
		becomeNobody(c)
	}
	work := filepath.Join(dir, "work")
	must.Do(t, os.Mkdir(work, 0o700))
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(work, nobody, nobody))
	}
	c.Dir = work
	c.Env = append(os.Environ(), "LINERATE_TEST_CHILD="+t.Name(), "HOME="+work, "TMPDIR="+work, "XDG_CACHE_HOME="+work)
	out, err := c.CombinedOutput()
	must.Need(t, err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()), "%v\n%s", err, out)
	return false
}

// join opens a session with the server of link.
func join(ctx context.Context, t *testing.T, link string) (*session.Client, error) {
	t.Helper()
	l := must.Get(tls.ParseLink(link))(t)
	return world(&heard{}).OpenSession(ctx, model.Far, func(ctx context.Context) (wire.Peer, error) { return tls.Dial(ctx, l, model.Egress{}) })
}

// TestServer follows a server from its first start: the link that is shown once, a session,
// its metrics, a revoked key, the audit log, and the end.
func TestServer(t *testing.T) {
	if !inChild(t) {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h, dir := new(heard), t.TempDir()
	env, log := world(h), filepath.Join(t.TempDir(), "audit.log")
	c := Config{Listen: "127.0.0.1:0", State: dir, Metrics: "0", Audit: log, Foreign: Foreign{Addrs: program.Values{"iperf3": "127.0.0.1:0"}}}
	s := must.Get(Open(ctx, env, c))(t)
	defer s.Close()
	must.True(t, s.Shows() && strings.Contains(s.Link(), ".") && len(s.Listeners()) == 1 && s.Listeners()[0].Name == "iperf3" && s.Logs(), "shows %v, link %s, listeners %v", s.Shows(), s.Link(), s.Listeners())
	h.said(t, "runs ")
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	first := must.Get(join(ctx, t, s.Link()))(t)
	must.Equal(t, s.Usage().Kinds[Sessions].Keyed, 1, "sessions with a key")
	must.Fail(t, must.Err(first.Apply(ctx, []model.Assignment{{Knob: "tcp.sack", Value: "off"}}, time.Second)), "a key that measures changed settings")

	keys := Keys{Env: env, State: dir}
	made, link, err := keys.Add("ci", "measure", "30d", "")
	must.Need(t, err == nil && made.Name == "ci" && made.Right == "measure" && !made.Expires.Before(time.Now().Add(29*24*time.Hour)), "%+v, %v", made, err)
	must.True(t, strings.HasSuffix(link, "@"+s.Addr().String()), "%s does not name %s", link, s.Addr())
	ci := must.Get(join(ctx, t, link))(t)
	must.Get(keys.Revoke("ci"))(t)
	must.Until(t, "the end of a key that was taken back", func() bool { return must.Err(ci.Facts(ctx, "")) != nil })
	_, err = join(ctx, t, link)
	must.True(t, fault.KindOf(err) == fault.Unreachable, "it is let in again: %v", err)
	must.OK(t, must.Err(first.Facts(ctx, "")), "the other session")

	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.MetricsAddr()+"/metrics", nil))(t)
	answer := must.Get(http.DefaultClient.Do(r))(t)
	_ = answer.Body.Close()
	must.Equal(t, answer.StatusCode, http.StatusOK, "metrics: %s", answer.Status)

	cancel()
	err = <-done
	must.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
	s.Close()
	checkLog(t, log, map[string]string{"session-begin": "default", "session-end": "ci", "refused": ""})
}

// checkLog checks for a line of each kind, with its key, and that all are JSON.
func checkLog(t *testing.T, path string, want map[string]string) {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	for line := range strings.Lines(string(b)) {
		var e struct{ Event, Key string }
		must.OK(t, json.Unmarshal([]byte(line), &e), "%s", line)
		if key, ok := want[e.Event]; ok && key == e.Key {
			delete(want, e.Event)
		}
	}
	must.True(t, len(want) == 0, "not in the log: %v\n%s", want, b)
}

// TestServerSecondStart: the secret of the first key is shown once, and printed again on
// request.
func TestServerSecondStart(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir, env := t.TempDir(), world(&heard{})
	var links []string
	for start := range 2 {
		s := must.Get(Open(t.Context(), env, Config{Listen: "127.0.0.1:0", Host: "nas", State: dir, Announce: true}))(t)
		must.Equal(t, s.AnnouncedAs(), "", "announced where no other host reaches it, as")
		must.Equal(t, s.Shows(), start == 0, "start %d shows", start)
		links = append(links, s.Link())
		s.closePorts()
		s.Close()
	}
	must.True(t, !strings.Contains(links[1], "."), "the second link holds a secret: %s", links[1])
	link := must.Get(Keys{Env: env, State: dir}.Link("other:1234"))(t)
	must.True(t, strings.HasSuffix(link, "@other:1234") && strings.Contains(link, "."), "%s", link)
}

// TestServerRefuses: each refusal has its kind and a hint, and leaves no port open.
func TestServerRefuses(t *testing.T) {
	if !inChild(t) {
		return
	}
	taken := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = taken.Close() }()
	free := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	own := free.Addr().String()
	_ = free.Close()
	for name, c := range map[string]struct {
		Config
		kind       fault.Kind
		says, hint string
	}{
		"taken":         {Config{Listen: taken.Addr().String()}, fault.Failed, "in use", "--listen ADDRESS:PORT"},
		"no address":    {Config{Listen: "nonsense"}, fault.Usage, "missing port", "write it like --listen"},
		"tune":          {Config{Listen: own, AllowTune: true}, fault.Unsupported, "by root only", "start serve as root"},
		"commands":      {Config{Listen: own, AllowCommands: true}, fault.Usage, "only who may change settings", "add --allow-tune"},
		"user":          {Config{Listen: own, User: "daemon"}, fault.Unsupported, "only root", "leave it out"},
		"limit":         {Config{Listen: own, Limits: Limits{All: "luck=1"}}, fault.Usage, "no key", "write it like --limit"},
		"metrics":       {Config{Listen: own, Metrics: taken.Addr().String()}, fault.Failed, "--metrics", "--metrics ADDRESS:PORT"},
		"foreign taken": {Config{Listen: own, Foreign: Foreign{Addrs: program.Values{"iperf3": taken.Addr().String()}}}, fault.Failed, "--iperf3", "--iperf3=ADDRESS:PORT"},
		"half a login":  {Config{Listen: own, Foreign: Foreign{Addrs: program.Values{"iperf3": "127.0.0.1:0"}, Given: program.Values{"iperf3-key": "x"}}}, fault.Usage, "belong together", ""},
		"no users":      {Config{Listen: own, Foreign: Foreign{Addrs: program.Values{"iperf3": "127.0.0.1:0"}, Given: program.Values{"iperf3-key": "/x", "iperf3-users": "/x"}}}, fault.Usage, "no such file", ""},
		"options":       {Config{Listen: own, Foreign: Foreign{Addrs: program.Values{"netpipe": "127.0.0.1:0"}, Given: program.Values{"netpipe-options": "-x"}}}, fault.Usage, "is unknown", "both ends"},
	} {
		c.State = t.TempDir()
		s, err := Open(t.Context(), world(&heard{}), c.Config)
		if err == nil {
			s.Close()
			t.Errorf("%s: served", name)
			continue
		}
		must.True(t, fault.KindOf(err) == c.kind && strings.Contains(err.Error(), c.says) && strings.Contains(fault.HintOf(err), c.hint),
			"%s: kind %d, %v; hint %q", name, fault.KindOf(err), err, fault.HintOf(err))
		again, err := new(net.ListenConfig).Listen(t.Context(), "tcp", own)
		must.Dof(t, err, "%s leaves its port open", name)
		_ = again.Close()
	}
}

// TestKeysRefuse: mistakes about keys have their kind and a hint.
func TestKeysRefuse(t *testing.T) {
	k := Keys{Env: world(&heard{}), State: t.TempDir()}
	_, _, err := k.Add("ci", "measure", "", "")
	must.Need(t, err == nil, "%v", err)
	for name, c := range map[string]struct {
		do   func() error
		kind fault.Kind
		hint string
	}{
		"right":   {func() error { _, _, err := k.Add("x", "all", "", ""); return err }, fault.Usage, ""},
		"name":    {func() error { _, _, err := k.Add("a b", "tune", "", ""); return err }, fault.Usage, ""},
		"life":    {func() error { _, _, err := k.Add("x", "tune", "0d", ""); return err }, fault.Usage, "--expires 30d"},
		"forever": {func() error { _, _, err := k.Add("x", "tune", "99999999999d", ""); return err }, fault.Usage, "--expires 30d"},
		"twice":   {func() error { _, _, err := k.Add("ci", "tune", "", ""); return err }, fault.Failed, "key revoke ci"},
		"unknown": {func() error { _, err := k.Revoke("x"); return err }, fault.Failed, "key list"},
		"no link": {func() error { _, err := k.Link(""); return err }, fault.Failed, "key add NAME"},
	} {
		err := c.do()
		must.True(t, err != nil && fault.KindOf(err) == c.kind && strings.Contains(fault.HintOf(err), c.hint), "%s: %v, hint %q", name, err, fault.HintOf(err))
	}
	all := must.Get(k.List())(t)
	must.True(t, len(all) == 1 && all[0].Name == "ci" && all[0].LastUsed.IsZero(), "%+v", all)
}

var loopback = netip.MustParseAddr("127.0.0.1")

// The lines of the exposition, after the ABNF of OpenMetrics 1.0, without timestamps and
// exemplars, which linerate does not write.
var (
	metaLine   = regexp.MustCompile(`^# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*\})? ([+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)|NaN)$`)
)

// checkOpenMetrics returns what OpenMetrics 1.0 does not allow in text: families are not
// interleaved and described once, TYPE and UNIT and HELP come before samples, a unit is the
// end of the name, samples have the suffix of their type and are not repeated, EOF is last.
func checkOpenMetrics(text string) error {
	if !strings.HasSuffix(text, "\n") {
		return fmt.Errorf("the last line does not end")
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[len(lines)-1] != "# EOF" {
		return fmt.Errorf("no EOF")
	}
	suffix := map[string]string{"gauge": "", "counter": "_total", "info": "_info"}
	seen, families := map[string]bool{}, map[string]bool{}
	var name, kind string
	for _, l := range lines[:len(lines)-1] {
		if m := metaLine.FindStringSubmatch(l); m != nil {
			if m[1] == "TYPE" {
				if families[m[2]] {
					return fmt.Errorf("family %s comes twice", m[2])
				}
				name, kind = m[2], m[3]
				families[name] = true
				if _, ok := suffix[kind]; !ok {
					return fmt.Errorf("type %q", kind)
				}
			}
			if m[2] != name {
				return fmt.Errorf("%s among those of %s", l, name)
			}
			if m[1] == "UNIT" && !strings.HasSuffix(name, "_"+m[3]) {
				return fmt.Errorf("%s does not end in its unit %s", name, m[3])
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(l)
		if m == nil {
			return fmt.Errorf("line %q", l)
		}
		if m[1] != name+suffix[kind] {
			return fmt.Errorf("sample %s of %s %s", m[1], kind, name)
		}
		if seen[m[1]+m[2]] {
			return fmt.Errorf("sample %s comes twice", m[1]+m[2])
		}
		seen[m[1]+m[2]] = true
	}
	return nil
}

func TestMetricsAreOpenMetrics(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Sessions: 8, Memory: 1 << 30}, AllAnonymous: budget.Limits{Time: time.Hour}})
	_ = must.Get(b.Open(loopback, "key"))(t).Use(1500 * time.Millisecond)
	for _, u := range []budget.Usage{{}, b.Usage()} {
		var text bytes.Buffer
		writeMetrics(&text, true, "v1 \"x\"\\\n\x1b", u)
		err := checkOpenMetrics(text.String())
		must.True(t, err == nil, "%v\n%s", err, text.String())
	}
	var text bytes.Buffer
	writeMetrics(&text, true, "v1", b.Usage())
	for _, want := range []string{
		"linerate_serve_time_seconds{class=\"keyed\"} 1.5\n", "linerate_serve_time_limit_seconds{of=\"anonymous\"} 3600\n",
		"linerate_serve_memory_limit_bytes{of=\"server\"} 1073741824\n", "linerate_serve_disk_limit_bytes{of=\"server\"} +Inf\n",
	} {
		must.Contain(t, text.String(), want)
	}
}

// TestMetricsAccept asks as browsers, old and new Prometheus do. Other than OpenMetrics the
// answer is text 0.0.4, whose parser wants a family's name in each line; promtool of Debian,
// if installed, finds no fault in it.
func TestMetricsAccept(t *testing.T) {
	l := must.Get(ListenMetrics(t.Context(), "0"))(t)
	b := budget.New(budget.Config{Server: budget.Limits{UDP: 80e6}})
	go func() { _ = Metrics(t.Context(), l, metricsOf("v1", b)) }()
	ask := func(accept string) (string, string) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil))(t)
		r.Header.Set("Accept", accept)
		a := must.Get(http.DefaultClient.Do(r))(t)
		defer func() { _ = a.Body.Close() }()
		return a.Header.Get("Content-Type"), string(must.Get(io.ReadAll(a.Body))(t))
	}
	for accept, want := range map[string]string{
		"": textType, "*/*": textType, "text/html,*/*;q=0.8": textType, "text/plain;version=0.0.4;q=0.9": textType,
		"application/openmetrics-text;version=1.0.0;q=0.1,text/plain;q=0.5":                textType,
		"application/openmetrics-text;q=0":                                                 textType,
		"application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5": openMetricsType,
		"application/openmetrics-text":                                                     openMetricsType,
	} {
		kind, text := ask(accept)
		must.Equal(t, kind, want, "Accept: %s", accept)
		open := checkOpenMetrics(text) == nil
		must.True(t, open == (want == openMetricsType), "Accept: %s: OpenMetrics is %v\n%s", accept, open, text)
	}
	_, text := ask("")
	p := expfmt.NewTextParser(prommodel.LegacyValidation)
	all := must.Get(p.TextToMetricFamilies(strings.NewReader(text)))(t)
	must.Equal(t, all["linerate_serve_refusals_total"].GetType(), dto.MetricType_COUNTER)
	must.Equal(t, all["linerate_serve_info"].GetType(), dto.MetricType_GAUGE)
	must.Contain(t, text, "linerate_serve_udp_limit_bytes_per_second{of=\"server\"} 10000000\n")
	promtool, err := exec.LookPath("promtool")
	must.SkipIf(t, err != nil, "promtool is not installed (Debian: prometheus)")
	c := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	c.Stdin = strings.NewReader(text)
	out, err := c.CombinedOutput()
	must.True(t, err == nil && len(out) == 0, "promtool check metrics: %v: %s", err, out)
}

// TestMetricsBounded holds more connections than there are slots, and expects an answer once
// they are closed.
func TestMetricsBounded(t *testing.T) {
	l := must.Get(ListenMetrics(t.Context(), "0"))(t)
	addr := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Metrics(ctx, l, metricsOf("v1", budget.New(budget.Config{}))) }()
	var silent []net.Conn
	for range 40 {
		silent = append(silent, must.Get(new(net.Dialer).DialContext(ctx, "tcp", addr))(t))
	}
	closed := 0
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !os.IsTimeout(err) {
			closed++
		}
		_ = c.Close()
	}
	must.True(t, closed >= 40-16, "%d of 40 connections were closed", closed)
	answered := false
	for began := time.Now(); !answered && time.Since(began) < time.Minute; {
		r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil))(t)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			<-time.After(20 * time.Millisecond)
			continue
		}
		text, _ := io.ReadAll(a.Body)
		_ = a.Body.Close()
		answered = a.StatusCode == http.StatusOK && len(text) > 0
	}
	must.True(t, answered, "no answer after the silent ones were gone")
	cancel()
	must.OK(t, <-done)
}

func TestListenMetrics(t *testing.T) {
	for addr, says := range map[string]string{"::1:x": "--metrics", "127.0.0.1:http-none": "--metrics"} {
		must.Say(t, must.Err(ListenMetrics(t.Context(), addr)), says, "%s", addr)
	}
	l := must.Get(ListenMetrics(t.Context(), ":0"))(t)
	defer func() { _ = l.Close() }()
	must.True(t, strings.HasPrefix(l.Addr().String(), "127.0.0.1:"), "a port alone is %s", l.Addr())
}

func TestLimits(t *testing.T) {
	host := room{memory: 8 << 30, disk: 100 << 30, files: budget.Divide(8192, 1)}
	c, err := Limits{}.config(host, visitors{listeners: 1})
	must.Do(t, err)
	s := c.Server
	must.True(t, s.Sessions == 64 && s.Memory == 2<<30 && s.Disk == 25<<30 && s.Descriptors == 8192-1024-512-896-64 && s.UDP == 0, "server %+v", s)
	s = c.AllAnonymous
	must.True(t, s.Sessions == 16 && s.Memory == 128<<20 && s.Disk == 2<<30 && s.Descriptors == (8192-1024-512-896-64)/2, "anonymous clients %+v", s)
	must.True(t, c.Keyed.Session.Memory == 1<<30 && c.Anonymous.Lifetime == 10*time.Minute && c.Window == 24*time.Hour, "%+v", c)
	f := Limits{
		All: "sessions=20, memory=1GiB,udp=1Gbit/s,egress=1TiB/hour", Anonymous: "memory=none,disk=0",
		Source: "lifetime=1m,time=10min/hour,sessions=none",
	}
	c, err = f.config(host, visitors{open: true, sessions: 3})
	must.Do(t, err)
	must.True(t, c.Server.Sessions == 20 && c.Server.Memory == 1<<30 && c.Server.UDP == 1e9 && c.Server.Egress == 1<<40 && c.Window == time.Hour,
		"server %+v in %v", c.Server, c.Window)
	must.True(t, c.AllAnonymous.Memory == 0 && c.AllAnonymous.Disk == -1 && c.AllAnonymous.Sessions == 3, "anonymous clients %+v", c.AllAnonymous)
	must.True(t, c.Anonymous.Lifetime == time.Minute && c.Anonymous.Source.Time == 10*time.Minute && c.Anonymous.Source.Sessions == 0, "source %+v", c.Anonymous)
	c, err = (Limits{}).config(host, visitors{sessions: 12})
	must.True(t, err == nil && c.Server.Sessions == 12 && c.AllAnonymous.Sessions == -1, "a server for those with a key alone: %v, %+v", err, c)
	c, err = (Limits{}).config(room{}, visitors{open: true})
	must.True(t, err == nil && c.Server.Memory == 0 && c.AllAnonymous.Memory == 128<<20, "a host that tells nothing: %v, %+v", err, c)
}

func TestLimitsRefuse(t *testing.T) {
	for text, says := range map[string]string{
		"memory":                          "KEY=VALUE",
		"memory=much":                     "memory",
		"memory=-1GiB":                    "memory",
		"luck=1":                          "there are sessions, descriptors, memory",
		"egress=1TiB/week":                "/day and /hour",
		"egress=1TiB/hour,time=2h/day":    "all by the hour",
		"lifetime=1m":                     "belongs to --limit-source",
		"sessions=9999999999999999999999": "sessions",
	} {
		_, err := Limits{All: text}.config(room{}, visitors{})
		must.True(t, err != nil && fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), says), "%s: %v", text, err)
	}
}

// TestMemoryLimit: anonymous clients never raise the server's memory limit, key holders do by
// what they use.
func TestMemoryLimit(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Memory: 1 << 30}, AllAnonymous: budget.Limits{Memory: 128 << 20}})
	empty := memoryLimit(b.Usage())
	must.True(t, empty == besideBudget+128<<20 && empty <= 300e6, "an idle server may hold %d MiB", empty>>20)
	for key, more := range map[string]int64{"": 0, "key": 64 << 20} {
		s := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), key))(t)
		must.Get(s.Take(budget.Amounts{Memory: 64 << 20}))(t)
		got := memoryLimit(b.Usage())
		must.True(t, got == empty+more, "%q took 64 MiB: %d MiB, want %d", key, got>>20, (empty+more)>>20)
		s.Close()
	}
}

// told records events of visits, a word each.
func told(all *[]string) func(app.Event) {
	return func(e app.Event) {
		var line string
		switch e := e.(type) {
		case app.VisitBegan:
			line = fmt.Sprintf("%d began: %s %s %s", e.Visit.ID, e.Visit.Protocol, e.Visit.From, e.Visit.Key)
		case app.VisitRuns:
			line = fmt.Sprintf("%d runs %s", e.ID, e.Flow.Direction)
		case app.VisitSampled:
			line = fmt.Sprintf("%d sampled %g", e.ID, e.Samples[0].Value)
		case app.VisitRan:
			line = fmt.Sprintf("%d ran: sent %d, received %d, %v", e.ID, e.Sent, e.Received, e.Err)
		case app.VisitEnded:
			line = fmt.Sprintf("%d ended: %v", e.ID, e.Err)
		case app.VisitRefused:
			line = fmt.Sprintf("refused %s %s: %v", e.Visit.Protocol, e.Visit.From, e.Err)
		default:
			line = fmt.Sprintf("%T", e)
		}
		*all = append(*all, line)
	}
}

// TestForeignVisits: two tests from one address are distinguished by their ports, even if
// they end in another order than they began; a refused client is not a visit; and events
// after the end of a test are dropped.
func TestForeignVisits(t *testing.T) {
	var got []string
	v := newVisits(told(&got))
	from := netip.MustParseAddr("::ffff:192.0.2.7") // as a dual-stack socket reports it
	event := func(port uint16, d model.Direction, began, over bool, err error) program.Event {
		e := program.Event{Test: program.Test{From: from, Key: "anna", Flow: model.Flow{Direction: d}, Took: time.Second, Err: err}, Port: port, Began: began, Over: over}
		if over && began {
			e.Ends = []model.EndReport{{Flows: []model.FlowReport{{Role: model.Receiver, Bytes: 9}, {Role: model.Sender, Bytes: 4}}}}
		}
		return e
	}
	samples := []model.Sample{{Value: 5}}
	sampled := func(port uint16) { v.foreignSampled("iperf3", netip.AddrPortFrom(from, port), samples) }
	v.foreign("iperf3", event(1001, model.To, true, false, nil))
	v.foreign("iperf3", event(1002, model.From, true, false, nil))
	sampled(1002)
	samples[0].Value = 6 // like a reused buffer
	sampled(1001)
	sampled(1003)
	v.foreign("iperf3", event(1001, model.To, true, true, nil))
	sampled(1001)
	v.foreign("iperf3", event(1003, model.To, false, true, errors.New("full")))
	v.foreign("iperf3", event(1002, model.From, true, true, errors.New("cut")))
	want := []string{
		"1 began: iperf3 192.0.2.7 anna", "1 runs to", "2 began: iperf3 192.0.2.7 anna", "2 runs from",
		"2 sampled 5", "1 sampled 6", "1 ran: sent 4, received 9, <nil>", "1 ended: <nil>", "refused iperf3 192.0.2.7: full",
		"2 ran: sent 4, received 9, cut", "2 ended: cut",
	}
	must.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	must.True(t, len(v.open) == 0, "remembers %d visits that are over", len(v.open))
}

func TestPeers(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "10.0.0.7": "[10.0.0.7/32]", "10.0.0.9/24, fd00::7": "[10.0.0.0/24 fd00::7/128]", "::ffff:10.0.0.7": "[10.0.0.7/32]", "nas": "error", "10.0.0.0/33": "error",
	} {
		peers, err := parsePeers(text)
		got := fmt.Sprint(peers)
		if err != nil {
			got = "error"
		}
		must.Equal(t, got, want, "%q", text)
	}
}
