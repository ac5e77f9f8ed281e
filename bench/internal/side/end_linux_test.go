package side

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strconv"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/pingpong"
	"linerate/internal/measure/reqresp"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/measure/udpflow"
	"linerate/internal/must"
)

// Both ends of each engine that the benchmarks use, on two loopback addresses.
func TestEnds(t *testing.T) {
	const d = time.Second
	for _, c := range []struct {
		flow  model.Flow
		check func(near, far model.EndReport) bool
	}{
		{model.Flow{Engine: tcpbulk.Name, Streams: 2, Duration: d, Block: 64 << 10}, func(_, far model.EndReport) bool {
			return far.Flows[0].Bytes > 0 && len(far.Flows[0].Streams) == 2
		}},
		{model.Flow{Engine: udpflow.Name, Duration: d, Block: 64, Params: traffic.Write(udp.Params{Rate: units.BitRate(1e6)})}, func(near, far model.EndReport) bool {
			return near.Flows[0].UDP.Sent > 0 && far.Flows[0].UDP.Received > 0
		}},
		{model.Flow{Engine: reqresp.Name, Duration: d, Params: traffic.Write(requests.Params{})}, func(near, _ model.EndReport) bool {
			return len(near.Latencies) > 0 && near.Latencies[0].Times.Count() > 0
		}},
		{sizes.With(model.Flow{Engine: pingpong.Name, Duration: d}, sizes.Params{Sizes: []units.Bytes{1, 64}}), func(near, _ model.EndReport) bool {
			return len(near.Points) > 0 && len(near.Points[0].Trials) >= 3 // a busy machine leaves no time for the second size
		}},
	} {
		t.Run(c.flow.Engine, func(t *testing.T) {
			c.flow.Direction = model.To
			near, far := both(t, c.flow)
			must.True(t, near.Host == model.Near && far.Host == model.Far && c.check(near, far), "near %+v, far %+v", near, far)
			must.True(t, len(far.Counters) != 0, "the far end has watched nothing")
		})
	}
}

// both runs both ends in this process.
func both(t *testing.T, f model.Flow) (near, far model.EndReport) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	listen, dial, err := Ends("self", "127.0.0.1", "127.0.0.2", f, "lo")
	must.Do(t, err)
	port := free(t)
	listen, dial = append(listen[2:], "-port", port), append(dial[2:], "-port", port)
	var farOut, nearOut bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, listen, &farOut) }()
	// The far end may not listen yet.
	for err = Run(ctx, dial, &nearOut); err != nil && ctx.Err() == nil && nearOut.Len() == 0; err = Run(ctx, dial, &nearOut) {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
	must.Do(t, err)
	must.Do(t, <-ended)
	must.Do(t, json.Unmarshal(nearOut.Bytes(), &near))
	must.Do(t, json.Unmarshal(farOut.Bytes(), &far))
	return near, far
}

// free returns an unused port.
func free(t *testing.T) string {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0"))(t)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestSamplingCost(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, RunCost("lo", &b))
	var c Cost
	must.Do(t, json.Unmarshal(b.Bytes(), &c))
	must.True(t, c.Host > 0 && c.Stream > 0 && c.Stream <= c.Host, "got %+v", c)
	must.Equal(t, c.Each(10), 2*c.Host+10*c.Stream, "both ends with 10 streams")
}

func TestOddArgumentsAreErrors(t *testing.T) {
	for _, args := range [][]string{
		{"-host", "middle"}, {"-host", "near", "-near", "x", "-far", "127.0.0.2", "-flow", "{}"},
		{"-host", "near", "-near", "127.0.0.1", "-far", "127.0.0.2", "-flow", "{"},
	} {
		must.Fail(t, Run(t.Context(), args, nil), "%q: no error", args)
	}
}
