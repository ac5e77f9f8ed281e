package peer

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept/accepttest"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

// strict has limits short enough for tests, and long enough for a client of a busy machine.
var strict = ServerConfig{Idle: 5 * time.Second, Opening: 5 * time.Second, Block: 64 << 10}

func dialRaw(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", addr))(t)
	t.Cleanup(func() { c.Close() })
	must.Do(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c.(*net.TCPConn)
}

// words returns 32-bit words as bytes.
func words(list ...uint32) []byte {
	var b []byte
	for _, w := range list {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// gone waits until the server has closed c.
func gone(t testing.TB, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	must.True(t, err == nil || !strings.Contains(err.Error(), "timeout"), "the connection is still open: %v", err)
}

// alive checks that a client has its test. It ignores the warnings: on a busy machine the
// acknowledgement of the header may take more than a second.
func (s *ownServer) alive(t testing.TB) {
	t.Helper()
	_, _, err := Client{}.Run(t.Context(), s.addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, nil)
	must.OK(t, err, "the server serves no more")
}

func header(change func(h *iperf2.Header)) []byte {
	h := iperf2.NewHeader(iperf2.Forward, false)
	h.Amount = -6000 // a minute
	change(&h)
	return h.Append(nil, 0)
}

func TestHostileClients(t *testing.T) {
	set := func(m iperf2.Mode, change func(h *iperf2.Header)) []byte {
		h := iperf2.NewHeader(m, false)
		h.Amount = -6000 // a minute
		change(&h)
		return h.Append(nil, 0)
	}
	bounce := func(size uint32) []byte {
		b := make([]byte, 48)
		must.Do(t, (iperf2.Bounce{Size: size}).Put(b))
		return b
	}
	for name, c := range map[string]struct {
		send []byte
		want string // in the log, or in a warning
	}{
		"silence":              {nil, "read header"},
		"half a word":          {[]byte{0x40, 0x01}, "read header"},
		"cut header":           {words(0x40010078, 1, 5001), "read header of 60"},
		"header too short":     {words(0x40010002), "say 1 bytes"},
		"header too long":      {append(words(0x400101fe), make([]byte, 100)...), "read header of 255"},
		"all ones":             {slices.Repeat([]byte{0xff}, 300), "port -1"},
		"port 0":               {set(iperf2.Dual, func(h *iperf2.Header) { h.Port = 0 }), "port 0"},
		"port 70000":           {set(iperf2.TradeOff, func(h *iperf2.Header) { h.Port = 70000 }), "port 70000"},
		"nobody listens":       {set(iperf2.Dual, func(h *iperf2.Header) { h.Port = 1 }), "refused"},
		"vanished sender":      {header(func(*iperf2.Header) {}), "without a byte"},
		"vanished with data":   {append(header(func(*iperf2.Header) {}), make([]byte, 100_000)...), "no byte moved"},
		"slow reader":          {set(iperf2.Reverse, func(h *iperf2.Header) { h.Amount, h.Threads = -1<<31, 1<<31-1 }), "no byte moved"},
		"huge block":           {set(iperf2.Reverse, func(h *iperf2.Header) { h.BufferLen = 1<<31 - 1 }), "no byte moved"},
		"huge bounce":          {bounce(1<<32 - 1), "message of 4294967295 bytes"},
		"silent bounce":        {bounce(100), "read bounce-back message"},
		"full duplex vanished": {set(iperf2.FullDuplex, func(*iperf2.Header) {}), "no byte moved"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkHostileClient(t, c.send, c.want)
		})
	}
}

// checkHostileClient sends what a client should not, and expects want in the log or in a
// warning.
func checkHostileClient(t testing.TB, send []byte, want string) {
	s := startServer(t, strict)
	c := dialRaw(t, s.addr)
	must.Get(c.Write(send))(t)
	s.alive(t) // while it runs
	s.await(t, want, func(results []Result, log []string) bool {
		for _, r := range results {
			log = append(log, r.Report.Warnings...)
		}
		return slices.ContainsFunc(log, func(l string) bool { return strings.Contains(l, want) })
	})
	gone(t, c)
	s.alive(t)
}

func TestPortProbeIsNoFault(t *testing.T) {
	s := startServer(t, strict)
	must.Do(t, dialRaw(t, s.addr).CloseWrite())
	s.alive(t)
	_, log := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
	must.True(t, len(log) == 0, "log %q", log)
}

func TestSessionsAreBounded(t *testing.T) {
	s := startServer(t, ServerConfig{Sessions: 3, PerClient: 2, Opening: time.Minute})
	begin := func() *net.TCPConn {
		c := dialRaw(t, s.addr)
		must.Get(c.Write(header(func(*iperf2.Header) {})))(t)
		return c
	}
	conns := []*net.TCPConn{begin(), begin(), begin()}
	_, log := s.await(t, "refusal", func(_ []Result, log []string) bool {
		return slices.ContainsFunc(log, func(l string) bool { return strings.Contains(l, "the client has 2 sessions already") })
	})
	for _, c := range conns { // whichever was accepted last
		if strings.Contains(log[0], c.LocalAddr().String()) {
			gone(t, c)
		}
		c.Close()
	}
	must.Until(t, "the places to be released", func() bool {
		near, _, err := Client{}.Run(t.Context(), s.addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, nil)
		return err == nil && len(near.Flows) == 1 && near.Flows[0].Bytes == 1<<20
	})
}

func TestPlaces(t *testing.T) {
	p := newPlaces(ServerConfig{Sessions: 3, PerClient: 2})
	a, b := mustAddr(t, "10.0.0.1"), mustAddr(t, "10.0.0.2")
	for _, one := range []netip.Addr{a, a, b} {
		must.Do(t, p.admit(one))
	}
	must.Say(t, p.admit(b), "all 3", "fourth")
	p.release(b)
	must.Say(t, p.admit(a), "2 sessions already", "third of one")
	must.True(t, p.admit(b) == nil && len(p.clients) == 2, "a place did not come back")
}

func TestTimeIsBounded(t *testing.T) {
	cfg := strict
	cfg.Time = 2 * time.Second
	s := startServer(t, cfg)
	near, _, err := Client{}.Run(t.Context(), s.addr, model.Flow{Direction: model.To, Duration: 20 * time.Minute}, nil)
	must.True(t, err == nil, "%v %+v", err, near)
	results, _ := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
	w := results[0].Report.Warnings
	must.True(t, slices.ContainsFunc(w, func(l string) bool { return strings.Contains(l, errOverrun.Error()) }), "warnings %q", w)
}

// hostileServer calls do with each connection.
func hostileServer(t testing.TB, do func(c net.Conn)) string {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go do(c)
		}
	}()
	return l.Addr().String()
}

