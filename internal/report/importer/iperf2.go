package importer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/units"
	"linerate/internal/regex"
)

func isIperf2(text string) bool {
	return banner2.MatchString(text)
}

// banner2 matches the first line of a test of iperf 2.
var banner2 = regex.New(`(?m)^(Client connecting to |Server listening on (TCP|UDP) port)`)

var client2 = regex.New(`^Client connecting to (\S+), (TCP|UDP) port`)

// listens2 matches the banner of a listener: a server, or a client for the reverse direction.
var listens2 = regex.New(`^Server listening on (?:TCP|UDP) port ([0-9]+)`)

// readIperf2 reads text of iperf 2. A client's file holds one test per banner, a server's one
// per connection, or per group of connections with a sum.
func readIperf2(text string, _ Options) (File, error) {
	var all []section
	var now *section
	var server bool      // the last line was the server's banner
	var early [][]string // connections before the banner of their test, as -u -P writes them
	for n, l := range lines(text) {
		m := client2.FindStringSubmatch(l)
		switch {
		case m != nil:
			if now != nil && now.server && len(now.ends) > 0 && !now.whole2() {
				return File{}, faultf(n, "a server that connects back to its client (-d, -r) is not read: import the client's file")
			}
			fresh := section{first: n, udp: m[2] == "UDP", far: m[1], report: map[int]bool{}, inbound: map[string]bool{}, ends: early}
			early = nil
			if now != nil && now.server && len(now.ends) == 0 && len(now.rows) == 0 { // the client listens for the reverse direction
				fresh.listens = now.listens
				all = all[:len(all)-1]
			}
			all = append(all, fresh)
			now = &all[len(all)-1]
		case listens2.MatchString(l) && now != nil && !now.server && len(now.ends) == 0:
			now.listens = listens2.FindStringSubmatch(l)[1]
		case listens2.MatchString(l):
			all = append(all, section{first: n, server: true, udp: strings.Contains(l, "UDP"), report: map[int]bool{}, listens: listens2.FindStringSubmatch(l)[1]})
			now = &all[len(all)-1]
		case connected.MatchString(l) && (now == nil || !now.server && now.listens == "" && now.whole2()):
			early = append(early, connected.FindStringSubmatch(l))
		case now == nil:
			continue
		case connected.MatchString(l):
			if now.server && now.whole2() {
				all = append(all, section{first: n, server: true, udp: now.udp, report: map[int]bool{}, listens: now.listens})
				now = &all[len(all)-1]
			}
			c := connected.FindStringSubmatch(l)
			now.ends = append(now.ends, c)
			if !now.server && now.listens != "" && c[3] == now.listens {
				now.inbound[c[1]] = true
				now.inTurn = now.inTurn || len(now.rows) > 0
			}
			now.reverse = now.reverse || strings.Contains(l, "(reverse")
			now.bounces = now.bounces || strings.Contains(l, "(bb ")
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
	var left []string
	for _, s := range all {
		if s.server && s.bounces {
			left = append(left, fmt.Sprintf("line %d: a bounce-back test is left out: its round trips are in the client's file", s.first))
			continue
		}
		tests, err := s.tests2()
		if err != nil {
			return File{}, err
		}
		out.Tests = append(out.Tests, tests...)
	}
	for i := range left {
		if len(out.Tests) > 0 {
			out.Tests[0].note(left[i])
		}
	}
	return out, nil
}

// bounce2 matches the output of --bounceback in a line: how many round trips, and their mean in
// ms.
var bounce2 = regex.New(`(?:^|\s)([0-9]+)=([0-9.]+)/[0-9.]+/[0-9.]+/[0-9.]+ ms`)

// bounced returns the test of a client's section of --bounceback.
func (s section) bounced() (Test, error) {
	t := Test{Kind: "bounce-back", Far: s.far, Near: s.ends[0][2], Flow: model.Flow{Engine: requests.Name, Direction: model.To}}
	if n := len(s.ends); n > 1 {
		return t, faultf(s.first, "%d connections bounce back: only tests of one are read", n)
	}
	total, ok := summary2(s.rows, s.ends[0][1])
	m := bounce2.FindStringSubmatch(total.rest)
	if !ok || m == nil {
		return t, faultf(s.first, "the bounce-back test that begins here has no summary: it was cut off")
	}
	v, err := numbers(total.number, m[1:]...)
	if err != nil {
		return t, err
	}
	if len(s.rows) <= 2 && total.mayBeInterval() {
		t.note(maybeInterval(total))
	}
	t.note(fmt.Sprintf("iperf 2 writes the mean of %.0f round trips", v[0]))
	t.Flow.Duration = seconds(total.to)
	t.add(model.To, model.RTT, v[1]/1e3)
	return t, nil
}

// maybeInterval returns the note on a summary that may be the first interval.
func maybeInterval(l line) string {
	return fmt.Sprintf("line %d: the summary of the test may be its first interval: a file that was cut off looks the same", l.number)
}

// tests2 returns the tests of a section of iperf 2: one, two if the directions take turns, or
// one for each stream if a server had several clients at the same time.
func (s section) tests2() ([]Test, error) {
	if len(s.rows) == 0 {
		if s.server {
			return nil, nil // no client connected
		}
		return nil, faultf(s.first, cutOff)
	}
	if s.bounces {
		t, err := s.bounced()
		return []Test{t}, err
	}
	groups := [][]line{s.rows}
	switch {
	case s.server && !s.sums() && !s.duplex():
		groups = grouped(s.rows, func(l line) string { return l.id })
	case s.inTurn:
		groups = grouped(s.rows, func(l line) string { return string(s.way2(l)) })
	}
	summed := map[string]bool{} // connections with a result
	for _, l := range s.rows {
		summed[strings.TrimPrefix(l.id, "*")] = true
	}
	var out []Test
	for _, g := range groups {
		t, err := s.test2(g)
		if err != nil {
			return nil, err
		}
		if s.server && len(groups) > 1 {
			t.note("several connections at the same time and no sum of them: each is taken as a test of its own")
		}
		for _, c := range s.ends {
			if !summed[strings.TrimPrefix(c[1], "*")] {
				t.note("connection " + c[1] + " has no line with a result")
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// grouped groups rows by the result of by, in order of first appearance.
func grouped(rows []line, by func(line) string) [][]line {
	var groups [][]line
	at := map[string]int{}
	for _, l := range rows {
		i, seen := at[by(l)]
		if !seen {
			i = len(groups)
			groups, at[by(l)] = append(groups, nil), i
		}
		groups[i] = append(groups[i], l)
	}
	return groups
}

// sums reports whether the streams of a section are one test.
func (s section) sums() bool {
	return slices.ContainsFunc(s.rows, func(l line) bool { return l.id == "SUM" })
}

// duplex reports whether a connection of a section carries both directions; -R with -e has the
// same asterisks.
func (s section) duplex() bool {
	return !s.reverse && slices.ContainsFunc(s.rows, func(l line) bool { return strings.HasPrefix(l.id, "*") })
}

// way2 returns the direction of a row: a client's own streams go to the server unless reversed;
// starred ones of --full-duplex and inbound ones go back.
func (s section) way2(l line) model.Direction {
	if s.reverse || strings.HasPrefix(l.id, "*") || s.inbound[l.id] {
		return model.From
	}
	return model.To
}

// whole2 reports whether each stream of a section has its summary.
func (s section) whole2() bool {
	for _, own := range grouped(s.rows, func(l line) string { return l.id }) {
		if _, ok := summary2(own, own[0].id); !ok {
			return false
		}
	}
	return len(s.rows) > 0
}

// summary2 returns the line of stream id that covers its whole test: the last one, which starts
// at 0 and is not an interval, because it reaches to the end of the last one before it. A test
// without intervals has only this line.
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

// test2 returns one test from rows.
func (s section) test2(rows []line) (Test, error) {
	t := Test{Flow: model.Flow{Engine: s.engine()}, Far: s.far}
	me := model.Near
	if s.server {
		me = model.Far
		if len(s.ends) > 0 {
			t.Near, t.Far = s.ends[0][4], s.ends[0][2]
		}
	} else if len(s.ends) > 0 {
		t.Near = s.ends[0][2]
	}
	s.checkEnds(&t, rows)
	if s.duplex() {
		rows = s.bothWays(&t, rows)
	}
	for _, d := range []model.Direction{model.To, model.From} {
		var own []line
		for _, l := range rows {
			if s.way2(l) == d {
				own = append(own, l)
			}
		}
		if len(own) == 0 {
			continue
		}
		t.Flow.Streams = max(t.Flow.Streams, streams(own))
		if t.Flow.Direction = d; len(own) < len(rows) {
			t.Flow.Direction = model.Both
		}
		if err := s.direction2(&t, me, d, own); err != nil {
			return t, err
		}
	}
	return t, nil
}

// bothWays returns rows without the sums, which combine both directions of --full-duplex, and
// notes a sum that differs from its streams.
func (s section) bothWays(t *Test, rows []line) []line {
	streams := slices.DeleteFunc(slices.Clone(rows), func(l line) bool { return l.id == "SUM" })
	if n := len(grouped(streams, func(l line) string { return l.id })); n != 2*len(s.ends) {
		t.note(fmt.Sprintf("%d connections carry both ways, and lines of %d streams are there", len(s.ends), n))
	}
	if sum, ok := summary2(rows, "SUM"); ok {
		if all, err := sum2(streams); err == nil && differ(all[0].bytes, sum.bytes) {
			t.note(fmt.Sprintf("line %d: the streams have %s, and their sum says %s", sum.number, units.Bytes(all[0].bytes), units.Bytes(sum.bytes)))
		}
	}
	return streams
}

// direction2 adds direction d to t, from its rows.
func (s section) direction2(t *Test, me model.Host, d model.Direction, rows []line) error {
	n := streams(rows)
	id := "SUM"
	if n == 1 {
		id = rows[0].id
	}
	var mine, own, far []line
	for _, l := range rows {
		switch {
		case s.report[l.number]:
			far = append(far, l)
		default:
			if mine = append(mine, l); l.id == id {
				own = append(own, l)
			}
		}
	}
	if n > 1 {
		parts(t, mine, n)
	}
	if n > 1 && !slices.ContainsFunc(own, func(l line) bool { return l.to+sameClock >= mine[len(mine)-1].to }) { // the file has no overall sum
		if sum, err := sum2(mine); err == nil {
			if len(own) > 0 {
				t.note("the sum of all streams over the whole test is missing: the sum of their summaries counts")
			}
			own = append(own, sum...)
		} else if len(own) == 0 {
			return err
		}
	}
	if sums := slices.ContainsFunc(mine, func(l line) bool { return l.id == "SUM" }); sums && n == 1 {
		t.note(fmt.Sprintf("line %d: a sum of several streams, and lines of one alone", mine[len(mine)-1].number))
	}
	total, ok := summary2(own, id)
	if ok && len(own) <= 2 && total.mayBeInterval() {
		t.note(maybeInterval(total))
	}
	if ok && n > 1 {
		if all, err := sum2(mine); err == nil && all[0].to > total.to+sameClock && differ(all[0].bitrate, total.bitrate) { // iperf 2.1.8
			t.note(fmt.Sprintf("line %d: the sum is over %.3g s and says %s, and its streams took %.3g s: the sum of their rates counts", total.number, total.to, units.BitRate(total.bitrate), all[0].to))
			total.to, total.bitrate = all[0].to, all[0].bitrate
		}
	}
	metric := rateMetric(me, d)
	c := account{direction: d, at: me}
	var counted []line
	if ok {
		own, counted = own[:len(own)-1], []line{total}
		if c.sent = total.amount(); metric != model.Sent {
			c.sent, c.arrived = nil, c.sent
		}
	} else if c.ended = "the summary of its test is missing"; len(own) == 0 {
		return cut("the summary of its test", rows[len(rows)-1])
	}
	for _, l := range own {
		t.Samples = append(t.Samples, l.sample(me, d, metric, l.bitrate))
		c.intervals = append(c.intervals, *l.amount())
	}
	switch {
	case len(far) > n:
		return faultf(far[n].number, "a report of the server too many: %d streams have %d", n, len(far))
	case len(far) == n:
		all := amount{line: far[0].number}
		for _, l := range far {
			all.bytes, all.rate, all.to = all.bytes+l.bytes, all.rate+l.bitrate, max(all.to, l.to)
		}
		c.arrived, counted = &all, far
	case len(far) > 0:
		t.note(fmt.Sprintf("line %d: the server reports %d of %d streams, so what arrived is not known", far[0].number, len(far), n))
		counted = nil
	}
	var jitter, lost float64
	for _, l := range counted {
		j, share, err := l.loss()
		if err != nil {
			return err
		}
		if share != nil {
			jitter, lost = max(jitter, j), lost+*share/float64(len(counted))
			c.lost = &lost
		}
	}
	if err := c.settle(t); err != nil {
		return err
	}
	if c.lost != nil {
		t.datagrams(d, *c.lost, jitter)
	}
	return nil
}

// mayBeInterval reports whether a row that begins at 0 ends at such a round time that it may be
// the first interval: a test ends when the last byte is acknowledged. Versions that round times
// to one digit are trusted above a second.
func (l line) mayBeInterval() bool {
	return l.to <= 1 && l.to == math.Round(l.to*10)/10 || l.digits > 1 && l.to == math.Round(l.to*10)/10
}

// checkEnds notes connections of a section that do not match its rows.
func (s section) checkEnds(t *Test, rows []line) {
	seen, port := map[string]bool{}, ""
	for _, c := range s.ends {
		seen[strings.TrimPrefix(c[1], "*")] = true
		switch {
		case s.server && s.listens != "" && c[3] != s.listens:
			t.note(fmt.Sprintf("connection %s came to port %s, and the server listens on %s", c[1], c[3], s.listens))
		case !s.server && !s.inbound[c[1]] && port != "" && port != c[5]:
			t.note(fmt.Sprintf("connection %s goes to port %s, and another one to %s", c[1], c[5], port))
		case !s.server && !s.inbound[c[1]]:
			port = c[5]
		}
	}
	for _, l := range rows {
		if id := strings.TrimPrefix(l.id, "*"); id != "SUM" && !seen[id] {
			seen[id] = true
			t.note(fmt.Sprintf("line %d: the line of connection %s is missing", l.number, l.id))
		}
	}
}

// sum2 returns one row, the sum of the summaries of all streams.
func sum2(rows []line) ([]line, error) {
	all := line{id: "SUM"}
	for _, own := range grouped(rows, func(l line) string { return l.id }) {
		if own[0].id == "SUM" { // of intervals
			continue
		}
		l, ok := summary2(own, own[0].id)
		if !ok {
			return nil, cut("the summary of stream "+own[0].id, own[len(own)-1])
		}
		all.digits = l.digits
		all.number, all.to, all.bytes, all.bitrate = l.number, max(all.to, l.to), all.bytes+l.bytes, all.bitrate+l.bitrate
	}
	return []line{all}, nil
}
