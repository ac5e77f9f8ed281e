package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// dialect is what the clients of a version send, as far as versions differ: control bytes,
// recorded where possible.
type dialect struct {
	cookie  string
	params  string
	streams int
	hello   string // UDP
	results func(bytes string) string
	slow    bool // one byte at a time
}

// dialects has the versions that cannot be run here.
func dialects() map[string]dialect {
	plain := func(bytes string) string { return resultsOf(stream(1, bytes)) }
	ten := func(bytes string) string { return strings.Replace(plain(bytes), `"packets":0`, `"packets":10`, 1) }
	return map[string]dialect{
		// Cookies of host name and time; no num, no blockcount.
		"3.1": {
			cookie:  "desk.example.1450000000.123456.4a5b6c",
			params:  `{"tcp":true,"omit":0,"time":1,"parallel":1,"len":131072,"client_version":"3.1"}`,
			results: plain,
		},
		// Large integers as floats.
		"3.9": {
			params:  `{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":131072,"pacing_timer":1000,"client_version":"3.9"}`,
			results: func(string) string { return plain("1.0e+04") },
		},
		// -1 as an unsigned number.
		"3.12": {
			params: `{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":2,"len":131072,"pacing_timer":1000,"client_version":"3.12"}`,
			results: func(bytes string) string {
				return strings.ReplaceAll(resultsOf(stream(1, bytes), stream(3, bytes)), `"retransmits":0`, `"retransmits":18446744073709551615`)
			},
			streams: 2,
		},
		"3.21": {
			params: `{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":131072,"pacing_timer":1000,"skip_rx_copy":1,"client_version":"3.21"}`,
			results: func(bytes string) string {
				return `{"cpu_util_total":1.5,"cpu_util_user":1,"cpu_util_system":0.5,"sender_has_retransmits":1,"congestion_used":"cubic","streams":[` +
					`{"id":1,"bytes":` + bytes + `,"retransmits":0,"jitter":0,"errors":0,"omitted_errors":0,"packets":0,"omitted_packets":0,"start_time":0,"end_time":1.0001}]}`
			},
		},
		"nothing but braces": {params: `{}`, results: plain},
		"one byte at a time": {params: `{"tcp":true,"time":1}`, results: plain, slow: true},
		"3.9 UDP": {
			params:  `{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":1000,"bandwidth":1048576,"pacing_timer":1000,"client_version":"3.9"}`,
			hello:   "\x15\xcd\x5b\x07",
			results: ten,
		},
		"3.21 UDP": {
			params:  `{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":1000,"bandwidth":1048576,"gso":0,"gso_dg_size":0,"gso_bf_size":65507,"gro":0,"gro_bf_size":65507,"pacing_timer":1000,"client_version":"3.21"}`,
			hello:   "9876",
			results: ten,
		},
	}
}

