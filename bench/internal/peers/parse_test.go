package peers

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"linerate/internal/must"
)

// captured returns the output of a real program.
func captured(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Abs(want) }

func TestBulkReports(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		parse func([]byte) (Bulk, error)
		want  Bulk
	}{
		"iperf3": {"iperf3-3.12-tcp.json", ParseIperf3TCP, Bulk{2890792960, 1.007023}},
		// The sum of eight streams; the slowest took 1.0030 s.
		"iperf": {"iperf-2.1.8-tcp.csv", func(b []byte) (Bulk, error) { return ParseIperf2TCP(b, 8) },
			Bulk{7471628768, 907018300 * 8 / 7243296791.0}},
		"nuttcp": {"nuttcp-6.1.2-tcp.txt", ParseNuttcpTCP, Bulk{3763.5 * 1048576, 3763.5 * 1048576 * 8 / 31563.7716e6}},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(c.parse(captured(t, c.file)))(t)
			must.True(t, got.Bytes == c.want.Bytes && got.Seconds >= 0.99 && got.Seconds <= 1.02, "got %+v, want %+v", got, c.want)
			must.True(t, name == "iperf" || near(got.Seconds, c.want.Seconds), "got %v s, want %v", got.Seconds, c.want.Seconds)
		})
	}
}

func TestIperf2CountsTheSlowestStream(t *testing.T) {
	got, err := ParseIperf2TCP([]byte("0,a,1,b,2,1,0.0-1.0,1000,8000\nwrite failed: odd, line\n0,a,1,b,2,2,0.0-2.0,1000,4000\n"), 2)
	want := (Bulk{2000, 2})
	must.True(t, err == nil && got == want, "got %+v %v, want %+v", got, err, want)
	must.Fail(t, must.Err(ParseIperf2TCP(captured(t, "iperf-2.1.8-tcp.csv"), 9)), "a missing stream goes unseen")
}

func TestDatagramReports(t *testing.T) {
	for name, c := range map[string]struct {
		file                          string
		parse                         func([]byte) (Datagrams, error)
		sent, received, lost, seconds float64
	}{
		"iperf3": {"iperf3-3.12-udp.json", ParseIperf3UDP, 314980, 112889, 202091, 1.019893},
		"iperf":  {"iperf-2.1.8-udp.csv", ParseIperf2UDP, 302579, 131521, 171058, 1.008033},
		"nuttcp": {"nuttcp-6.1.2-udp.txt", ParseNuttcpUDP, 284499, 249653, 34846, 1.000052},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(c.parse(captured(t, c.file)))(t)
			must.True(t, got.Sent == c.sent && got.Received == c.received && got.Lost == c.lost &&
				!(math.Abs(got.Seconds-c.seconds) > 1e-4), "got %+v, want %+v", got, c)
		})
	}
}

func TestLatencyReports(t *testing.T) {
	l, err := ParseSockperf(captured(t, "sockperf-3.7-pingpong.txt"))
	must.True(t, err == nil && near(l.Mean, 3.987e-6) && near(l.P50, 3.011e-6) && near(l.P99, 10.291e-6), "sockperf: %+v %v", l, err)
	l, err = ParseQperfLatency(captured(t, "qperf-0.4.11-latency.txt"))
	must.True(t, err == nil && near(l.Mean, 3447.444e-9) && l.P50 == 0, "qperf: %+v %v", l, err)
	times, err := ParseNetPIPE(captured(t, "netpipe-3.7.2.out"))
	must.True(t, err == nil && len(times) == 20 && near(times[1], 3.30e-6) && near(times[1024], 7.16e-6), "NPtcp: %v %v", times, err)
}

func TestQperfBandwidth(t *testing.T) {
	for text, want := range map[string]float64{
		string(captured(t, "qperf-0.4.11-bandwidth.txt")):     4104126464,
		"tcp_bw:\n    bw        =     5.6 GB/sec\n":           5.6e9,
		"tcp_bw:\n    bw  =  11,234,567 bytes/sec\n port = 1": 11234567,
	} {
		got, err := ParseQperfTCP([]byte(text))
		must.True(t, err == nil && near(got, want), "%q: got %v %v, want %v", text, got, err, want)
	}
}

