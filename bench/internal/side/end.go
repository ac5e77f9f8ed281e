// Package side is linerate's side of a comparison: one end of one run in a process of its own,
// like the programs that it is compared with.
package side

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/counters"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/pingpong"
	"linerate/internal/measure/reqresp"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/measure/udpflow"
)

// Port is the far end's default port. UDP sockets of both ends have the ports after it, in
// order.
const Port = 5299

// Ends returns the argument vectors of both ends of f, run by the program self: the far one,
// which listens, and the near one. With watched, both ends sample the counters of their host
// and of that interface each second.
func Ends(self string, near, far string, f model.Flow, watched string) (listen, dial []string, err error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, nil, fmt.Errorf("write flow: %w", err)
	}
	common := []string{"-near", near, "-far", far, "-flow", string(b), "-watch", watched}
	return append([]string{self, "end", "-host", string(model.Far)}, common...),
		append([]string{self, "end", "-host", string(model.Near)}, common...), nil
}

// end is one end.
type end struct {
	host      model.Host
	near, far netip.Addr
	flow      model.Flow
	watched   string
	port      int
	listener  net.Listener // far
	datagrams int          // sockets opened
}

// Run runs one end: it follows the arguments of Ends, and writes its report to w as JSON. A
// control connection synchronises the ends with one byte each: prepared (far), start (near),
// stop (far).
func Run(ctx context.Context, args []string, w io.Writer) error {
	e, err := parse(args)
	if err != nil {
		return err
	}
	if e.host == model.Far {
		at := netip.AddrPortFrom(e.far, uint16(e.port))
		if e.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", at.String()); err != nil {
			return err
		}
		defer e.listener.Close()
	}
	control, err := e.open(ctx, engine.SocketOptions{NoDelay: true})
	if err != nil {
		return fmt.Errorf("open control connection: %w", err)
	}
	defer control.Close()
	kind, err := engines.ByName([]engine.Engine{tcpbulk.New(), udpflow.New(), pingpong.New(nil), reqresp.New()}, e.flow.Engine)
	if err != nil {
		return err
	}
	test, err := kind.Prepare(ctx, engine.Env{Host: e.host, Open: e.openAll, OpenUDP: e.openUDP}, e.flow)
	if err != nil {
		return err
	}
	report, err := e.inStep(ctx, test, control)
	if err := errors.Join(err, test.Close()); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(report)
}

func parse(args []string) (*end, error) {
	var host, near, far, flow string
	e := &end{}
	flags := flag.NewFlagSet("end", flag.ContinueOnError)
	flags.StringVar(&host, "host", "", "which end this is")
	flags.StringVar(&near, "near", "", "address of the near end")
	flags.StringVar(&far, "far", "", "address of the far end")
	flags.StringVar(&flow, "flow", "", "what to do, as JSON")
	flags.StringVar(&e.watched, "watch", "", "sample the counters of this interface and of the host")
	flags.IntVar(&e.port, "port", Port, "where the far end listens")
	err := flags.Parse(args)
	if err != nil {
		return nil, err
	}
	e.host = model.Host(host)
	if e.host != model.Near && e.host != model.Far {
		return nil, fmt.Errorf("host %q is neither %q nor %q", host, model.Near, model.Far)
	}
	var faults [3]error
	e.near, faults[0] = netip.ParseAddr(near)
	e.far, faults[1] = netip.ParseAddr(far)
	faults[2] = json.Unmarshal([]byte(flow), &e.flow)
	return e, errors.Join(faults[:]...)
}

// inStep runs test in step with the other end.
func (e *end) inStep(ctx context.Context, test engine.Test, control *net.TCPConn) (model.EndReport, error) {
	say := func() error { _, err := control.Write([]byte{1}); return err }
	hear := func() error { _, err := control.Read(make([]byte, 1)); return err }
	before, after := hear, say
	if e.host == model.Far {
		before, after = say, hear
	}
	if err := errors.Join(before(), after()); err != nil {
		return model.EndReport{}, fmt.Errorf("keep in step: %w", err)
	}
	if e.host == model.Near {
		go func() {
			// An error means that the far end is gone, which also ends the test.
			_ = hear()
			test.Stop()
		}()
	}
	counters, err := e.watch(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	report, err := test.Run(ctx, func([]model.Sample) {})
	report.Counters = counters()
	if e.host == model.Far {
		// The near end closes its side when it has stopped: then everything is read.
		err = errors.Join(err, say())
		_ = hear()
	}
	return report, err
}

// watch samples the host, if requested, until the returned function is called.
func (e *end) watch(ctx context.Context) (func() []model.Counter, error) {
	if e.watched == "" {
		return func() []model.Counter { return nil }, nil
	}
	w, err := counters.Open(e.watched)
	if err != nil {
		return nil, err
	}
	stop := w.Run(ctx, e.host, time.Second, time.Now(), func([]model.Sample) {})
	return func() []model.Counter {
		counters := stop()
		_ = w.Close() // opened for reading only
		return counters
	}, nil
}

// open returns the next connection to the other end.
func (e *end) open(ctx context.Context, o engine.SocketOptions) (*net.TCPConn, error) {
	var (
		c   net.Conn
		err error
	)
	if e.host == model.Far {
		c, err = e.listener.Accept()
	} else {
		c, err = (&net.Dialer{Control: sockio.Control(o)}).DialContext(ctx, "tcp", netip.AddrPortFrom(e.far, uint16(e.port)).String())
	}
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// openAll implements engine.Env.Open.
func (e *end) openAll(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
	var out engine.Opened
	for range n {
		c, err := e.open(ctx, o)
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

// openUDP implements engine.Env.OpenUDP: both ends know the ports.
func (e *end) openUDP(_ context.Context, n int) ([]*net.UDPConn, error) {
	here, there := e.near, e.far
	if e.host == model.Far {
		here, there = there, here
	}
	var out []*net.UDPConn
	for range n {
		e.datagrams++
		port := uint16(e.port + e.datagrams)
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(here, port)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(there, port)))
		if err != nil {
			for _, o := range out {
				err = errors.Join(err, o.Close())
			}
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
