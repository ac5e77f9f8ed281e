package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"linerate/internal/app/trial"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// trafficFlags choose the kind of traffic of a quick look.
type trafficFlags struct {
	own       ownFlags
	udp       bool
	rate      string
	search    bool
	lossLimit string
	idle      string
}

// defaultIdle is how long probes run without a load before it: 20 probes or so,
// enough for a median.
const defaultIdle = "1s"

func (f *trafficFlags) register(fl *pflag.FlagSet, kinds traffic.Kinds) {
	fl.BoolVarP(&f.udp, "udp", "u", false, "UDP instead of TCP")
	fl.StringVarP(&f.rate, "bitrate", "b", "", "payload rate of UDP per direction, as 100M or 1gbit (default: 1 Mbit/s; 0: as fast as possible); with iperf2:// and iperf3:// also of TCP")
	fl.BoolVar(&f.search, "search", false, "find the highest UDP rate whose loss stays below --loss")
	fl.StringVar(&f.lossLimit, "loss", "0.1%", "with --search: the loss that is accepted")
	fl.StringVar(&f.idle, "idle", defaultIdle, "probe the latency for so long before the load, then beside it; 0s: do not probe")
	f.own.register(fl, kinds)
}

// apply puts what the flags say into q. given says which ones the user set.
func (f *trafficFlags) apply(q *trial.Quick, given func(string) bool, bad *faults) {
	flow, also := &q.Flow, ""
	if f.search || f.udp {
		also = udp.Name
	}
	f.own.choose(flow, also, given, bad)
	f.own.apply(flow, given, bad)
	q.Idle = bad.duration("idle", f.idle)
	if flow.Engine == udp.Name {
		f.datagrams(flow, given, bad)
	}
	if f.search {
		q.Search = f.rateSearch(q, given, bad)
	} else if given("loss") {
		bad.add("loss", errors.New("belongs to --search"))
	}
}

func (f *trafficFlags) datagrams(flow *model.Flow, given func(string) bool, bad *faults) {
	if f.rate != "" {
		next, err := knob.ApplyFlow(*flow, []model.Assignment{{Knob: "rate", Value: f.rate}})
		bad.add("bitrate", err)
		*flow = next
	}
	for _, flag := range []string{"set-mss", "congestion", "nagle"} {
		if given(flag) {
			bad.add(flag, errors.New("belongs to TCP: leave out --udp"))
		}
	}
}

// rateSearch is the search that the flags ask for.
func (f *trafficFlags) rateSearch(q *trial.Quick, given func(string) bool, bad *faults) *trial.RateSearch {
	limit, err := units.ParsePercent(f.lossLimit)
	if err == nil && (limit < 0 || limit >= 100) {
		err = fmt.Errorf("%s is not a share of loss between 0%% and 100%%", f.lossLimit)
	}
	s := &trial.RateSearch{Highest: trial.HighestRate, Timed: given("time")}
	if bad.add("loss", err); err == nil {
		s.Loss = float64(limit) / 100
	}
	if f.rate != "" && len(*bad) == 0 {
		u, _ := udp.Of(q.Flow)
		s.Highest = u.Rate
	}
	if given("repeat") {
		s.Repeats = q.Repeats
	}
	return s
}
