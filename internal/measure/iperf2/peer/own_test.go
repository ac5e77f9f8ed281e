package peer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

// TestMain lets more tests run at once than there are processors: most of them
// wait for limits to pass.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

// TestOwnEnds runs the client against the server in every mode and form.
func TestOwnEnds(t *testing.T) {
	for _, m := range clientModes {
		for _, f := range []model.Flow{
			{Duration: short, Interval: short / 3, Streams: 2},
			{Bytes: 3_000_000, Streams: 1},
			{Duration: short, Streams: 2, Block: 600, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})},
			{Bytes: 60_000, Streams: 1, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})},
		} {
			if f.Engine == udp.Name && f.Bytes > 0 && m.d == model.From && !thorough {
				continue
			}
			f.Direction = m.d
			if m.client.mode(f) == iperf2.TradeOff && !m.client.Legacy {
				f.Streams = 1
			}
			t.Run(fmt.Sprintf("%s/udp %t, %d streams, %d bytes", m.name, f.Engine == udp.Name, f.Streams, f.Bytes), func(t *testing.T) {
				if f.Engine == udp.Name {
					t.Parallel() // the others take all the processors
				}
				checkOwnEnds(t, m.client, f)
			})
		}
	}
}

// unhurried leaves out what an end warns of where other work kept the other one from
// sending for the whole time. TestRate holds that nothing else does.
func unhurried(warnings []string) []string {
	return slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return strings.Contains(w, "the peer sent for") })
}

func checkOwnEnds(t testing.TB, c Client, f model.Flow) {
	s := startServer(t, ServerConfig{})
	near, far, err := c.Run(t.Context(), s.addr, f, nil)
	w := unhurried(near.Warnings)
	must.Need(t, err == nil && len(w) == 0, "%v, warnings %q", err, w)
	results, log := s.await(t, "results", func(r []Result, _ []string) bool { return len(r) == f.Streams })
	must.Len(t, log, 0, "log")
	for _, r := range results {
		must.True(t, len(unhurried(r.Report.Warnings)) == 0 && r.Mode == c.mode(f), "result %+v", r)
	}
	for _, d := range f.Direction.Parts() {
		role := model.Sender
		if d == model.From {
			role = model.Receiver
		}
		ours := find(t, near, d, role)
		theirs := sum(results, d)
		must.True(t, agree(ours.Bytes, theirs), "%s: client has %d bytes, server %d", d, ours.Bytes, theirs)
		must.True(t, f.Engine != udp.Name || d != model.From || ours.UDP.Lost <= 0, "from: %+v", ours.UDP)
		if d == model.To && (f.Engine != udp.Name || f.Direction == model.To) {
			got := find(t, far, d, model.Receiver)
			must.True(t, got.Bytes == ours.Bytes, "to: sent %d bytes, the server told of %d", ours.Bytes, got.Bytes)
		}
	}
}

// pacedRate is that of tests which hold a rate over TCP.
const pacedRate = 80e6

func TestOmitAndRate(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			omitAndRate(t, d)
		})
	}
}

// omitAndRate runs a flow with a warm-up at pacedRate, and returns its report.
func omitAndRate(t testing.TB, d model.Direction) model.EndReport {
	t.Helper()
	f := model.Flow{Direction: d, Duration: 2 * time.Second, Omit: 2 * short, Interval: short / 3} // a machine may stand still for half of it
	s := startServer(t, ServerConfig{Rate: pacedRate})
	var got taken
	near, _, err := Client{Rate: pacedRate}.Run(t.Context(), s.addr, f, got.emit)
	must.Need(t, err == nil && len(unhurried(near.Warnings)) == 0, "%v, %q", err, near.Warnings)
	for _, r := range near.Flows {
		must.True(t, r.Window > 0 && r.Bytes != 0, "%s: %d bytes in a window of %v", r.Direction, r.Bytes, r.Window)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	omitted := slices.ContainsFunc(got.list, func(s model.Sample) bool { return s.Omitted })
	counted := slices.ContainsFunc(got.list, func(s model.Sample) bool { return !s.Omitted })
	must.True(t, omitted && counted, "samples of the warm-up %t, of the window %t", omitted, counted)
	return near
}

func TestClientValidates(t *testing.T) {
	ok := model.Flow{Direction: model.To, Duration: time.Second}
	for name, c := range map[string]struct {
		client Client
		change func(f *model.Flow)
		want   string
	}{
		"legacy reverse":        {Client{Legacy: true}, func(f *model.Flow) { f.Direction = model.From }, "2.0.5"},
		"port":                  {Client{ListenPort: 70000}, func(*model.Flow) {}, "port 70000"},
		"streams back":          {Client{ConnectBack: true}, func(f *model.Flow) { f.Direction, f.Streams = model.From, 2 }, "2 streams"},
		"small datagrams":       {Client{}, func(f *model.Flow) { f.Engine, f.Block = udp.Name, 10 }, "datagrams of 10 bytes"},
		"sweep":                 {Client{}, func(f *model.Flow) { f.Engine = sizes.Name }, "only streams"},
		"amount":                {Client{}, func(f *model.Flow) { f.Direction, f.Duration, f.Bytes = model.From, 0, 1<<33 }, "amount"},
		"neither time nor size": {Client{}, func(f *model.Flow) { f.Duration = 0 }, "neither"},
		"negative rate":         {Client{Rate: -1}, func(*model.Flow) {}, "rate"},
	} {
		f := ok
		c.change(&f)
		// Nothing may be dialled: the address is none.
		_, _, err := c.client.Run(t.Context(), "", f, nil)
		must.Say(t, err, c.want, "%s", name)
	}
	must.OK(t, (Client{}).Validate(ok))
	must.Is(t, (Client{Legacy: true}).Validate(model.Flow{Direction: model.From, Duration: 1}), errors.ErrUnsupported, "is not ErrUnsupported")
}

func TestServeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.OK(t, Serve(ctx, nil, nil, ServerConfig{}))
}
