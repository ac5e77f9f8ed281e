package counters

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// errShape reports text in an unexpected format.
var errShape = errors.New("unexpected form")

// userTick is the unit of /proc/stat: USER_HZ is 100 on every system that
// linerate runs on (include/asm-generic/param.h).
const userTick = 10 * time.Millisecond

// line cuts the first line off b.
func line(b []byte) (first, rest []byte) {
	first, rest, _ = bytes.Cut(b, []byte{'\n'})
	return first, rest
}

// field cuts the first word off b; it is empty if there is none.
func field(b []byte) (word, rest []byte) {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	n := 0
	for n < len(b) && b[n] != ' ' && b[n] != '\t' {
		n++
	}
	return b[:n], b[n:]
}

// number parses an unsigned number without allocating.
func number(b []byte, base uint64) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		var d uint64
		switch {
		case c >= '0' && c <= '9':
			d = uint64(c - '0')
		case base == 16 && c >= 'a' && c <= 'f':
			d = uint64(c-'a') + 10
		default:
			return 0, false
		}
		if n > (1<<64-1-d)/base {
			return 0, false
		}
		n = n*base + d
	}
	return n, true
}

// parseStat appends the cores of /proc/stat to cores: the lines
//
//	cpu  29070 0 4897 124298 371 0 84 149 0 0
//	cpu0 13870 0 2223 63206 26 0 28 71 0 0
//	cpu1 15199 0 2674 61092 345 0 56 77 0 0
//
// user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice in ticks (Linux
// fs/proc/stat.c show_stat). Guests are included in user; iowait is idle. Offline cores are
// not listed.
func parseStat(b []byte, cores []core) ([]core, error) {
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		if !bytes.HasPrefix(l, []byte("cpu")) {
			break // the lines of cores come first
		}
		name, rest := field(l)
		i, ok := number(name[len("cpu"):], 10)
		if !ok && len(name) == len("cpu") {
			continue // the sum
		}
		var t [8]uint64
		for k := range t {
			var w []byte
			w, rest = field(rest)
			n, isNumber := number(w, 10)
			ok = ok && isNumber && n < 1<<39 // 174 years
			t[k] = n
		}
		if !ok || i > 1<<20 || (len(cores) > 0 && int(i) <= cores[len(cores)-1].id) {
			return nil, fmt.Errorf("/proc/stat: line %.80q: %w", l, errShape)
		}
		d := func(n uint64) time.Duration { return time.Duration(n) * userTick }
		cores = append(cores, core{
			id: int(i), user: d(t[0]) + d(t[1]), system: d(t[2]), irq: d(t[5]), softirq: d(t[6]), steal: d(t[7]),
		})
	}
	if len(cores) == 0 {
		return nil, fmt.Errorf("/proc/stat: no core: %w", errShape)
	}
	return cores, nil
}

// Columns of /proc/net/softnet_stat (Linux net/core/net-procfs.c softnet_seq_show). Linux 5.4
// has 11, 5.10 adds the length of the backlog and the number of the core, 6.12 the two parts
// of that length.
const (
	softnetColumns     = 3  // a line has at least these
	softnetFlowColumn  = 10 // flow_limit
	softnetIndexColumn = 12 // of the core; without it, lines count online cores
)

// parseSoftnet appends the lines of /proc/net/softnet_stat to queues:
//
//	0000012c 00000000 00000000 … 00000000 00000000 00000000 00000000 00000000
//	00002200 00000000 00000000 … 00000000 00000000 00000001 00000000 00000000
//
// packets processed, dropped, times squeezed, all of 32 bits.
func parseSoftnet(b []byte, queues []queue) ([]queue, error) {
	for n := 0; len(b) > 0; n++ {
		var l []byte
		l, b = line(b)
		q := queue{id: n}
		column, rest := 0, l
		for ; ; column++ {
			var w []byte
			if w, rest = field(rest); len(w) == 0 {
				break
			}
			v, ok := number(w, 16)
			if !ok || v >= 1<<32 {
				return nil, fmt.Errorf("/proc/net/softnet_stat: line %.80q: %w", l, errShape)
			}
			switch column {
			case 0:
				q.processed = uint32(v)
			case 1:
				q.dropped = uint32(v)
			case 2:
				q.squeezed = uint32(v)
			case softnetFlowColumn:
				q.limited, q.hasLimited = uint32(v), true
			case softnetIndexColumn:
				q.id = int(v)
			}
		}
		if column < softnetColumns || (len(queues) > 0 && q.id <= queues[len(queues)-1].id) {
			return nil, fmt.Errorf("/proc/net/softnet_stat: line %.80q: %w", l, errShape)
		}
		queues = append(queues, q)
	}
	if len(queues) == 0 {
		return nil, fmt.Errorf("/proc/net/softnet_stat: empty: %w", errShape)
	}
	return queues, nil
}

