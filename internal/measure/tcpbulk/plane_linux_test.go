package tcpbulk

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
	"linerate/internal/must"
)

// everyPlane returns an engine for each way of waiting, by its name.
func everyPlane() map[string]*Engine {
	out := map[string]*Engine{}
	for name, p := range map[string]mover{"blocking": blocking{}, "epoll": epoll{}, "poller": poller{}} {
		e := New()
		e.planes = func(int) mover { return p }
		out[name] = e
	}
	return out
}

// checkSummary checks the statistics that every Linux since 5.4 reports.
func checkSummary(t testing.TB, r model.FlowReport) {
	t.Helper()
	s := r.TCP
	must.Need(t, s != nil, "no summary of the sender")
	for name, known := range map[string]bool{
		"congestion": s.Congestion.Or("") != "", "mss": s.MSS.Or(0) > 0, "mtu": s.PathMTU.Or(0) > 0,
		"segments": s.SegmentsOut.Or(0) > 0, "acknowledgements": s.SegmentsIn.Or(0) > 0, "retransmits": s.Retransmits.IsKnown(), "busy": s.Busy.Or(0) > 0,
		"rwnd": s.RwndLimited.IsKnown(), "rtt": s.RTT.Or(0) > 0, "rtt min": s.RTTMin.Or(0) > 0,
		"cwnd": s.Cwnd.Or(0) > 0, "peer window": s.PeerWindow.IsKnown(), "send buffer": s.SendBuffer.Or(0) > 0,
	} {
		must.True(t, known, "summary lacks %s: %+v", name, *s)
	}
}

// TestRuntimeStopsBlockedThreads collects garbage while threads wait in raw system calls, which
// the runtime does not see: it must be able to stop them all the same.
func TestRuntimeStopsBlockedThreads(t *testing.T) {
	for _, name := range []string{"blocking", "epoll"} {
		t.Run(name, func(t *testing.T) {
			_, far := enginetest.Prepare(t, everyPlane()[name], enginetest.NewWire(t), long(4))
			far.Start(t.Context())
			far.AwaitSample(t, func(model.Sample) bool { return true })
			collected := make(chan struct{})
			go func() {
				defer close(collected)
				for range 10 {
					runtime.GC()
				}
			}()
			must.Wait(t, "garbage collection", collected)
		})
	}
}

// TestVeth compares the sender's kernel statistics with the path and the request.
func TestVeth(t *testing.T) {
	f := timed(model.To, 2)
	for _, cc := range []string{"bbr", "reno"} {
		t.Run(cc, func(t *testing.T) { checkVeth(t, f, cc) })
	}
}

func checkVeth(t *testing.T, f model.Flow, cc string) {
	t.Helper()
	f.MSS, f.Window, f.Congestion = 1000, 64<<10, cc
	near, far := enginetest.Prepare(t, New(), enginetest.NewVeth(t, enginetest.Bucket{}), f)
	enginetest.Succeed(t, near, far, model.To)
	s := near.Flow(t, model.To).TCP
	must.Equal(t, s.PathMTU.Or(0), 1500, "path MTU")
	// The timestamps option takes 12 bytes of each segment (RFC 7323 section 3.2).
	if got, timestamps := s.MSS.Or(0), s.Timestamps.Or(false); got != 988 && timestamps || got != 1000 && !timestamps {
		t.Errorf("segments of %d bytes with timestamps %t, 1000 asked", got, timestamps)
	}
	must.Equal(t, s.Congestion.Or(""), cc, "congestion control")
	must.Equal(t, s.BBR != nil, cc == "bbr", "what bbr believes")
	if b := s.BBR; b != nil {
		must.True(t, b.Rate.Or(0) > 1e6 && b.RTTMin.Or(0) > 0 && b.Steady.Or(2) <= 1 && !b.InFlight.IsKnown(), "bbr of the kernel, version 1: %+v", b)
	}
	got := s.PeerWindow.Or(0)
	must.True(t, got != 0 && got <= 2*2*f.Window, "the peers announce %d bytes with buffers of %d each", got, f.Window)
	got, want := s.SendBuffer.Or(0), units.Bytes(2*2*f.Window)
	must.True(t, got == want, "send buffers of %d bytes, want %d", got, want)
	if got := s.RTTMin.Or(0); got <= 0 {
		t.Errorf("least round trip %v", got)
	}
	got, sent := far.Flow(t, model.To).Bytes, near.Flow(t, model.To).Bytes
	must.True(t, got != 0 && got <= sent, "received %d of %d bytes", got, sent)
}

