//go:build truth

package peer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// claimRates claims that all flows of both ends have a rate between least and most.
func claimRates(try *truth.Try, least, most float64, ends ...model.EndReport) {
	for _, e := range ends {
		for _, r := range e.Flows {
			try.Claim(fmt.Sprintf("%s %s", r.Direction, r.Role), float64(r.Bytes)*8/r.Window.Seconds()/1e6, least/1e6, most/1e6, "Mbit/s")
		}
	}
}

// TestClientRate: the client keeps the TCP rate in all directions.
func TestClientRate(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				f := model.Flow{Direction: d, Duration: time.Second, Streams: 2, Block: 32 << 10, Interval: 100 * time.Millisecond}
				near, far, err := Client{Rate: 80e6}.Run(try.Context(), foreignServer(try), f, func([]model.Sample) {})
				must.SkipIf(try, errors.Is(err, errors.ErrUnsupported), "%v", err)
				must.Do(try, err)
				// The kernel sends ten segments of each stream unpaced, which on a loopback are
				// 0.65 MB.
				claimRates(try, 50e6, 100e6, near, far)
			})
		})
	}
}

// TestClientUDPRate: the client keeps the requested rate.
func TestClientUDPRate(t *testing.T) {
	f := model.Flow{Engine: udp.Name, Direction: model.Both, Duration: 500 * time.Millisecond, Streams: 2, Params: traffic.Write(udp.Params{Rate: 4e6})}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		near, far, err := Client{}.Run(try.Context(), foreignServer(try), f, func([]model.Sample) {})
		must.Do(try, err)
		claimRates(try, 3.6e6, 4.4e6, near, far)
	})
}

// TestUDPRate: the server sends UDP at no more than the requested rate, and its limit.
func TestUDPRate(t *testing.T) {
	for _, args := range []string{"-u -t 1 -b 4M -l 1000", "-u -t 1 -b 4M -l 1000 -R", "-u -t 1 -b 2M -l 1000 -P 2 -R", "-u -t 1 -b 4M -l 1000 --bidir"} {
		t.Run(args, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				e := newEvents()
				s := foreignClient(try, serveHere(try, ServerConfig{Event: e.add, UDPRate: udpLimit}), args)
				must.Need(try, s.Error == "", "%v", s.Error)
				claimRates(try, 3e6, float64(udpLimit*11/10), e.ended(try).Own)
			})
		})
	}
}

// TestServedSoon: while 256 clients hold connections at any stage, a real one has its test
// within 2 s; a test without progress is ended within 2 s.
func TestServedSoon(t *testing.T) {
	for _, stage := range besiegeStages {
		t.Run(stage, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				addr := serveHere(try, ServerConfig{})
				besiege(try, addr, stage, 256, false)
				began := time.Now()
				for foreignClient(try, addr, clientArgs(stage)).Error != "" {
					must.Need(try, time.Since(began) <= time.Minute, "it never had its test")
				}
				try.Claim("it had its test after", time.Since(began).Seconds(), 0, 2.5, "s")
			})
		})
	}
	t.Run("silent test", func(t *testing.T) {
		truth.Hold(t, truth.Tries, func(try *truth.Try) {
			addr := serveHere(try, ServerConfig{})
			newRaw(try, addr).begin(oneSecond, 2)
			began := time.Now()
			c := Client{limits: limits{between: time.Nanosecond}}
			_, _, err := c.Run(try.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, func([]model.Sample) {})
			must.Do(try, err)
			try.Claim("it gave way after", time.Since(began).Seconds(), 0, 3, "s")
		})
	})
}
