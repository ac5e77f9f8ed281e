package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"linerate/internal/app/here"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/filecopy"
)

// What a server gives away where nobody said (proposed).
const (
	freePart          = 4                      // of free memory and disk
	strangersMemory   = units.Bytes(128 << 20) // so that a server full of them stays below 300 MB, garbage included
	strangerMemory    = units.Bytes(128 << 20) // of one address: a copy of 64 MiB in memory, twice
	strangersDisk     = units.Bytes(2 << 30)   // eight copies of the largest size
	strangerDisk      = units.Bytes(512 << 20)
	strangersUDP      = units.BitRate(800e6)   // eight sessions at their limit
	strangerUDP       = units.BitRate(400e6)   // four sessions
	strangersEgress   = units.Bytes(2 << 40)   // a day
	strangerEgress    = units.Bytes(256 << 30) // a day: some minutes at 10 Gbit/s
	strangerTime      = 2 * time.Hour          // a day
	strangerLifetime  = 10 * time.Minute       // of a session
	strangersSessions = 16                     // beside key holders, who have the rest
	strangerSessions  = 4                      // of one address
	keyedSessions     = 64
	openSessions      = 8   // of an open server, for those without a key
	strangerFiles     = 512 // of one address
)

// budgetFlags bound what a server gives away.
type budgetFlags struct{ all, strangers, source string }

func (f *budgetFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.all, "limit", "", "what the server gives away, as KEY=VALUE,...: sessions, descriptors, memory, disk, udp, egress, time; egress and time count by the day, or with /hour by the hour (default: by what is free)")
	fl.StringVar(&f.strangers, "limit-anonymous", "", "the share of that for all clients without a key together, in the same form")
	fl.StringVar(&f.source, "limit-source", "", "the share of one address (IPv6: a /64) without a key, in the same form; also lifetime, of a session")
}

// room is what this host has.
type room struct {
	memory, disk units.Bytes // 0 is unknown
	files        budget.Division
}

// visitors says who may come to a server.
type visitors struct {
	open      bool // without a key
	sessions  int  // at a time; 0 is the default
	listeners int  // of other protocols
}

// visitors returns who may come to a server with these flags.
func (f *serveFlags) visitors() visitors {
	v := visitors{open: f.open, sessions: f.sessions}
	for _, addr := range []string{f.foreign.iperf3, f.foreign.iperf2, f.foreign.netpipe} {
		if addr != "" {
			v.listeners++
		}
	}
	return v
}

// lookForRoom reads what is free, and raises the limit of open files.
func (a *console) lookForRoom(state string, v visitors) room {
	var r room
	if dir, err := here.StateDir(state); err == nil {
		memory, disk := filecopy.Room(filepath.Join(dir, here.CopiesDir))
		r.memory, r.disk = memory.Or(0), disk.Or(0)
	}
	files, err := budget.RaiseDescriptors()
	if err != nil {
		a.talk("linerate: %v", err)
	}
	r.files = budget.Divide(files, v.listeners)
	return r
}

// config is the budget of a server on a host with r to which v may come.
func (f *budgetFlags) config(r room, v visitors) (budget.Config, error) {
	c := defaultBudget(r, v)
	p := limitParser{window: &c.Window}
	p.parse("limit", f.all, &c.Server, nil)
	c.Strangers.Memory = partOf(c.Server.Memory, strangersMemory)
	c.Strangers.Disk = partOf(c.Server.Disk, strangersDisk)
	c.Strangers.Descriptors = partOf(c.Server.Descriptors, budget.MostDescriptors)
	switch {
	case v.open:
		c.Strangers.Sessions = min(v.strangers(), c.Server.Sessions-c.Server.Sessions/4)
	case v.listeners > 0:
		c.Strangers.Sessions = partOf(c.Server.Sessions, strangersSessions)
	default: // nobody without a key has one, so that keys share them all
		c.Strangers.Sessions = -1
	}
	p.parse("limit-anonymous", f.strangers, &c.Strangers, nil)
	p.parse("limit-source", f.source, &c.Stranger.Source, &c.Stranger.Lifetime)
	// One session with a key leaves room for others.
	c.Keyed.Session.Memory, c.Keyed.Session.Disk = c.Server.Memory/2, c.Server.Disk/2
	return c, p.err
}

