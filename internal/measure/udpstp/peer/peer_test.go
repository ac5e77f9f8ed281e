package peer

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/program"
	"linerate/internal/measure/udpstp"
	"linerate/internal/must"
)

// patient is the timeout of tests on a busy machine.
const patient = time.Minute

// serving is a server that runs until the test ends.
type serving struct {
	addr string
	over chan struct{} // gets a value at the end of each test
	mu   sync.Mutex
	kept []program.Test
	said []program.Event
}

// serve starts a server on a free port of host.
func serve(t testing.TB, host string, patience time.Duration, limits budget.Config, given program.Values) *serving {
	t.Helper()
	at, err := Program().Listen(t.Context(), net.JoinHostPort(host, "0"))
	must.SkipIf(t, err != nil, "no loopback at %s: %v", host, err)
	s := &serving{addr: at.Addr().String(), over: make(chan struct{}, 100)}
	h := program.Host{
		Budget: budget.New(limits), Unknown: 8, Given: given, Note: func(line string) { t.Log(line) },
		Keep: func(test program.Test) { s.mu.Lock(); defer s.mu.Unlock(); s.kept = append(s.kept, test) },
		Tell: func(e program.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.said = append(s.said, e); e.Over {
				s.over <- struct{}{}
			}
		},
	}
	one := newServer(at.UDP.(*net.UDPConn), h, must.Get(readKeys(given[keysFlag]))(t))
	one.patience = patience
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- one.serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.OK(t, <-done)
	})
	return s
}

func keyFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	must.Do(t, os.WriteFile(file, []byte("# keys\n0,legacykey # old\n7, second key\n"), 0o600))
	return file
}

func near() program.Near { return program.Near{Met: func() {}, Said: func(string) {}} }

// TestBothRoles measures with linerate's own server, and compares both reports.
func TestBothRoles(t *testing.T) {
	keys := program.Values{keysFlag: keyFile(t)}
	fixed := traffic.Write(udp.Params{Rate: 4e6})
	for name, c := range map[string]struct {
		host  string
		given program.Values
		of    client
		flow  model.Flow
		most  float64 // Mbit/s
		warns []string
	}{
		"to":          {"127.0.0.1", nil, client{}, model.Flow{Direction: model.To}, 101, nil},
		"from, IPv6":  {"::1", nil, client{algorithm: udpstp.AlgorithmC}, model.Flow{Direction: model.From, Streams: 3, Interval: 500 * time.Millisecond}, 101, nil},
		"signed":      {"127.0.0.1", keys, client{secret: "secondkey", key: 7}, model.Flow{Direction: model.From, Engine: udp.Name, Params: fixed}, 4.2, nil},
		"version 11":  {"127.0.0.1", keys, client{secret: "legacykey", version: udpstp.Oldest}, model.Flow{Direction: model.To, Engine: udp.Name, Params: fixed}, 4.2, nil},
		"old, no key": {"127.0.0.1", nil, client{version: 15}, model.Flow{Direction: model.From}, 101, nil},
		"above the limit": {"127.0.0.1", nil, client{}, model.Flow{Direction: model.To, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: 500e6})}, 101,
			[]string{"the server limits a test to 100 Mbit/s", "at least 5 s, longer than the 3 s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.host, patient, budget.Config{}, c.given)
			c.of.addr, c.of.patience, c.flow.Duration = s.addr, patient, 5*time.Second
			r := remote{program: Program(), client: c.of}
			if c.warns != nil {
				r.length = 3 * time.Second
			}
			samples := 0
			own, far, err := r.Run(t.Context(), c.flow, near(), func(list []model.Sample) { samples += len(list) })
			must.Do(t, err)
			for _, want := range c.warns {
				must.Contain(t, strings.Join(far.Warnings, "\n"), want)
			}
			receiver := own
			if c.flow.Direction == model.To {
				receiver = far
			}
			must.Need(t, len(receiver.Flows) == 1 && len(receiver.Values) > 0 && samples > 0, "%+v, %d samples", receiver, samples)
			got, capacity := receiver.Flows[0], receiver.Values[0]
			must.True(t, got.Bytes > 0 && got.Window > 0 && got.Role == model.Receiver && len(got.Streams) == max(1, c.flow.Streams), "%+v", got)
			must.True(t, capacity.Metric == model.IPCapacity && capacity.Value > 0 && capacity.Value < c.most*1.5e6, "capacity %+v", capacity)
			<-s.over
			s.mu.Lock()
			defer s.mu.Unlock()
			must.Need(t, len(s.kept) == 1 && len(s.said) == 2 && s.said[0].Began && !s.said[0].Over && s.said[1].Over, "%d kept, %d events", len(s.kept), len(s.said))
			kept := s.kept[0]
			must.True(t, kept.Err == nil && kept.Flow.Direction == c.flow.Direction && (kept.Key != "") == (c.given != nil), "%+v", kept)
			theirs := kept.Ends[len(kept.Ends)-1]
			must.True(t, theirs.Values[0].Value >= capacity.Value*0.999, "the server kept %v, the client %v", theirs.Values[0].Value, capacity.Value)
		})
	}
}

