package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpbulk"
)

// runEnd is one end of a run in a process of its own. The far end listens,
// receives, and prints its report as JSON. A control connection keeps the ends
// in step with one byte each: prepared (far), start (near), stop (far).
func runEnd(ctx context.Context, args []string) error {
	var (
		f            = model.Flow{Engine: tcpbulk.Name, Direction: model.To}
		listen, dial string
		block        int64
		flags        = flag.NewFlagSet("end", flag.ContinueOnError)
		open         func(context.Context, engine.SocketOptions) (*net.TCPConn, error)
		host         = model.Near
		err          error
	)
	flags.StringVar(&listen, "listen", "", "be the far end at this address")
	flags.StringVar(&dial, "dial", "", "be the near end of the one at this address")
	flags.IntVar(&f.Streams, "streams", 1, "streams")
	flags.DurationVar(&f.Duration, "duration", 2*time.Second, "time")
	flags.Int64Var(&block, "block", 0, "bytes per write")
	flags.StringVar(&f.Congestion, "congestion", "", "congestion control")
	flags.BoolVar(&f.Nagle, "nagle", false, "leave Nagle's algorithm on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f.Block = units.Bytes(block)
	f.Interval = f.Duration
	if listen != "" {
		host = model.Far
		if open, err = listenAt(ctx, listen); err != nil {
			return err
		}
	} else {
		open = dialTo(dial)
	}
	control, err := open(ctx, engine.SocketOptions{NoDelay: true})
	if err != nil {
		return fmt.Errorf("open control connection: %w", err)
	}
	defer control.Close()
	test, err := tcpbulk.New().Prepare(ctx, engine.Env{Host: host, Open: opener(open)}, f)
	if err != nil {
		return err
	}
	report, err := inStep(ctx, host, test, control)
	if err := errors.Join(err, test.Close()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// inStep runs test in step with the other end.
func inStep(ctx context.Context, host model.Host, test engine.Test, control *net.TCPConn) (model.EndReport, error) {
	say := func() error { _, err := control.Write([]byte{1}); return err }
	hear := func() error { _, err := control.Read(make([]byte, 1)); return err }
	before, after := hear, say
	if host == model.Far {
		before, after = say, hear
	}
	if err := errors.Join(before(), after()); err != nil {
		return model.EndReport{}, fmt.Errorf("keep in step: %w", err)
	}
	if host == model.Near {
		go func() {
			// An error means that the far end is gone, which ends the test too.
			_ = hear()
			test.Stop()
		}()
	}
	report, err := test.Run(ctx, func([]model.Sample) {})
	if host == model.Far {
		// The near end closes its side when it has stopped: then all is read.
		err = errors.Join(err, say())
		_ = hear()
	}
	return report, err
}

func listenAt(ctx context.Context, address string) (func(context.Context, engine.SocketOptions) (*net.TCPConn, error), error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return func(context.Context, engine.SocketOptions) (*net.TCPConn, error) {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}, nil
}

func dialTo(address string) func(context.Context, engine.SocketOptions) (*net.TCPConn, error) {
	return func(ctx context.Context, o engine.SocketOptions) (*net.TCPConn, error) {
		c, err := (&net.Dialer{Control: sockio.Control(o)}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}
}

// opener makes an engine's Open of open.
func opener(open func(context.Context, engine.SocketOptions) (*net.TCPConn, error)) func(context.Context, int, engine.SocketOptions) (engine.Opened, error) {
	return func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
		var out engine.Opened
		for range n {
			c, err := open(ctx, o)
			if err != nil {
				return out, err
			}
			out.Conns = append(out.Conns, c)
			warnings, err := sockio.Apply(c, o)
			if err != nil {
				return out, err
			}
			out.Warnings = append(out.Warnings, warnings...)
		}
		return out, nil
	}
}
