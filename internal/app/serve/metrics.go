package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"linerate/internal/fault"
	"linerate/internal/measure/budget"
)

// The content types of OpenMetrics 1.0
// (https://prometheus.io/docs/specs/om/open_metrics_spec/, "Content-Type") and of
// Prometheus's own text format, for clients that do not ask for OpenMetrics.
const (
	openMetrics     = "application/openmetrics-text"
	openMetricsType = openMetrics + "; version=1.0.0; charset=utf-8"
	textType        = "text/plain; version=0.0.4; charset=utf-8"
)

// wantsOpenMetrics reports whether a client that sends accept prefers OpenMetrics to
// plain text (RFC 9110 section 12.5.1).
func wantsOpenMetrics(accept string) bool {
	open, text := 0.0, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			weight = q
		}
		switch kind {
		case openMetrics:
			open = max(open, weight)
		case "text/plain", "text/*":
			text = max(text, weight)
		}
	}
	return open > 0 && open >= text
}

// Bounds of the metrics server, which answers with a few kilobytes.
const (
	metricsTimeout = 5 * time.Second
	metricsHeaders = 8 << 10
)

// ListenMetrics listens on the address of metrics; a port alone means loopback, since metrics
// show how busy a server is.
func ListenMetrics(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil && !strings.Contains(addr, ":") {
		host, port, err = "", addr, nil
	}
	if err != nil {
		return nil, fault.WithHint(fault.Usagef("--metrics: %v", err), "write it like --metrics 127.0.0.1:9100 or --metrics :9100")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fault.WithHint(fmt.Errorf("--metrics: %w", err), "use --metrics ADDRESS:PORT for another port")
	}
	return l, nil
}

// Metrics answers on l with the text of write until ctx ends. open tells write to speak
// OpenMetrics rather than Prometheus's own format. A failed request is not an error.
func Metrics(ctx context.Context, l net.Listener, write func(w io.Writer, open bool)) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		open, kind := wantsOpenMetrics(r.Header.Get("Accept")), textType
		if open {
			kind = openMetricsType
		}
		write(&text, open)
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Vary", "Accept")
		_, _ = w.Write(text.Bytes())
	})
	s := &http.Server{
		Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: 2 * metricsTimeout,
		MaxHeaderBytes: metricsHeaders,
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // about clients that hung up
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(&fewConns{Listener: l, slots: make(chan struct{}, 16)}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// fewConns is a listener with a limited number of connections. It closes any others.
type fewConns struct {
	net.Listener
	slots chan struct{}
}

// Accept waits for a connection that gets a slot.
func (f *fewConns) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case f.slots <- struct{}{}:
			return &slotted{Conn: c, free: f.slots}, nil
		default:
			_ = c.Close()
		}
	}
}

type slotted struct {
	net.Conn
	free chan struct{}
	once sync.Once
}

// Close frees the slot.
func (s *slotted) Close() error {
	s.once.Do(func() { <-s.free })
	return s.Conn.Close()
}

// metricsOf returns the function that writes the metrics of a budget.
func metricsOf(version string, b *budget.Budget) func(io.Writer, bool) {
	return func(w io.Writer, open bool) { writeMetrics(w, open, version, b.Usage()) }
}

// writeMetrics writes u as OpenMetrics, or as the older text format, in which a family has
// the name of its lines, and no unit, no kind info and no end.
func writeMetrics(w io.Writer, open bool, version string, u budget.Usage) {
	family := func(name, kind, unit, help string) {
		switch {
		case !open && kind == "info":
			name, kind = name+"_info", "gauge"
		case !open && kind == "counter":
			name += "_total"
		}
		fmt.Fprintf(w, "# TYPE %s %s\n", name, kind)
		if open && unit != "" {
			fmt.Fprintf(w, "# UNIT %s %s\n", name, unit)
		}
		fmt.Fprintf(w, "# HELP %s %s\n", name, help)
	}
	family("linerate_serve", "info", "", "The server's version.")
	fmt.Fprintf(w, "linerate_serve_info{version=%q} 1\n", metricText(version))
	family("linerate_serve_sources", "gauge", "", "Addresses that have sessions.")
	fmt.Fprintf(w, "linerate_serve_sources %d\n", u.Active)
	family("linerate_serve_sources_remembered", "gauge", "", "Addresses whose use within the window is remembered one by one.")
	fmt.Fprintf(w, "linerate_serve_sources_remembered %d\n", u.Remembered)
	family("linerate_serve_window_seconds", "gauge", "seconds", "The window in which egress and time are counted.")
	fmt.Fprintf(w, "linerate_serve_window_seconds %s\n", decimal(u.Window.Seconds()))
	for _, k := range u.Kinds {
		name, unit, scale := metricName(k.Kind)
		family(name, "gauge", unit, metricHelp(k.Kind))
		fmt.Fprintf(w, "%s{class=\"anonymous\"} %s\n", name, decimal(float64(k.Anonymous)*scale))
		fmt.Fprintf(w, "%s{class=\"keyed\"} %s\n", name, decimal(float64(k.Keyed)*scale))
		limits := limitName(name, unit)
		family(limits, "gauge", unit, "The limit of that; +Inf is no limit.")
		for _, l := range []struct {
			of string
			n  int64
		}{{"server", k.Limit}, {"anonymous", k.AllAnonymous}, {"source", k.Source}} {
			fmt.Fprintf(w, "%s{of=%q} %s\n", limits, l.of, limitValue(l.n, scale))
		}
	}
	family("linerate_serve_refusals", "counter", "", "What was refused because a limit was reached.")
	for _, k := range u.Kinds {
		fmt.Fprintf(w, "linerate_serve_refusals_total{kind=%q} %d\n", k.Kind.String(), k.Refused)
	}
	if open {
		fmt.Fprint(w, "# EOF\n")
	}
}

// metricHelp returns the help text for the metric of a kind.
func metricHelp(k budget.Kind) string {
	switch k {
	case budget.Sessions:
		return "Sessions."
	case budget.UDP:
		return "Rate of UDP that sessions may send now."
	case budget.Egress:
		return "Payload sent within the window."
	case budget.Time:
		return "Time of runs within the window."
	case budget.Records:
		return "Results of clients of other programs kept within the window."
	case budget.Descriptors, budget.Memory, budget.Disk:
	}
	name := k.String()
	return strings.ToUpper(name[:1]) + name[1:] + " that sessions hold."
}

// metricName returns the name of a kind's metric, the unit, which OpenMetrics wants at the
// end of the name, and the scale.
func metricName(k budget.Kind) (name, unit string, scale float64) {
	switch k {
	case budget.Memory, budget.Disk, budget.Egress:
		return "linerate_serve_" + k.String() + "_bytes", "bytes", 1
	case budget.Records:
		return "linerate_serve_results", "", 1
	case budget.Time:
		return "linerate_serve_time_seconds", "seconds", 1e-9
	case budget.UDP:
		return "linerate_serve_udp_bytes_per_second", "bytes_per_second", 1.0 / 8
	case budget.Sessions, budget.Descriptors:
	}
	return "linerate_serve_" + k.String(), "", 1
}

func limitName(name, unit string) string {
	if unit == "" {
		return name + "_limit"
	}
	return strings.TrimSuffix(name, unit) + "limit_" + unit
}

func limitValue(n int64, scale float64) string {
	if n < 0 {
		return "+Inf"
	}
	return decimal(float64(n) * scale)
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// metricText replaces characters that Go and OpenMetrics escape differently.
func metricText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
