package filecopy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
)

// relay passes connections on to address, and calls change with the piece of
// what the dialer sent that holds its byte number at.
func relay(t *testing.T, address string, at int, change func([]byte)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return
		}
		defer out.Close()
		go func() { _, _ = io.Copy(in, out) }()
		buf := make([]byte, 16<<10)
		for seen := 0; ; {
			n, err := in.Read(buf)
			if seen <= at && at < seen+n {
				change(buf[at-seen : n])
			}
			seen += n
			if _, failed := out.Write(buf[:n]); err != nil || failed != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

func TestCorruptedInTransit(t *testing.T) {
	for name, c := range map[string]model.Copy{"files": {}, "network": {Mode: model.CopyNetwork}, "direct": {Sink: "disk", Direct: true}} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			w := newWire(t)
			w.to = relay(t, w.to, 1<<20, func(b []byte) { b[0] ^= 0x10 })
			a, b := prepare(t, h.Engine, h.Engine, w, flow(c))
			conduct(t, a, b, model.To)
			if b.err == nil || !strings.Contains(b.err.Error(), "differs from what was sent") {
				t.Errorf("far %v", b.err)
			}
			if a.err == nil || !strings.Contains(a.err.Error(), "differs") {
				t.Errorf("near %v", a.err)
			}
			h.checkEmpty(t)
		})
	}
}

func TestSenderVanishes(t *testing.T) {
	h := newHome(t)
	p := script(t, h.Engine, flow(model.Copy{Sink: h.folder}))
	p.begin(t, int64(odd))
	if _, err := p.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	await(t, p.done, "receiver")
	if p.err == nil || !strings.Contains(p.err.Error(), fmt.Sprintf("ended after 1000 of %d bytes", odd)) {
		t.Errorf("error %v", p.err)
	}
	h.checkEmpty(t)
}

func TestWrongOffer(t *testing.T) {
	h := newHome(t)
	for name, m := range map[string]message{
		"other size": {Kind: kindOffer, Bytes: 5}, "negative": {Kind: kindOffer, Bytes: -1}, "wrong kind": {Kind: kindDone},
	} {
		p := script(t, h.Engine, flow(model.Copy{}))
		p.say(t, m)
		if err := p.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		await(t, p.done, name)
		if p.err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestStall: a sender that says nothing more is given up.
func TestStall(t *testing.T) {
	h := newHome(t)
	h.stall = 200 * time.Millisecond
	p := script(t, h.Engine, flow(model.Copy{Sink: h.folder}))
	p.begin(t, int64(odd))
	if _, err := p.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := readMessage(p.TCPConn, kindDone); err == nil || !strings.Contains(err.Error(), "no byte moved") {
		t.Errorf("the sender is told %v", err)
	}
	p.TCPConn.Close()
	await(t, p.done, "receiver")
	if p.err != nil || len(p.report.Flows) != 1 || !strings.Contains(strings.Join(p.report.Warnings, " "), "no byte moved") {
		t.Errorf("%+v, %v", p.report, p.err)
	}
	h.checkEmpty(t)
}
