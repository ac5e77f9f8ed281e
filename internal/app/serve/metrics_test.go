package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// The lines of the exposition, after the ABNF of OpenMetrics 1.0, without timestamps and
// exemplars, which linerate does not write.
var (
	metaLine   = regexp.MustCompile(`^# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*\})? ([+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)|NaN)$`)
)

// checkOpenMetrics returns what OpenMetrics 1.0 does not allow in text: families are not
// interleaved and described once, TYPE and UNIT and HELP come before samples, a unit is the
// end of the name, samples have the suffix of their type and are not repeated, EOF is last.
func checkOpenMetrics(text string) error {
	if !strings.HasSuffix(text, "\n") {
		return fmt.Errorf("the last line does not end")
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[len(lines)-1] != "# EOF" {
		return fmt.Errorf("no EOF")
	}
	suffix := map[string]string{"gauge": "", "counter": "_total", "info": "_info"}
	seen, families := map[string]bool{}, map[string]bool{}
	var name, kind string
	for _, l := range lines[:len(lines)-1] {
		if m := metaLine.FindStringSubmatch(l); m != nil {
			if m[1] == "TYPE" {
				if families[m[2]] {
					return fmt.Errorf("family %s comes twice", m[2])
				}
				name, kind = m[2], m[3]
				families[name] = true
				if _, ok := suffix[kind]; !ok {
					return fmt.Errorf("type %q", kind)
				}
			}
			if m[2] != name {
				return fmt.Errorf("%s among those of %s", l, name)
			}
			if m[1] == "UNIT" && !strings.HasSuffix(name, "_"+m[3]) {
				return fmt.Errorf("%s does not end in its unit %s", name, m[3])
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(l)
		if m == nil {
			return fmt.Errorf("line %q", l)
		}
		if m[1] != name+suffix[kind] {
			return fmt.Errorf("sample %s of %s %s", m[1], kind, name)
		}
		if seen[m[1]+m[2]] {
			return fmt.Errorf("sample %s comes twice", m[1]+m[2])
		}
		seen[m[1]+m[2]] = true
	}
	return nil
}

func TestMetricsAreOpenMetrics(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Sessions: 8, Memory: 1 << 30}, AllAnonymous: budget.Limits{Time: time.Hour}})
	_ = must.Get(b.Open(loopback, "key"))(t).Use(1500 * time.Millisecond)
	for _, u := range []budget.Usage{{}, b.Usage()} {
		var text bytes.Buffer
		writeMetrics(&text, true, "v1 \"x\"\\\n\x1b", u)
		err := checkOpenMetrics(text.String())
		must.True(t, err == nil, "%v\n%s", err, text.String())
	}
	var text bytes.Buffer
	writeMetrics(&text, true, "v1", b.Usage())
	for _, want := range []string{
		"linerate_serve_time_seconds{class=\"keyed\"} 1.5\n", "linerate_serve_time_limit_seconds{of=\"anonymous\"} 3600\n",
		"linerate_serve_memory_limit_bytes{of=\"server\"} 1073741824\n", "linerate_serve_disk_limit_bytes{of=\"server\"} +Inf\n",
	} {
		must.Contain(t, text.String(), want)
	}
}

// TestMetricsAccept asks as browsers, old and new Prometheus do. Other than OpenMetrics the
// answer is text 0.0.4, whose parser wants a family's name in each line; promtool of Debian,
// if installed, finds no fault in it.
func TestMetricsAccept(t *testing.T) {
	l := must.Get(ListenMetrics(t.Context(), "0"))(t)
	b := budget.New(budget.Config{Server: budget.Limits{UDP: 80e6}})
	go func() { _ = Metrics(t.Context(), l, metricsOf("v1", b)) }()
	ask := func(accept string) (string, string) {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil))(t)
		r.Header.Set("Accept", accept)
		a := must.Get(http.DefaultClient.Do(r))(t)
		defer func() { _ = a.Body.Close() }()
		return a.Header.Get("Content-Type"), string(must.Get(io.ReadAll(a.Body))(t))
	}
	for accept, want := range map[string]string{
		"": textType, "*/*": textType, "text/html,*/*;q=0.8": textType, "text/plain;version=0.0.4;q=0.9": textType,
		"application/openmetrics-text;version=1.0.0;q=0.1,text/plain;q=0.5":                textType,
		"application/openmetrics-text;q=0":                                                 textType,
		"application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5": openMetricsType,
		"application/openmetrics-text":                                                     openMetricsType,
	} {
		kind, text := ask(accept)
		must.Equal(t, kind, want, "Accept: %s", accept)
		open := checkOpenMetrics(text) == nil
		must.True(t, open == (want == openMetricsType), "Accept: %s: OpenMetrics is %v\n%s", accept, open, text)
	}
	_, text := ask("")
	p := expfmt.NewTextParser(prommodel.LegacyValidation)
	all := must.Get(p.TextToMetricFamilies(strings.NewReader(text)))(t)
	must.Equal(t, all["linerate_serve_refusals_total"].GetType(), dto.MetricType_COUNTER)
	must.Equal(t, all["linerate_serve_info"].GetType(), dto.MetricType_GAUGE)
	must.Contain(t, text, "linerate_serve_udp_limit_bytes_per_second{of=\"server\"} 10000000\n")
	promtool, err := exec.LookPath("promtool")
	must.SkipIf(t, err != nil, "promtool is not installed (Debian: prometheus)")
	c := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	c.Stdin = strings.NewReader(text)
	out, err := c.CombinedOutput()
	must.True(t, err == nil && len(out) == 0, "promtool check metrics: %v: %s", err, out)
}