// talk is a client that the test controls.
type talk struct {
	*net.UDPConn
	server    netip.AddrPort
	out, back int // bytes
}

func dial(t testing.TB, addr string) *talk {
	t.Helper()
	c := must.Get(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return &talk{UDPConn: c, server: netip.MustParseAddrPort(addr)}
}

func (c *talk) say(t testing.TB, b []byte, to netip.AddrPort) {
	t.Helper()
	must.Get(c.WriteToUDPAddrPort(b, to))(t)
	c.out += len(b)
}

// hear returns what arrives within a time; nil if nothing.
func (c *talk) hear(t testing.TB, within time.Duration) []byte {
	t.Helper()
	must.Do(t, c.SetReadDeadline(time.Now().Add(within)))
	b := make([]byte, 2000)
	n, _, err := c.ReadFromUDPAddrPort(b)
	if err != nil {
		return nil
	}
	c.back += n
	return b[:n]
}

func signed(s udpstp.Setup, key string, at time.Time) []byte {
	unix := uint32(at.Unix())
	b := s.Append(nil)
	udpstp.Sign(b, udpstp.Derive(key, s.Version, unix).Client, s.Key, unix)
	return b
}

// TestRefusals: each mistake in a Setup request gets its code, and anything else no answer.
func TestRefusals(t *testing.T) {
	open, locked := serve(t, "127.0.0.1", patient, budget.Config{}, nil), serve(t, "127.0.0.1", patient, budget.Config{}, program.Values{keysFlag: keyFile(t)})
	full := serve(t, "127.0.0.1", patient, budget.Config{AllAnonymous: budget.Limits{Sessions: -1}}, nil)
	good := udpstp.Setup{Version: udpstp.Version, Count: 1, Ident: 9, Jumbo: true}
	with := func(change func(*udpstp.Setup)) udpstp.Setup { s := good; change(&s); return s }
	now := time.Now()
	for name, c := range map[string]struct {
		to   *serving
		pdu  []byte
		want udpstp.Response // 0 is no answer
	}{
		"good":        {open, good.Append(nil), udpstp.Accepted},
		"version":     {open, with(func(s *udpstp.Setup) { s.Version = 21 }).Append(nil), udpstp.OtherVersion},
		"flows":       {open, with(func(s *udpstp.Setup) { s.Count = 25 }).Append(nil), udpstp.BadFlows},
		"index":       {open, with(func(s *udpstp.Setup) { s.Index = 1 }).Append(nil), udpstp.BadFlows},
		"17th":        {open, with(func(s *udpstp.Setup) { s.Count, s.Index = 17, 16 }).Append(nil), udpstp.NoFlowLeft},
		"no keys":     {open, signed(good, "x", now), udpstp.AuthNotConfigured},
		"unsigned":    {locked, good.Append(nil), udpstp.AuthRequired},
		"wrong key":   {locked, signed(with(func(s *udpstp.Setup) { s.Key = 7 }), "x", now), udpstp.AuthFailed},
		"unknown key": {locked, signed(with(func(s *udpstp.Setup) { s.Key = 8 }), "", now), udpstp.AuthFailed},
		"replayed":    {locked, signed(with(func(s *udpstp.Setup) { s.Key = 7 }), "secondkey", now.Add(-time.Minute)), udpstp.AuthTime},
		"mode 2":      {locked, with(func(s *udpstp.Setup) { s.Authenticated = 2 }).Append(nil), udpstp.AuthMode},
		"full":        {full, good.Append(nil), udpstp.CapacityExceeded},
		"an answer":   {open, with(func(s *udpstp.Setup) { s.Answer = true }).Append(nil), 0},
		"longer":      {open, append(good.Append(nil), 0), 0},
		"activation":  {open, udpstp.Defaults().Append(nil), 0},
	} {
		conn := dial(t, c.to.addr)
		conn.say(t, c.pdu, conn.server)
		within := patient
		if c.want == 0 {
			within = 100 * time.Millisecond
		}
		b := conn.hear(t, within)
		for len(b) > 0 && udpstp.IsNull(b) {
			b = conn.hear(t, within)
		}
		if c.want == 0 {
			must.True(t, b == nil, "%s: %x", name, b)
			continue
		}
		s := must.Get(udpstp.ParseSetup(b))(t)
		must.True(t, s.Response == c.want && s.Answer && s.Ident == good.Ident && (s.Port > 0) == (c.want == udpstp.Accepted), "%s: %+v", name, s)
		must.True(t, c.want == udpstp.Accepted || conn.back <= conn.out, "%s: %d bytes for %d", name, conn.back, conn.out)
	}
}

// TestRuleOfThree: an address that returns an activation and then sends nothing more gets at
// most three times what it sent, whatever it requests.
func TestRuleOfThree(t *testing.T) {
	s := serve(t, "127.0.0.1", time.Second, budget.Config{}, nil)
	for _, version := range []uint16{udpstp.Version, udpstp.Oldest} {
		c := dial(t, s.addr)
		for range 3 { // as if responses were lost
			c.say(t, udpstp.Setup{Version: version, Count: 1, Ident: 1, Jumbo: true}.Append(nil), c.server)
		}
		ports := map[uint16]bool{}
		for len(ports) == 0 || c.back < 3*udpstp.SetupLength {
			if answer, err := udpstp.ParseSetup(c.hear(t, patient)); err == nil {
				ports[answer.Port] = true
			}
		}
		must.Equal(t, len(ports), 1, "ports for one flow")
		a := udpstp.Defaults()
		a.Version, a.Index, a.Length = version, 1152, time.Minute
		for port := range ports {
			c.say(t, a.Append(nil), netip.AddrPortFrom(c.server.Addr(), port))
		}
		loads := 0
		for b := c.hear(t, patient); b != nil; b = c.hear(t, 2*time.Second) {
			if _, err := udpstp.ParseLoad(b); err == nil {
				loads++
			}
		}
		must.True(t, loads > 0 && c.back <= mostAnswer*c.out, "version %d: %d bytes came for %d, %d of them load PDUs", version, c.back, c.out, loads)
	}
}

// TestBudget: a flow beyond the budget is refused at its activation, and logged.
func TestBudget(t *testing.T) {
	s := serve(t, "127.0.0.1", patient, budget.Config{Anonymous: budget.Part{Source: budget.Limits{UDP: 1e3}}}, nil)
	_, _, err := remote{program: Program(), client: client{addr: s.addr, patience: patient}}.Run(t.Context(), model.Flow{Direction: model.To, Duration: 5 * time.Second}, near(), nil)
	must.Say(t, err, "does not accept the test")
	<-s.over
	s.mu.Lock()
	defer s.mu.Unlock()
	must.True(t, len(s.kept) == 0 && len(s.said) == 1 && s.said[0].Err != nil && !s.said[0].Began, "%+v", s.said)
}

// TestSilentServer: without an answer the error says what to start.
func TestSilentServer(t *testing.T) {
	c := must.Get(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer c.Close()
	_, _, err := remote{program: Program(), client: client{addr: c.LocalAddr().String(), patience: time.Millisecond}}.Run(t.Context(), model.Flow{Direction: model.To}, near(), nil)
	must.Is(t, err, ErrSilent)
}

// TestFit: the error names what UDPSTP does not have.
func TestFit(t *testing.T) {
	base := model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 1500 * time.Millisecond, Omit: 200 * time.Millisecond}
	f := must.Get(fit(base, nil))(t)
	must.True(t, f.Engine == Name && f.Omit+f.Duration == 5*time.Second, "%+v", f)
	for text, change := range map[string]func(*model.Flow){
		"one direction": func(f *model.Flow) { f.Direction = model.Both }, "--parallel": func(f *model.Flow) { f.Streams = 25 },
		"--mss": func(f *model.Flow) { f.MSS = 500 }, "--bytes": func(f *model.Flow) { f.Bytes = 5 }, "--time": func(f *model.Flow) { f.Duration = 2 * time.Hour },
		"without a rate": func(f *model.Flow) { f.Engine = udp.Name }, "requests": func(f *model.Flow) { f.Engine = "reqresp" },
	} {
		f := base
		change(&f)
		must.Say(t, must.Err(fit(f, nil)), text)
	}
	must.Say(t, must.Err(fit(base, program.Values{"bitrate": "5M"})), "searched for")
	for want, given := range map[string]program.Values{"neither B nor C": {algorithmFlag: "D"}, "0 to 255": {keyFlag: "300"}, "no key": {keyFlag: "1"}} {
		must.Say(t, must.Err(Program().New("h:1", given, func(string) string { return "" })), want)
	}
	must.Say(t, must.Err(Program().New("h:1", nil, func(string) string { return strings.Repeat("k", 65) })), "at most 64")
}

func TestReadKeys(t *testing.T) {
	keys := must.Get(readKeys(keyFile(t)))(t)
	must.True(t, len(keys) == 2 && keys[0] == "legacykey" && keys[7] == "secondkey", "%v", keys)
	for _, text := range []string{"", "256,x", "1", "1,", "1,a\n1,b", "1," + strings.Repeat("k", 65)} {
		file := filepath.Join(t.TempDir(), "keys")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		must.Say(t, must.Err(readKeys(file)), keysFlag, text)
	}
}

// TestLoader sends a second of each row: over IPv4 and IPv6 it has the row's rate.
func TestLoader(t *testing.T) {
	for _, row := range []int{1, 7, 10, 137, 1000, 1001, 1152} {
		for _, shrink := range []uint32{0, 20} {
			bytes := 0
			l := &loader{shrink: shrink, proved: true, write: func(b []byte) error { bytes += len(b) + 28 + int(shrink); return nil }}
			now := time.Unix(100, 0)
			l.rate, l.heard = udpstp.Row(row, true, false), now
			one, two, b := now, now, make([]byte, 1<<14)
			for end := now.Add(time.Second); now.Before(end); now = now.Add(100 * time.Microsecond) {
				s := l.plan(now)
				for _, part := range []struct {
					next                         *time.Time
					interval, burst, size, addon uint32
				}{{&one, s.rate.Interval1, s.rate.Burst1, s.rate.Payload1, 0}, {&two, s.rate.Interval2, s.rate.Burst2, s.rate.Payload2, s.rate.Addon2}} {
					for range due(part.next, part.interval, now) {
						for range part.burst {
							l.one(b[:l.sized(part.size, -1)], &s)
						}
						if part.addon > 0 {
							l.one(b[:l.sized(part.addon, -1)], &s)
						}
					}
				}
			}
			want := float64(l.rate.IPRate())
			must.True(t, math.Abs(float64(bytes)*8/want-1) < 0.002, "row %d, shrink %d: %v bit/s", row, shrink, float64(bytes)*8)
		}
	}
	l := &loader{heard: time.Unix(100, 0), rate: udpstp.Row(500, true, false), proved: true}
	must.Equal(t, l.plan(time.Unix(101, 0)).rate, udpstp.Row(0, true, false), "after a second of silence")
	next := time.Unix(100, 0)
	must.Equal(t, due(&next, 100, time.Unix(105, 0)), 100, "5 s late")
	must.True(t, next.After(time.Unix(105, 0)), "next %v", next)
}

// FuzzFlow: whatever a peer sends, a flow of either role neither panics nor sends what no table
// has.
func FuzzFlow(f *testing.F) {
	load := make([]byte, udpstp.MinLoad)
	udpstp.Load{Sequence: 1}.Put(load)
	for _, b := range [][]byte{load, udpstp.Status{Sequence: 1, Rate: udpstp.Row(5, true, false)}.Append(nil, udpstp.Version), udpstp.Status{}.Append(nil, udpstp.Oldest), {0xBE, 0xEF}} {
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for i := range 8 {
			a := udpstp.Defaults()
			a.Upstream = i&1 != 0
			one := &flow{of: a, version: udpstp.Version, ended: func(udpstp.SubInterval, amount) {}, rttMin: udpstp.None, in: udpstp.NewReceiver(a, time.Unix(0, 0))}
			if i&2 != 0 {
				one.search = udpstp.NewSearch(a, 100)
			}
			if i&4 != 0 {
				one.version = udpstp.Oldest
			}
			one.over = make(chan struct{})
			for n, b := range [][]byte{first, second, first} {
				one.take(b, time.Unix(int64(n), 0))
			}
			rate := one.load.plan(time.Unix(3, 0)).rate
			must.True(t, rate.Validate() == nil && (one.search == nil || rate.IPRate() <= 101e6), "%+v", rate)
		}
	})
}

