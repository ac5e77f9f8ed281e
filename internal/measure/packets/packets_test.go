package packets

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

func flow(d model.Direction, most int) model.Flow {
	return model.Flow{Engine: Name, Direction: d, Params: traffic.Write(packets.Params{Most: most})}
}

// found runs a flow over a wire and returns the sender's end.
func found(t *testing.T, w *enginetest.Wire, f model.Flow) *enginetest.End {
	t.Helper()
	near, far := enginetest.Prepare(t, New(), w, f)
	enginetest.Succeed(t, near, far, f.Direction)
	if f.Direction == model.To {
		return near
	}
	return far
}

// narrow forwards datagrams of up to size bytes of IP, and only every nth of those.
func narrow(size, nth int) func(near, far *net.UDPConn) {
	return func(near, far *net.UDPConn) {
		pass := func(from, to *net.UDPConn) {
			b := make([]byte, 65536)
			for n := 1; ; n++ {
				got, err := from.Read(b)
				if err != nil {
					return
				}
				if got <= size-28 && n%nth == 0 {
					_, _ = to.Write(b[:got])
				}
			}
		}
		go pass(near, far) // both end when the sockets close
		go pass(far, near)
	}
}

// TestSizes finds the largest size that passes in each direction, even if many packets of any
// size are lost; and whether ECN marks arrive, which a relay of datagrams does not forward.
func TestSizes(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		for _, size := range []int{1300, 1492} {
			w := enginetest.NewWire(t)
			w.RelayUDP = narrow(size, 1)
			sender := found(t, w, flow(d, 1500))
			v := sender.Value(t, d, packets.Passes)
			must.True(t, v == float64(size) && sender.Value(t, d, packets.Exact) == 1, "%s: %v pass of %d", d, v, size)
			must.True(t, runtime.GOOS != "linux" || sender.Value(t, d, packets.Marks) == 0, "%s: marks arrive through a relay", d)
		}
	}
	sender := found(t, enginetest.NewWire(t), flow(model.To, 1500))
	must.Equal(t, sender.Value(t, model.To, packets.Passes), 1500, "without a limit pass of 1500")
	must.True(t, runtime.GOOS != "linux" || sender.Value(t, model.To, packets.Marks) == 1, "marks do not arrive on loopback")
}

// TestLossAndSize: loss that does not depend on the size is no size limit.
func TestLossAndSize(t *testing.T) {
	w := enginetest.NewWire(t)
	w.RelayUDP = narrow(1400, 2) // every other one: of each pair one is lost
	v := found(t, w, flow(model.To, 1500)).Value(t, model.To, packets.Passes)
	must.True(t, v <= 1400, "%v pass where 1400 can", v)
}

// TestSilence: if no datagram arrives the answer is 0, in bounded time.
func TestSilence(t *testing.T) {
	w := enginetest.NewWire(t)
	w.RelayUDP = narrow(0, 1)
	began := time.Now()
	must.Equal(t, found(t, w, flow(model.To, 1500)).Value(t, model.To, packets.Passes), 0, "pass of nothing")
	took := time.Since(began)
	must.True(t, took <= enginetest.Soon, "it took %v", took)
}

// TestSix: the size includes IPv6 headers.
func TestSix(t *testing.T) {
	must.Equal(t, found(t, enginetest.NewWire6(t), flow(model.To, 9000)).Value(t, model.To, packets.Passes), 9000)
}

// TestStop: Close ends an end that is waiting for the other one.
func TestStop(t *testing.T) {
	w := enginetest.NewWire(t)
	_, far := enginetest.Prepare(t, New(), w, flow(model.To, 1500))
	far.Start(t.Context())
	done := make(chan struct{})
	go func() { _ = far.Close(); close(done) }()
	must.Wait(t, "the end of a receiver without a sender", done)
}

func TestValidate(t *testing.T) {
	for want, f := range map[string]model.Flow{
		"":                    flow(model.To, 1500),
		"neither to nor from": flow(model.Both, 1500),
		"not between":         flow(model.To, 100),
		"no meaning":          {Engine: Name, Direction: model.To, MSS: 500, Params: traffic.Write(packets.Params{Most: 1500})},
	} {
		err := New().Validate(f)
		must.True(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)), "%q: %v", want, err)
	}
}
