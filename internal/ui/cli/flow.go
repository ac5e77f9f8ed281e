package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// flowFlags are the flags that describe test traffic, with iperf's letters.
type flowFlags struct {
	duration, omit, interval string
	bytes, block, window     string
	streams, mss             int
	congestion               string
	nagle                    bool
}

// defaultInterval is the reporting step of runs that are longer than it.
const defaultInterval = time.Second

func (f *flowFlags) register(fl *pflag.FlagSet, duration, omit, omitText string) {
	fl.StringVarP(&f.duration, "time", "t", duration, "measured time of a run")
	fl.StringVar(&f.omit, "omit", omit, "warm-up before it, sent but not counted"+omitText)
	fl.StringVarP(&f.interval, "interval", "i", "", "reporting step (default: 1s, or the run where that is shorter)")
	fl.StringVarP(&f.bytes, "bytes", "n", "", "bytes to send instead of a time")
	fl.IntVarP(&f.streams, "parallel", "P", 1, "parallel connections")
	fl.StringVarP(&f.block, "length", "l", "", "bytes per write, datagram or request (default: by the kind of traffic)")
	fl.StringVarP(&f.window, "window", "w", "", "socket buffers; turns autotuning off (default: autotuning)")
	fl.IntVarP(&f.mss, "set-mss", "M", 0, "maximum segment size in bytes (default: the path's)")
	fl.StringVarP(&f.congestion, "congestion", "C", "", "congestion control of the sender (default: the host's)")
	fl.BoolVar(&f.nagle, "nagle", false, "leave Nagle's algorithm on (no TCP_NODELAY)")
}

// faults collects every mistake of a set of flags.
type faults []string

func (f *faults) add(flag string, err error) {
	if err != nil {
		*f = append(*f, fmt.Sprintf("--%s: %v", flag, err))
	}
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return usagef("%s", strings.Join(f, "\n"))
}

// duration reads a time that the protocol can carry.
func (f *faults) duration(flag, text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := units.ParseDuration(text)
	if err == nil && d > longestRun {
		err = fmt.Errorf("%s is longer than %s", text, units.FormatDuration(longestRun))
	}
	f.add(flag, err)
	return d
}

func (f *faults) bytes(flag, text string) units.Bytes {
	b, err := units.ParseBytes(text)
	if err == nil && b == 0 {
		err = errors.New("nothing to send; write it like 1GiB")
	}
	f.add(flag, err)
	return b
}

// dataHelp is the help of --data.
const dataHelp = "at most so much payload, as 10GB: no further block begins once it is sent"

// data reads --data; "" is no limit.
func (f *faults) data(text string) units.Bytes {
	if text == "" {
		return 0
	}
	return f.bytes("data", text)
}

// overlay writes flags over flow: those that the user gave, and the defaults of
// those that a plan file (has) leaves open.
func (f *flowFlags) overlay(flow *model.Flow, given, has func(string) bool, bad *faults) {
	flow.Engine = cmp.Or(flow.Engine, "tcpbulk")
	set := func(flag, key string) bool { return given(flag) || !has("flow."+key) }
	if f.bytes != "" {
		const one = "a run ends by --bytes or by --time: leave one of them out"
		if given("time") {
			bad.add("time", errors.New(one))
		}
		if given("omit") && bad.duration("omit", f.omit) > 0 {
			bad.add("omit", errors.New(one))
		}
		flow.Bytes, flow.Duration, flow.Omit = bad.bytes("bytes", f.bytes), 0, 0
	} else {
		if set("time", "duration") && (given("time") || flow.Bytes == 0) {
			flow.Bytes, flow.Duration = 0, bad.duration("time", f.duration)
			if flow.Duration == 0 && len(*bad) == 0 {
				bad.add("time", fmt.Errorf("%s measures nothing; write it like 10s", f.duration))
			}
		}
		if set("omit", "omit") && f.omit != "" && flow.Bytes == 0 {
			flow.Omit = bad.duration("omit", f.omit)
		}
	}
	f.overlayInterval(flow, has, bad)
	f.overlayKnobs(flow, given, has, bad)
}

// overlayInterval sets the reporting step. A run shorter than the default has
// one interval.
func (f *flowFlags) overlayInterval(flow *model.Flow, has func(string) bool, bad *faults) {
	switch {
	case f.interval != "":
		flow.Interval = bad.duration("interval", f.interval)
		switch {
		case len(*bad) > 0:
		case flow.Interval < shortestInterval:
			bad.add("interval", fmt.Errorf("%s is shorter than %s", f.interval, units.FormatDuration(shortestInterval)))
		case flow.Duration > 0 && flow.Interval > flow.Duration:
			bad.add("interval", fmt.Errorf("%s is longer than the run of %s", f.interval, units.FormatDuration(flow.Duration)))
		}
	case !has("flow.interval"):
		flow.Interval = defaultInterval
		if flow.Duration > 0 {
			flow.Interval = min(flow.Interval, flow.Duration)
		}
	}
}

// overlayKnobs sets the knobs of the flow, checked as those of a plan are.
func (f *flowFlags) overlayKnobs(flow *model.Flow, given, has func(string) bool, bad *faults) {
	knobs := []struct {
		flag string
		id   model.KnobID
		text string
		set  bool
	}{
		{"parallel", "streams", strconv.Itoa(f.streams), given("parallel") || !has("flow.streams")},
		{"length", "block", f.block, f.block != ""},
		{"window", "window", f.window, f.window != ""},
		{"set-mss", "mss", strconv.Itoa(f.mss), given("set-mss")},
		{"congestion", "congestion", f.congestion, f.congestion != ""},
		{"nagle", "nodelay", strconv.FormatBool(!f.nagle), f.nagle},
	}
	for _, k := range knobs {
		if !k.set {
			continue
		}
		next, err := knob.ApplyFlow(*flow, []model.Assignment{{Knob: k.id, Value: k.text}})
		if size, zero := units.ParseBytes(k.text); (k.flag == "length" || k.flag == "window" || k.flag == "set-mss") && zero == nil && size == 0 {
			err = errors.New("0 bytes are nothing; leave it out for the default")
		}
		bad.add(k.flag, err)
		*flow = next
	}
}