// TestMetricsBounded holds more connections than there are slots, and expects an answer once
// they are closed.
func TestMetricsBounded(t *testing.T) {
	l := must.Get(ListenMetrics(t.Context(), "0"))(t)
	addr := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Metrics(ctx, l, metricsOf("v1", budget.New(budget.Config{}))) }()
	var silent []net.Conn
	for range 40 {
		silent = append(silent, must.Get(new(net.Dialer).DialContext(ctx, "tcp", addr))(t))
	}
	closed := 0
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !os.IsTimeout(err) {
			closed++
		}
		_ = c.Close()
	}
	must.True(t, closed >= 40-16, "%d of 40 connections were closed", closed)
	answered := false
	for began := time.Now(); !answered && time.Since(began) < time.Minute; {
		r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil))(t)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			<-time.After(20 * time.Millisecond)
			continue
		}
		text, _ := io.ReadAll(a.Body)
		_ = a.Body.Close()
		answered = a.StatusCode == http.StatusOK && len(text) > 0
	}
	must.True(t, answered, "no answer after the silent ones were gone")
	cancel()
	must.OK(t, <-done)
}

func TestListenMetrics(t *testing.T) {
	for addr, says := range map[string]string{"::1:x": "--metrics", "127.0.0.1:http-none": "--metrics"} {
		must.Say(t, must.Err(ListenMetrics(t.Context(), addr)), says, "%s", addr)
	}
	l := must.Get(ListenMetrics(t.Context(), ":0"))(t)
	defer func() { _ = l.Close() }()
	must.True(t, strings.HasPrefix(l.Addr().String(), "127.0.0.1:"), "a port alone is %s", l.Addr())
}

func TestLimits(t *testing.T) {
	host := room{memory: 8 << 30, disk: 100 << 30, files: budget.Divide(8192, 1)}
	c, err := Limits{}.config(host, visitors{listeners: 1})
	must.Do(t, err)
	s := c.Server
	must.True(t, s.Sessions == 64 && s.Memory == 2<<30 && s.Disk == 25<<30 && s.Descriptors == 8192-1024-512-896-64 && s.UDP == 0, "server %+v", s)
	s = c.AllAnonymous
	must.True(t, s.Sessions == 16 && s.Memory == 128<<20 && s.Disk == 2<<30 && s.Descriptors == (8192-1024-512-896-64)/2, "anonymous clients %+v", s)
	must.True(t, c.Keyed.Session.Memory == 1<<30 && c.Anonymous.Lifetime == 10*time.Minute && c.Window == 24*time.Hour, "%+v", c)
	f := Limits{
		All: "sessions=20, memory=1GiB,udp=1Gbit/s,egress=1TiB/hour", Anonymous: "memory=none,disk=0",
		Source: "lifetime=1m,time=10min/hour,sessions=none",
	}
	c, err = f.config(host, visitors{open: true, sessions: 3})
	must.Do(t, err)
	must.True(t, c.Server.Sessions == 20 && c.Server.Memory == 1<<30 && c.Server.UDP == 1e9 && c.Server.Egress == 1<<40 && c.Window == time.Hour,
		"server %+v in %v", c.Server, c.Window)
	must.True(t, c.AllAnonymous.Memory == 0 && c.AllAnonymous.Disk == -1 && c.AllAnonymous.Sessions == 3, "anonymous clients %+v", c.AllAnonymous)
	must.True(t, c.Anonymous.Lifetime == time.Minute && c.Anonymous.Source.Time == 10*time.Minute && c.Anonymous.Source.Sessions == 0, "source %+v", c.Anonymous)
	c, err = (Limits{}).config(host, visitors{sessions: 12})
	must.True(t, err == nil && c.Server.Sessions == 12 && c.AllAnonymous.Sessions == -1, "a server for those with a key alone: %v, %+v", err, c)
	c, err = (Limits{}).config(room{}, visitors{open: true})
	must.True(t, err == nil && c.Server.Memory == 0 && c.AllAnonymous.Memory == 128<<20, "a host that tells nothing: %v, %+v", err, c)
}

