package knob

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// ApplyFlow returns f with the flow knobs in a applied, in order. Values may be canonical or in
// the user's notation. It reports every fault, joined: an unknown knob, a knob of a host or of
// another engine, a bad value. Options of kinds that may differ between runs are knobs of their
// flows.
//
// It is the only parser of such settings, for flags, plans and runs. Besides the knobs of the
// catalogue it knows the parts of a copy, copy.mode, copy.source and copy.sink, whose values
// the engine checks.
func ApplyFlow(f model.Flow, a []model.Assignment, kinds ...traffic.Kind) (model.Flow, error) {
	var faults []error
	for _, one := range a {
		if err := applyFlow(&f, one, kinds); err != nil {
			faults = append(faults, err)
		}
	}
	return f, errors.Join(faults...)
}

// WithSetting returns f with those assignments of s that have no host. The error names the
// setting.
func WithSetting(f model.Flow, s model.Setting, kinds ...traffic.Kind) (model.Flow, error) {
	var of []model.Assignment
	for _, a := range s.Assignments {
		if a.Host == "" {
			of = append(of, a)
		}
	}
	f, err := ApplyFlow(f, of, kinds...)
	if err != nil {
		return f, fmt.Errorf("setting %q: %w", s.Name, err)
	}
	return f, nil
}

func applyFlow(f *model.Flow, a model.Assignment, kinds traffic.Kinds) error {
	if a.Host == "" && a.Knob == model.FarEnd {
		return nil // the choice of hosts does not change the traffic
	}
	if a.Host == "" && a.Knob == model.EngineKnob {
		return applyEngine(f, a.Value, kinds)
	}
	if a.Host == "" && strings.HasPrefix(string(a.Knob), "copy.") {
		return applyCopy(f, a)
	}
	all := flowKnobs()
	i := slices.IndexFunc(all, func(k Knob) bool { return k.ID == a.Knob })
	if owner, _, own := kinds.Owner(string(a.Knob)); i < 0 && own && a.Host == "" {
		o, mine := kinds.Option(*f, string(a.Knob))
		if !mine || o.Level == nil {
			return fmt.Errorf("knob %s: belongs to %s, not to runs of engine %s", a.Knob, owner.Called(), f.Engine)
		}
		return o.Set(f, a.Value)
	}
	if i < 0 || a.Host != "" {
		x := NewIndex() // for the names in the error
		if _, known := x.ByID(a.Knob); !known {
			return x.UnknownError(a.Knob)
		}
		return fmt.Errorf("knob %s of host %q: not a setting of the flow", a.Knob, a.Host)
	}
	k := all[i]
	v, err := k.Parse(a.Value)
	if err != nil {
		return err
	}
	n, _ := strconv.ParseInt(v, 10, 64) // 0 for names, which do not use n
	switch k.ID {
	case "window":
		f.Window = units.Bytes(n)
	case "mss":
		f.MSS = int(n)
	case "streams":
		f.Streams = int(n)
	case "block":
		f.Block = units.Bytes(n)
	case "nodelay":
		f.Nagle = n == 0
	case "congestion":
		f.Congestion = v
	case "rate":
		u, datagrams := udp.Of(*f)
		if !datagrams {
			return fmt.Errorf("knob %s: belongs to UDP, not to engine %s", k.ID, f.Engine)
		}
		u.Rate = units.BitRate(n)
		if exact, err := units.ParseBitRate(a.Value); err == nil && n > 0 {
			u.Rate = exact // a search compares the requested rate, to the last fraction of a bit
		}
		*f = udp.With(*f, u)
	default:
		return fmt.Errorf("knob %s: %w by this version's flows", k.ID, errors.ErrUnsupported)
	}
	return nil
}

// applyEngine changes the engine of f. It drops the options of f's engine, so only engines
// without options of their own can replace it.
func applyEngine(f *model.Flow, name string, kinds traffic.Kinds) error {
	if name == f.Engine {
		return nil
	}
	if kind, ok := kinds.ByName(name); !ok || kind.Initial != "" {
		return fmt.Errorf("engine %s: it has options of its own, which a level cannot give: begin from it (flow.engine, --engine, --udp), and have tcpbulk for a level", name)
	}
	f.Engine, f.Params = name, ""
	return nil
}

// applyCopy sets one part of a copy.
func applyCopy(f *model.Flow, a model.Assignment) error {
	c, copies := files.Of(*f)
	if !copies {
		return fmt.Errorf("knob %s: belongs to copies, not to engine %s", a.Knob, f.Engine)
	}
	switch a.Knob {
	case "copy.mode":
		c.Mode = a.Value
	case "copy.source":
		c.Source = a.Value
	case "copy.sink":
		c.Sink = a.Value
	default:
		return NewIndex().UnknownError(a.Knob)
	}
	f.Params = traffic.Write(c)
	return nil
}

func flowKnobs() []Knob {
	flow := func(id, summary string, k Knob) Knob {
		k.ID, k.Summary, k.Scope, k.Effect = knobID(id), summary, ScopeFlow, EffectNew
		return k
	}
	return []Knob{
		flow("window", "socket buffers of the test (SO_SNDBUF, SO_RCVBUF), no autotuning", Knob{
			Type: TypeBytes, Min: 1024, Max: most, Zero: "auto",
			Source: "[L6.1 net/core/sock.c; SOCK_MIN_RCVBUF is about 2.3 KiB after the kernel's doubling]",
		}),
		flow("mss", "largest TCP segment of the test (TCP_MAXSEG)", Knob{
			Type: TypeInt, Unit: "bytes", Min: 88, Max: 32767, Zero: "auto",
			Source: "[L6.1 net/ipv4/tcp.c do_tcp_setsockopt: TCP_MIN_MSS to MAX_TCP_WINDOW]",
		}),
		flow("streams", "parallel connections in each direction", Knob{
			Type: TypeInt, Unit: "streams", Min: 1, Max: 128,
			Source: "iperf3 3.17 src/iperf.h MAX_STREAMS, so that results stay comparable",
		}),
		flow("block", "bytes that the test hands to the system in one write", Knob{
			Type: TypeBytes, Min: 1, Max: 64 << 20, Zero: "auto",
			Source: "the upper end is linerate's: the largest block that one write copies without pause",
		}),
		flow("nodelay", "TCP_NODELAY: send small segments at once (RFC 9293 section 3.7.4)", Knob{
			Type: TypeBool, Source: "RFC 9293 section 3.7.4",
		}),
		flow("congestion", "congestion control of the test's connections (TCP_CONGESTION)", Knob{
			Type: TypeName, Source: "[L6.1 net/ipv4/tcp_cong.c tcp_set_congestion_control]",
		}),
		flow("rate", "payload per second of UDP in each direction, over all streams", Knob{
			Type: TypeRate, Min: 1_000, Max: 1_000_000_000_000, Zero: "unlimited",
			Source: "the range is linerate's: from less than a call takes to more than one host sends",
		}),
	}
}
