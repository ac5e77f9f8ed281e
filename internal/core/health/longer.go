package health

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Longer is a path longer than the measured one.
type Longer struct {
	Rate units.BitRate
	RTT  time.Duration
}

// ParseLonger parses a path such as "10gbit@80ms".
func ParseLonger(text string) (Longer, error) {
	rate, rtt, ok := strings.Cut(text, "@")
	if !ok {
		return Longer{}, fmt.Errorf("%.60q: write a rate and a round trip, like 10gbit@80ms", text)
	}
	var l Longer
	var err error
	if l.Rate, err = units.ParseBitRate(strings.TrimSpace(rate)); err != nil {
		return l, err
	}
	if l.RTT, err = units.ParseDuration(strings.TrimSpace(rtt)); err != nil {
		return l, err
	}
	if l.Rate < 1e3 || l.RTT <= 0 || l.RTT > 10*time.Second {
		return l, fmt.Errorf("%.60q: want at least 1 kbit/s and a round trip of up to 10 s", text)
	}
	return l, nil
}

// bookkeeping is the ratio of a socket buffer to its payload at worst: about half is
// bookkeeping (knobs.md section 1.2).
const bookkeeping = 2

// firstWindow is how many segments a sender starts with (RFC 6928).
const firstWindow = 10

// Carries returns, direction by direction, what would keep the hosts of s from carrying l with
// one stream.
func Carries(s *model.Session, l Longer) []Line {
	j := judge{s}
	var out []Line
	for _, d := range []model.Direction{model.To, model.From} {
		out = append(out, j.hostRate(l, d), j.buffers(l, d), j.lossBudget(l, d), j.burst(l, d), j.reordering(d))
	}
	return out
}

// hostRate checks that the hosts can move as much at all.
func (j judge) hostRate(l Longer, d model.Direction) Line {
	line := Line{Thing: "hosts", Direction: d, State: Unseen, Text: "nothing was measured"}
	r, ok := j.valid(d)
	v, measured := r.Value(d, model.Goodput)
	if !ok || !measured {
		return line
	}
	line.Number = units.BitRate(v).String()
	if own := j.own(d); own > 0 {
		line.Evidence = append(line.Evidence, fmt.Sprintf("the slower host moves %s to itself", own))
		if own < l.Rate {
			line.State, line.Text = Bad, fmt.Sprintf("here, and the slower host moves only %s to itself", own)
			return line
		}
	}
	switch link := j.links(); {
	case units.BitRate(v) >= l.Rate:
		line.State, line.Text = OK, "here already"
	case link > 0 && link < l.Rate:
		line.State, line.Text = Bad, fmt.Sprintf("here, and the links of these hosts have only %s", link)
	default:
		line.State, line.Text = Unseen, fmt.Sprintf("here: this path does not show whether the hosts could do %s", l.Rate)
	}
	return line
}

// own returns the lowest loopback rate of the ends, 0 if unknown.
func (j judge) own(model.Direction) units.BitRate {
	least := units.BitRate(0)
	if j.s.Check != nil {
		for _, o := range j.s.Check.Own {
			if v, ok := o.Rate.Get(); ok && (least == 0 || v < least) {
				least = v
			}
		}
	}
	return least
}

// links returns the slower of both hosts' links, 0 if unknown.
func (j judge) links() units.BitRate {
	least := units.BitRate(0)
	for _, f := range j.s.Hosts {
		if v, ok := f.LinkRate.Get(); ok && (least == 0 || v < least) {
			least = v
		}
	}
	return least
}

