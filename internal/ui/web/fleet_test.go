package web_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/odd"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report/browsertest"
	"linerate/internal/ui/web"
)

// hosts are a fleet of which the host with number 3 is slow and number 4 is silent.
type hosts struct {
	mu    sync.Mutex
	names []string
}

var fleetNow = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func (h *hosts) Status(context.Context) (fleet.Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := fleet.Status{Now: fleetNow, Hour: fleet.Tally{fleet.Done: 40, fleet.Unreachable: 1}}
	for i, name := range h.names {
		one := fleet.HostStatus{ID: int64(i + 1), Name: name, Version: "v1", Joined: fleetNow.Add(-48 * time.Hour), Seen: fleetNow, Limits: fleet.Limits{Share: .1, Rate: 200e6, Quiet: &fleet.Quiet{From: 8 * 3600, Until: 18 * 3600}}}
		if i == 3 {
			one.Silent, one.Notes = true, []string{"not heard of since 2026-11-27 11:50:00"}
		}
		s.Hosts = append(s.Hosts, one)
		row := fleet.NewRow(len(h.names))
		for j := range h.names {
			if i != j {
				row.Goodput[0][j], row.RoundTrip[0][j], row.Looked[0][j] = 941e6, .0002, fleetNow.Unix()
			}
			if i != j && (i == 2 || j == 2) {
				row.Goodput[0][j] = 94e6
			}
		}
		if err := s.Present.Add(row, len(h.names)); err != nil {
			return s, err
		}
		for j := range i {
			e := fleet.Entry{Lease: int64(10*i + j), Kind: fleet.Visit, Near: h.names[j], Far: name, From: fleetNow, Until: fleetNow.Add(25 * time.Second), State: fleet.Planned}
			s.Queue = append(s.Queue, e)
			e.State, e.Reason = fleet.Unreachable, "connect to 10.0.0.4:5299: no answer in time"
			s.Recent = append(s.Recent, e)
		}
	}
	r := series.Report{Metric: model.Goodput, Direction: model.To, Worse: true, Was: 941e6, Now: 94e6, After: fleetNow.Add(-2 * time.Hour), Since: fleetNow.Add(-time.Hour), Found: fleetNow, Text: "goodput is worse"}
	c := fleet.Change{Near: h.names[0], Far: h.names[2], Report: r.With([]fingerprint.Change{{Key: "far.kernel", Was: "6.1", Now: "6.2"}})}
	s.Changes = []fleet.Change{c}
	s.Odd = odd.Fleet(&s)
	s.Alerts = []fleet.Alert{{Kind: "worse", Subject: "x", At: fleetNow, Text: c.Text}}
	return s, nil
}

func (h *hosts) Path(_ context.Context, _, high int64) (series.History, error) {
	p := &series.Path{Margin: .1}
	for i := range 40 {
		rate := 941e6
		if i > 30 {
			rate = 94e6
		}
		p.Add(series.Look{At: fleetNow.Add(time.Duration(i-40) * time.Hour), ID: fmt.Sprint(i)}, series.NumbersOf([]model.Run{
			{Setting: series.Bulk, State: model.RunValid, Flow: model.Flow{Direction: model.To}, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: rate}}},
			{Setting: series.Probes, State: model.RunValid, Flow: model.Flow{Direction: model.To}, Values: []model.Value{{Direction: model.To, Metric: model.IdleP50, Value: .0002}}},
		}))
	}
	return series.HistoryOf(h.names[high-1], p, fleetNow), nil
}

// serveFleet starts the page of a fleet and returns its link.
func serveFleet(t *testing.T, h *hosts) string {
	t.Helper()
	s := must.Get(web.ListenFleet(t.Context(), 0, h, 20*time.Millisecond))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); must.OK(t, <-ended) })
	return s.Link()
}

// TestFleetInBrowser looks at all pages of a fleet in both widths, light and dark, by keyboard
// alone, and waits for a host that joins to appear by itself.
func TestFleetInBrowser(t *testing.T) {
	b := browsertest.Start(t)
	h := &hosts{names: []string{"desk", "nas", "pi", "vps", "mac", "node-with-a-long-name-0117"}}
	p := b.Open(t, serveFleet(t, h), browsertest.View{Width: browsertest.Desk})
	p.Until("document.querySelector('h1') && document.querySelector('h1').textContent.startsWith('Who carries')")
	root := browsertest.Eval[string](p, "location.href")
	shots := os.Getenv("LINERATE_SHOTS")
	for path, says := range map[string]string{"": "pi sends and receives 10 %", "changes": "kernel 6.1 -> 6.2", "queue": "no answer in time", "host/3": "not from 08:00 to 18:00", "path/1/3": "as desk sees it"} {
		p.Go(root + path)
		p.Until("document.getElementById('state').textContent.startsWith('live')")
		must.Contain(t, browsertest.Eval[string](p, "document.body.innerText"), says)
		for _, v := range []browsertest.View{{Width: browsertest.Desk}, {Width: browsertest.Desk, Dark: true}, {Width: browsertest.Phone}, {Width: browsertest.Phone, Dark: true}} {
			p.Look(v)
			for _, x := range p.Faults() {
				t.Errorf("%s, %+v: %s", path, v, x)
			}
			if shots != "" {
				p.Shot(filepath.Join(shots, fmt.Sprintf("%s-%d-%v.png", strings.ReplaceAll("fleet-"+path, "/", "-"), v.Width, v.Dark)))
			}
		}
		controls, faults := p.Keyboard()
		must.True(t, controls >= 3 && len(faults) == 0, "%s: %d controls, %v", path, controls, faults)
	}
	p.Go(root)
	p.Until("document.getElementById('state').textContent.startsWith('live')")
	h.mu.Lock()
	h.names = append(h.names, "latecomer")
	h.mu.Unlock()
	p.Until("document.body.innerText.includes('latecomer')")
	h.mu.Lock()
	for i := len(h.names); i < 200; i++ { // a pixel for each direction
		h.names = append(h.names, fmt.Sprintf("node-%03d", i))
	}
	h.mu.Unlock()
	p.Until("document.getElementById('cells') && document.getElementById('cells').naturalWidth === 200")
	browsertest.Eval[bool](p, `(() => { const c = document.getElementById("cells"), r = c.getBoundingClientRect(), at = n => (n + .5) * r.width / 200;
		c.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: r.x + at(4), clientY: r.y + at(1) })); return true })()`)
	p.Until("location.pathname.endsWith('path/2/5')")
	for _, x := range p.Problems() {
		t.Errorf("the console says %s", x)
	}
	for _, x := range p.Requests() {
		must.True(t, strings.HasPrefix(x, root[:strings.Index(root[8:], "/")+8]), "it asked for %s", x)
	}
}
