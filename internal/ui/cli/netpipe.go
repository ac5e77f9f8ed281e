package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/netpipe"
	"linerate/internal/measure/sockio"
)

// netpipeSettings reads the options of NPtcp that both ends must share.
func netpipeSettings(options string) (netpipe.Settings, error) {
	s := netpipe.Default()
	for word := range strings.FieldsSeq(options) {
		switch word {
		case "-r":
			s.Reset = true
		case "-s":
			s.Streaming = true
		case "-2":
			s.Bidirectional = true
		case "-i":
			s = s.WithIntegrity()
		default:
			return s, withHint(usagef("--netpipe-options: %q is none of -r, -s, -2, -i", word),
				"these are the options of NPtcp that both ends must have alike")
		}
	}
	if err := s.Validate(); err != nil {
		return s, usagef("--netpipe-options: %v", err)
	}
	return s, nil
}

func (a *console) netpipeServer(l net.Listener, options string, shared *sharing) (func(context.Context) error, error) {
	s, err := netpipeSettings(options)
	if err != nil {
		return nil, err
	}
	limits := netpipe.Limits{
		Largest: foreignLargest, Waiting: foreignWaiting, Budget: shared.budget, Unknown: max(1, shared.files.Listener-foreignWaiting-1),
		Begun: a.netpipeBegun,
	}
	return func(ctx context.Context) error {
		return netpipe.New().Serve(ctx, l, s, limits, a.netpipeEvent)
	}, nil
}

// netpipePeer is an NPtcp receiver at the far end.
type netpipePeer struct {
	addr    string
	options netpipe.Options
}

// Run implements runner.Peer: one run of NPtcp's own schedule.
func (p netpipePeer) Run(ctx context.Context, _ model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	before, cpuErr := sockio.ProcessCPU()
	started := time.Now()
	dial := func(ctx context.Context) (*net.TCPConn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp4", p.addr)
		if err != nil {
			return nil, err
		}
		conn, ok := c.(*net.TCPConn)
		if !ok {
			_ = c.Close()
			return nil, fmt.Errorf("%T is not TCP", c)
		}
		return conn, nil
	}
	near.Points, err = netpipe.New().Transmit(ctx, dial, p.options, func(point model.Point) {
		if len(point.Trials) > 0 {
			emit([]model.Sample{{
				Host: model.Near, Direction: model.To, Metric: model.LatencyP50, Start: time.Since(started),
				Value: slices.Min(point.Trials).Seconds(),
			}})
		}
	})
	if after, aerr := sockio.ProcessCPU(); cpuErr == nil && aerr == nil {
		spent := after.Sub(before)
		near.CPUUser, near.CPUSystem, near.CPUWindow = spent.User, spent.System, time.Since(started)
	}
	if len(near.Points) > 0 && err != nil {
		near.Warnings = append(near.Warnings, fmt.Sprintf("the sweep ended early: %v", err))
		err = nil
	}
	return near, far, unreachable(ctx, err, "NPtcp receiver", "NPtcp")
}