func TestHostileServers(t *testing.T) {
	endless := func(c net.Conn) {
		defer c.Close()
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	silent := func(c net.Conn) {
		defer c.Close()
		<-t.Context().Done()
	}
	closed := func(c net.Conn) { c.Close() }
	for name, c := range map[string]struct {
		do     func(c net.Conn)
		client Client
		d      model.Direction
	}{
		"silent to":         {silent, Client{}, model.To},
		"silent from":       {silent, Client{}, model.From},
		"silent both":       {silent, Client{}, model.Both},
		"silent dual":       {silent, Client{ConnectBack: true}, model.Both},
		"silent trade-off":  {silent, Client{ConnectBack: true}, model.From},
		"endless to":        {endless, Client{}, model.To},
		"endless legacy to": {endless, Client{Legacy: true}, model.To},
		"endless from":      {endless, Client{}, model.From},
		"endless both":      {endless, Client{}, model.Both},
		"closed to":         {closed, Client{}, model.To},
		"closed from":       {closed, Client{}, model.From},
		"closed both":       {closed, Client{}, model.Both},
		"closed trade-off":  {closed, Client{ConnectBack: true}, model.From},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			c.client.settling = 500 * time.Millisecond
			near, _, err := c.client.Run(ctx, hostileServer(t, c.do), model.Flow{Direction: c.d, Duration: short}, nil)
			must.True(t, err != nil || len(near.Warnings) != 0 || strings.HasPrefix(name, "endless legacy"), "neither error nor warning: %+v", near)
		})
	}
}

// TestSilentConnectionsKeepNobodyOut: while 256 clients send nothing, or a byte now and then,
// and reconnect, a real client has its test. TestServedAtOnce checks how soon.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	for name, say := range map[string][]byte{"silent": nil, "half a header": {0x40, 0x01}} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, ServerConfig{Sessions: 128, PerClient: 16})
			defer accepttest.Besiege(t.Context(), s.addr, 300, say)()
			s.alive(t)
		})
	}
}

// TestConnectionsOfATestAreOneSession: the program's -P 8 is served if a source may have one
// session.
func TestConnectionsOfATestAreOneSession(t *testing.T) {
	b := budget.New(budget.Config{Anonymous: budget.Part{Source: budget.Limits{Sessions: 1}}})
	s := startServer(t, ServerConfig{Budget: b})
	near, _, err := Client{}.Run(t.Context(), s.addr, model.Flow{Direction: model.To, Duration: short, Streams: 8}, nil)
	must.True(t, err == nil && len(unhurried(near.Warnings)) == 0, "%v, %q", err, near.Warnings)
	_, log := s.await(t, "results", func(r []Result, _ []string) bool { return len(r) == 8 })
	must.True(t, len(unhurried(log)) == 0, "log %q", log)
}

// TestConnectionsStayWithinTheBudget: a connection ends at the limit of bytes sent, and gives
// back what it held.
func TestConnectionsStayWithinTheBudget(t *testing.T) {
	b := budget.New(budget.Config{Anonymous: budget.Part{Source: budget.Limits{Egress: 1 << 20}}})
	s := startServer(t, ServerConfig{Budget: b, Rate: 40e6})
	f := model.Flow{Direction: model.From, Duration: 20 * time.Minute}
	_, _, _ = Client{}.Run(t.Context(), s.addr, f, nil) // whatever the result
	results, _ := s.await(t, "result", func(r []Result, _ []string) bool { return len(r) == 1 })
	must.Contain(t, strings.Join(results[0].Report.Warnings, "; "), "1 MiB", "warnings")
	must.Get(dialRaw(t, s.addr).Write(header(func(*iperf2.Header) {})))(t)
	s.logged(t, "try again in")
	for _, k := range b.Usage().Kinds {
		must.True(t, k.Kind >= budget.Egress || k.Used() == 0, "%d of %v did not come back", k.Used(), k.Kind)
	}
}
