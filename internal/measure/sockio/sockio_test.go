package sockio

import (
	"errors"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// pair returns the two ends of a loopback connection, o set before its handshake.
func pair(t *testing.T, o engine.SocketOptions) (dialed, accepted *net.TCPConn) {
	t.Helper()
	l := must.Get((&net.ListenConfig{Control: Control(o)}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	c := must.Get((&net.Dialer{Control: Control(o)}).DialContext(t.Context(), "tcp", l.Addr().String()))(t)
	a := must.Get(l.Accept())(t)
	t.Cleanup(func() { c.Close(); a.Close() })
	return c.(*net.TCPConn), a.(*net.TCPConn)
}

func TestApplyReadsBack(t *testing.T) {
	o := engine.SocketOptions{Window: 48 << 10, NoDelay: false}
	c, a := pair(t, o)
	for _, end := range []*net.TCPConn{c, a} {
		warnings := must.Get(Apply(end, o))(t)
		must.Equal(t, len(warnings), 0, "warnings %q for options that the system grants", warnings)
		g := must.Get(Read(end))(t)
		must.Equal(t, g.SendBuffer.Or(0)/bufferFactor, 48<<10, "send buffer")
		must.True(t, !g.NoDelay.Or(true), "tcp_nodelay is on where it was asked off")
	}
}

func TestApplyLeavesWindowToTheSystem(t *testing.T) {
	c, _ := pair(t, engine.SocketOptions{NoDelay: true})
	before := must.Get(Read(c))(t)
	must.Get(Apply(c, engine.SocketOptions{NoDelay: true}))(t)
	after := must.Get(Read(c))(t)
	must.True(t, reflect.DeepEqual(before, after), "options changed from %+v to %+v", before, after)
}

func TestControlRefusesUnknownCongestion(t *testing.T) {
	o := engine.SocketOptions{Congestion: "nosuch"}
	l, err := (&net.ListenConfig{Control: Control(o)}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err == nil {
		l.Close()
		t.Fatalf("congestion control %q accepted", o.Congestion)
	}
	must.True(t, errors.Is(err, errors.ErrUnsupported), "error %v is not errors.ErrUnsupported", err)
	must.Contain(t, err.Error(), runtime.GOOS, "error %q does not name the system", err)
}

func TestCompare(t *testing.T) {
	known := func(snd, rcv units.Bytes, mss int, noDelay bool) Granted {
		return Granted{
			SendBuffer: fact.Known(snd*bufferFactor, "test"), RecvBuffer: fact.Known(rcv*bufferFactor, "test"),
			MSS: fact.Known(mss, "test"), NoDelay: fact.Known(noDelay, "test"),
		}
	}
	for _, c := range []struct {
		name string
		o    engine.SocketOptions
		g    Granted
		want []string // a part of each warning
	}{
		{"as asked", engine.SocketOptions{Window: 1000, MSS: 500, NoDelay: true}, known(1000, 1000, 500, true), nil},
		{"nothing asked", engine.SocketOptions{}, known(1, 1, 1, false), nil},
		{"nothing known", engine.SocketOptions{Window: 1000, MSS: 500, NoDelay: true}, Granted{}, nil},
		{"less", engine.SocketOptions{Window: 1000}, known(900, 1000, 1448, false), []string{"send buffer is 900 bytes where 1000 were asked: limited by"}},
		{"more", engine.SocketOptions{Window: 1000}, known(1000, 2000, 1448, false), []string{"receive buffer is 2000 bytes where 1000 were asked: the least"}},
		{"large segments", engine.SocketOptions{MSS: 500}, known(1, 1, 1448, false), []string{"segments are 1448 bytes"}},
		{"smaller segments are fine", engine.SocketOptions{MSS: 500}, known(1, 1, 488, false), nil},
		{"nagle", engine.SocketOptions{NoDelay: true}, known(1, 1, 1, false), []string{"tcp_nodelay is false where true was asked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := compare(c.o, c.g)
			must.Need(t, len(got) == len(c.want), "warnings %q, want %q", got, c.want)
			for i := range got {
				must.True(t, strings.HasPrefix(got[i], c.want[i]), "warning %q, want %q", got[i], c.want[i])
			}
		})
	}
}

func TestProcessCPUGrows(t *testing.T) {
	before := must.Get(ProcessCPU())(t)
	x := uint64(1)
	for range 1 << 26 {
		x = x*6364136223846793005 + 1
	}
	d := must.Get(ProcessCPU())(t).Sub(before).Total()
	must.True(t, d > 0, "cpu time grew by %v over a busy loop (%d)", d, x)
}