// TestServerVersions lets clients of all versions send 10,000 bytes per stream.
func TestServerVersions(t *testing.T) {
	t.Parallel()
	together(t, 20, dialects(), func(t testing.TB, d dialect) {
		e := newEvents()
		r := newRaw(t, serveHere(t, ServerConfig{Event: e.add}))
		if d.cookie != "" {
			r.cookie = append([]byte((d.cookie + strings.Repeat("0", iperf3.CookieLen))[:iperf3.CookieLen-1]), 0)
		}
		if d.slow {
			r.ctl = slowly{r.ctl}
		}
		n := max(d.streams, 1)
		r.send(r.ctl, r.cookie...)
		r.expect(iperf3.ParamExchange)
		r.json(d.params)
		r.expect(iperf3.CreateStreams)
		if d.hello == "" {
			r.connect(n)
			r.expect(iperf3.TestStart, iperf3.TestRunning)
			for _, c := range r.streams {
				r.send(c, make([]byte, 10000)...)
			}
		} else {
			u := r.greet(d.hello)
			r.expect(iperf3.TestStart, iperf3.TestRunning)
			for i := range 10 {
				b := make([]byte, 1000)
				iperf3.DatagramHeader{Seconds: 2212, Microseconds: uint32(i), Sequence: uint64(i + 1)}.Put(b, false)
				r.send(u, b...)
			}
		}
		r.send(r.ctl, iperf3.TestEnd.Byte())
		r.expect(iperf3.ExchangeResults)
		r.json(d.results("10000"))
		got := must.Get(iperf3.ParseResults(must.Get(iperf3.ReadFrame(r.ctl, iperf3.MaxResults))(t)))(t)
		must.Need(t, len(got.Streams) == n, "%+v", got)
		for i, s := range got.Streams {
			must.True(t, s.Bytes == 10000 && s.ID == int64(iperf3.StreamID(i)), "stream %d: %+v", i, s)
			must.True(t, d.hello == "" || s.Packets == 10 && s.Errors == 0, "datagrams of stream %d: %+v", i, s)
		}
		r.expect(iperf3.DisplayResults)
		r.send(r.ctl, iperf3.Done.Byte())
		must.Len(t, r.over(), 0, "after the end")
		end := e.ended(t)
		must.True(t, end.Err == nil, "%v", end.Err)
	})
}

// greet opens a UDP stream.
func (r *raw) greet(hello string) net.Conn {
	r.t.Helper()
	u := must.Get((&net.Dialer{}).DialContext(r.t.Context(), "udp", r.addr))(r.t)
	r.t.Cleanup(func() { _ = u.Close() })
	r.send(u, []byte(hello)...)
	b := make([]byte, 100)
	must.Do(r.t, u.SetReadDeadline(time.Now().Add(rawPatience)))
	n, err := u.Read(b)
	if err != nil || !bytes.Equal(b[:n], iperf3.Reply()) {
		r.t.Fatalf("answer % x, %v", b[:n], err)
	}
	return u
}

// slowly writes one byte at a time.
type slowly struct{ net.Conn }

func (s slowly) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := s.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// TestServerGlued: a server reads no more than its message if a client sends several messages
// in one piece.
func TestServerGlued(t *testing.T) {
	e := newEvents()
	r := newRaw(t, serveHere(t, ServerConfig{Event: e.add}))
	r.send(r.ctl, append(bytes.Clone(r.cookie), frame(`{"tcp":true,"time":1}`)...)...)
	r.expect(iperf3.ParamExchange, iperf3.CreateStreams)
	r.connect(1)
	r.expect(iperf3.TestStart, iperf3.TestRunning)
	r.send(r.ctl, append([]byte{iperf3.TestEnd.Byte()}, append(frame(resultsOf(stream(1, "0"))), iperf3.Done.Byte())...)...)
	r.expect(iperf3.ExchangeResults)
	must.OK(t, must.Err(iperf3.ReadFrame(r.ctl, iperf3.MaxResults)))
	r.expect(iperf3.DisplayResults)
	must.OK(t, e.ended(t).Err)
}

// raw is a client that a test controls step by step.
type raw struct {
	t       testing.TB
	addr    string
	ctl     net.Conn
	cookie  []byte
	streams []net.Conn
}

// rawPatience bounds every wait of a test for our end.
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
	must.Dof(r.t, must.Err(c.Write(b)), "send")
}

// message sends a length, which may be wrong, and text.
func (r *raw) message(length int, text string) {
	r.t.Helper()
	r.send(r.ctl, append(binary.BigEndian.AppendUint32(nil, uint32(length)), text...)...)
}

func (r *raw) json(text string) { r.t.Helper(); r.message(len(text), text) }

// expect reads the states one by one.
func (r *raw) expect(states ...iperf3.State) {
	r.t.Helper()
	for _, want := range states {
		got, err := iperf3.ReadState(r.ctl)
		must.Need(r.t, err == nil && got == want, "got %v, %v, want %v", got, err, want)
	}
}

