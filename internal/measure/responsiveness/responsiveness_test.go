package responsiveness

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// served is a server on loopback and its events.
type served struct {
	addr string
	told chan program.Event
	kept chan program.Test
}

func newServer(t *testing.T, limits budget.Config) *served {
	t.Helper()
	s := &served{told: make(chan program.Event, 100), kept: make(chan program.Test, 100)}
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	s.addr = l.Addr().String()
	serve := must.Get(listen(t.Context(), program.Sockets{TCP: l}, program.Host{
		Certificate: ownCertificate(t), Budget: budget.New(limits), Note: func(string) {},
		Tell: func(e program.Event) { s.told <- e }, Keep: func(k program.Test) { s.kept <- k },
	}))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	t.Cleanup(func() { stop(); must.OK(t, <-ended) })
	return s
}

// ownCertificate returns a self-signed certificate.
func ownCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates[0]
}

// over waits until a client's last connection has closed, and returns its test.
func (s *served) over(t *testing.T) program.Test {
	t.Helper()
	for {
		e := must.Wait(t, "the end of the client", s.told)
		if e.Over {
			return <-s.kept
		}
		must.True(t, e.Began, "%+v", e)
	}
}

// measure runs a client of addr.
func measure(t *testing.T, addr string, f model.Flow) (model.EndReport, error) {
	t.Helper()
	c := must.Get(Program().New(addr, program.Values{insecureFlag: "true"}, nil))(t)
	near, far, err := c.Run(t.Context(), f, program.Near{Met: func() {}}, func([]model.Sample) {})
	must.True(t, err != nil || far.Host == model.Far && near.Host == model.Near, "%+v", near)
	return near, err
}

func brief(d model.Direction) model.Flow {
	return model.Flow{Engine: Name, Direction: d, Lead: 300 * time.Millisecond, Omit: 100 * time.Millisecond, Duration: 900 * time.Millisecond, Interval: 200 * time.Millisecond}
}

// lasting returns f for a test that its error ends, however busy the machine is.
func lasting(f model.Flow) model.Flow { f.Duration = time.Minute; return f }

// TestBothRoles: our client and our server agree on what was carried.
func TestBothRoles(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From, model.Both} {
		t.Run(string(d), func(t *testing.T) {
			s := newServer(t, budget.Config{})
			near := must.Get(measure(t, s.addr, brief(d)))(t)
			kept := s.over(t)
			must.OK(t, kept.Err)
			sent, received := kept.Moved()
			must.Len(t, near.Flows, len(d.Parts()))
			for _, f := range near.Flows {
				// The end of the test cuts off what the server's kernel has, and the last writes.
				by := map[model.Direction]units.Bytes{model.To: received + 4*uploadWindow, model.From: sent + 16*chunk}[f.Direction]
				late := f.Bytes == 0 && by < 64<<20 // a busy machine may leave all of it in the kernel
				must.True(t, f.Bytes <= by && (late || f.Bytes > 0 && slices.ContainsFunc(near.Values, func(v model.Value) bool {
					return v.Metric == model.Goodput && v.Direction == f.Direction && v.Value > 0
				})), "%s: %d bytes by the client, %d by the server: %+v", f.Direction, f.Bytes, by, near.Values)
			}
			scored := slices.ContainsFunc(near.Values, func(v model.Value) bool { return v.Metric == model.Responsiveness && v.Value > 0 })
			must.True(t, scored != strings.Contains(strings.Join(near.Warnings, "\n"), "no responsiveness"), "%+v %q", near.Values, near.Warnings)
		})
	}
}

