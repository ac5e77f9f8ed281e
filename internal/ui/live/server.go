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

// How much of the past a Server keeps: runs that ended, and reasons why somebody was
// turned away. Further reasons are counted together.
const (
	keptVisits  = 100
	keptReasons = 20
)

// Server is what is known of this machine as a server: who is there, what each measures,
// what is given away. It is safe for concurrent use, and holds no secret.
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

	came   chan struct{} // closed when somebody is there for the first time
	opened bool          // came is
	own    bool          // the terminal shows what stood on it
}

// About is what a server says of itself: its address, then who may come and what else it
// answers, a row each.
type About struct {
	Addr string
	Rows []string
}

// Allowance is what a server gives away of one kind, in words: how much is used, of how
// much, and what one address without a key gets. "" is nothing worth a word.
type Allowance struct {
	Name, Used, Limit, Source string
	Refused                   int64 // how often there was not enough
}

// visitor is a visit that goes on.
type visitor struct {
	app.Visit
	since time.Time
	runs  int
	flow  model.Flow
	what  string    // what its traffic is called
	run   time.Time // when the present run began; the zero time is between two
	// The rates of its intervals, bit/s: what this host receives, and what it sends.
	receives, sends []float64
}

// done is a run that ended.
type done struct {
	at   time.Time
	by   app.Visit
	what string
	app.VisitRan
}

// refusal is a reason why visitors were turned away.
type refusal struct {
	words string
	count int
	last  netip.Addr
}

// NewServer returns the state of a server that begins. name is what traffic is called.
func NewServer(now func() time.Time, name func(model.Flow) string) *Server {
	return &Server{now: now, name: name, began: now(), came: make(chan struct{})}
}

// SetAbout takes in what the server says of itself.
func (t *Server) SetAbout(about About) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.about = about
}

// Came is closed when the first visitor is there.
func (t *Server) Came() <-chan struct{} { return t.came }

// Observe takes in what happened.
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

// find is the visit of an ID, nil for one that is not there.
func (t *Server) find(id uint64) *visitor {
	if i := slices.IndexFunc(t.here, func(v *visitor) bool { return v.ID == id }); i >= 0 {
		return t.here[i]
	}
	return nil
}

// sampled takes in what this end saw of an interval.
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

// refuse counts who was turned away, by the reason.
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

// Gives takes in what is given away now.
func (t *Server) Gives(all []Allowance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gives = all
}

// Say adds a line for people.
func (t *Server) Say(words string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if words = plain.Line(words); words != "" {
		t.lines = append(t.lines, words)
		t.lines = t.lines[max(0, len(t.lines)-keptLines):]
	}
}

// ToggleOwn has the terminal show what stood on it, such as a link to be copied, or the
// screen again.
func (t *Server) ToggleOwn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own = !t.own
}

// Own reports whether the terminal shows what stood on it.
func (t *Server) Own() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own
}

// turnedAway is how many there were.
func (t *Server) turnedAway() (n int) {
	for _, r := range t.refused {
		n += r.count
	}
	return n
}

// who is a visit in words.
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

// moved is what a run moved in words: how much, and at which rate.
func moved(verb string, n units.Bytes, took time.Duration) string {
	words := verb + " " + n.String()
	if took > 0 {
		words += fmt.Sprintf(", %s", units.BitRate(float64(n)*8/took.Seconds()))
	}
	return words
}
