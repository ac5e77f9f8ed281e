package peer

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

const udpLimit units.BitRate = 5e6

// TestServerUDPLimit holds that UDP above the limit is refused in words that the
// real client shows, and what is below is served. TestUDPRate holds how fast.
func TestServerUDPLimit(t *testing.T) {
	t.Parallel()
	type limited struct {
		args  string
		fault string // what the client says; "" is none
	}
	const above = "total required bandwidth is larger than server limit"
	cases := map[string]limited{}
	for args, fault := range map[string]string{
		"-u -t 1 -b 4M -l 1000":              "",
		"-u -t 1 -b 4M -l 1000 -R":           "",
		"-u -t 1 -b 2M -l 1000 -P 2 -R":      "",
		"-u -t 1 -b 4M -l 1000 --bidir":      "", // each direction has the limit for itself
		"-n 10M":                             "", // TCP has none
		"-u -n 100K -b 4M -l 1000":           "",
		"-u -n 100K -b 4M -l 1000 -R":        "",
		"-u -t 1 -b 6M -l 1000":              above,
		"-u -t 1 -b 6M -l 1000 -R":           above,
		"-u -t 1 -b 3M -l 1000 -P 2":         above,
		"-u -t 1 -b 0 -l 1000":               above,
		"-u -t 1 -b 0 -l 1000 -R":            above,
		"-u -t 1 -b 3M -l 1000 -P 2 --bidir": above,
	} {
		cases[args] = limited{args, fault}
	}
	together(t, 4, cases, func(t testing.TB, c limited) {
		if c.fault == "" {
			skipTimed(t, c.args)
		}
		e := newEvents()
		s := foreignClient(t, serveHere(t, ServerConfig{Event: e.add, UDPRate: udpLimit}), c.args)
		must.True(t, (s.Error == "") == (c.fault == "") && strings.Contains(s.Error, c.fault), "the client says %q, want %q", s.Error, c.fault)
		end := e.ended(t)
		if c.fault != "" {
			if end.Err == nil || !strings.Contains(end.Err.Error(), "over UDP, at most 5 Mbit/s") && !strings.Contains(end.Err.Error(), "as fast as it goes, at most 5 Mbit/s") {
				t.Errorf("the server says %v", end.Err)
			}
			return
		}
	})
}

// TestServerEndsUDP holds that a client that sends more than it said is ended,
// with a word on why, and that the next one is served.
func TestServerEndsUDP(t *testing.T) {
	t.Parallel()
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add, UDPRate: udpLimit})
	r := newRaw(t, addr)
	r.send(r.ctl, r.cookie...)
	r.expect(iperf3.ParamExchange)
	r.json(`{"udp":true,"time":30,"parallel":1,"len":1000,"bandwidth":1000000}`)
	r.expect(iperf3.CreateStreams)
	u := r.greet("9876")
	r.expect(iperf3.TestStart, iperf3.TestRunning)
	must.Do(t, r.ctl.SetDeadline(time.Now().Add(3*rawPatience)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if s, err := iperf3.ReadState(r.ctl); err != nil || s != iperf3.ServerFailed {
			t.Errorf("got %v, %v", s, err)
			return
		}
		said := must.Get(iperf3.ReadServerError(r.ctl))(t)
		must.True(t, said.Code == iperf3.CodeTotalRate, "got %v", said)
	}()
	b := make([]byte, 1000)
	for n := uint64(1); !closed(ended); n++ {
		iperf3.DatagramHeader{Sequence: n}.Put(b, false)
		_, _ = u.Write(b) // it is refused once the test has ended
	}
	must.Say(t, e.ended(t).Err, "more than 5 Mbit/s came over UDP", "the server says")
}

// TestServerTimeIsBounded holds that a client that does not end its test is ended
// soon after the longest one, though it asked for as long.
func TestServerTimeIsBounded(t *testing.T) {
	s := &session{server: &server{ServerConfig: ServerConfig{Duration: time.Minute}}}
	for seconds, want := range map[int64]time.Duration{0: time.Minute, 5: 5*time.Second + grace, 60: time.Minute + overrun} {
		s.params.Seconds = seconds
		must.Equal(t, s.guard(), want, "%d s asked", seconds)
	}
}

// TestTestsStayWithinTheBudget: what passes a limit is refused in iperf3's words,
// or ended, with the number in the log, and what was held comes back.
func TestTestsStayWithinTheBudget(t *testing.T) {
	for name, c := range map[string]struct {
		args   string
		limits budget.Limits
		client string // what the real program says; "" is anything
		log    string
	}{
		"descriptors": {"-n 1M -P 4", budget.Limits{Descriptors: 4}, "number of parallel streams", "8 descriptors"},
		"memory":      {"-n 1M -l 128K -P 2", budget.Limits{Memory: 128 << 10}, "block size", "128 KiB"},
		"UDP":         {"-u -b 2M -P 2 -R -t 1", budget.Limits{UDP: 3e6}, "total required bandwidth", "3 Mbit/s"},
		"UDP at all":  {"-u -b 0 -R -t 1", budget.Limits{UDP: 3e6}, "total required bandwidth", "3 Mbit/s"},
		"egress":      {"-R -t 10 -b 40M", budget.Limits{Egress: 2 << 20}, "", "2 MiB"},
		"time":        {"-t 10 -b 1M", budget.Limits{Time: time.Second}, "", "1 s"},
		"sessions":    {"-n 1M", budget.Limits{Sessions: -1}, "server is busy", "no sessions for anonymous clients"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part := budget.Part{Session: c.limits}
			if c.limits.Sessions != 0 {
				part = budget.Part{Source: c.limits}
			}
			b := budget.New(budget.Config{Anonymous: part})
			e := newEvents()
			s := foreignClient(t, serveHere(t, ServerConfig{Event: e.add, Budget: b}), c.args)
			must.True(t, s.Error != "" && strings.Contains(s.Error, c.client), "the client says %q, want %q", s.Error, c.client)
			must.Say(t, e.ended(t).Err, c.log, "the server says")
			for _, k := range b.Usage().Kinds {
				must.True(t, k.Kind >= budget.Egress || k.Used() == 0, "%d of %v did not come back", k.Used(), k.Kind)
			}
		})
	}
}

// TestLoginsHaveABudgetOfTheirOwn: who has a login finds room where anonymous clients have
// none, and has limits too.
func TestLoginsHaveABudgetOfTheirOwn(t *testing.T) {
	key := testKey(t)
	e := newEvents()
	addr := serveHere(t, ServerConfig{
		Event:  e.add,
		Access: &Access{Key: key, Users: map[string]string{"mario": iperf3.PasswordHash("mario", "rossi")}},
		Budget: budget.New(budget.Config{
			Anonymous: budget.Part{Source: budget.Limits{Sessions: -1}}, Keyed: budget.Part{Session: budget.Limits{Descriptors: 4}},
		}),
	})
	c := Client{Login: &Login{"mario", "rossi", &key.PublicKey, iperf3.OAEP}}
	_, _, err := c.Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, func([]model.Sample) {})
	must.True(t, err == nil, "%v", err)
	end := e.ended(t)
	must.True(t, end.User == "mario" && end.Took > 0 && end.Ran, "event %+v", end)
	_, _, err = c.Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20, Streams: 8}, func([]model.Sample) {})
	must.True(t, err != nil, "8 streams of a login that may have 3")
}