// TestSubflows: a Multipath TCP connection has a row for each path that the hosts open, with
// the bytes acknowledged on it, and sums in place of one path's numbers.
func TestSubflows(t *testing.T) {
	must.SkipIf(t, must.Err(os.Stat("/proc/sys/net/mptcp")) != nil, "this kernel has no Multipath TCP")
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			// The queue holds all that the windows allow, or it could drop the second subflow's SYN, which
			// is sent again after a second.
			const window = 64 << 10
			w := enginetest.NewVeth(t, enginetest.Bucket{Rate: 40e6, Burst: 15000, Queue: 16 * window})
			must.Do(t, w.AtNear(func() error {
				for _, args := range []string{"addr add 10.78.0.3/24 dev " + enginetest.Device, "mptcp endpoint add 10.78.0.3 dev " + enginetest.Device + " subflow"} {
					if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
						return fmt.Errorf("ip %s: %w: %s", args, err, out)
					}
				}
				return nil
			}))
			f := timed(model.To, 1)
			f.Duration, f.Window, f.Params = time.Second, window, traffic.Write(bulk.Params{MPTCP: true})
			near, far := enginetest.Prepare(t, e, w, f)
			enginetest.Succeed(t, near, far, f.Direction)
			r := near.Flow(t, model.To)
			var from []string
			var carried units.Bytes
			for _, s := range r.Subflows {
				from, carried = append(from, s.From), carried+s.Bytes
				must.True(t, s.Stream == 1 && s.To == "10.78.0.2" && s.Bytes >= 0, "%+v", s)
			}
			slices.Sort(from)
			must.Same(t, from, []string{"10.78.0.1", "10.78.0.3"})
			must.True(t, carried > 0 && carried <= r.Bytes+units.Bytes(r.TCP.SendBuffer.Or(0)), "%d bytes acknowledged of %d", carried, r.Bytes)
			must.True(t, !r.TCP.RTT.IsKnown() && r.TCP.RTTMin.IsKnown() && r.TCP.Retransmits.IsKnown(), "%+v", *r.TCP)
			must.Len(t, append(near.Report.Warnings, far.Report.Warnings...), 0, "warnings %q %q", near.Report.Warnings, far.Report.Warnings)
		})
	}
}

// named is a link that knows its congestion control alone.
type named struct{ link }

func (named) congestion() (string, error)      { return "bbr", nil }
func (named) granted() (sockio.Granted, error) { return sockio.Granted{}, nil }

// TestLateSubflow: what was read before the second subflow came is not reported as of both.
func TestLateSubflow(t *testing.T) {
	one := tcpinfo.Subflow{Info: tcpinfo.Info{RTT: fact.Known(time.Second, source)}}
	f := flow{streams: []*stream{{link: named{}, paths: &subflows{list: []subflow{{last: one}}}}}, cur: []tcpinfo.Info{one.Info}, sums: sums{rtts: []time.Duration{time.Second}}}
	must.True(t, f.summary().RTT.IsKnown(), "of one")
	f.streams[0].paths.list = append(f.streams[0].paths.list, subflow{last: one})
	f.cur[0] = tcpinfo.Together([]tcpinfo.Subflow{one, one})
	must.Contain(t, f.summary().RTT.Reason(), "of each subflow")
}

// TestUncopied: without a copy every byte moves as with one, from the block that is sent
// otherwise, and the report says which end copied; a way that has to copy warns.
func TestUncopied(t *testing.T) {
	for name, e := range everyPlane() {
		t.Run(name, func(t *testing.T) {
			const amount = 10_000_003
			f := model.Flow{Direction: model.Both, Streams: 3, Bytes: amount, Params: traffic.Write(bulk.Params{NoCopy: true})}
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
			enginetest.Succeed(t, near, far, f.Direction)
			for _, end := range []*enginetest.End{near, far} {
				for _, r := range end.Report.Flows {
					must.True(t, r.Bytes == amount && r.Uncopied == (name != "poller"), "%+v", r)
				}
				must.Equal(t, strings.Contains(strings.Join(end.Report.Warnings, ""), "copied all the same"), name == "poller", "%q", end.Report.Warnings)
			}
		})
	}
	block := plane.Payload(100_000)
	file := must.Get(hold(block))(t)
	pair := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0))(t)
	defer func() { _, _, _ = unix.Close(file), unix.Close(pair[0]), unix.Close(pair[1]) }()
	n, errno := sendFile(pair[0], file, 50_000)
	got := make([]byte, len(block))
	in := must.Get(unix.Read(pair[1], got))(t)
	must.True(t, errno == 0 && n > 0 && in == n && bytes.Equal(got[:n], block[:n]), "sent %d (%v), received %d", n, errno, in)
}
