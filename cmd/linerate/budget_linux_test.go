package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	copyflow "linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// mostResident is the most that a server may have resident, whatever anonymous clients ask, in
// MiB.
const mostResident = 300

// greed is a requested run that the server must neither grant nor pay for: says is its answer.
type greed struct {
	flow  model.Flow
	offer int64 // of a copy to the server
	says  string
}

func memoryCopy(mode string, d model.Direction, n units.Bytes) model.Flow {
	return model.Flow{Engine: "filecopy", Direction: d, Bytes: n, Params: traffic.Write(copyflow.Params{Mode: mode, Source: "memory", Sink: "memory"})}
}

func bulk(d model.Direction, streams int, block units.Bytes) model.Flow {
	return model.Flow{Engine: "tcpbulk", Direction: d, Streams: streams, Block: block, Duration: time.Second, Interval: time.Second}
}

// refused asks for g and requires that the server refuses with the number.
func (g greed) refused(t *testing.T, i *intruder) {
	t.Helper()
	conns, err := i.prepare(t, g.flow, 1)
	if err == nil {
		i.start(t)
		if g.offer > 0 {
			say(t, conns[0], "offer", g.offer)
		}
		answer := hear(conns[0], 20*time.Second)
		if strings.Contains(answer, `"offer"`) {
			answer = hear(conns[0], 20*time.Second)
		}
		err = i.end(t, 20*time.Second)
		must.Need(t, err != nil && strings.Contains(answer, `"fail"`), "granted: the server says %s, the run ends with %v", answer, err)
	}
	must.Contain(t, err.Error(), g.says, "refused with %q,", err)
}

// TestGreedyAnonymous asks an open server for memory, disk and descriptors without proving
// anything. One message of 30 bytes once cost 6 GiB.
func TestGreedyAnonymous(t *testing.T) {
	t.Parallel()
	server, link := publicServer(t, "--open")
	for name, g := range map[string]greed{
		"an offer of 6 GiB":      {memoryCopy(copyflow.Network, model.To, 0), 6 << 30, "6 GiB"},
		"an offer of 1 PiB":      {memoryCopy(copyflow.Network, model.To, 0), 1 << 50, "1 PiB"},
		"an offer to a file":     {memoryCopy(copyflow.Copy, model.To, 0), 6 << 30, "6 GiB"},
		"a source of 256 MiB":    {memoryCopy(copyflow.Network, model.From, 256<<20), 0, "this server gives 128 MiB to one address"},
		"memory alone":           {memoryCopy(copyflow.Memory, model.From, 100<<20), 0, "this server gives one address only"},
		"a source of 6 GiB":      {memoryCopy(copyflow.Network, model.From, 6<<30), 0, "this agent allows"},
		"blocks for 16 streams":  {bulk(model.Both, 16, 64<<20), 0, "this agent allows"},
		"samples without bound":  {interval(bulk(model.To, 1, 1<<10), time.Minute, time.Millisecond), 0, "shorter than"},
		"a sweep of large sizes": {model.Flow{Engine: "pingpong", Direction: model.To, Params: traffic.Write(sizes.Params{Sizes: []units.Bytes{64 << 20}})}, 0, "this agent allows"},
	} {
		t.Run(name, func(t *testing.T) { g.refused(t, intrude(t, link)) })
	}
	got := peakMemory(t, server)
	must.True(t, got <= mostResident, "the server had %d MiB resident, more than %d", got, mostResident)
}

// TestGreedyFriend does the same with the secret: there is more, but it is bounded too.
func TestGreedyFriend(t *testing.T) {
	t.Parallel()
	server, link := publicServer(t, "--limit", "memory=1GiB,disk=1GiB,egress=1TiB/day")
	for name, g := range map[string]greed{
		"an offer of 6 GiB":  {memoryCopy(copyflow.Network, model.To, 0), 6 << 30, "this needs 6 GiB of memory, this server gives 512 MiB to a session"},
		"a file of 6 GiB":    {model.Flow{Engine: "filecopy", Direction: model.To, Params: traffic.Write(copyflow.Params{Mode: copyflow.Copy, Sink: "disk"})}, 6 << 30, "this needs 6 GiB of disk, this server gives 512 MiB to a session"},
		"a source of 6 GiB":  {memoryCopy(copyflow.Network, model.From, 6<<30), 0, "this server gives 512 MiB to a session"},
		"blocks":             {bulk(model.To, 1000, 64<<20), 0, "of memory, this server gives 512 MiB to a session"},
		"a million samples":  {interval(bulk(model.To, 1, 1<<10), 24*time.Hour, 10*time.Millisecond), 0, "intervals"},
		"readings of a day":  {interval(bulk(model.To, 900, 1<<10), 24*time.Hour, time.Second), 0, "of memory, this server gives 512 MiB to a session"},
		"a reply and blocks": {model.Flow{Engine: "reqresp", Direction: model.To, Streams: 512, Duration: time.Second, Block: 1, Params: traffic.Write(requests.Params{Reply: 64 << 20})}, 0, "of memory, this server gives 512 MiB to a session"},
	} {
		t.Run(name, func(t *testing.T) { g.refused(t, intrude(t, link)) })
	}
	got := peakMemory(t, server)
	must.True(t, got <= mostResident, "the server had %d MiB resident, more than %d", got, mostResident)
}

func interval(f model.Flow, d, i time.Duration) model.Flow {
	f.Duration, f.Interval = d, i
	return f
}

