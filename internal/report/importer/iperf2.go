package importer

import (
	"regexp"
	"slices"
	"strings"

	"linerate/internal/core/model"
)

func isIperf2(text string) bool {
	return banner2.MatchString(text)
}

// banner2 begins a test of iperf 2.
var banner2 = regexp.MustCompile(`(?m)^(Client connecting to |Server listening on (TCP|UDP) port)`)

var client2 = regexp.MustCompile(`^Client connecting to (\S+), (TCP|UDP) port`)

// readIperf2 reads text of iperf 2. A client's file holds one test for each banner, a
// server's one for each connection, or for each group of them that has a sum.
func readIperf2(text string, _ Options) (File, error) {
	var all []section
	var now *section
	var server bool // the line that says so was the last one
	for n, l := range lines(text) {
		m := client2.FindStringSubmatch(l)
		switch {
		case m != nil:
			all = append(all, section{first: n, udp: m[2] == "UDP", far: m[1], report: map[int]bool{}})
			now = &all[len(all)-1]
		case strings.HasPrefix(l, "Server listening on "):
			all = append(all, section{first: n, server: true, udp: strings.Contains(l, "UDP"), report: map[int]bool{}})
			now = &all[len(all)-1]
		case now == nil:
			continue
		case connected.MatchString(l):
			if now.server && now.ended() {
				all = append(all, section{first: n, server: true, udp: now.udp, report: map[int]bool{}})
				now = &all[len(all)-1]
			}
			now.ends = append(now.ends, connected.FindStringSubmatch(l))
			now.reverse = now.reverse || strings.Contains(l, "(reverse")
		case strings.Contains(l, "Server Report:"):
			server = true
		default:
			got, ok, err := readRow(n, l)
			if err == nil && !ok {
				err = whole(n, l)
			}
			if err != nil {
				return File{}, err
			}
			if ok {
				now.rows = append(now.rows, got)
				now.report[n] = server
				server = false
			}
		}
	}
	out := File{Program: "iperf 2"}
	for _, s := range all {
		tests, err := s.tests2()
		if err != nil {
			return File{}, err
		}
		out.Tests = append(out.Tests, tests...)
	}
	return out, nil
}

// tests2 makes the tests of a section of iperf 2: one, or one for each stream where a
// server had several clients at the same time.
func (s section) tests2() ([]Test, error) {
	if len(s.rows) == 0 {
		if s.server {
			return nil, nil // nobody came
		}
		return nil, faultf(s.first, "the test that begins here has no result: it was cut off")
	}
	var groups [][]line
	for _, l := range s.rows {
		i := slices.IndexFunc(groups, func(g []line) bool { return !s.server || s.sums() || g[0].id == l.id })
		if i < 0 {
			groups, i = append(groups, nil), len(groups)
		}
		groups[i] = append(groups[i], l)
	}
	var out []Test
	for _, g := range groups {
		t, err := s.test2(g)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// sums reports whether the streams of a section are one test.
func (s section) sums() bool {
	return slices.ContainsFunc(s.rows, func(l line) bool { return l.id == "SUM" })
}

// ended reports whether each stream of a section has its summary.
func (s section) ended() bool {
	for _, l := range s.rows {
		if _, ok := summary2(s.rows, l.id); !ok {
			return false
		}
	}
	return len(s.rows) > 0
}

// summary2 is the line of stream id that covers the whole of its test: the last one, from
// 0, and no interval: it reaches to the end of the last one before it. A test without
// intervals has only this line.
func summary2(rows []line, id string) (line, bool) {
	var own []line
	for _, l := range rows {
		if l.id == id {
			own = append(own, l)
		}
	}
	if len(own) == 0 {
		return line{}, false
	}
	last := own[len(own)-1]
	if len(own) == 1 {
		return last, last.from == 0
	}
	return last, last.from == 0 && last.to >= own[len(own)-2].to
}

// test2 makes one test of rows.
func (s section) test2(rows []line) (Test, error) {
	t := Test{Flow: model.Flow{Engine: s.engine(), Direction: model.To, Streams: streams(rows)}, Far: s.far}
	me := model.Near
	if s.server {
		me = model.Far
		if len(s.ends) > 0 {
			t.Near, t.Far = s.ends[0][4], s.ends[0][2]
		}
	} else if len(s.ends) > 0 {
		t.Near = s.ends[0][2]
	}
	if s.reverse {
		t.Flow.Direction = model.From
	}
	d := t.Flow.Direction
	id := "SUM"
	if t.Flow.Streams == 1 {
		id = rows[0].id
	}
	var own []line // of what is told in the end
	var far *line  // what the other end reported
	for _, l := range rows {
		switch {
		case s.report[l.number]:
			far = &l
		case l.id == id:
			own = append(own, l)
		}
	}
	total, ok := summary2(own, id)
	if !ok {
		return t, cut("the summary of its test", rows[len(rows)-1])
	}
	metric := rateMetric(me, d)
	if len(own) > 1 {
		for _, l := range own[:len(own)-1] {
			t.Samples = append(t.Samples, l.sample(me, d, metric, l.bitrate))
		}
	}
	t.Flow.Duration = seconds(total.to)
	if far != nil {
		total = *far
	} else if metric == model.Sent {
		t.note(bySender)
	}
	t.add(d, model.Goodput, total.bitrate)
	return t, datagrams(&t, d, total)
}
