package health

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// options checks whether TCP options survive the path: those that the hosts offer by their
// settings, against those that both kernels report for connections between them.
func (j judge) options() Line {
	l := Line{Thing: "options", State: Unseen, Text: "no kernel reports which options of TCP were agreed on"}
	near, far := j.kernel(model.To), j.kernel(model.From)
	if near == nil && far == nil {
		return l
	}
	var used, gone []string
	for _, o := range options() {
		a, b := o.seen(near), o.seen(far)
		asked := j.offers(model.Near, o) && j.offers(model.Far, o)
		switch {
		case a == yes && b == no, a == no && b == yes:
			gone = append(gone, o.name)
			l.Evidence = append(l.Evidence, fmt.Sprintf("%s: one end uses it and the other does not: the path takes it out of one direction's packets", o.name))
		case a == yes || b == yes:
			used = append(used, o.name)
		case a == unsaid && b == unsaid:
		case asked:
			gone = append(gone, o.name)
			l.Evidence = append(l.Evidence, o.name+": both hosts offer it, and it is not in use")
		default:
			l.Evidence = append(l.Evidence, o.name+": not offered by both hosts")
		}
	}
	l.State, l.Number, l.Text = OK, fmt.Sprintf("%d of %d", len(used), len(options())), "of TCP's in use: "+strings.Join(used, ", ")
	switch {
	case len(gone) > 0:
		l.State, l.Text = Poor, "lost on the way: "+strings.Join(gone, ", ")
	case len(used) == 0:
		l.State, l.Text = Unseen, "none is in use"
	}
	for _, d := range []model.Direction{model.To, model.From} {
		j.segments(&l, d)
		j.marks(&l, d)
	}
	return l
}

// segments adds whether a direction's segments are smaller than the packets that pass allow:
// then a device on the path, or a route, has rewritten the MSS.
func (j judge) segments(l *Line, d model.Direction) {
	r, ok := j.valid(d)
	t := r.Sent(d)
	if !ok || t == nil || r.Flow.MSS > 0 || t.MSS.Or(0) <= 0 {
		return
	}
	near, _ := j.s.Facts(d.Sender())
	far, _ := j.s.Facts(d.Receiver())
	packet := min(near.MTU.Or(0), far.MTU.Or(0))
	if n := t.PathMTU.Or(0); n > 0 {
		packet = min(packet, n)
	}
	fits := packet - tcpHeaders(far.Address)
	if t.Timestamps.Or(false) {
		fits -= timestampOption
	}
	if packet <= 0 || t.MSS.Or(0) >= fits {
		return
	}
	l.Evidence = append(l.Evidence, fmt.Sprintf("from %s to %s: segments of %d bytes where %d fit: the MSS was rewritten on the way, or a route sets it", j.name(d.Sender()), j.name(d.Receiver()), t.MSS.Or(0), fits))
	if float64(t.MSS.Or(0)) < rewritten*float64(fits) {
		l.State = Poor
		l.Text += fmt.Sprintf("; segments to %s are cut to %d bytes of %d", j.name(d.Receiver()), t.MSS.Or(0), fits)
	}
}

const (
	// rewritten is the share of the largest segment below which smaller ones cost more than a
	// few percent (proposed).
	rewritten = 0.9
	// timestampOption is how much of a segment the option of RFC 7323 takes, with padding.
	timestampOption = 12
)

// tcpHeaders returns the bytes of the headers of IP (RFC 791, RFC 8200) and TCP (RFC 9293)
// without options, to an address.
func tcpHeaders(address string) int {
	if strings.Contains(address, ":") {
		return 60
	}
	return 40
}

// marks adds whether ECN marks arrive, which matters only to ECN users.
func (j judge) marks(l *Line, d model.Direction) {
	w, _ := j.asked(d)
	share, reported := w.Marks.Get()
	if !reported {
		return
	}
	l.Evidence = append(l.Evidence, fmt.Sprintf("from %s to %s: %.0f %% of the marks of ECN arrived (%s)", j.name(d.Sender()), j.name(d.Receiver()), 100*share, w.Marks.Source()))
	if share >= 1 {
		return
	}
	l.Text += fmt.Sprintf("; marks of ECN do not arrive at %s", j.name(d.Receiver()))
	if t := j.kernel(d); t != nil && t.ECN.Or(false) {
		l.State = Poor
	}
}

// kernel returns the sender's kernel's summary of the single run in direction d.
func (j judge) kernel(d model.Direction) *model.TCPSummary {
	r, ok := j.valid(d)
	if !ok {
		return nil
	}
	return r.Sent(d)
}

// answer is what a kernel reports about an option.
type answer int

const (
	unsaid answer = iota
	yes
	no
)

// option is one TCP option.
type option struct {
	name string
	knob model.KnobID
	on   []string // values of the setting that actively offer it
	seen func(*model.TCPSummary) answer
}

// options returns the options to check. A host requests ECN only with tcp.ecn=1, otherwise it
// accepts it (Linux Documentation/networking/ip-sysctl.rst).
func options() []option {
	said := func(get func(*model.TCPSummary) (bool, bool)) func(*model.TCPSummary) answer {
		return func(t *model.TCPSummary) answer {
			if t == nil {
				return unsaid
			}
			switch on, known := get(t); {
			case !known:
				return unsaid
			case on:
				return yes
			}
			return no
		}
	}
	return []option{
		{"scaling", "tcp.window_scaling", []string{"1"}, said(func(t *model.TCPSummary) (bool, bool) {
			// The scale is unknown if scaling is off; whether the kernel reports options at all
			// follows from SACK.
			return t.SendScale.IsKnown(), t.SACK.IsKnown()
		})},
		{"sack", "tcp.sack", []string{"1"}, said(func(t *model.TCPSummary) (bool, bool) { return t.SACK.Get() })},
		{"timestamps", "tcp.timestamps", []string{"1", "2"}, said(func(t *model.TCPSummary) (bool, bool) { return t.Timestamps.Get() })},
		{"ecn", "tcp.ecn", []string{"1"}, said(func(t *model.TCPSummary) (bool, bool) { return t.ECN.Get() })},
	}
}

// offers reports whether a host is known to offer an option.
func (j judge) offers(h model.Host, o option) bool {
	f, _ := j.s.Facts(h)
	v, known := f.Knobs[o.knob].Get()
	if !known {
		return false
	}
	return slices.Contains(o.on, v)
}