// TestServerOfOthers: a server with only HTTP/1 has no probes beside a transfer, and a download
// that ends, or another kind of server, is an error.
func TestServerOfOthers(t *testing.T) {
	mux := http.NewServeMux()
	at := func(host string) string {
		return `{"version":1,"urls":{"small_download_url":"https://` + host + `/s","large_download_url":"https://` + host + `/l","upload_url":"https://` + host + `/u"}}`
	}
	mux.HandleFunc("/api/v1/config", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, at(r.Host)) })
	mux.HandleFunc("/s", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{1}) })
	mux.HandleFunc("/l", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	mux.HandleFunc("/u", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	web := httptest.NewUnstartedServer(mux)
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // from the client that refuses the certificate
	web.StartTLS()
	t.Cleanup(web.Close)
	addr := web.Listener.Addr().String()
	near := must.Get(measure(t, addr, brief(model.To)))(t)
	must.True(t, near.Flows[0].Bytes > 0, "%+v", near.Flows)
	must.Contain(t, strings.Join(near.Warnings, "\n"), "the server has no HTTP/2")
	must.Say(t, must.Err(measure(t, addr, lasting(brief(model.From)))), "a transfer from ended")

	c := must.Get(Program().New(addr, nil, nil))(t)
	_, _, err := c.Run(t.Context(), brief(model.To), program.Near{Met: func() {}}, func([]model.Sample) {})
	must.Contain(t, fault.HintOf(err), "--insecure")
	none := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	must.Say(t, must.Err(measure(t, none.Listener.Addr().String(), brief(model.To))), "404")
}

// TestBudget: a request beyond the budget is refused by status, or cut off, and the server
// reports it; what it holds for a client comes back with its last connection.
func TestBudget(t *testing.T) {
	s := newServer(t, budget.Config{Server: budget.Limits{Egress: 1 << 20}})
	must.Say(t, must.Err(measure(t, s.addr, lasting(brief(model.From)))), "a transfer from ended")
	kept := s.over(t)
	sent, _ := kept.Moved()
	must.Is(t, kept.Err, budget.ErrSpent)
	must.True(t, sent >= 1<<20 && sent < 16<<20, "%d bytes sent of 1 MiB", sent)
	must.Say(t, must.Err(measure(t, s.addr, lasting(brief(model.From)))), "503 Service Unavailable, and asks to come back after 60 s")

	s = newServer(t, budget.Config{Server: budget.Limits{Memory: 8 * connMemory}})
	var last net.Conn
	for range 9 {
		last = must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", s.addr))(t)
		defer last.Close()
	}
	must.Do(t, last.SetReadDeadline(time.Now().Add(enginetest.Soon)))
	_, err := last.Read(make([]byte, 1))
	must.True(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the ninth connection is not closed: %v", err)
}

// TestCrowdOfOneClient: the connections of a client are limited; the oldest without a transfer
// is closed, and one with a transfer stays.
func TestCrowdOfOneClient(t *testing.T) {
	s := &server{most: 1000, host: program.Host{Tell: func(program.Event) {}, Keep: func(program.Test) {}}, clients: map[netip.Addr]*client{}}
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	var all []*conn
	for i := range mostOfClient + 10 {
		defer must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String()))(t).Close()
		c := must.Get(s.enter(must.Get(l.Accept())(t).(*net.TCPConn)))(t)
		if i < 3 {
			c.busy.Add(1)
		}
		all = append(all, c)
	}
	of := all[0].client
	must.True(t, len(of.conns) == mostOfClient && of.conns[0] == all[0] && of.conns[2] == all[2] && of.conns[3] == all[13], "%d connections", len(of.conns))
	for _, c := range all {
		_ = c.Close()
	}
	must.True(t, s.conns == 0 && len(s.clients) == 0, "%d connections of %d clients are left", s.conns, len(s.clients))
}

// TestSilentServer: a server that accepts and says nothing counts as unreachable.
func TestSilentServer(t *testing.T) {
	err := remote{program: Program(), addr: "nas:4043"}.unreachable(t.Context(), &url.Error{Op: "Get", URL: "https://nas:4043", Err: context.DeadlineExceeded})
	must.Equal(t, fault.KindOf(err), fault.Unreachable)
	must.Equal(t, fault.HintOf(err), "is what answers there a server that measures responsiveness? start one with: linerate serve --responsiveness")
}

func TestConfigurationOfAName(t *testing.T) {
	for host, want := range map[string]int{"nas:4043": 200, "[::1]:4043": 200, "a/b": 400, `a"b`: 400, "": 400} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/.well-known/nq", nil)
		r.Host = host
		w := httptest.NewRecorder()
		(&server{}).routes().ServeHTTP(w, r)
		must.Equal(t, w.Code, want, host)
		if want == 200 {
			must.Equal(t, must.Get(parseConfig(w.Body.Bytes()))(t).Large, "https://"+host+largePath)
		}
	}
}

func TestFit(t *testing.T) {
	plain := probes.Over(model.Flow{Engine: bulk.Name, Direction: model.To, Streams: 1, Duration: time.Second})
	f := must.Get(fit(plain, nil))(t)
	must.True(t, f.Engine == Name && f.Params == "" && f.Duration == time.Second, "%+v", f)
	for want, change := range map[string]func(*model.Flow){
		"--parallel": func(f *model.Flow) { f.Streams = 2 }, "--bytes": func(f *model.Flow) { f.Bytes = 1 }, "--congestion": func(f *model.Flow) { f.Congestion = "bbr" },
		"datagrams": func(f *model.Flow) { *f = probes.Over(model.Flow{Engine: udp.Name}) }, "requests for one byte only": func(f *model.Flow) { *f = model.Flow{Engine: "reqresp"} },
	} {
		f := plain
		change(&f)
		must.Say(t, must.Err(fit(f, nil)), want)
	}
}

