package peer

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

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
	if _, _, err := c.Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20, Streams: 8}, func([]model.Sample) {}); err == nil {
		t.Error("8 streams of a login that may have 3")
	}
}
