package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
)

// arrival is a stream's connection, with its place in the order of accepting.
type arrival struct {
	order uint64
	conn  *net.TCPConn
	from  netip.Addr
	place *accept.Place // among the streams of tests that have not begun
}

// close drops the connection.
func (a arrival) close() {
	a.place.Leave()
	_ = a.conn.Close()
}

// take accepts a stream's connection if the test waits for one. The zero arrival ends the
// waiting, and closes the unused ones.
func (t *session) take(a arrival) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.conn == nil {
		t.wanted = 0
		for {
			select {
			case late := <-t.arrivals:
				late.close()
			default:
				return false
			}
		}
	}
	if t.wanted == 0 {
		return false
	}
	t.wanted--
	a.place = t.gathered.Enter(a.from, func() { t.drop(errCrowded) })
	t.arrivals <- a
	return true
}

// open lets the client open its streams and prepares the ways.
func (t *session) open(ctx context.Context) (<-chan heard, error) {
	all := iperf3.Streams(t.params.Direction, int(t.params.Parallel))
	t.mu.Lock()
	if t.params.Protocol == iperf3.TCP {
		t.wanted = len(all)
	}
	t.mu.Unlock()
	next, err := t.ctl.follow()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.limits.opening)
	defer cancel()
	if t.params.Protocol == iperf3.UDP {
		if err = t.openUDP(ctx, all, next); err == nil {
			if err = t.seize(ctx, t, next); err == nil {
				err = t.afford()
			}
		}
	} else if err = t.ctl.state(iperf3.CreateStreams); err == nil {
		err = t.gatherTCP(ctx, all, next)
	}
	t.opening.Leave()
	if err != nil {
		return nil, err
	}
	return next, t.ctl.say([]byte{iperf3.TestStart.Byte(), iperf3.TestRunning.Byte()})
}

// gatherTCP opens the streams of a TCP test and takes its slot.
func (t *session) gatherTCP(ctx context.Context, all []iperf3.Stream, next <-chan heard) error {
	opened, err := t.gather(ctx, len(all), next)
	if err != nil {
		return err
	}
	if err = t.seize(ctx, t, next); err == nil {
		err = t.afford()
	}
	if err != nil {
		for _, a := range opened {
			a.close()
		}
		return err
	}
	for _, a := range opened {
		a.place.Leave()
	}
	return t.openTCP(ctx, all, opened)
}

// gather waits for n connections and sorts them in the order of accepting, the only thing that
// distinguishes them.
func (t *session) gather(ctx context.Context, n int, next <-chan heard) ([]arrival, error) {
	var all []arrival
	for len(all) < n {
		err := error(nil)
		select {
		case a := <-t.arrivals:
			all = append(all, a)
			continue
		case h := <-next:
			err = t.early(h)
		case <-ctx.Done():
			err = refuse(iperf3.CodeStreamAccept, "%d of %d streams came: %w", len(all), n, context.Cause(ctx))
		}
		for _, a := range all {
			a.close()
		}
		return nil, err
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Compare(a.order, b.order) })
	return all, nil
}

// early returns the error for a message from the client when only its end could come.
func (t *session) early(h heard) error {
	switch {
	case h.err != nil:
		return fmt.Errorf("%w: %w", errLeft, h.err)
	case h.state == iperf3.ClientTerminate:
		return fmt.Errorf("%w: it was stopped", errLeft)
	default:
		return refuse(iperf3.CodeMessage, "%w", unexpected(h.state, iperf3.TestEnd.String()))
	}
}

// openTCP creates the ways from the connections.
func (t *session) openTCP(ctx context.Context, all []iperf3.Stream, opened []arrival) error {
	take := func(_ context.Context, o engine.SocketOptions) (*net.TCPConn, []string, error) {
		conn := opened[0].conn
		opened = opened[1:]
		if err := conn.SetDeadline(time.Time{}); err != nil {
			return nil, nil, errors.Join(err, conn.Close())
		}
		// The handshake determines the segment size, for which the client has sent its own. If
		// this system refuses the algorithm or a buffer, the client goes without, as with a
		// real server.
		o.MSS = 0
		o.Egress.DSCP = int(t.params.TOS) >> 2
		var warnings []string
		if o.Congestion != "" && !sockio.AllowedCongestion(o.Congestion) {
			warnings = append(warnings, fmt.Sprintf("congestion control %.32q is not one that every program of this host may choose", o.Congestion))
			o.Congestion = ""
		}
		more, err := sockio.Apply(conn, o)
		if warnings = append(warnings, more...); err != nil {
			warnings = append(warnings, err.Error())
		}
		return conn, warnings, nil
	}
	for _, d := range directions(t.params.Direction).Parts() {
		l := t.newWay(d, all)
		err := l.openTCP(ctx, t.Bulk, engine.Env{Host: model.Far, LinkRate: t.LinkRate}, t.rate(), take)
		if err != nil {
			for _, a := range opened {
				_ = a.conn.Close()
			}
			return refuse(iperf3.CodeStreamAccept, "open streams %s: %w", d, err)
		}
		t.ways = append(t.ways, l)
	}
	return nil
}