// table parses the pairs of lines of /proc/net/snmp and /proc/net/netstat,
//
//	Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors …
//	Udp: 225 0 0 226 0 0 0 0 0
//
// (Linux net/ipv4/proc.c). It remembers the places of the wanted columns, since the names are
// a page of text and do not change while a kernel runs.
type table struct {
	want map[string]id
	rows []row
}

type row struct {
	names   []byte // the line of names, as last seen
	columns []id   // -1 for an unused column
}

// newTable returns a table for the counters in pairs of lines.
func newTable() *table {
	t := &table{want: map[string]id{}}
	for _, c := range counters() {
		if c.of == "" && c.key != "" {
			t.want[c.key] = c.id
		}
	}
	return t
}

// parse parses b into v.
func (t *table) parse(b []byte, v *values) error {
	for n := 0; len(b) > 0; n++ {
		var names, numbers []byte
		names, b = line(b)
		numbers, b = line(b)
		prefix, _ := field(names)
		if len(prefix) < 2 || prefix[len(prefix)-1] != ':' || !bytes.HasPrefix(numbers, prefix) {
			return fmt.Errorf("line %.80q: %w", names, errShape)
		}
		if n == len(t.rows) {
			t.rows = append(t.rows, row{})
		}
		if !bytes.Equal(t.rows[n].names, names) {
			t.rows[n] = t.learn(names)
		}
		rest := numbers[len(prefix):]
		for _, i := range t.rows[n].columns {
			var w []byte
			if w, rest = field(rest); len(w) == 0 {
				return fmt.Errorf("line %.80q: too few columns: %w", numbers, errShape)
			}
			if i < 0 {
				continue
			}
			if u, ok := number(w, 10); ok {
				v.set(i, u)
			}
		}
	}
	return nil
}

func (t *table) learn(names []byte) row {
	r := row{names: bytes.Clone(names)}
	prefix, rest := field(names)
	group := string(prefix[:len(prefix)-1]) + "."
	for {
		var w []byte
		if w, rest = field(rest); len(w) == 0 {
			return r
		}
		i, ok := t.want[group+string(w)]
		if !ok {
			i = -1
		}
		r.columns = append(r.columns, i)
	}
}

// wanted6 returns the counters in /proc/net/snmp6.
func wanted6() map[string]id {
	m := map[string]id{}
	for _, c := range counters() {
		if c.of == ipv6 {
			m[c.key] = c.id
		}
	}
	return m
}

// parseSNMP6 parses /proc/net/snmp6 into v, lines of
//
//	Udp6InDatagrams                 	0
//	Udp6RcvbufErrors                	0
//
// (Linux net/ipv6/proc.c snmp6_seq_show).
func parseSNMP6(b []byte, want map[string]id, v *values) error {
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		name, rest := field(l)
		i, ok := want[string(name)] // the compiler allocates no string here
		if !ok {
			continue
		}
		w, _ := field(rest)
		n, ok := number(w, 10)
		if !ok {
			return fmt.Errorf("/proc/net/snmp6: line %.80q: %w", l, errShape)
		}
		v.set(i, n)
	}
	return nil
}

// parseTrack adds up /proc/net/stat/nf_conntrack, a line of names and one for each core,
// numbers of 32 bits in hexadecimal (Linux net/netfilter/nf_conntrack_standalone.c):
//
//	entries  clashres found new … insert insert_failed drop early_drop icmp_error …
//	00000010  00000000 00000000 00000000 … 00000000 00000000 00000a2f 00000000 00000000 …
func parseTrack(b []byte, v *values) error {
	head, b := line(b)
	var columns []id
	for w, rest := field(head); len(w) > 0; w, rest = field(rest) {
		i := id(-1)
		switch string(w) {
		case "drop":
			i = trackDropped
		case "early_drop":
			i = trackEvicted
		}
		columns = append(columns, i)
	}
	some := false
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		rest := l
		for _, i := range columns {
			var w []byte
			w, rest = field(rest)
			n, ok := number(w, 16)
			if !ok || n >= 1<<32 {
				return fmt.Errorf("nf_conntrack: line %.80q: %w", l, errShape)
			}
			if i >= 0 {
				v.raiseNarrow(i, uint32(n))
			}
		}
		some = true
	}
	if !some || !v[trackDropped].known {
		return fmt.Errorf("nf_conntrack: no column of drops: %w", errShape)
	}
	return nil
}
