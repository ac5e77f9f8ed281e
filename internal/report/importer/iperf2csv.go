package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/regex"
)

// csv2 matches a line of iperf 2 -y C: time, the two ends with their ports, the stream (-1 for
// the sum of all), start and end, bytes, bit/s; for a receiver of datagrams also the jitter in
// ms, lost, all, the share in percent, and those out of order.
var csv2 = regex.New(`^([0-9]{14})(?:\.[0-9]+)?(?:[+-][0-9]+)?,([^,]*),([0-9]+),([^,]*),([0-9]+),(-?[0-9]+),([0-9.]+)-([0-9.]+),([0-9]+),([0-9]+)(?:,(-?[0-9.]+|-?nan),(-?[0-9]+),(-?[0-9]+),(-?[0-9.]+|-?nan),(-?[0-9]+))?$`)

// failed2 matches iperf 2's message on standard error about a failed test.
var failed2 = regex.New(`^[a-z]+ failed: `)

func isIperf2CSV(text string) bool {
	for _, l := range lines(text) {
		if !failed2.MatchString(l) {
			return csv2.MatchString(l)
		}
	}
	return false
}

// csvInterval matches in a line for an interval that is not the first one of a test.
var csvInterval = regex.New(`,-?[0-9]+,(?:[1-9][0-9.]*|0\.[0-9]*[1-9][0-9]*)-[0-9.]+,[0-9]+,`)

// complete2 reports whether each stream of a section has all its lines: its intervals, if the
// file has any, and its summary.
func (s section) complete2(intervals bool) bool {
	return !slices.ContainsFunc(grouped(s.rows, func(l line) string { return l.id }), func(own []line) bool {
		return own[len(own)-1].from != 0 || intervals && len(own) == 1
	})
}

// readIperf2CSV reads the output of iperf 2 -y C, a client's or a server's file. It does not
// say which, so a client's is assumed, whose streams go to the server, unless a line has fields
// that only a receiver of datagrams knows.
func readIperf2CSV(text string, _ Options) (File, error) {
	out := File{Program: "iperf 2"}
	var now *section
	var began time.Time
	var ends map[string]float64 // of each stream, so far
	var last []string           // the fields of the line before
	follows := ""               // a note on the stream before the present test
	arrived, intervals := false, csvInterval.MatchString(text)
	flush := func() error {
		switch {
		case now == nil:
			return nil
		case len(out.Tests) == MaxTests:
			return faultf(now.first, "more than %d tests: cut the file into several", MaxTests)
		}
		me := model.Near
		t := Test{Near: now.ends[0][2], Far: now.ends[0][4], Started: began, Flow: model.Flow{Engine: bulk.Name, Direction: model.To, Streams: streams(now.rows)}}
		if now.udp {
			t.Flow.Engine = udp.Name
		}
		if arrived {
			me = model.Far
			if receiverFirst(now.ends[0]) {
				t.Near, t.Far = t.Far, t.Near
			}
		} else {
			t.note("iperf 2 -y C does not say which end wrote it: it is taken as the client's, which sends")
		}
		if follows != "" {
			t.note(follows)
		}
		if len(out.Tests) > 0 && out.Tests[0].Near == t.Far && out.Tests[0].Far == t.Near { // -d, -r
			t.Near, t.Far, t.Flow.Direction = t.Far, t.Near, model.From
			me = model.Near // which receives
		}
		err := now.direction2(&t, me, t.Flow.Direction, now.rows)
		out.Tests = append(out.Tests, t)
		now, arrived = nil, false
		return err
	}
	for n, l := range lines(text) {
		m := csv2.FindStringSubmatch(l)
		switch {
		case failed2.MatchString(l):
			return out, faultf(n, "the test failed: %.80s", l)
		case m == nil:
			return out, faultf(n, "not a line of iperf 2 -y C: %.60q", l)
		}
		v, err := numbers(n, m[7], m[8], m[9], m[10])
		if err != nil {
			return out, err
		}
		id := strings.Replace(m[6], "-1", "SUM", 1)
		key := m[3] + " " + m[6]
		if now != nil && now.complete2(intervals) && id != "SUM" && !(ends[key] > 0 && v[1] > ends[key]) {
			if err := flush(); err != nil {
				return out, err
			}
		}
		if now == nil {
			follows = parallel(n, last, m)
			ends = map[string]float64{}
			now = &section{first: n, far: m[4] + " " + m[5], report: map[int]bool{}, ends: [][]string{{"", "", m[2], m[3], m[4], m[5]}}}
			began = csvTime(m)
		}
		row := line{number: n, id: id, from: v[0], to: v[1], digits: 1, bytes: v[2], bitrate: v[3]}
		now.udp = now.udp || m[11] != ""
		if m[11] != "" && !strings.HasPrefix(m[13], "-") && m[11] != "0.000" {
			row.rest, arrived = m[11]+" ms "+m[12]+"/"+m[13]+" (", true
		}
		now.rows, ends[key], last = append(now.rows, row), v[1], m
	}
	return out, flush()
}

// csvTime returns the time of a line, zero if it has none: iperf 2.1 writes 1970 above a
// summary without intervals.
func csvTime(m []string) time.Time {
	at, err := time.Parse("20060102150405", m[1])
	if err != nil || at.Year() < 1990 {
		return time.Time{}
	}
	return at
}

// receiverFirst reports whether a receiver's line has its own end first, as versions up to 2.0
// write it: that end has the port of a server, which is below those that systems choose.
func receiverFirst(ends []string) bool {
	first, _ := strconv.Atoi(ends[3])
	second, _ := strconv.Atoi(ends[5])
	return first < second
}

// parallel returns a note if line n, the first one of a test, may be of a stream beside that of
// the line before: the file has no sum of the two. A client's -P without -i looks like the log
// of a server.
func parallel(n int, last, m []string) string {
	if last == nil || last[6] == m[6] || last[6] == "-1" || m[6] == "-1" || last[2] != m[2] || last[4] != m[4] {
		return ""
	}
	before, after := csvTime(last), csvTime(m)
	if v, err := numbers(n, last[8], m[8]); err == nil && !before.IsZero() && !after.IsZero() {
		if apart := after.Sub(before).Seconds() - v[1] + v[0]; apart > v[0]/2+1 {
			return "" // it began after the first one
		}
	}
	return fmt.Sprintf("line %d: stream %s follows stream %s without a sum: each is taken as a test of its own, and if they ran together (-P), the rate of the test is their sum", n, m[6], last[6])
}
