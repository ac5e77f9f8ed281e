// Package peer speaks UDPSTP, the UDP Speed Test Protocol of RFC 9946, with foreign programs
// such as obudpst: as the client of their server, and as the server of their clients.
//
// docs/wire/udpstp.md describes the protocol. One end of a flow sends load PDUs, the other
// answers with status PDUs; the server chooses the rate from the receiver's counts.
package peer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/program"
	"linerate/internal/measure/udpstp"
)

// Name is the name of the program and of its kind of traffic.
const Name = "udpstp"

const (
	keyVariable   = "UDPSTP_KEY"
	keyFlag       = "udpstp-key-id"
	algorithmFlag = "udpstp-algorithm"
	keysFlag      = "udpstp-keys"
)

// Program describes UDPSTP for linerate.
func Program() program.Program {
	p := program.Program{
		Name: Name, Server: "an RFC 9946 (UDPSTP) server", Port: strconv.Itoa(udpstp.Port), Kinds: []traffic.Kind{kind()}, Networks: []string{"udp"},
		Start: func(port string) string {
			return "udpst" + program.At(" -p ", port) + ", or linerate serve --udpstp" + program.At("=:", port)
		},
		Flags: []program.Flag{
			{Name: algorithmFlag, Usage: "how a UDPSTP server searches for the capacity: B, in equal steps, or C, which doubles the rate (default C)"},
			{Name: keyFlag, Usage: "number of the key in $" + keyVariable + " at a UDPSTP server that asks for one (default 0)"},
		},
		ServerFlags: []program.Flag{{Name: keysFlag, Usage: "file of UDPSTP keys, ID,KEY a line (udpst -K)"}},
		Help:        "UDPSTP sends load only to an address that returned what it was sent. With --" + keysFlag + "\nclients have to sign, and have the limits of those who have the link.",
		Fit:         fit, Serve: listen,
		CheckServe: func(given program.Values) error {
			_, err := readKeys(given[keysFlag])
			return err
		},
	}
	p.New = func(addr string, given program.Values, getenv func(string) string) (program.Client, error) {
		r := remote{program: p, client: client{addr: addr, secret: getenv(keyVariable)}}
		switch word := cmp.Or(given[algorithmFlag], "C"); strings.ToUpper(word) {
		case "B":
			r.client.algorithm = udpstp.AlgorithmB
		case "C":
			r.client.algorithm = udpstp.AlgorithmC
		default:
			return nil, fault.Usagef("--%s: %q is neither B nor C", algorithmFlag, word)
		}
		id, err := strconv.ParseUint(cmp.Or(given[keyFlag], "0"), 10, 8)
		switch {
		case err != nil:
			return nil, fault.Usagef("--%s: %q is not a number from 0 to 255", keyFlag, given[keyFlag])
		case given[keyFlag] != "" && r.client.secret == "":
			return nil, fault.New(fault.Usage, fmt.Errorf("--%s: there is no key", keyFlag), "put it into the environment variable %s", keyVariable)
		case len(r.client.secret) > udpstp.MaxKey:
			return nil, fault.Usagef("$%s: the key has %d bytes, at most %d", keyVariable, len(r.client.secret), udpstp.MaxKey)
		}
		r.client.key = uint8(id)
		r.length, _ = units.ParseDuration(given["time"]) // checked before; "" is 0
		return r, nil
	}
	return p
}

// kind returns the kind of traffic of a capacity search. At a fixed rate it is UDP.
func kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Title: "UDPSTP", Command: "test", Why: "only a UDPSTP server makes it",
		Demand: func(model.Flow) traffic.Demand {
			return traffic.Demand{Datagrams: true, Pace: "at the rates of the search"}
		},
		Lines: lines,
	}
}

// lines returns the results that only this protocol measures, the median over runs.
func lines(_ model.Flow, runs []model.Run) (out []string) {
	for _, d := range []model.Direction{model.To, model.From} {
		median := func(m model.Metric) (float64, bool) {
			var all []float64
			for _, r := range runs {
				if v, ok := r.Value(d, m); ok {
					all = append(all, v)
				}
			}
			if len(all) == 0 {
				return 0, false
			}
			return stats.Median(all), true
		}
		capacity, ok := median(model.IPCapacity)
		if !ok {
			continue
		}
		mean, _ := median(model.IPRate)
		text := fmt.Sprintf("IP-layer capacity %s the far end %s, the greatest of all sub-intervals (RFC 9097); %s in the mean", d, units.BitRate(capacity), units.BitRate(mean))
		span := func(v float64) string { return units.FormatDuration(time.Duration(v * float64(time.Second))) }
		if v, ok := median(model.DelayVariation); ok {
			most, _ := median(model.DelayVariationMax)
			text += fmt.Sprintf("; one-way delay %s above the least in the mean, %s at most", span(v), span(most))
		}
		if v, ok := median(model.RTTMin); ok {
			if text += "; least round trip " + span(v); v == 0 { // whole milliseconds
				text = strings.TrimSuffix(text, span(v)) + "below 1 ms"
			}
		}
		out = append(out, text)
	}
	return out
}

