package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/units"
)

// Machine is one host and its default route, without another host to measure with.
type Machine struct {
	Facts model.HostFacts
	// Gateway is the router of the default route, "" for none.
	Gateway string
	RTT     fact.Of[time.Duration] // to the gateway, the least of a few tries
	Way     model.Way              // to the gateway
	Boot    fact.Of[Errors]        // of the interface, since boot
	Lately  fact.Of[Errors]        // of the interface, during the last Over
	Over    time.Duration
}

// Errors are counters of an interface.
type Errors struct {
	Packets int64 // both directions
	Broken  int64 // received broken, not sent, collisions
	Dropped int64 // for lack of room
}

// Lines returns a line for each aspect of the machine.
func (m Machine) Lines() []Line {
	return []Line{m.gateway(), m.wayOut(), m.card(), m.errors(), m.buffers()}
}

// gateway checks whether the router answers, and how fast.
func (m Machine) gateway() Line {
	l := Line{Thing: "gateway", State: Unseen, Text: "there is no default route"}
	if m.Gateway == "" {
		return l
	}
	rtt, ok := m.RTT.Get()
	if !ok {
		l.Text = m.Gateway + " does not answer small packets, which says nothing of others: " + m.RTT.Reason()
		return l
	}
	l.State, l.Number, l.Text = OK, units.FormatDuration(rtt), "to "+m.Gateway+", at best"
	if rtt > lanQueue {
		l.State = Poor
		l.Text += ": far for the other end of a link, as over radio or with a full queue"
	}
	return l
}

// wayOut checks whether packets as large as the interface sends reach the gateway.
func (m Machine) wayOut() Line {
	l := Line{Thing: "mtu", State: Unseen, Text: "no gateway to try it with"}
	n, ok := m.Way.Passes.Get()
	switch {
	case m.Gateway == "":
		return l
	case !ok || n == 0:
		l.Text = cmp.Or(m.Way.Passes.Reason(), m.Gateway+" answers no probes")
		return l
	}
	w := mtu.Way{From: cmp.Or(m.Facts.Name, "this machine"), To: m.Gateway, Asked: m.Way.Asked, Passes: n, Exact: m.Way.Exact, Reported: m.Way.Reported, Router: m.Way.Router, MTU: m.Way.RouterMTU}
	l.Number, l.State, l.Text = fmt.Sprint(n), OK, "as large as the interface sends reaches the gateway"
	l.Evidence = []string{w.String()}
	if !w.Whole() {
		l.State, l.Text = Bad, w.String()
		if w.Reported {
			l.State = Poor
		}
	}
	return l
}

// card returns the link mode of the interface of the default route.
func (m Machine) card() Line {
	name, known := m.Facts.Interface.Get()
	l := Line{Thing: "link", State: Unseen, Text: "no interface leads out"}
	i := slices.IndexFunc(m.Facts.NICs, func(n model.NIC) bool { return n.Name == name })
	if !known || i < 0 {
		return l
	}
	n := m.Facts.NICs[i]
	l.Text = name
	if up, ok := n.Up.Get(); ok && !up {
		l.State, l.Text = Bad, name+" carries nothing"
		return l
	}
	speed, reported := n.Media.Speed.Get()
	duplex := limits.Duplex(n)
	switch {
	case n.Radio != nil:
		return radioLink(l, n)
	case reported:
		l.State, l.Number = OK, speed.String()
	case duplex != "":
		l.State = OK
		l.Text += ", speed not visible: " + n.Media.Speed.Reason()
	default:
		l.Text += ": not visible: " + cmp.Or(n.Media.Speed.Reason(), "the host did not report it")
	}
	if duplex != "" {
		l.Text += ", " + duplex + " duplex"
	}
	if duplex == "half" {
		l.State = Poor
		l.Text += ": both directions share the wire"
	}
	if most := fastest(n.Media.Supported.Or(nil)); reported && speed < most {
		l.State = Poor
		l.Text += fmt.Sprintf("; the card can do %s: cable, the other end, or a fixed mode", most)
		l.Evidence = append(l.Evidence, "it can do: "+strings.Join(n.Media.Supported.Or(nil), " "))
	}
	return l
}

// fastest returns the fastest of link modes such as "1000baseT/Full", 0 for none.
func fastest(modes []string) units.BitRate {
	most := units.BitRate(0)
	for _, mode := range modes {
		digits := strings.TrimRight(strings.SplitN(mode, "base", 2)[0], "G")
		var n float64
		if _, err := fmt.Sscanf(digits, "%g", &n); err == nil && strings.Contains(mode, "base") {
			most = max(most, units.BitRate(n*1e6))
		}
	}
	return most
}

// errors returns the interface's broken and dropped packets, recent and since boot.
func (m Machine) errors() Line {
	l := Line{Thing: "errors", State: Unseen, Text: "not visible: " + cmp.Or(m.Boot.Reason(), "the system does not report it")}
	boot, ok1 := m.Boot.Get()
	now, ok2 := m.Lately.Get()
	if !ok1 || !ok2 {
		return l
	}
	l.State, l.Number = OK, fmt.Sprintf("%d now", now.Broken+now.Dropped)
	l.Text = fmt.Sprintf("in %s; since the start of the machine %d broken and %d dropped of %d packets", units.FormatDuration(m.Over), boot.Broken, boot.Dropped, boot.Packets)
	errors := judge{}.grade("errors")
	switch {
	case now.Broken > 0:
		l.State = Bad
	case now.Dropped > 0, boot.Packets > 0 && boot.Broken > 1 && errors.of(float64(boot.Broken)/float64(boot.Packets)) != OK:
		l.State = Poor
	}
	return l
}

// buffers checks whether TCP may grow its windows.
func (m Machine) buffers() Line {
	l := Line{Thing: "buffers", State: Unseen, Text: "the settings of TCP are not known"}
	var off []string
	seen := false
	for id, what := range map[model.KnobID]string{"tcp.window_scaling": "window scaling", "tcp.sack": "SACK", "tcp.recv_autotune": "growing of receive buffers"} {
		v, ok := m.Facts.Knobs[id].Get()
		seen = seen || ok
		if ok && v == "0" {
			off = append(off, what+" is off")
		}
	}
	slices.Sort(off)
	n, err := strconv.ParseInt(m.Facts.Knobs["tcp.recv_buffer_max"].Or(""), 10, 64)
	if err == nil {
		l.State, l.Number, l.Text = OK, units.Bytes(n).Binary(), "may be received ahead at most, about half of it payload"
	} else if !seen {
		return l
	} else {
		l.State, l.Text = OK, "the largest receive buffer is not known"
	}
	if len(off) > 0 {
		l.State, l.Text = Poor, strings.Join(off, ", ")
	}
	return l
}

// weakSignal is the signal in dBm below which a radio is slow (diagnosis-2.md section 5).
const weakSignal = -75

// radioLink completes the line of a wireless interface.
func radioLink(l Line, n model.NIC) Line {
	l.Text += " is a radio: " + n.Radio.String()
	if rate, ok := n.Radio.Transmit.Get(); ok {
		l.State, l.Number = OK, rate.String()
	}
	if dbm, ok := n.Radio.SignalDBm.Get(); ok && dbm < weakSignal {
		l.State = Poor
		l.Text += ": the signal is weak"
	}
	return l
}
