package responsiveness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/program"
)

// Name is the name of the engine in results, and of the flag of serve.
const Name = "responsiveness"

// The flags of the client and of the server.
const (
	insecureFlag = "insecure"
	certFlag     = "responsiveness-cert"
	keyFlag      = "responsiveness-key"
)

// Program describes the responsiveness test for linerate.
func Program() program.Program {
	p := program.Program{
		Name: Name, Scheme: "https", Server: "a server that measures responsiveness", Port: "443", OwnPort: "4043", Kinds: []traffic.Kind{kind()}, Fit: fit,
		Start: func(port string) string { return "linerate serve --responsiveness" + program.At("=:", port) },
		Flags: []program.Flag{{Name: insecureFlag, Usage: "https: take any certificate, such as one that a server made for itself", Switch: true}},
		ServerFlags: []program.Flag{
			{Name: certFlag, Usage: "certificate for clients that measure responsiveness, PEM (default: the self-signed one of linerate serve, which clients take with -k or --insecure)"},
			{Name: keyFlag, Usage: "its private key, PEM"},
		},
		Help: "Clients of networkQuality are given https://HOST:PORT/.well-known/nq; see --responsiveness-cert.",
		CheckServe: func(given program.Values) error {
			_, err := certificate(given, tls.Certificate{})
			return err
		},
		Serve: listen,
	}
	p.New = func(addr string, given program.Values, _ func(string) string) (program.Client, error) {
		return remote{program: p, addr: addr, insecure: given.On(insecureFlag)}, nil
	}
	return p
}

// kind returns the program's metadata.
func kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Command: "test", Why: "a server of others that measures responsiveness has no settings to compare",
		Measures: func(model.Flow, model.Direction) model.Host { return model.Near },
		Judge: func(_ model.Flow, ends []model.EndReport) string {
			for _, end := range ends {
				if slices.ContainsFunc(end.Flows, func(f model.FlowReport) bool { return f.Bytes > 0 }) {
					return ""
				}
			}
			return "no payload arrived"
		},
		Metrics: func(f model.Flow) traffic.Metrics {
			m := traffic.Metrics{Measured: []model.Metric{model.Goodput, model.LatencyP50, model.LatencyP99}, Objective: model.LatencyP50}
			if f.Lead > 0 {
				m.Also = []model.Metric{model.AddedP50, model.AddedP99}
			}
			return m
		},
		Lines: lines,
	}
}

// lines returns a sentence for each direction: what the load adds, then the score.
func lines(_ model.Flow, runs []model.Run) []string {
	var out []string
	for _, d := range []model.Direction{model.To, model.From, ""} {
		median := func(m model.Metric) (float64, bool) {
			var all []float64
			for i := range runs {
				if v, ok := runs[i].Value(d, m); ok {
					all = append(all, v)
				}
			}
			if len(all) == 0 {
				return 0, false
			}
			return stats.Median(all), true
		}
		score, ok := median(model.Responsiveness)
		if !ok {
			continue
		}
		what := map[model.Direction]string{model.To: "while this end sends", model.From: "while this end receives", "": "while both ends send"}[d]
		text := ""
		if added, ok := median(model.AddedP50); ok {
			text = "a new connection takes no longer; "
			if added > 0 {
				text = fmt.Sprintf("a new connection takes %s longer; ", units.FormatDuration(time.Duration(added*float64(time.Second)).Round(10*time.Microsecond)))
			}
		}
		out = append(out, fmt.Sprintf("%s: %sresponsiveness %.0f round trips a minute (RPM, %s)", what, text, score, Draft))
	}
	return out
}

// fit converts f to a test of responsiveness.
func fit(f model.Flow, _ program.Values) (model.Flow, error) {
	if f == (model.Flow{}) {
		return f, nil
	}
	inner := probes.Load(f)
	switch {
	case udp.Carries(f):
		return f, fault.New(fault.Usage, errors.New("HOST answers no datagrams"), "leave out --udp")
	case inner.Engine != probes.DefaultLoad && f.Engine != Name:
		return f, fault.New(fault.Usage, errors.New("HOST carries downloads, uploads and requests for one byte only"), "start linerate serve on that host")
	}
	for _, of := range []struct {
		flag  string
		asked bool
	}{
		{"bytes", f.Bytes != 0}, {"parallel", f.Streams > 1}, {"window", f.Window != 0}, {"set-mss", f.MSS != 0}, {"congestion", f.Congestion != ""}, {"nagle", f.Nagle},
	} {
		if of.asked {
			return f, fault.New(fault.Usage, fmt.Errorf("--%s: HOST does not have it", of.flag), "a test of responsiveness has connections of its own, 1 to %d", mostConns)
		}
	}
	f.Engine, f.Params = Name, ""
	return f, nil
}

// remote is a server at an address.
type remote struct {
	program  program.Program
	addr     string
	insecure bool
}

// Run implements program.Client.
func (r remote) Run(ctx context.Context, f model.Flow, host program.Near, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	p := &peer{host: r.addr, insecure: r.insecure, egress: host.Egress}
	if h, port, err := net.SplitHostPort(r.addr); err == nil && port == r.program.Port {
		p.host = h // as in its certificate and its configuration
	}
	if err := p.configure(ctx); err != nil {
		return near, far, r.unreachable(ctx, err)
	}
	host.Met()
	near, err = (&course{peer: p, spec: f, emit: emit}).run(ctx)
	return near, model.EndReport{Host: model.Far}, err
}

// unreachable adds a hint to the error of a server without a configuration.
func (r remote) unreachable(ctx context.Context, err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &name) {
		return fault.New(fault.Unreachable, err, "add --insecure if that server made its certificate itself, as linerate serve --responsiveness does")
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && ctx.Err() == nil {
		err = fmt.Errorf("no answer in %s: %w", units.FormatDuration(patience), err)
		return fault.WithKind(fault.Unreachable, r.program.Unreachable(ctx, err, r.addr))
	}
	return r.program.Unreachable(ctx, err, r.addr)
}
