package live

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// How much of the past a Server keeps: finished runs, and reasons for refusals. Further reasons
// are counted together.
const (
	keptVisits  = 100
	keptReasons = 20
)

// Server is the state of this machine as a server: its visitors, their measurements, and the
// resources in use. It is safe for concurrent use, and holds no secret.
type Server struct {
	mu    sync.Mutex
	now   func() time.Time
	name  func(model.Flow) string
	began time.Time

	about   About
	here    []*visitor
	done    []done // the newest last
	refused []refusal
	gives   []Allowance
	lines   []string

	came   chan struct{} // closed when the first visitor arrives
	opened bool          // whether came is closed
	own    bool          // the terminal shows its previous content
}

// About describes a server: its address, then who may use it and what else it answers, one row
// each.
type About struct {
	Addr string
	Rows []string
}

// Allowance is one kind of a server's resources, in words: how much is used, of how much, and
// the share of one address without a key. "" is not shown.
type Allowance struct {
	Name, Used, Limit, Source string
	Refused                   int64 // how often there was not enough
}

// visitor is a current visit.
type visitor struct {
	app.Visit
	since time.Time
	runs  int
	flow  model.Flow
	what  string    // name of its traffic
	run   time.Time // start of the current run; zero between runs
	// The rates of its intervals, bit/s: what this host receives, and what it sends.
	receives, sends []float64
}

// done is a finished run.
type done struct {
	at   time.Time
	by   app.Visit
	what string
	app.VisitRan
}

// refusal is a reason for which visitors were turned away.
type refusal struct {
	words string
	count int
	last  netip.Addr
}

// NewServer returns the state of a new server. name returns the name of a flow's traffic.
func NewServer(now func() time.Time, name func(model.Flow) string) *Server {
	return &Server{now: now, name: name, began: now(), came: make(chan struct{})}
}

// SetAbout sets the server's description.
func (t *Server) SetAbout(about About) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.about = about
}

// Came returns a channel that is closed when the first visitor arrives.
func (t *Server) Came() <-chan struct{} { return t.came }

// Observe processes an event.
func (t *Server) Observe(e app.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := e.(type) {
	case app.VisitBegan:
		t.here = append(t.here, &visitor{Visit: e.Visit, since: t.now()})
		if !t.opened {
			t.opened = true
			close(t.came)
		}
	case app.VisitRuns:
		if v := t.find(e.ID); v != nil {
			v.flow, v.what, v.run, v.receives, v.sends = e.Flow, plain.Line(t.name(e.Flow)), t.now(), nil, nil
			v.runs++
		}
	case app.VisitSampled:
		if v := t.find(e.ID); v != nil {
			v.sampled(e.Samples)
		}
	case app.VisitRan:
		if v := t.find(e.ID); v != nil {
			t.done = append(t.done, done{t.now(), v.Visit, v.what, e})
			t.done = t.done[max(0, len(t.done)-keptVisits):]
			v.run = time.Time{}
		}
	case app.VisitEnded:
		t.here = slices.DeleteFunc(t.here, func(v *visitor) bool { return v.ID == e.ID })
	case app.VisitRefused:
		t.refuse(e)
	}
}

// find returns the visit with this ID, nil if there is none.
func (t *Server) find(id uint64) *visitor {
	if i := slices.IndexFunc(t.here, func(v *visitor) bool { return v.ID == id }); i >= 0 {
		return t.here[i]
	}
	return nil
}

// sampled processes this end's samples of an interval.
func (v *visitor) sampled(samples []model.Sample) {
	for _, s := range samples {
		if s.Of != "" {
			continue
		}
		switch s.Metric {
		case model.Goodput:
			v.receives = append(v.receives, s.Value)
			v.receives = v.receives[max(0, len(v.receives)-keptRates):]
		case model.Sent:
			v.sends = append(v.sends, s.Value)
			v.sends = v.sends[max(0, len(v.sends)-keptRates):]
		default:
		}
	}
}

// refuse counts a refused visitor, by the reason.
func (t *Server) refuse(e app.VisitRefused) {
	words := plain.Line(e.Err.Error())
	if e.Visit.Protocol != "" {
		words = plain.Line(e.Visit.Protocol) + ": " + words
	}
	i := slices.IndexFunc(t.refused, func(r refusal) bool { return r.words == words })
	if i < 0 && len(t.refused) >= keptReasons {
		words = "other reasons"
		i = slices.IndexFunc(t.refused, func(r refusal) bool { return r.words == words })
	}
	if i < 0 {
		i, t.refused = len(t.refused), append(t.refused, refusal{words: words})
	}
	t.refused[i].count++
	t.refused[i].last = e.Visit.From
}

// Gives sets the current use of resources.
func (t *Server) Gives(all []Allowance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gives = all
}

// Say adds a line for the user.
func (t *Server) Say(words string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if words = plain.Line(words); words != "" {
		t.lines = append(t.lines, words)
		t.lines = t.lines[max(0, len(t.lines)-keptLines):]
	}
}

// ToggleOwn switches between the terminal's previous content, such as a link to copy, and the
// screen.
func (t *Server) ToggleOwn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own = !t.own
}

// Own reports whether the terminal shows its previous content.
func (t *Server) Own() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own
}

// turnedAway returns the number of refused visitors.
func (t *Server) turnedAway() (n int) {
	for _, r := range t.refused {
		n += r.count
	}
	return n
}

// who describes a visitor in words.
func who(v app.Visit) string {
	name := "a client"
	if v.From.IsValid() {
		name = v.From.Unmap().String()
	}
	if v.Key != "" {
		return name + ", key " + plain.Line(v.Key)
	}
	return name + ", open"
}

// moved describes what a run moved: how much, and at which rate.
func moved(verb string, n units.Bytes, took time.Duration) string {
	words := verb + " " + n.String()
	if took > 0 {
		words += fmt.Sprintf(", %s", units.BitRate(float64(n)*8/took.Seconds()))
	}
	return words
}