func TestCertificateFlags(t *testing.T) {
	for want, given := range map[string]program.Values{
		"belong together": {certFlag: "x"}, "no such file": {certFlag: "/no/x", keyFlag: "/no/y"},
	} {
		err := Program().CheckServe(given)
		must.Say(t, err, want)
		must.Equal(t, fault.KindOf(err), fault.Usage)
	}
	must.OK(t, Program().CheckServe(nil))
}

func TestLines(t *testing.T) {
	run := func(d model.Direction, rpm, added float64) model.Run {
		return model.Run{Values: []model.Value{{Direction: d, Metric: model.Responsiveness, Value: rpm}, {Direction: d, Metric: model.AddedP50, Value: added}}}
	}
	must.Same(t, lines(model.Flow{}, []model.Run{run(model.To, 700, 0.0164), run(model.To, 800, 0.0164), run(model.To, 733, 0.0164), run(model.From, 3510, -0.0002)}), []string{
		"while this end sends: a new connection takes 16.4 ms longer; responsiveness 733 round trips a minute (RPM, " + Draft + ")",
		"while this end receives: a new connection takes no longer; responsiveness 3510 round trips a minute (RPM, " + Draft + ")",
	})
}

// TestRPM computes an example of 20 probes of each kind that was worked out by hand from the
// draft's formulas.
func TestRPM(t *testing.T) {
	var all []probe
	at := func(v int) time.Duration { return time.Duration(v) * time.Millisecond }
	for i := range 20 {
		http := at(24 + i)
		if i == 19 {
			http = at(400) // trimmed
		}
		all = append(all, probe{tcp: at(20 + i), tls: at(22 + i), http: http}, probe{self: true, http: at(60 + 2*i)})
	}
	must.True(t, math.Abs(rpm(all)-1352.357320) < 1e-6, "%v", rpm(all))
	must.True(t, math.IsNaN(rpm(nil)) && math.IsNaN(rpm([]probe{{self: true, http: at(10)}})), "a number without probes of both kinds")
}

func TestStable(t *testing.T) {
	for _, c := range []struct {
		series []float64
		want   bool
	}{
		{nil, false}, {[]float64{1, 1, 1, 1, 1, 1}, false}, // six have three averages
		{[]float64{1, 1, 1, 1, 1, 1, 1}, true}, {[]float64{9, 0, 5, 100, 101, 99, 100, 102, 98, 100}, true}, {[]float64{1, 2, 3, 4, 5, 6, 7}, false},
		{[]float64{1, 1, 1, math.NaN(), 1, 1, 1}, false}, {[]float64{0, 0, 0, 0, 0, 0, 0}, false},
	} {
		must.Equal(t, stable(c.series), c.want, c.series)
	}
	must.Equal(t, confidence([]float64{1, 1, 1}, nil), "low")
	must.Equal(t, confidence([]float64{1, 1, 1, 1, 1, 1, 1}, []float64{1, 2, 3, 4, 5, 6, 7}), "medium")
}

func TestConfig(t *testing.T) {
	now := `{"version":1,"x":2,"urls":{"small_download_url":"https://h/s","large_download_url":"https://h/l","upload_url":"https://h/u"},"test_endpoint":"h"}`
	old := `{"version":1,"urls":{"small_https_download_url":"https://h/s","large_https_download_url":"https://h/l","https_upload_url":"https://h/u"}}`
	for _, text := range []string{now, old} {
		u := must.Get(parseConfig([]byte(text)))(t)
		must.Equal(t, [3]string{u.Small, u.Large, u.Upload}, [3]string{"https://h/s", "https://h/l", "https://h/u"})
	}
	for change, want := range map[[2]string]string{
		{`"version":1`, `"version":2`}: "version 2", {"https://h/l", "http://h/l"}: "not an address of https", {"https://h/u", "https://other/u"}: "several hosts",
		{`"upload_url"`, `"other"`}: "without a upload_url", {"https://h/s", "https://me@h/s"}: "not an address", {"{", "["}: "read configuration",
	} {
		must.Say(t, must.Err(parseConfig([]byte(strings.Replace(now, change[0], change[1], 1)))), want, change[1])
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"version":1,"urls":{"small_download_url":"https://h/s","large_download_url":"https://h/l","upload_url":"https://h/u"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := parseConfig(b)
		must.True(t, err != nil || strings.HasPrefix(u.Small, "https:") && strings.HasPrefix(u.Large, "https:") && strings.HasPrefix(u.Upload, "https:"), "%+v", u)
	})
}
