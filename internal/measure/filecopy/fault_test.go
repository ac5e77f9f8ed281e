package filecopy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// relay calls change with the piece of what the near end sends that holds its
// byte number at.
func relay(t *testing.T, w *enginetest.Wire, at int, change func([]byte)) {
	t.Helper()
	w.Relay(t, func(near, far *net.TCPConn) {
		go func() { _, _ = io.Copy(near, far) }()
		buf := make([]byte, 16<<10)
		for seen := 0; ; {
			n, err := near.Read(buf)
			if seen <= at && at < seen+n {
				change(buf[at-seen : n])
			}
			seen += n
			if _, failed := far.Write(buf[:n]); err != nil || failed != nil {
				return
			}
		}
	})
}

func TestCorruptedInTransit(t *testing.T) {
	for name, c := range map[string]files.Params{"files": {}, "network": {Mode: files.Network}, "direct": {Sink: "disk", Direct: true}} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			w := enginetest.NewWire(t)
			relay(t, w, 1<<20, func(b []byte) { b[0] ^= 0x10 })
			a, b := enginetest.Prepare(t, h.Engine, w, flow(c))
			_ = enginetest.Conduct(t, a, b, model.To)
			must.Say(t, b.Err, "differs from what was sent", "far")
			must.Say(t, a.Err, "differs", "near")
			h.checkEmpty(t)
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	h := newHome(t)
	p := script(t, h.Engine, flow(files.Params{Sink: h.folder}))
	p.begin(t, int64(odd))
	must.Get(p.Write(make([]byte, 1000)))(t)
	must.Do(t, p.CloseWrite())
	enginetest.Await(t, p.Done, "receiver")
	must.Say(t, p.Err, fmt.Sprintf("ended after 1000 of %d bytes", odd))
	h.checkEmpty(t)
}

func TestWrongOffer(t *testing.T) {
	h := newHome(t)
	for name, m := range map[string]message{
		"other size": {Kind: kindOffer, Bytes: 5}, "negative": {Kind: kindOffer, Bytes: -1}, "wrong kind": {Kind: kindDone},
	} {
		p := script(t, h.Engine, flow(files.Params{}))
		p.say(t, m)
		must.Do(t, p.CloseWrite())
		enginetest.Await(t, p.Done, name)
		must.Fail(t, p.Err, "%s: no error", name)
	}
}

// TestStall: a sender that says nothing more is given up.
func TestStall(t *testing.T) {
	h := newHome(t)
	h.stall = 200 * time.Millisecond
	p := script(t, h.Engine, flow(files.Params{Sink: h.folder}))
	p.begin(t, int64(odd))
	must.Get(p.Write(make([]byte, 2<<20)))(t)
	must.Say(t, must.Err(readMessage(p.TCPConn, kindDone)), "no byte moved", "the sender is told")
	p.TCPConn.Close()
	enginetest.Await(t, p.Done, "receiver")
	must.True(t, p.Err == nil && len(p.Report.Flows) == 1 && strings.Contains(strings.Join(p.Report.Warnings, " "), "no byte moved"),
		"%+v, %v", p.Report, p.Err)
	h.checkEmpty(t)
}
