package peer

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// raw is a client that does only what a test tells it to.
type raw struct {
	t       testing.TB
	addr    string
	ctl     net.Conn
	cookie  []byte
	streams []net.Conn
}

// rawPatience bounds whatever a test waits for from our end.
const rawPatience = time.Minute

func newRaw(t testing.TB, addr string) *raw {
	t.Helper()
	r := &raw{t: t, addr: addr, cookie: append([]byte(strings.Repeat("a", iperf3.CookieLen-1)), 0)}
	r.ctl = r.dial()
	return r
}

func (r *raw) dial() net.Conn {
	r.t.Helper()
	c := must.Get((&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.addr))(r.t)
	must.Do(r.t, c.SetDeadline(time.Now().Add(rawPatience)))
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *raw) send(c net.Conn, b ...byte) {
	r.t.Helper()
	if _, err := c.Write(b); err != nil {
		r.t.Fatalf("send: %v", err)
	}
}

// message sends a length, which may lie, and text.
func (r *raw) message(length int, text string) {
	r.t.Helper()
	r.send(r.ctl, append(binary.BigEndian.AppendUint32(nil, uint32(length)), text...)...)
}

func (r *raw) json(text string) { r.t.Helper(); r.message(len(text), text) }

// expect reads the states one by one.
func (r *raw) expect(states ...iperf3.State) {
	r.t.Helper()
	for _, want := range states {
		if got, err := iperf3.ReadState(r.ctl); err != nil || got != want {
			r.t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	}
}

// begin goes as far as data may flow.
func (r *raw) begin(params string, n int) {
	r.t.Helper()
	r.send(r.ctl, r.cookie...)
	r.expect(iperf3.ParamExchange)
	r.json(params)
	r.expect(iperf3.CreateStreams)
	r.connect(n)
	r.expect(iperf3.TestStart, iperf3.TestRunning)
}

// connect opens n streams.
func (r *raw) connect(n int) {
	r.t.Helper()
	for range n {
		c := r.dial()
		r.send(c, r.cookie...)
		r.streams = append(r.streams, c)
	}
}

// over waits until our end closes the control connection, and returns what it
// said before.
func (r *raw) over() []byte {
	r.t.Helper()
	b, err := io.ReadAll(io.LimitReader(r.ctl, 1<<20))
	// A case may have closed its own end.
	if isTimeout(err) {
		r.t.Fatal("the server holds on to a client that does nothing")
	}
	return b
}

// stream is one stream's results as an old client writes them.
func stream(id int, bytes string) string {
	return fmt.Sprintf(`{"id":%d,"bytes":%s,"retransmits":0,"jitter":0,"errors":0,"packets":0}`, id, bytes)
}

func resultsOf(streams ...string) string {
	return `{"cpu_util_total":1.5,"cpu_util_user":1,"cpu_util_system":0.5,"sender_has_retransmits":1,"streams":[` +
		strings.Join(streams, ",") + `]}`
}