// An invalid or empty report must not become a result.
func TestBrokenReportsAreErrors(t *testing.T) {
	parsers := map[string]func([]byte) error{
		"iperf3 tcp": func(b []byte) error { _, err := ParseIperf3TCP(b); return err },
		"iperf3 udp": func(b []byte) error { _, err := ParseIperf3UDP(b); return err },
		"iperf tcp":  func(b []byte) error { _, err := ParseIperf2TCP(b, 1); return err },
		"iperf udp":  func(b []byte) error { _, err := ParseIperf2UDP(b); return err },
		"nuttcp tcp": func(b []byte) error { _, err := ParseNuttcpTCP(b); return err },
		"nuttcp udp": func(b []byte) error { _, err := ParseNuttcpUDP(b); return err },
		"sockperf":   func(b []byte) error { _, err := ParseSockperf(b); return err },
		"qperf bw":   func(b []byte) error { _, err := ParseQperfTCP(b); return err },
		"qperf lat":  func(b []byte) error { _, err := ParseQperfLatency(b); return err },
		"NPtcp":      func(b []byte) error { _, err := ParseNetPIPE(b); return err },
	}
	texts := []string{
		"", "connect failed: Connection refused\n", "{}", `{"end":{"sum_received":{"bytes":0,"seconds":1}}}`,
		string(captured(t, "iperf3-3.12-error.json")), "19700101000000,a,1,b,2,1,0.0-1.0,0,0,0.0,-1,-1,-0.000,0",
		"megabytes=0.0000 real_seconds=1.00 rate_Mbps=0.0000 drop=0 pkt=0", "megabytes=x", "latency = 0 us", "bw = 5 parsec",
		"sockperf: Summary: Latency is 0 usec",
	}
	for name, parse := range parsers {
		for _, text := range texts {
			must.Fail(t, parse([]byte(text)), "%s takes %q", name, text)
		}
	}
	must.Say(t, must.Err(ParseIperf3TCP(captured(t, "iperf3-3.12-error.json"))), "congestion control", "the reason is lost")
}

func TestIperf3Threads(t *testing.T) {
	for text, want := range map[string]bool{
		"iperf 3.12 (cJSON 1.7.15)": false, "iperf 3.15": false, "iperf 3.16 (cJSON 1.7.15)": true, "iperf 3.21+": true, "iperf 4.0": true, "": false,
	} {
		must.Equal(t, Iperf3Threads(text), want, "%q", text)
	}
}

// All peers of a comparison write blocks of the same size.
func TestTunedAlike(t *testing.T) {
	o := TCP{To: "192.0.2.1", Streams: 8, Block: 131072, Time: 2 * time.Second, Congestion: "cubic"}
	for _, c := range []struct {
		command Command
		words   []string
	}{
		{Iperf3TCP(o), []string{"131072", "--no-delay", "cubic", "8", "2"}},
		{Iperf2TCP(o), []string{"131072", "-N", "cubic", "8", "2"}},
		{NuttcpTCP(o), []string{"-l131072", "-D", "-N8", "-T2"}},
		{QperfTCP(o), []string{"131072", "2"}},
	} {
		for _, w := range c.words {
			must.True(t, slices.Contains(c.command.Client, w), "%v lacks %s", c.command, w)
		}
	}
	c := SockperfTCP("192.0.2.1", 1, time.Second, true)
	must.True(t, slices.Contains(c.Client, "14") && slices.Contains(c.Server, "--nonblocked"), "sockperf: %v", c)
}

func FuzzReports(f *testing.F) {
	files := must.Get(filepath.Glob("testdata/*.*"))(f)
	must.Need(f, len(files) >= 10, "%v", files)
	for _, name := range files {
		f.Add(must.Get(os.ReadFile(name))(f))
	}
	positive := func(t *testing.T, err error, v ...float64) {
		for _, x := range v {
			must.True(t, err != nil || x > 0, "%v is no figure", v)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (Bulk, error){
			ParseIperf3TCP, ParseNuttcpTCP, func(b []byte) (Bulk, error) { return ParseIperf2TCP(b, 1) },
		} {
			v, err := parse(b)
			positive(t, err, v.Bytes, v.Seconds)
		}
		for _, parse := range []func([]byte) (Datagrams, error){ParseIperf3UDP, ParseIperf2UDP, ParseNuttcpUDP} {
			v, err := parse(b)
			positive(t, err, v.Sent, v.Seconds)
		}
		l, err := ParseSockperf(b)
		positive(t, err, l.Mean, l.P50, l.P99)
		l, err = ParseQperfLatency(b)
		positive(t, err, l.Mean)
		rate, err := ParseQperfTCP(b)
		positive(t, err, rate)
		_, _ = ParseNetPIPE(b)
	})
}