func TestLimitsRefuse(t *testing.T) {
	for text, says := range map[string]string{
		"memory":                          "KEY=VALUE",
		"memory=much":                     "memory",
		"memory=-1GiB":                    "memory",
		"luck=1":                          "there are sessions, descriptors, memory",
		"egress=1TiB/week":                "/day and /hour",
		"egress=1TiB/hour,time=2h/day":    "all by the hour",
		"lifetime=1m":                     "belongs to --limit-source",
		"sessions=9999999999999999999999": "sessions",
	} {
		_, err := Limits{All: text}.config(room{}, visitors{})
		must.True(t, err != nil && fault.KindOf(err) == fault.Usage && strings.Contains(err.Error(), says), "%s: %v", text, err)
	}
}

// TestMemoryLimit: anonymous clients never raise the server's memory limit, key holders do by
// what they use.
func TestMemoryLimit(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Memory: 1 << 30}, AllAnonymous: budget.Limits{Memory: 128 << 20}})
	empty := memoryLimit(b.Usage())
	must.True(t, empty == besideBudget+128<<20 && empty <= 300e6, "an idle server may hold %d MiB", empty>>20)
	for key, more := range map[string]int64{"": 0, "key": 64 << 20} {
		s := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), key))(t)
		must.Get(s.Take(budget.Amounts{Memory: 64 << 20}))(t)
		got := memoryLimit(b.Usage())
		must.True(t, got == empty+more, "%q took 64 MiB: %d MiB, want %d", key, got>>20, (empty+more)>>20)
		s.Close()
	}
}

// told records events of visits, a word each.
func told(all *[]string) func(app.Event) {
	return func(e app.Event) {
		var line string
		switch e := e.(type) {
		case app.VisitBegan:
			line = fmt.Sprintf("%d began: %s %s %s", e.Visit.ID, e.Visit.Protocol, e.Visit.From, e.Visit.Key)
		case app.VisitRuns:
			line = fmt.Sprintf("%d runs %s", e.ID, e.Flow.Direction)
		case app.VisitSampled:
			line = fmt.Sprintf("%d sampled %g", e.ID, e.Samples[0].Value)
		case app.VisitRan:
			line = fmt.Sprintf("%d ran: sent %d, received %d, %v", e.ID, e.Sent, e.Received, e.Err)
		case app.VisitEnded:
			line = fmt.Sprintf("%d ended: %v", e.ID, e.Err)
		case app.VisitRefused:
			line = fmt.Sprintf("refused %s %s: %v", e.Visit.Protocol, e.Visit.From, e.Err)
		default:
			line = fmt.Sprintf("%T", e)
		}
		*all = append(*all, line)
	}
}

// TestForeignVisits: two tests from one address are distinguished by their ports, even if
// they end in another order than they began; a refused client is not a visit; and events
// after the end of a test are dropped.
func TestForeignVisits(t *testing.T) {
	var got []string
	v := newVisits(told(&got))
	from := netip.MustParseAddr("::ffff:192.0.2.7") // as a dual-stack socket reports it
	event := func(port uint16, d model.Direction, began, over bool, err error) program.Event {
		e := program.Event{Test: program.Test{From: from, Key: "anna", Flow: model.Flow{Direction: d}, Took: time.Second, Err: err}, Port: port, Began: began, Over: over}
		if over && began {
			e.Ends = []model.EndReport{{Flows: []model.FlowReport{{Role: model.Receiver, Bytes: 9}, {Role: model.Sender, Bytes: 4}}}}
		}
		return e
	}
	samples := []model.Sample{{Value: 5}}
	sampled := func(port uint16) { v.foreignSampled("iperf3", netip.AddrPortFrom(from, port), samples) }
	v.foreign("iperf3", event(1001, model.To, true, false, nil))
	v.foreign("iperf3", event(1002, model.From, true, false, nil))
	sampled(1002)
	samples[0].Value = 6 // like a reused buffer
	sampled(1001)
	sampled(1003)
	v.foreign("iperf3", event(1001, model.To, true, true, nil))
	sampled(1001)
	v.foreign("iperf3", event(1003, model.To, false, true, errors.New("full")))
	v.foreign("iperf3", event(1002, model.From, true, true, errors.New("cut")))
	want := []string{
		"1 began: iperf3 192.0.2.7 anna", "1 runs to", "2 began: iperf3 192.0.2.7 anna", "2 runs from",
		"2 sampled 5", "1 sampled 6", "1 ran: sent 4, received 9, <nil>", "1 ended: <nil>", "refused iperf3 192.0.2.7: full",
		"2 ran: sent 4, received 9, cut", "2 ended: cut",
	}
	must.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	must.True(t, len(v.open) == 0, "remembers %d visits that are over", len(v.open))
}

func TestPeers(t *testing.T) {
	for text, want := range map[string]string{
		"": "[]", "10.0.0.7": "[10.0.0.7/32]", "10.0.0.9/24, fd00::7": "[10.0.0.0/24 fd00::7/128]", "::ffff:10.0.0.7": "[10.0.0.7/32]", "nas": "error", "10.0.0.0/33": "error",
	} {
		peers, err := parsePeers(text)
		got := fmt.Sprint(peers)
		if err != nil {
			got = "error"
		}
		must.Equal(t, got, want, "%q", text)
	}
}
