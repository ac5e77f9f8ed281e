package peer

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"linerate/internal/measure/iperf3"
	"linerate/internal/must"
)

// dialect is how the client of a version speaks, as far as versions differ: its
// control bytes, recorded where that was possible.
type dialect struct {
	cookie  string
	params  string
	streams int
	hello   string // UDP
	results func(bytes string) string
	slow    bool // one byte at a time
}

// dialects are those of versions that cannot be run here.
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

// TestServerVersions lets clients of all versions send 10,000 bytes a stream.
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
		body := must.Get(iperf3.ReadFrame(r.ctl, iperf3.MaxResults))(t)
		got := must.Get(iperf3.ParseResults(body))(t)
		must.Need(t, len(got.Streams) == n, "%+v", got)
		for i, s := range got.Streams {
			must.True(t, s.Bytes == 10000 && s.ID == int64(iperf3.StreamID(i)), "stream %d: %+v", i, s)
			must.True(t, d.hello == "" || s.Packets == 10 && s.Errors == 0, "datagrams of stream %d: %+v", i, s)
		}
		r.expect(iperf3.DisplayResults)
		r.send(r.ctl, iperf3.Done.Byte())
		rest := r.over()
		must.True(t, len(rest) == 0, "% x after the end", rest)
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

// TestServerGlued holds that a server reads no more than its message, when a
// client sends what it need not wait for in one piece.
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
