package serve

import (
	"bytes"
	"context"
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

	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// The lines of the exposition, after the ABNF of OpenMetrics 1.0, without
// timestamps and exemplars, which are not written.
var (
	metaLine   = regexp.MustCompile(`^# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$`)
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*")*\})? ([+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)|NaN)$`)
)

// checkOpenMetrics says what of text OpenMetrics 1.0 does not allow: families are
// not interleaved and told of once, TYPE and UNIT and HELP come before samples, a
// unit is the end of the name, samples have the suffix of their type and are not
// repeated, EOF is last.
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
	s := must.Get(b.Open(loopback, "key"))(t)
	_ = s.Use(1500 * time.Millisecond)
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

// TestMetricsAccept asks as browsers, old and new Prometheus do. What is not OpenMetrics
// is text 0.0.4, whose parser demands a family's name of each line, and promtool of
// Debian, where it is installed, finds nothing to mend in it.
func TestMetricsAccept(t *testing.T) {
	l := must.Get(listenMetrics(t.Context(), "0"))(t)
	b := budget.New(budget.Config{Server: budget.Limits{UDP: 80e6}})
	go func() { _ = serveMetrics(t.Context(), l, "v1", b) }()
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
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	c := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	c.Stdin = strings.NewReader(text)
	out := must.Get(c.CombinedOutput())(t)
	must.True(t, len(out) == 0, "promtool check metrics: %s", out)
}

// TestMetricsBounded holds more connections than there are slots, and demands an
// answer when they are gone.
func TestMetricsBounded(t *testing.T) {
	l := must.Get(listenMetrics(t.Context(), "0"))(t)
	addr := l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveMetrics(ctx, l, "v1", budget.New(budget.Config{})) }()
	var silent []net.Conn
	for range 40 {
		c := must.Get(new(net.Dialer).DialContext(ctx, "tcp", addr))(t)
		silent = append(silent, c)
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
		l, err := listenMetrics(t.Context(), addr)
		must.True(t, err != nil && strings.Contains(err.Error(), says), "%s: %v, %v", addr, l, err)
	}
	l := must.Get(listenMetrics(t.Context(), ":0"))(t)
	defer func() { _ = l.Close() }()
	must.True(t, strings.HasPrefix(l.Addr().String(), "127.0.0.1:"), "a port alone is %s", l.Addr())
}