// partOf is what strangers get of all: half, and no more than most.
func partOf[T int | units.Bytes](all, most T) T {
	if all <= 0 {
		return most
	}
	return min((all+1)/2, most)
}

// defaultBudget is what a host with r gives away to v, but for what strangers get
// together of what others get too.
func defaultBudget(r room, v visitors) budget.Config {
	c := budget.Config{
		Server: budget.Limits{
			Sessions: keyedSessions, Descriptors: r.files.Sessions,
			Memory: r.memory / freePart, Disk: r.disk / freePart,
		},
		Strangers: budget.Limits{UDP: strangersUDP, Egress: strangersEgress},
		Stranger: budget.Part{
			Source: budget.Limits{
				Sessions: strangerSessions, Descriptors: strangerFiles, Memory: strangerMemory, Disk: strangerDisk,
				UDP: strangerUDP, Egress: strangerEgress, Time: strangerTime,
			},
			Lifetime: strangerLifetime,
		},
		Window: 24 * time.Hour,
	}
	switch {
	case v.open: // those with a key find room beside them
		c.Server.Sessions += v.strangers()
	case v.sessions > 0:
		c.Server.Sessions = v.sessions
	}
	return c
}

// strangers is how many sessions an open server has for those without a key, of
// which --max-sessions speaks there.
func (v visitors) strangers() int {
	if v.sessions > 0 {
		return v.sessions
	}
	return openSessions
}

// limitParser reads what --limit and its like say.
type limitParser struct {
	window *time.Duration // of what is spent
	by     string         // how it was said: "/day" or "/hour"
	err    error          // the first
}

// parse reads KEY=VALUE,... into l; lifetime is nil where it has no meaning.
func (p *limitParser) parse(flag, text string, l *budget.Limits, lifetime *time.Duration) {
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		err := fmt.Errorf("%q is not KEY=VALUE", part)
		if ok {
			err = p.set(key, value, l, lifetime)
		}
		if err != nil && p.err == nil {
			p.err = withHint(usagef("--%s: %v", flag, err), "write it like --%s %s", flag, limitExample)
		}
	}
}

const limitExample = "sessions=16,memory=1GiB,disk=10GiB,egress=1TiB/day,udp=1Gbit/s,time=2h/day"