// TestSentBySubInterval: what a flow sent counts in the sub-interval that the status ends,
// without what it sent before the first status and after the last one.
func TestSentBySubInterval(t *testing.T) {
	var got []amount
	f := &flow{of: udpstp.Activation{Upstream: true}, rttMin: udpstp.None, ended: func(_ udpstp.SubInterval, a amount) { got = append(got, a) }}
	for i, ended := range []uint32{0, 0, 1, 1, 2, 2} {
		f.load.sent.Add(10)
		f.load.bytes.Add(1000)
		f.status(udpstp.Status{Sequence: uint32(i + 1), SubIntervals: ended}, time.Unix(int64(i), 0))
	}
	must.Same(t, got, []amount{{datagrams: 20, bytes: 2000}, {datagrams: 20, bytes: 2000}})
}

// TestTally joins flows by the number of their sub-intervals.
func TestTally(t *testing.T) {
	var emitted []model.Sample
	y := newTally(model.To, false, time.Second, 2, func(s []model.Sample) { emitted = append(emitted, s...) })
	sub := func(bytes uint64, seconds, elapsed uint32) udpstp.SubInterval {
		return udpstp.SubInterval{Datagrams: 10, Bytes: bytes, Micros: seconds * 1e6, Elapsed: elapsed * 1e3, Delays: udpstp.Delays{Max: 7, Sum: 30, Count: 10}}
	}
	for i := range uint32(3) {
		y.add(0, sub(1000*uint64(i+1), 1, i+1), amount{datagrams: 10, bytes: 1000 * int64(i+1), refused: 1})
		y.add(1, sub(2000, 1, i+1), amount{datagrams: 11, bytes: 2100})
	}
	out := y.sent()
	must.True(t, out.Bytes == 9200 && out.Window == 2*time.Second && out.UDP.Sent == 42 && out.UDP.Refused == 2 && out.Streams[0] == 5000 && out.Streams[1] == 4200, "without the warm-up: %+v", out)
	got, values := y.received(12)
	want := fmt.Sprint([]model.Value{
		{Direction: model.To, Metric: model.IPCapacity, Value: 8 * (5000 + 20*28)}, {Direction: model.To, Metric: model.IPRate, Value: 8 * (4500 + 20*28)},
		{Direction: model.To, Metric: model.DelayVariation, Value: 0.003}, {Direction: model.To, Metric: model.DelayVariationMax, Value: 0.007},
		{Direction: model.To, Metric: model.RTTMin, Value: 0.012},
	})
	must.Equal(t, fmt.Sprint(values), want)
	must.True(t, got.Bytes == 9000 && got.Window == 2*time.Second && got.UDP.Received == 40 && got.Streams[0] == 5000 && got.Streams[1] == 4000, "%+v", got)
	_, held := y.held(30 * time.Millisecond)
	must.True(t, !held, "a rate that rises is held")
	for i := range uint32(3) {
		y.add(0, sub(3000, 1, i+4), amount{})
		y.add(1, sub(2000, 1, i+4), amount{})
	}
	at, held := y.held(30 * time.Millisecond)
	must.True(t, held && at == 8*(5000+20*28), "held at %v, %t", at, held)
	_, held = y.held(7 * time.Millisecond)
	must.True(t, !held, "a rate that a queue holds")
	must.True(t, len(emitted) == 18 && emitted[0].Omitted && !emitted[3].Omitted && emitted[3].Value == 8*4000, "%+v", emitted)
}