// buffers checks that the window can grow to the data in flight on the longer path: receive
// buffer, send buffer and window scaling.
func (j judge) buffers(l Longer, d model.Direction) Line {
	need := limits.WindowFor(l.Rate, l.RTT)
	line := Line{Thing: "window", Direction: d, State: OK, Number: need.Binary(), Text: "have to be under way; the buffers allow for that"}
	var small, unknown []string
	for _, b := range []struct {
		host model.Host
		knob model.KnobID
		what string
	}{{d.Receiver(), "tcp.recv_buffer_max", "receive"}, {d.Sender(), "tcp.send_buffer_max", "send"}} {
		f, _ := j.s.Facts(b.host)
		n, err := strconv.ParseInt(f.Knobs[b.knob].Or(""), 10, 64)
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("%s of %s is not known", b.knob, j.name(b.host)))
			continue
		}
		line.Evidence = append(line.Evidence, fmt.Sprintf("%s of %s is %s, about half of it for payload", b.knob, j.name(b.host), units.Bytes(n).Binary()))
		if units.Bytes(n)/bookkeeping < need {
			allows := limits.WindowBound(units.Bytes(n)/bookkeeping, l.RTT)
			small = append(small, fmt.Sprintf("the %s buffer of %s (%s) allows about %s there; it takes %s=%d",
				b.what, j.name(b.host), units.Bytes(n).Binary(), allows, b.knob, need*bookkeeping))
		}
	}
	for _, h := range []model.Host{model.Near, model.Far} {
		f, _ := j.s.Facts(h)
		if v, ok := f.Knobs["tcp.window_scaling"].Get(); ok && v == "0" && need > limits.MaxUnscaledWindow {
			small = append(small, fmt.Sprintf("window scaling is off at %s: at most 64 KiB under way", j.name(h)))
		}
	}
	switch {
	case need > limits.MaxWindow:
		line.State, line.Text = Bad, fmt.Sprintf("have to be under way, and one connection of TCP has at most %s", limits.MaxWindow.Binary())
	case len(small) > 0:
		line.State, line.Text = Poor, strings.Join(small, "; ")
	case len(unknown) > 0:
		line.State, line.Text = Unseen, strings.Join(unknown, "; ")
	}
	return line
}

// lossBudget compares the tolerable loss with the measured one.
func (j judge) lossBudget(l Longer, d model.Direction) Line {
	line := Line{Thing: "loss", Direction: d, State: Unseen, Text: "the size of segments is not known"}
	r, ok := j.valid(d)
	t := r.Sent(d)
	mss := 0
	if t != nil {
		mss = t.MSS.Or(0)
	}
	if !ok || mss <= 0 {
		return line
	}
	if cc := t.Congestion.Or(""); strings.HasPrefix(cc, "bbr") {
		return bbrBudget(line, r, cc)
	}
	cubic, reno := limits.CubicLossBudget(l.Rate, mss, l.RTT), limits.LossBudget(l.Rate, mss, l.RTT)
	line.Number = one(cubic)
	line.Evidence = []string{fmt.Sprintf("budget with segments of %d bytes: %s of them for CUBIC (RFC 9438 section 5.1), %s for Reno (Mathis 1997)", mss, one(cubic), one(reno))}
	segments := t.SegmentsOut.Or(0)
	lost, known := r.Value(d, model.RetransmitRatio)
	switch {
	case !known || segments <= 0:
		line.Text = "segments may be lost; no kernel reports how many are here"
	case lost > cubic:
		line.State, line.Text = Poor, fmt.Sprintf("segments may be lost for CUBIC; here %s were sent again, some of them by a full queue", one(lost))
	case lost > 0:
		line.State, line.Text = OK, fmt.Sprintf("segments may be lost for CUBIC; here %s were", one(lost))
	case 3/float64(segments) <= cubic: // no loss in n: at most 3/n at 95 % (the rule of three)
		line.State, line.Text = OK, fmt.Sprintf("segments may be lost for CUBIC; here none of %d was", segments)
	default:
		line.Text = fmt.Sprintf("segments may be lost for CUBIC; none of %d was here, which is too few to show it", segments)
	}
	return line
}

// bbrLoss is the share of lost packets from which BBR slows down: BBR.LossThresh of
// draft-ietf-ccwg-bbr. The bounds of Reno and CUBIC do not apply to it (diagnosis.md section
// 4.0, point 3); its first version tolerates more.
const bbrLoss = 0.02