// TestOfferWithoutBytes offers as much as a session with a secret may send, but sends nothing:
// the server only touches memory for what arrives, and a little before.
func TestOfferWithoutBytes(t *testing.T) {
	server, link := publicServer(t, "--limit", "memory=4GiB")
	i := intrude(t, link)
	conns := must.Get(i.prepare(t, memoryCopy(copyflow.Network, model.To, 0), 1))(t)
	i.start(t)
	say(t, conns[0], "offer", 1<<30)
	got := hear(conns[0], 10*time.Second)
	must.Need(t, strings.Contains(got, `"ready"`), "1 GiB of 4 GiB: %s", got)
	peak := peakMemory(t, server)
	must.True(t, peak <= 150, "the server had %d MiB resident for nothing", peak)
}

// TestEgressIsSpent reads from a server until the egress of one address is spent, and asks again.
func TestEgressIsSpent(t *testing.T) {
	t.Parallel()
	_, link := publicServer(t, "--open", "--limit-source", "egress=300MiB/day")
	i := intrude(t, link)
	f := bulk(model.From, 1, 128<<10)
	f.Duration = 50 * time.Second
	conns := must.Get(i.prepare(t, f, 1))(t)
	i.start(t)
	// Read slowly enough that it takes some seconds, and count.
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, &slowly{Conn: conns[0], rate: 100 << 20})
		read <- n
	}()
	must.Say(t, i.end(t, patience), "this server sends 300 MiB for one address within 24 h, and has", "ended with")
	n := <-read
	must.True(t, n >= 250<<20 && n <= 600<<20, "the server sent %d MiB", n>>20)
	must.Say(t, must.Err(i.prepare(t, f, 1)), "300 MiB", "another run")
	must.Say(t, must.Err(tryIntrude(t, link)), "try again in", "another session")
}

// slowly reads at a limited rate, in bytes per second.
type slowly struct {
	net.Conn
	rate  int64
	begun time.Time
	total int64
}

func (s *slowly) Read(b []byte) (int, error) {
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	<-time.After(time.Duration(float64(s.total)/float64(s.rate)*1e9) - time.Since(s.begun))
	n, err := s.Conn.Read(b)
	s.total += int64(n)
	return n, err
}

// TestLifetime: the server ends an anonymous client's session, with a message before.
func TestLifetime(t *testing.T) {
	_, link := publicServer(t, "--open", "--limit-source", "lifetime=2s")
	i := intrude(t, link)
	f := bulk(model.To, 1, 1<<10)
	f.Duration = 50 * time.Second
	must.Get(i.prepare(t, f, 1))(t)
	i.start(t)
	must.Say(t, i.end(t, 10*time.Second), "open another one", "the run ended with")
	must.Within(t, 15*time.Second, "the session to end", func() bool { return must.Err(i.Facts(t.Context(), "")) != nil })
}

// TestMetrics reads a server's usage as a program does.
func TestMetrics(t *testing.T) {
	p, link := publicServer(t, "--metrics", "0")
	must.Get(intrude(t, link).prepare(t, bulk(model.To, 2, 1<<20), 2))(t)
	addr := decode[struct {
		Metrics string `json:"metrics"`
	}](t, p.said()).Metrics
	must.Need(t, strings.HasPrefix(addr, "127.0.0.1:"), "metrics are on %q", addr)
	get := func(method, path string) (int, string, string) {
		t.Helper()
		r := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil))(t)
		a := must.Get(http.DefaultClient.Do(r))(t)
		defer func() { _ = a.Body.Close() }()
		text := must.Get(io.ReadAll(a.Body))(t)
		return a.StatusCode, a.Header.Get("Content-Type"), string(text)
	}
	code, kind, text := get(http.MethodGet, "/metrics")
	must.True(t, code == 200 && strings.HasPrefix(kind, "text/plain; version=0.0.4"), "status %d, type %q\n%s", code, kind, text)
	for _, want := range []string{
		"linerate_serve_sessions{class=\"keyed\"} 1\n", "linerate_serve_descriptors{class=\"keyed\"} 21\n",
		"linerate_serve_sessions_limit{of=\"server\"} 64\n", "linerate_serve_refusals_total{kind=\"memory\"} 0\n",
	} {
		must.Contain(t, text, want)
	}
	code, _, _ = get(http.MethodPost, "/metrics")
	must.True(t, code == http.StatusMethodNotAllowed, "POST: status %d", code)
	code, _, _ = get(http.MethodGet, "/debug/pprof/")
	must.True(t, code == http.StatusNotFound, "another path: status %d", code)
}

// TestNobodyStops makes a server send for a second and never stops it: an anonymous client's run
// ends by itself.
func TestNobodyStops(t *testing.T) {
	t.Parallel()
	_, link := publicServer(t, "--open")
	i := intrude(t, link)
	conns := must.Get(i.prepare(t, bulk(model.From, 1, 128<<10), 1))(t)
	i.start(t)
	go func() { _, _ = io.Copy(io.Discard, &slowly{Conn: conns[0], rate: 10 << 20}) }()
	must.OK(t, i.end(t, 25*time.Second), "ended with")
}

// TestEgressOfFreshConnections: answers over connections that only the server's engine opens
// count as egress too.
func TestEgressOfFreshConnections(t *testing.T) {
	_, link := publicServer(t, "--open", "--limit-source", "egress=20MiB/day")
	ask := []string{"test", link, "--to", "--requests", "0", "--connect", "--reply", "64KiB", "-t", "20s", "--omit", "0s", "--idle", "0s", "-q"}
	if r := run(t, command(t, ask...)); r.code == 0 || !strings.Contains(r.err, "this server sends 20 MiB for one address within 24 h, and has") {
		t.Errorf("exit code %d\n%s", r.code, r.err)
	}
	r := run(t, command(t, "test", link, "-t", "1s", "-q"))
	must.True(t, r.code != 0 && strings.Contains(r.err, "20 MiB"), "another one: exit code %d\n%s", r.code, r.err)
}
