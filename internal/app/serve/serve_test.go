package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// heard is an Observer that keeps the message lines and errors of a server.
type heard struct {
	app.Nobody
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
		s := must.Get(Open(t.Context(), env, Config{Listen: "127.0.0.1:0", Host: "nas", State: dir}))(t)
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
		if err != nil {
			t.Errorf("%s leaves its port open: %v", name, err)
			continue
		}
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
