package cli

import (
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
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
	"linerate/internal/ui/config"
)

// trafficFlags choose the kind of traffic of a quick look.
type trafficFlags struct {
	udp, plain       bool
	rate, pacing     string
	search           bool
	lossLimit        string
	idle             string
	requests         string
	replyBytes       string
	connect, spin    bool
	serverOutput     bool
	user, keyFile    string
	pkcs1, dualPorts bool
}

// defaultIdle is how long probes run without a load before it: 20 probes or so,
// enough for a median.
const defaultIdle = "1s"

func (f *trafficFlags) register(fl *pflag.FlagSet) {
	fl.BoolVarP(&f.udp, "udp", "u", false, "UDP instead of TCP")
	fl.StringVarP(&f.rate, "rate", "b", "", "payload rate of UDP per direction, as 100M or 1gbit (default: 1 Mbit/s; 0: as fast as possible); with iperf2:// and iperf3:// also of TCP")
	fl.StringVar(&f.pacing, "pacing", "", "how UDP is paced: kernel or clock (default: the better one that works)")
	fl.BoolVar(&f.plain, "plain", false, "UDP without segmentation offload: the kernel sees each datagram by itself")
	fl.BoolVar(&f.search, "search", false, "find the highest UDP rate whose loss stays below --loss")
	fl.StringVar(&f.lossLimit, "loss", "0.1%", "with --search: the loss that is accepted")
	fl.StringVar(&f.idle, "idle", defaultIdle, "probe the latency for so long before the load, then beside it; 0s: do not probe")
	fl.StringVar(&f.requests, "requests", "", "requests and answers instead of bulk: so many per second on a fixed schedule; 0: one after the other")
	fl.StringVar(&f.replyBytes, "reply", "", "with --requests: bytes of an answer (default: as the request, -l)")
	fl.BoolVar(&f.connect, "connect", false, "with --requests: a new connection for each")
	fl.BoolVar(&f.spin, "spin", false, "with --requests: wait by polling, which costs a core and saves a wake-up")
	fl.StringVar(&f.user, "username", "", "user of an iperf3 server that asks for one; the password is in $IPERF3_PASSWORD")
	fl.StringVar(&f.keyFile, "rsa-public-key", "", "file with that server's public key (PEM)")
	fl.BoolVar(&f.pkcs1, "use-pkcs1-padding", false, "encrypt for iperf3 servers older than 3.17")
	fl.BoolVar(&f.serverOutput, "get-server-output", false, "show what an iperf3 server printed")
	fl.BoolVar(&f.dualPorts, "connect-back", false, "the iperf2 server opens the connections of its direction, as 2.0 does for -d and -r")
}

// apply writes the flags over flow. given says which ones the user set.
func (f *trafficFlags) apply(flow *model.Flow, given func(string) bool, bad *faults) {
	udpOnly := []string{"pacing", "plain"}
	requestsOnly := []string{"reply", "connect", "spin"}
	asks := given("requests") || f.connect
	switch {
	case f.search && asks, f.udp && asks:
		bad.add("requests", errors.New("requests travel over TCP, one kind of traffic at a time: leave out --udp and --search"))
	case f.search || f.udp:
		f.datagrams(flow, given, bad)
	case asks:
		f.ask(flow, given, bad)
	default:
		for _, flag := range udpOnly {
			if given(flag) {
				bad.add(flag, errors.New("belongs to UDP: add --udp"))
			}
		}
	}
	if !asks {
		for _, flag := range requestsOnly {
			if given(flag) {
				bad.add(flag, errors.New("belongs to --requests"))
			}
		}
	}
	if given("loss") && !f.search {
		bad.add("loss", errors.New("belongs to --search"))
	}
	if idle := bad.duration("idle", f.idle); idle > 0 && flow.Engine != requests.Name && flow.Bytes == 0 {
		*flow = probes.Over(*flow)
		flow.Lead = idle
	}
}

func (f *trafficFlags) datagrams(flow *model.Flow, given func(string) bool, bad *faults) {
	flow.Engine = udp.Name
	u := udp.Params{Rate: config.DefaultRate, Pacing: f.pacing, Plain: f.plain}
	if f.pacing != "" && f.pacing != udp.PacingKernel && f.pacing != udp.PacingClock {
		bad.add("pacing", fmt.Errorf("%q is neither kernel nor clock", f.pacing))
	}
	flow.Params = traffic.Write(u)
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

func (f *trafficFlags) ask(flow *model.Flow, given func(string) bool, bad *faults) {
	r := requests.Params{Connect: f.connect, Spin: f.spin}
	if f.requests != "" {
		v, err := strconv.ParseFloat(strings.TrimSuffix(f.requests, "/s"), 64)
		if err == nil && (v < 0 || math.IsNaN(v) || math.IsInf(v, 0)) {
			err = fmt.Errorf("%s is not a number of requests per second", f.requests)
		}
		bad.add("requests", err)
		r.Rate = v
	}
	if f.replyBytes != "" {
		r.Reply = bad.bytes("reply", f.replyBytes)
	}
	if flow.Bytes > 0 {
		bad.add("bytes", errors.New("requests end by time: use --time"))
	}
	flow.Engine, flow.Params = requests.Name, traffic.Write(r)
	if !given("length") {
		flow.Block = 0
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