// fit converts f to a capacity search, or datagrams with a rate to a test at the nearest row of
// the table. A test lasts whole seconds, at least 5.
func fit(f model.Flow, given program.Values) (model.Flow, error) {
	f, err := program.FitBulk(f, given)
	if err != nil {
		return f, err
	}
	for _, of := range []struct {
		flag  string
		asked bool
	}{
		{"length", f.Block != 0}, {"window", f.Window != 0}, {"mss", f.MSS != 0}, {"nagle", f.Nagle}, {"congestion", f.Congestion != ""}, {"bytes", f.Bytes != 0},
	} {
		if of.asked {
			return f, fault.Usagef("--%s: a UDPSTP server does not have it", of.flag)
		}
	}
	if f.Direction == model.Both {
		return f, fault.New(fault.Usage, errors.New("HOST measures one direction at a time"), "leave out --bidir: one direction is then measured after the other")
	}
	if f.Streams > udpstp.MaxFlows {
		return f, fault.Usagef("--parallel: a UDPSTP test has at most %d flows", udpstp.MaxFlows)
	}
	switch f.Engine {
	case bulk.Name, Name, "":
		rate, err := given.Pace()
		if f.Engine, f.Params = Name, ""; rate > 0 || err != nil {
			return f, cmp.Or(err, fault.New(fault.Usage, errors.New("--bitrate: the capacity is searched for"), "add --udp for a fixed rate"))
		}
	case udp.Name:
		if u, ok := udp.Of(f); !ok || u.Rate <= 0 {
			return f, fault.New(fault.Usage, errors.New("HOST sends no UDP without a rate"), "give --bitrate, or leave out --udp to search for the capacity")
		}
	default:
		return f, fault.Usagef("HOST does not measure %s", f.Engine)
	}
	total := max((f.Omit + f.Duration + time.Second - 1).Truncate(time.Second), udpstp.MinLength)
	if total > udpstp.MaxLength {
		return f, fault.Usagef("--time: a UDPSTP test lasts at most %s", units.FormatDuration(udpstp.MaxLength))
	}
	f.Duration = total - f.Omit
	return f, nil
}

// remote is a server at an address.
type remote struct {
	program program.Program
	client  client
	length  time.Duration // that the user asked for; 0 is the default
}

// Run implements program.Client.
func (r remote) Run(ctx context.Context, f model.Flow, host program.Near, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	var rate units.BitRate
	if u, ok := udp.Of(f); ok {
		rate = u.Rate * (1250.0 / 1222) // from payload to IP packets, for full datagrams
	}
	near, far, err = r.client.run(ctx, f, rate, host, emit)
	if r.length > 0 && r.length < udpstp.MinLength {
		far.Warnings = append(far.Warnings, fmt.Sprintf("a UDPSTP test lasts at least %s, longer than the %s of --time", units.FormatDuration(udpstp.MinLength), units.FormatDuration(r.length)))
	}
	refused, answered := errors.AsType[udpstp.Response](err)
	switch {
	case answered:
		hint := map[udpstp.Response]string{
			udpstp.AuthRequired: "put its key into the environment variable " + keyVariable + ", and its number into --" + keyFlag,
			udpstp.AuthFailed:   "is $" + keyVariable + " its key of the number in --" + keyFlag + "?", udpstp.AuthTime: "set the clocks of both hosts",
			udpstp.AuthNotConfigured: "unset " + keyVariable, udpstp.NoFlowLeft: "use a smaller --parallel, or try again later",
			udpstp.CapacityExceeded: "try again later", udpstp.BadFlows: "use a smaller --parallel",
		}[refused]
		err = fault.New(fault.ByCause, fmt.Errorf("the server refuses: %w", err), "%s", cmp.Or(hint, "is it a server of obudpst 8 or later?"))
	case errors.Is(err, udpstp.ErrSignature), errors.Is(err, udpstp.ErrAuthTime):
		err = fault.New(fault.ByCause, err, "another host may answer in its place, or the clocks of both hosts differ")
	case errors.Is(err, ErrSilent) && ctx.Err() == nil:
		err = fault.New(fault.Unreachable, err, "is it running there, and does a firewall let UDP through? start it with: %s", r.program.Starts(r.client.addr))
	}
	return near, far, r.program.Unreachable(ctx, err, r.client.addr)
}

// readKeys reads a file of shared keys in the format of udpst; nil if no file is named:
//
//	# ID,KEY
//	0,legacykey	# older clients
//	1, firstkey
func readKeys(file string) (map[uint8]string, error) {
	if file == "" {
		return nil, nil
	}
	fail := func(err error) (map[uint8]string, error) {
		return nil, fault.WithKind(fault.Usage, fmt.Errorf("--%s: %w", keysFlag, err))
	}
	f, err := os.Open(file)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = f.Close() }()
	keys := map[uint8]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.Join(strings.Fields(line), ""); line == "" {
			continue
		}
		text, key, ok := strings.Cut(line, ",")
		id, err := strconv.ParseUint(text, 10, 8)
		if !ok || err != nil || key == "" || len(key) > udpstp.MaxKey {
			return fail(fmt.Errorf("%s:%d: not a number from 0 to 255, a comma and a key of at most %d characters", file, n, udpstp.MaxKey))
		}
		if _, twice := keys[uint8(id)]; twice {
			return fail(fmt.Errorf("%s:%d: there are two keys %d", file, n, id))
		}
		keys[uint8(id)] = key
	}
	if err := lines.Err(); err != nil {
		return fail(err)
	}
	if len(keys) == 0 {
		return fail(fmt.Errorf("%s holds no key", file))
	}
	return keys, nil
}

// listen implements program.Program.Serve.
func listen(_ context.Context, at program.Sockets, h program.Host) (func(context.Context) error, error) {
	keys, err := readKeys(h.Given[keysFlag])
	if err != nil {
		return nil, err
	}
	conn, ok := at.UDP.(*net.UDPConn)
	if !ok {
		return nil, fmt.Errorf("serve %T: %w: only UDP carries UDPSTP", at.UDP, errors.ErrUnsupported)
	}
	return newServer(conn, h, keys).serve, nil
}
