package health

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
)

// counted sums counters of a host over all runs; read says whether their group was read in any
// of them.
func (j judge) counted(h model.Host, group string, names ...string) (sum int64, read bool) {
	for _, r := range j.s.Runs {
		for _, end := range r.Ends {
			if end.Host != h {
				continue
			}
			for _, c := range end.Counters {
				read = read || c.Name == "counters_read" && c.Of == group && c.Value > 0
				for _, name := range names {
					if c.Name == name {
						sum += c.Value
					}
				}
			}
		}
	}
	return sum, read
}

// link grades the interfaces at both ends: duplex, and errors on the wire during the runs.
func (j judge) link() Line {
	l := Line{Thing: "link", State: Unseen}
	duplex := map[string]string{}
	var said []string
	broken, frames, looked, lost := int64(0), int64(0), 0, int64(0)
	for _, h := range []model.Host{model.Near, model.Far} {
		f, _ := j.s.Facts(h)
		if len(f.NICs) > 0 {
			media := f.NICs[0].Media
			if v, ok := media.Duplex.Get(); ok {
				duplex[j.name(h)] = v
				said = append(said, fmt.Sprintf("%s: %s duplex", j.name(h), v))
			} else {
				l.Evidence = append(l.Evidence, fmt.Sprintf("duplex of %s at %s: not visible: %s", f.NICs[0].Name, j.name(h), cmp.Or(media.Duplex.Reason(), "the host did not report it")))
			}
			if rate, ok := f.LinkRate.Get(); ok {
				l.Evidence = append(l.Evidence, fmt.Sprintf("%s of %s: %s", f.NICs[0].Name, j.name(h), rate))
			}
		}
		bad, read := j.counted(h, "nic", "nic_rx_crc_errors", "nic_rx_frame_errors", "nic_rx_errors", "nic_tx_errors", "nic_tx_carrier_errors", "nic_collisions")
		all, _ := j.counted(h, "nic", "nic_rx_packets", "nic_tx_packets")
		if n, _ := j.counted(h, "nic", "nic_carrier_down"); n > 0 {
			lost += n
			l.Evidence = append(l.Evidence, fmt.Sprintf("%s: the link went down, %d in all", j.name(h), n))
		}
		if read {
			looked++
			broken, frames = broken+bad, frames+all
			l.Evidence = append(l.Evidence, fmt.Sprintf("%s counted %d errors in %d frames", j.name(h), bad, all))
		}
	}
	if looked > 0 {
		l.State, l.Number, l.Text = OK, fmt.Sprintf("%d errors", broken), cmp.Or(strings.Join(said, ", "), "duplex is not visible")
	} else {
		l.Text = "no host reports its counters"
		if len(said) > 0 {
			l.State, l.Number, l.Text = OK, "", strings.Join(said, ", ")
		}
	}
	errors := j.grade("errors")
	values := map[string]bool{}
	for _, v := range duplex {
		values[v] = true
	}
	switch {
	case len(values) > 1:
		l.State, l.Text = Bad, strings.Join(said, ", ")+": a mismatch"
	case lost > 0:
		l.State, l.Number = Bad, fmt.Sprintf("lost %d x", lost)
		l.Text += ": the link went down during the check"
	case frames > 0 && broken > 1 && errors.of(float64(broken)/float64(frames)) != OK:
		l.State = errors.of(float64(broken) / float64(frames))
		l.Text += ": frames arrive broken"
	case values["half"]:
		l.State = Poor
	}
	return l
}

