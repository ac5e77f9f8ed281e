package cli

import (
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/reach"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/search"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// trafficFlags choose the kind of traffic of a quick look.
type trafficFlags struct {
	own              ownFlags
	udp              bool
	rate             string
	search           bool
	lossLimit        string
	idle             string
	serverOutput     bool
	user, keyFile    string
	pkcs1, dualPorts bool
}

// defaultIdle is how long probes run without a load before it: 20 probes or so,
// enough for a median.
const defaultIdle = "1s"

func (f *trafficFlags) register(fl *pflag.FlagSet, kinds traffic.Kinds) {
	fl.BoolVarP(&f.udp, "udp", "u", false, "UDP instead of TCP")
	fl.StringVarP(&f.rate, "rate", "b", "", "payload rate of UDP per direction, as 100M or 1gbit (default: 1 Mbit/s; 0: as fast as possible); with iperf2:// and iperf3:// also of TCP")
	fl.BoolVar(&f.search, "search", false, "find the highest UDP rate whose loss stays below --loss")
	fl.StringVar(&f.lossLimit, "loss", "0.1%", "with --search: the loss that is accepted")
	fl.StringVar(&f.idle, "idle", defaultIdle, "probe the latency for so long before the load, then beside it; 0s: do not probe")
	f.own.register(fl, kinds)
	fl.StringVar(&f.user, "username", "", "user of an iperf3 server that asks for one; the password is in $IPERF3_PASSWORD")
	fl.StringVar(&f.keyFile, "rsa-public-key", "", "file with that server's public key (PEM)")
	fl.BoolVar(&f.pkcs1, "use-pkcs1-padding", false, "encrypt for iperf3 servers older than 3.17")
	fl.BoolVar(&f.serverOutput, "get-server-output", false, "show what an iperf3 server printed")
	fl.BoolVar(&f.dualPorts, "connect-back", false, "the iperf2 server opens the connections of its direction, as 2.0 does for -d and -r")
}

// apply writes the flags over flow. given says which ones the user set.
func (f *trafficFlags) apply(flow *model.Flow, given func(string) bool, bad *faults) {
	also := ""
	if f.search || f.udp {
		also = udp.Name
	}
	f.own.choose(flow, also, given, bad)
	f.own.apply(flow, given, bad)
	switch flow.Engine {
	case udp.Name:
		f.datagrams(flow, given, bad)
	case requests.Name:
		if flow.Bytes > 0 {
			bad.add("bytes", errors.New("requests end by time: use --time"))
		}
	}
	if given("loss") && !f.search {
		bad.add("loss", errors.New("belongs to --search"))
	}
	if idle := bad.duration("idle", f.idle); idle > 0 && flow.Bytes == 0 {
		if f.own.loads(*flow) {
			*flow = probes.Over(*flow)
		}
		if flow.Engine == probes.Name {
			flow.Lead = idle
		}
	}
}

func (f *trafficFlags) datagrams(flow *model.Flow, given func(string) bool, bad *faults) {
	if f.rate != "" {
		next, err := knob.ApplyFlow(*flow, []model.Assignment{{Knob: "rate", Value: f.rate}})
		bad.add("rate", err)
		*flow = next
	}
	if flow.Block > udp.MaxDatagram {
		bad.add("length", fmt.Errorf("%d bytes are more than the %d of a UDP datagram", flow.Block, udp.MaxDatagram))
	}
	for _, flag := range []string{"set-mss", "congestion", "nagle"} {
		if given(flag) {
			bad.add(flag, errors.New("belongs to TCP: leave out --udp"))
		}
	}
}

// Defaults of a search.
const (
	searchLow        = 50 // datagrams in a run: fewer tell nothing of a loss
	searchHigh       = units.BitRate(100e9)
	searchResolution = 0.02
	searchRepeats    = 5
	searchTime       = 2 * time.Second
	usualDatagram    = 1472.0 // bytes of payload that fill MTU 1500
)

// plan makes a search of a quick look's plan: one direction, rates in place of
// blocks.
func (f *trafficFlags) plan(p *model.Plan, given func(string) bool, bad *faults) {
	if !f.search {
		return
	}
	if len(p.Directions) != 1 || p.Directions[0] == model.Both {
		p.Directions = []model.Direction{model.To}
		if given("bidir") {
			bad.add("search", errors.New("a search is for one direction: use --to or --reverse"))
		}
	}
	p.Flow.Direction = p.Directions[0]
	limit, err := units.ParsePercent(f.lossLimit)
	if err == nil && (limit < 0 || limit >= 100) {
		err = fmt.Errorf("%s is not a share of loss between 0%% and 100%%", f.lossLimit)
	}
	bad.add("loss", err)
	if !given("time") && p.Flow.Bytes == 0 {
		p.Flow.Duration = searchTime
	}
	size := cmp.Or(float64(p.Flow.Block), usualDatagram)
	low := units.BitRate(searchLow * 8 * size / max(p.Flow.Duration.Seconds(), 0.001))
	s := model.RateSearch{Low: low, High: searchHigh, Limit: float64(limit) / 100, Resolution: searchResolution, Repeats: searchRepeats}
	if f.rate != "" {
		u, _ := udp.Of(p.Flow)
		s.High = u.Rate
	}
	if given("repeat") {
		s.Repeats = p.MaxBlocks
	}
	p.Flow = probes.Load(p.Flow) // a search wants many short runs, and one question
	switch {
	case len(*bad) > 0:
	case f.rate != "" && s.High < low:
		bad.add("rate", fmt.Errorf("at %s a run of %s sends less than %d datagrams, too few to tell a loss: use a longer --time",
			s.High, units.FormatDuration(p.Flow.Duration), searchLow))
	default:
		bad.add("search", search.Validate(s))
	}
	p.Search, p.Order, p.MaxBlocks, p.Baseline, p.Settings = &s, nil, 0, "", nil
	p.Flow.Interval = min(p.Flow.Interval, max(p.Flow.Duration, time.Millisecond))
}

// foreignOnly are the flags that only foreign peers understand.
func (f *trafficFlags) foreignOnly(given func(string) bool) []string {
	return slices.DeleteFunc([]string{"username", "rsa-public-key", "use-pkcs1-padding", "get-server-output", "connect-back"},
		func(flag string) bool { return !given(flag) })
}

// foreign are the options that only foreign peers understand.
func (f *trafficFlags) foreign(getenv func(string) string) (reach.ForeignOptions, error) {
	o := reach.ForeignOptions{ConnectBack: f.dualPorts, ServerOutput: f.serverOutput}
	if f.rate != "" && !f.udp {
		rate, err := units.ParseBitRate(f.rate)
		if err != nil {
			return o, usagef("--rate: %v", err)
		}
		o.Rate = rate
	}
	if f.user == "" && f.keyFile == "" {
		return o, nil
	}
	if f.user == "" || f.keyFile == "" {
		return o, usagef("--username and --rsa-public-key belong together")
	}
	key, err := publicKey(f.keyFile)
	if err != nil {
		return o, app.WithKind(app.Usage, fmt.Errorf("--rsa-public-key: %w", err))
	}
	password := getenv("IPERF3_PASSWORD")
	if password == "" {
		return o, withHint(usagef("no password for %s", f.user), "set the environment variable IPERF3_PASSWORD, as for iperf3 itself")
	}
	o.Login = &reach.Login{User: f.user, Password: password, Key: key, PKCS1: f.pkcs1}
	return o, nil
}

// publicKey reads an RSA key as openssl rsa -pubout writes it.
func publicKey(path string) (*rsa.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if rsaKey, ok := key.(*rsa.PublicKey); ok {
		return rsaKey, nil
	}
	return nil, fmt.Errorf("%s holds a %T, not an RSA key", path, key)
}
