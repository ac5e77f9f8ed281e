package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// The engines that a plan may name; sweeps and copies are commands of their own.
const (
	engineBulk      = "tcpbulk"
	engineDatagrams = "udpflow"
	engineLoaded    = "loaded"
	engineRequests  = "reqresp"
)

// DefaultRate is the payload rate of UDP where none is given: what iperf2 and
// iperf3 send without -b, and little enough for any path.
const DefaultRate = units.BitRate(1e6)

// trafficFields are the keys of flow that belong to some engines only.
func (r *reader) trafficFields() []field {
	t := &r.traffic
	return []field{
		{"pacing", value(r, &t.udp.Pacing, parseWord("pacing", "kernel", "clock"))},
		{"plain", value(r, &t.udp.Plain, parseSwitch)},
		{"load", value(r, &t.load, parseWord("load", engineBulk, engineDatagrams))},
		{"idle", value(r, &t.idle, parseDuration)},
		{"requests", value(r, &t.requests.Rate, parseRequests)},
		{"reply", value(r, &t.requests.Reply, parsePositiveBytes)},
		{"connect", value(r, &t.requests.Connect, parseSwitch)},
		{"spin", value(r, &t.requests.Spin, parseSwitch)},
	}
}

// own is what a file says of single engines, whether it names them or not.
type own struct {
	udp      udp.Params
	load     string
	idle     time.Duration
	requests requests.Params
}

// engine puts what belongs to the flow's engine into it.
func (r *reader) engine() {
	f, t := &r.f.Flow, r.traffic
	switch f.Engine {
	case engineLoaded:
		f.Lead, f.Params = t.idle, traffic.Write(probes.Params{Engine: cmp.Or(t.load, engineBulk)})
	case engineRequests:
		f.Params = traffic.Write(t.requests)
	}
	if udp.Carries(*f) {
		if _, given := r.at["flow.rate"]; !given {
			t.udp.Rate = DefaultRate
		}
		*f = udp.With(*f, t.udp)
	}
}

// owner is a kind of traffic with the keys of flow that only it has.
type owner struct {
	name string
	has  func(model.Flow) bool
	hint string
	keys []string
}

func owners() []owner {
	return []owner{
		{"UDP", udp.Carries, "write engine: udpflow", []string{"rate", "pacing", "plain"}},
		{"engine loaded", func(f model.Flow) bool { return f.Engine == engineLoaded }, "write engine: loaded", []string{"load", "idle"}},
		{"engine reqresp", func(f model.Flow) bool { return f.Engine == engineRequests }, "write engine: reqresp", []string{"requests", "reply", "connect", "spin"}},
	}
}

// validateEngine reports what does not go with the flow's engine.
func (r *report) validateEngine(f File) {
	engine := cmp.Or(f.Flow.Engine, engineBulk)
	if f.Flow.Engine == "" && f.Has("flow.engine") {
		return // its own mistake is reported
	}
	for _, o := range owners() {
		for _, key := range o.keys {
			if path := join("flow", key); f.Has(path) && !o.has(f.Flow) {
				r.fault(path, o.hint, "%s belongs to %s, not to engine %s", key, o.name, engine)
			}
		}
	}
	if engine == engineRequests && f.Flow.Bytes > 0 {
		r.fault("flow.bytes", "write duration: 10s", "requests end after a time, not after bytes")
	}
	for _, k := range []struct {
		knob  model.KnobID
		given bool
	}{{"mss", f.Flow.MSS != 0}, {"nodelay", f.Flow.Nagle}, {"congestion", f.Flow.Congestion != ""}} {
		if k.given {
			r.knobOfEngine(f, join("flow", string(k.knob)), k.knob)
		}
	}
	for i, factor := range f.Factors {
		r.knobOfEngine(f, index("factors", i), factor.Knob)
	}
	for i, s := range f.Named {
		for _, a := range s.Assignments {
			if a.Host == "" {
				r.knobOfEngine(f, join(index("settings", i), "set")+"["+string(a.Knob)+"]", a.Knob)
			}
		}
	}
}

// knobOfEngine reports a knob of the flow that its engine does not have.
func (r *report) knobOfEngine(f File, path string, id model.KnobID) {
	switch datagrams := udp.Carries(f.Flow); {
	case id == "rate" && !datagrams && f.at == nil:
		r.fault(path, "add --udp", "rate belongs to UDP, which is not used")
	case id == "rate" && !datagrams:
		r.fault(path, "write engine: udpflow", "rate belongs to UDP, not to engine %s", cmp.Or(f.Flow.Engine, engineBulk))
	case datagrams && slices.Contains([]model.KnobID{"mss", "nodelay", "congestion"}, id):
		r.fault(path, "leave it out", "%s belongs to TCP, not to UDP", id)
	}
}

func parseEngine(s string) (string, error) {
	known := []string{engineBulk, engineDatagrams, engineLoaded, engineRequests}
	switch {
	case slices.Contains(known, s):
		return s, nil
	case s == "pingpong":
		return "", &valueError{"message sizes are not compared by plans", "use linerate sweep"}
	case s == "filecopy":
		return "", &valueError{"copies are not compared by plans", "use linerate copy"}
	}
	return "", &valueError{"unknown engine " + quote(s), didYouMean(s, known)}
}

// parseWord returns what reads one of two words.
func parseWord(what, one, other string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s != one && s != other {
			return "", &valueError{fmt.Sprintf("unknown %s %s", what, quote(s)), "write " + one + " or " + other}
		}
		return s, nil
	}
}

func parseSwitch(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, &valueError{quote(s) + " is neither on nor off", "write on or off"}
}

// parseRequests reads how many requests are due per second; 0 is one after the
// other.
func parseRequests(s string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, "/s")), 64)
	if err != nil || n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, &valueError{quote(s) + " is not a number of requests per second", "write it like 1000, or 0 for one after the other"}
	}
	return n, nil
}

// runLength is how long a run of f takes at least.
func runLength(f File) time.Duration {
	return f.Settle + f.Flow.Length() + f.Cooldown
}