// set reads one value: a number with its unit, 0 for nothing at all, or "none"
// for no limit.
func (p *limitParser) set(key, value string, l *budget.Limits, lifetime *time.Duration) error {
	value, err := p.span(key, value)
	if err != nil {
		return err
	}
	switch key {
	case "sessions":
		err = number(value, &l.Sessions, strconv.Atoi)
	case "descriptors":
		err = number(value, &l.Descriptors, strconv.Atoi)
	case "memory":
		err = number(value, &l.Memory, units.ParseBytes)
	case "disk":
		err = number(value, &l.Disk, units.ParseBytes)
	case "udp":
		err = number(value, &l.UDP, units.ParseBitRate)
	case "egress":
		err = number(value, &l.Egress, units.ParseBytes)
	case "time":
		err = number(value, &l.Time, units.ParseDuration)
	case "lifetime":
		if lifetime == nil {
			return fmt.Errorf("lifetime belongs to --limit-source")
		}
		err = number(value, lifetime, units.ParseDuration)
	default:
		return fmt.Errorf("no key %q: there are sessions, descriptors, memory, disk, udp, egress, time", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// span takes "/day" or "/hour" off the value of what is spent. One server has one
// of them.
func (p *limitParser) span(key, value string) (string, error) {
	if key != "egress" && key != "time" {
		return value, nil
	}
	rest, by, _ := strings.Cut(value, "/")
	if by == "" {
		by = "day"
	}
	spans := map[string]time.Duration{"day": 24 * time.Hour, "hour": time.Hour}
	window, ok := spans[by]
	switch {
	case !ok:
		return "", fmt.Errorf("%s: by the %q: there are /day and /hour", key, by)
	case p.by != "" && p.by != by:
		return "", fmt.Errorf("%s: all limits count by the day, or all by the hour", key)
	}
	p.by, *p.window = by, window
	return rest, nil
}

// number reads value into to; there 0 is no limit, and less than 0 is nothing.
func number[T int | units.Bytes | units.BitRate | time.Duration](value string, to *T, parse func(string) (T, error)) error {
	if value == "none" {
		*to = 0
		return nil
	}
	n, err := parse(value)
	switch {
	case err != nil:
		return err
	case n < 0:
		return fmt.Errorf("%s is negative", value)
	case n == 0:
		n = -1
	}
	*to = n
	return nil
}

// budgetLine is a kind in the document and in the text of a server's start.
type budgetLine struct {
	Kind      string `json:"kind"`
	Unit      string `json:"unit"`
	Limit     *int64 `json:"limit"`
	Strangers *int64 `json:"anonymous"`
	Source    *int64 `json:"source"`
}

// budgetDoc is what a server gives away, in linerate/serve/v1.
type budgetDoc struct {
	Window   time.Duration `json:"window_ns"`
	Lifetime time.Duration `json:"lifetime_ns"`
	Limits   []budgetLine  `json:"limits"`
}

// kindUnit is the unit of a kind in documents.
func kindUnit(k budget.Kind) string {
	switch k {
	case budget.Memory, budget.Disk, budget.Egress:
		return "bytes"
	case budget.UDP:
		return "bits_per_second"
	case budget.Time:
		return "nanoseconds"
	case budget.Sessions, budget.Descriptors:
	}
	return k.String()
}

// describeBudget is the document of a budget.
func describeBudget(b *budget.Budget) budgetDoc {
	u := b.Usage()
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	d := budgetDoc{Window: u.Window, Lifetime: u.Lifetime, Limits: []budgetLine{}}
	for _, k := range u.Kinds {
		d.Limits = append(d.Limits, budgetLine{k.Kind.String(), kindUnit(k.Kind), known(k.Limit), known(k.Strangers), known(k.Source)})
	}
	return d
}

// printBudget says on stderr what is given away.
func (a *console) printBudget(b *budget.Budget) {
	u := b.Usage()
	line := func(of func(budget.KindUsage) int64) string {
		var parts []string
		for _, k := range u.Kinds {
			if n := of(k); n >= 0 {
				parts = append(parts, kindText(k.Kind, n, u.Window))
			}
		}
		return strings.Join(slices.Compact(parts), ", ")
	}
	a.talk("gives away %s", line(func(k budget.KindUsage) int64 { return k.Limit }))
	if sessions := u.Kinds[budget.Sessions]; sessions.Strangers == 0 {
		a.talk("  to all without a key: nothing")
		return
	}
	a.talk("  to all without a key: %s", line(func(k budget.KindUsage) int64 { return k.Strangers }))
	text := line(func(k budget.KindUsage) int64 { return k.Source })
	if u.Lifetime > 0 {
		text += ", a session lasts " + units.FormatDuration(u.Lifetime)
	}
	a.talk("  to one address without a key: %s", text)
}

// kindText is n of a kind in words.
func kindText(k budget.Kind, n int64, window time.Duration) string {
	by := " in " + units.FormatDuration(window)
	switch k {
	case budget.Memory, budget.Disk:
		return units.Bytes(n).Binary() + " of " + k.String()
	case budget.UDP:
		return units.BitRate(n).String() + " of UDP"
	case budget.Egress:
		return units.Bytes(n).Binary() + " sent" + by
	case budget.Time:
		return units.FormatDuration(time.Duration(n)) + " of runs" + by
	case budget.Sessions, budget.Descriptors:
	}
	return fmt.Sprintf("%d %s", n, k)
}