// bbrBudget returns the loss budget of a sender that uses cc, a version of BBR.
func bbrBudget(line Line, r model.Run, cc string) Line {
	line.State, line.Number, line.Text = OK, exact(bbrLoss), "of segments may be lost for "+cc+", which does not slow down for single ones"
	lost, known := r.Value(r.Flow.Direction, model.RetransmitRatio)
	switch {
	case !known:
		line.State = Unseen
		line.Text += "; no kernel reports how many are here"
	case lost > bbrLoss:
		line.State = Poor
		line.Text += fmt.Sprintf("; here %s were sent again, some of them by a full queue", exact(lost))
	default:
		line.Text += fmt.Sprintf("; here %s were sent again", exact(lost))
	}
	return line
}

// one formats a share as one in so many.
func one(share float64) string {
	if share <= 0 {
		return "none"
	}
	n := 1 / share
	if digits := math.Pow(10, math.Floor(math.Log10(n))-1); n >= 100 {
		n = math.Round(n/digits) * digits
	}
	return fmt.Sprintf("1 in %.0f", n)
}

// burst says how the longer path is filled: how long the start takes, and whether a window
// leaves in one burst.
func (j judge) burst(l Longer, d model.Direction) Line {
	line := Line{Thing: "start", Direction: d, State: Unseen, Text: "the size of segments is not known"}
	r, ok := j.valid(d)
	t := r.Sent(d)
	if !ok || t == nil || t.MSS.Or(0) <= 0 {
		return line
	}
	first := firstWindow
	f, _ := j.s.Facts(d.Sender())
	if f.Route != nil {
		if n, err := strconv.Atoi(f.Route.Metrics["initcwnd"]); err == nil && n > 0 {
			first = n
		}
	}
	need := limits.WindowFor(l.Rate, l.RTT)
	trips := math.Max(0, math.Ceil(math.Log2(float64(need)/float64(first*t.MSS.Or(1)))))
	takes := time.Duration(trips) * l.RTT
	line.Number = units.FormatDuration(takes)
	line.Text = fmt.Sprintf("until one stream is at full speed: %.0f round trips of doubling from %d segments", trips, first)
	qdisc, reported := f.Qdisc.Get()
	cc := t.Congestion.Or("")
	line.State = OK
	switch {
	case strings.HasPrefix(cc, "bbr"), strings.Contains(qdisc, "fq") && !strings.Contains(qdisc, "fq_codel") && !strings.Contains(qdisc, "fq_pie"):
		line.Evidence = []string{"packets are paced (" + strings.TrimSpace(cc+" "+qdisc) + ")"}
	case !reported:
		line.State = Unseen
		line.Text += "; whether packets are paced is not known"
	default:
		line.State = Poor
		line.Text += fmt.Sprintf("; %s does not pace, so a window leaves in bursts that every queue on the way has to hold: qdisc=fq on %s", qdisc, j.name(d.Sender()))
	}
	return line
}

// reordering says whether packets overtake each other on the present path.
func (j judge) reordering(d model.Direction) Line {
	line := Line{Thing: "order", Direction: d, State: Unseen, Text: "no datagrams were sent"}
	var got, late, extent int64
	for _, r := range j.s.Runs {
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.Direction == d && f.UDP != nil && f.Role == model.Receiver && r.State == model.RunValid {
					got, late, extent = got+f.UDP.Received, late+f.UDP.Reordered, max(extent, f.UDP.MaxExtent)
				}
			}
		}
	}
	if got == 0 {
		return line
	}
	line.State, line.Number, line.Text = OK, exact(float64(late)/float64(got)), fmt.Sprintf("of %d datagrams arrived late", got)
	if float64(late) > reordered*float64(got) {
		line.State = Poor
		line.Text += fmt.Sprintf(", by up to %d places: a sender takes that for loss", extent)
	}
	return line
}

// reordered is the share of packets out of order from which TCP slows down: rule B11.
const reordered = 0.01
