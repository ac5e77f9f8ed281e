package importer

import (
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

var (
	qperfHead = regex.New(`(?m)^((?:tcp|udp|sctp|sdp|rds|rc|uc|ud|xrc)_(?:[a-z_]+_)?(?:bw|lat|mr)|conf|quit):$`)
	// qperfPair is NAME = VALUE UNIT, followed by the plain number for units of 1024.
	qperfPair = regex.New(`^ {4}([a-z_]+) +=  +([0-9.,]+)(?: (\S+)(?: \(([0-9,]+)\))?)?$`)
)

// qperfUnits converts units to bit/s, seconds and bytes (view_band, view_time and view_size of
// qperf.c: powers of 1000).
var qperfUnits = map[string]float64{
	"bytes/sec": 8, "KB/sec": 8e3, "MB/sec": 8e6, "GB/sec": 8e9, "TB/sec": 8e12,
	"bits/sec": 1, "Kb/sec": 1e3, "Mb/sec": 1e6, "Gb/sec": 1e9, "Tb/sec": 1e12,
	"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1, "bytes": 1, "KB": 1e3, "MB": 1e6,
}

func isQperf(text string) bool {
	return slices.ContainsFunc(qperfHead.FindAllString(text, -1), func(head string) bool { return strings.Contains(head, "_") })
}

// qperf is a test of qperf: its name, and the values that are used.
type qperf struct {
	first  int
	name   string
	values map[string]float64
	failed string // the text in place of values
}

// readQperf reads text of a qperf client, one test or several.
func readQperf(text string, _ Options) (File, error) {
	out := File{Program: "qperf"}
	var all []qperf
	for n, l := range lines(text) {
		if m := qperfHead.FindStringSubmatch(l); m != nil {
			all = append(all, qperf{first: n, name: m[1], values: map[string]float64{}})
			continue
		}
		if len(all) == 0 || strings.HasPrefix(l, "warning:") {
			continue
		}
		if err := all[len(all)-1].take(n, l); err != nil {
			return out, err
		}
	}
	for _, q := range all {
		if q.name == "conf" || q.name == "quit" {
			continue
		}
		t, err := q.test()
		if err != nil {
			return out, err
		}
		out.Tests = append(out.Tests, t)
	}
	return out, nil
}

// take parses line n of the test.
func (q *qperf) take(n int, l string) error {
	m := qperfPair.FindStringSubmatch(l)
	if m == nil {
		if q.failed == "" {
			q.failed = strings.TrimSpace(l)
		}
		return nil
	}
	if !slices.Contains([]string{"bw", "send_bw", "recv_bw", "latency", "time", "msg_size"}, m[1]) {
		return nil
	}
	value, unit := m[2], qperfUnits[m[3]]
	if m[4] != "" {
		value, unit = strings.ReplaceAll(m[4], ",", ""), 1
	}
	v, err := number(n, value)
	switch _, again := q.values[m[1]]; {
	case err != nil:
		return err
	case unit == 0:
		return faultf(n, "unit %q is not known", m[3])
	case again:
		return faultf(n, "%s is there twice in one test", m[1])
	}
	q.values[m[1]] = v * unit
	return nil
}

// test returns the finished test. A qperf client sends; bw and recv_bw are the server's
// received rate (show_info of qperf.c), and latency is the mean of half a round trip.
func (q *qperf) test() (Test, error) {
	t := Test{Kind: q.name, Flow: model.Flow{Engine: bulk.Name, Direction: model.To, Duration: seconds(q.values["time"])}}
	if size := q.values["msg_size"]; size > 0 {
		t.Setting = "messages of " + units.Bytes(size).String()
	}
	want := []string{"bw"}
	switch q.name {
	case "tcp_bw":
	case "udp_bw":
		want, t.Flow.Engine = []string{"send_bw", "recv_bw"}, udp.Name
	case "tcp_lat", "udp_lat":
		want, t.Flow.Engine = []string{"latency"}, requests.Name
	default:
		return t, faultf(q.first, "test %s: of qperf those over TCP and UDP are read", q.name)
	}
	for _, key := range []string{"bw", "send_bw", "recv_bw", "latency"} {
		switch _, has := q.values[key]; {
		case slices.Contains(want, key) == has:
		case has:
			return t, faultf(q.first, "test %s has %s, which qperf writes of another test", q.name, key)
		case q.failed != "":
			return t, faultf(q.first, "test %s failed: %.80s", q.name, q.failed)
		default:
			return t, faultf(q.first, "test %s has no %s: it was cut off", q.name, key)
		}
	}
	if q.name == "tcp_lat" || q.name == "udp_lat" {
		t.note("qperf writes the mean of half a round trip: twice that is the round trip here")
		t.add(model.To, model.RTT, 2*q.values["latency"])
		return t, nil
	}
	sent, arrived := q.values["send_bw"], q.values["bw"]+q.values["recv_bw"]
	t.add(model.To, model.Goodput, arrived)
	switch {
	case q.name == "tcp_bw":
	case arrived > sent*(1+sameRate):
		t.note("more arrived (" + units.BitRate(arrived).String() + ") than was sent (" + units.BitRate(sent).String() + ")")
	default:
		t.add(model.To, model.LossRatio, max(0, 1-arrived/sent))
	}
	return t, nil
}
