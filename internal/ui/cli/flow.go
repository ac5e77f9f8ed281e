package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

// defaultInterval is the reporting step of longer runs.
const defaultInterval = time.Second

// registerFlow adds the flags that describe test traffic, with iperf's letters.
func registerFlow(fl *pflag.FlagSet, duration, omit, omitText string) {
	fl.StringP("time", "t", duration, "measured time of a run")
	fl.String("omit", omit, "warm-up before it, sent but not counted"+omitText)
	fl.StringP("interval", "i", "", "reporting step (default: 1s, or the run where that is shorter)")
	fl.StringP("bytes", "n", "", "bytes to send instead of a time")
	fl.IntP("parallel", "P", 1, "parallel connections")
	fl.StringP("length", "l", "", "bytes per write, datagram or request (default: by the kind of traffic)")
	fl.StringP("window", "w", "", "socket buffers; turns autotuning off (default: autotuning)")
	fl.IntP("set-mss", "M", 0, "maximum segment size in bytes (default: the path's)")
	fl.StringP("congestion", "C", "", "congestion control of the sender (default: the host's)")
	fl.Bool("nagle", false, "leave Nagle's algorithm on (no TCP_NODELAY)")
}

// planPath returns where a plan file has the value of a flag; "" for nowhere.
func planPath(flag *pflag.Flag) string {
	if own := flag.Annotations[ofEngine]; len(own) > 0 {
		return "flow." + flag.Name
	}
	switch flag.Name {
	case "title", "baseline", "blocks", "budget", "data", "objective", "margin", "tolerance", "settle", "cooldown", "seed", "incomplete", "through", "bind", "dscp":
		return flag.Name
	case "max-blocks", "data-port", "connect-from", "bind-dev":
		return strings.ReplaceAll(flag.Name, "-", "_")
	case "direction", "omit", "interval", "bytes", "window", "congestion":
		return "flow." + flag.Name
	}
	return map[string]string{
		"cport": "client_port", "guard": "guards", "no-twin": "twin", "time": "flow.duration", "parallel": "flow.streams",
		"length": "flow.block", "set-mss": "flow.mss", "nagle": "flow.nodelay", "bitrate": "flow.rate",
	}[flag.Name]
}

// over returns file with its values replaced by the flags of fl, except for those in without. If
// neither sets the length of a run, it uses the defaults of fl.
func (a *console) over(file config.File, fl *pflag.FlagSet, without ...string) (config.File, error) {
	if timed := file.Flow.Bytes == 0 || fl.Changed("time"); timed && !fl.Changed("bytes") {
		usual := func(flag string, to *time.Duration) {
			if f := fl.Lookup(flag); f != nil && *to == 0 && !file.Has("flow."+flag) {
				*to, _ = units.ParseDuration(f.DefValue) // a flag without a default
			}
		}
		usual("time", &file.Flow.Duration)
		usual("omit", &file.Flow.Omit)
	}
	var flags []config.Flag
	fl.Visit(func(f *pflag.Flag) {
		one := config.Flag{Name: f.Name, Path: planPath(f), Texts: []string{f.Value.String()}}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			one.Texts = list.GetSlice()
		}
		if f.Name == "nagle" || f.Name == "no-twin" { // the file has the opposite
			on, _ := strconv.ParseBool(one.Texts[0])
			one.Texts[0] = strconv.FormatBool(!on)
		}
		if one.Path != "" && !slices.Contains(without, f.Name) {
			flags = append(flags, one)
		}
	})
	file, err := file.Over(flags, knobChecker{a.knobs, file.Kinds, a.textOf})
	if flow := &file.Flow; flow.Interval == 0 {
		flow.Interval = defaultInterval
		if flow.Duration > 0 {
			flow.Interval = min(flow.Interval, flow.Duration)
		}
	}
	file.Flow.Streams = max(file.Flow.Streams, 1)
	return file, fault.WithKind(fault.Usage, err)
}

// faults collects all mistakes of a set of flags.
type faults []string

func (f *faults) add(flag string, err error) {
	if err != nil {
		*f = append(*f, fmt.Sprintf("--%s: %s", flag, fault.Sentence(err)))
	}
}

// join adds mistakes that name their flags.
func (f *faults) join(err error) {
	if err != nil {
		*f = append(*f, strings.Split(err.Error(), "\n")...)
	}
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return fault.Usagef("%s", strings.Join(f, "\n"))
}

// duration parses a duration that the protocol can carry.
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