// begin runs the test until data may flow.
func (r *raw) begin(params string, n int) {
	r.t.Helper()
	r.send(r.ctl, r.cookie...)
	r.expect(iperf3.ParamExchange)
	r.json(params)
	r.expect(iperf3.CreateStreams)
	r.connect(n)
	r.expect(iperf3.TestStart, iperf3.TestRunning)
}

// claim runs a test of two streams, and reports results of them.
func (r *raw) claim(streams ...string) {
	r.begin(oneSecond, 2)
	r.send(r.ctl, iperf3.TestEnd.Byte())
	r.json(resultsOf(streams...))
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

// over waits until our end closes the control connection, and returns what it sent before.
func (r *raw) over() []byte {
	r.t.Helper()
	b, err := io.ReadAll(io.LimitReader(r.ctl, 1<<20))
	// A case may have closed its own end.
	must.Need(r.t, !isTimeout(err), "the server holds on to a client that does nothing")
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

// TestClientRecognisesIperf2: the error names an iperf 2 server as such.
func TestClientRecognisesIperf2(t *testing.T) {
	path, err := exec.LookPath("iperf")
	must.SkipIf(t, err != nil, "iperf 2 is not installed")
	t.Parallel()
	for _, f := range []model.Flow{
		{Direction: model.To, Duration: 10 * time.Minute},
		{Direction: model.Both, Duration: 10 * time.Minute, Streams: 2},
		{Engine: udp.Name, Direction: model.From, Duration: 10 * time.Minute, Params: traffic.Write(udp.Params{Rate: 1e6})},
	} {
		addr := serverOf2(t, path)
		_, _, err := Client{}.Run(t.Context(), addr, f, func([]model.Sample) {})
		must.Is(t, err, ErrIperf2, "%s", f.Direction)
	}
}

// serverOf2 starts an iperf 2 server and returns its address.
func serverOf2(t testing.TB, path string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	_, port, _ := strings.Cut(hereOnce(t), ":")
	cmd := exec.CommandContext(ctx, path, "-s", "-B", "127.0.0.1", "-p", port)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	addr := net.JoinHostPort("127.0.0.1", port)
	for limit := time.Now().Add(rawPatience); ; {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = c.Close()
			return addr
		}
		must.Need(t, !time.Now().After(limit), "the real iperf 2 does not listen: %v", err)
	}
}

// hereOnce returns an address on which no program listens now.
func hereOnce(t testing.TB) string {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// TestClientBothWithOldServer imitates a server of 3.1, as observed with 3.1.7: it ignores that
// the test is bidirectional, begins when the client's own streams are open, and answers each
// further one with a byte before it closes it.
func TestClientBothWithOldServer(t *testing.T) {
	t.Parallel()
	l := listenHere(t)
	go func() {
		ctl, err := l.Accept()
		if err != nil {
			return
		}
		defer ctl.Close()
		_, _ = iperf3.ReadCookie(ctl)
		_, _ = ctl.Write([]byte{iperf3.ParamExchange.Byte()})
		_, _ = iperf3.ReadFrame(ctl, iperf3.MaxParams)
		_, _ = ctl.Write([]byte{iperf3.CreateStreams.Byte()})
		data, err := l.Accept()
		if err != nil {
			return
		}
		defer data.Close()
		go func() { _, _ = io.Copy(io.Discard, data) }()
		_, _ = ctl.Write([]byte{iperf3.TestStart.Byte(), iperf3.TestRunning.Byte()})
		if further, err := l.Accept(); err == nil {
			_, _ = further.Write([]byte{iperf3.AccessDenied.Byte()})
			_ = further.Close() // closing with the cookie unread resets it
		}
		_, _ = io.Copy(io.Discard, ctl)
	}()
	f := model.Flow{Direction: model.Both, Duration: 20 * time.Minute, Interval: 100 * time.Millisecond}
	_, _, err := Client{}.Run(t.Context(), l.Addr().String(), f, func([]model.Sample) {})
	must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "before 3.7"), "%v", err)
}