// cpu grades the load of the busier host. A busy processor is no problem while the path is
// full.
func (j judge) cpu() Line {
	l := Line{Thing: "cpu", State: Unseen, Text: "no host reports it"}
	most := 0.0
	cut, quota := 0.0, ""
	for _, r := range j.s.Runs {
		if share, text := j.cutShort(r); r.State == model.RunValid && share > cut {
			cut, quota = share, "; "+text
		}
	}
	for _, d := range []model.Direction{model.To, model.From} {
		r, ok := j.valid(d)
		if !ok {
			continue
		}
		rate, _ := r.Value(d, model.Goodput)
		ceiling, known := limits.OfPath(j.s, d).Rate.Get()
		full := known && rate >= fullSpeed*float64(ceiling)
		for _, end := range r.Ends {
			if end.CPUWindow <= 0 {
				continue
			}
			use := float64(end.CPUUser+end.CPUSystem) / float64(end.CPUWindow)
			l.Evidence = append(l.Evidence, fmt.Sprintf("%s: %.0f %% of a core for the %s of one stream", j.name(end.Host), 100*use,
				map[bool]string{true: "sending", false: "receiving"}[end.Host == d.Sender()]))
			f, _ := j.s.Facts(end.Host)
			if busy, of, ok := busyOf(f, end); ok {
				l.Evidence = append(l.Evidence, fmt.Sprintf("%s: %.1f of %d cores busy with everything", j.name(end.Host), busy, of))
			} else if busy, reported := end.SystemBusy.Get(); reported && of > 0 {
				l.Evidence = append(l.Evidence, fmt.Sprintf("%s: measurement fault: %.1f cores busy, and it has %d", j.name(end.Host), busy, of))
			}
			if use > most {
				most = use
				l.Number, l.Text = fmt.Sprintf("%.0f %%", 100*use), "of a core at "+j.name(end.Host)+", the busier end"
			}
			if l.State == Unseen {
				l.State = OK
			}
			if use >= coreFull && !full {
				l.State = Poor
			}
		}
	}
	l.Text += quota
	return l
}

// clock checks that both ends count the same bytes in the same time: a wrong clock makes every
// rate wrong. It makes all rates of its host too high or too low, in both directions alike; a
// difference in one direction only, or on one machine with its one clock, is a measurement
// fault and says nothing about a clock.
func (j judge) clock() Line {
	l := Line{Thing: "clock", State: Unseen, Text: "the other end does not count"}
	worst := 0.0
	var ratios []float64 // what the near end counts over what the far end does
	for _, d := range []model.Direction{model.To, model.From} {
		r, ok := j.valid(d)
		if !ok {
			continue
		}
		var rate [2]float64 // of the sender and the receiver
		held := 0.0
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.Direction != d || f.Window <= 0 || f.UDP != nil { // some datagrams get lost
					continue
				}
				rate[bit(f.Role != model.Sender)] = float64(f.Bytes) / f.Window.Seconds()
				if f.TCP != nil { // bytes written and bytes sent differ by what the buffer holds
					held = float64(f.TCP.SendBuffer.Or(0)) / f.Window.Seconds()
				}
			}
		}
		sent, got := rate[0], rate[1]
		if sent <= 0 || got <= 0 {
			continue
		}
		apart := math.Copysign(max(0, math.Abs(sent-got)-held), sent-got) / got
		worst = max(worst, math.Abs(apart))
		if d == model.From {
			apart = 1/(1+apart) - 1
		}
		ratios = append(ratios, apart)
		l.Evidence = append(l.Evidence, fmt.Sprintf("%s sent %.4g bytes a second, %s received %.4g", j.name(d.Sender()), sent, j.name(d.Receiver()), got))
	}
	if len(ratios) == 0 {
		return l
	}
	l.State, l.Number, l.Text = OK, percent(worst), "between what the two ends count"
	const less = -countsApart / (1 + countsApart)
	alike := len(ratios) == 2 && (min(ratios[0], ratios[1]) > countsApart || max(ratios[0], ratios[1]) < less)
	switch {
	case worst <= countsApart:
	case alike && !OneMachine(j.s):
		l.State, l.Text = Poor, l.Text+", both ways alike: the clock of a host is wrong"
	default:
		l.State, l.Text = Unseen, l.Text+": a fault of the measurement and no clock, which would show both ways; longer runs have less of it"
	}
	return l
}

func bit(v bool) int {
	if v {
		return 1
	}
	return 0
}
