package serve

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/filecopy"
)

// What a server gives its clients by default (proposed).
const (
	freePart             = 4                      // of free memory and disk
	allAnonymousMemory   = units.Bytes(128 << 20) // so that a server full of them stays below 300 MB, garbage included
	anonymousMemory      = units.Bytes(128 << 20) // of one address: a copy of 64 MiB in memory, twice
	allAnonymousDisk     = units.Bytes(2 << 30)   // eight copies of the largest size
	anonymousDisk        = units.Bytes(512 << 20)
	allAnonymousUDP      = units.BitRate(800e6)   // eight sessions at their limit
	anonymousUDP         = units.BitRate(400e6)   // four sessions
	allAnonymousEgress   = units.Bytes(2 << 40)   // a day
	anonymousEgress      = units.Bytes(256 << 30) // a day: some minutes at 10 Gbit/s
	anonymousTime        = 2 * time.Hour          // a day
	anonymousLifetime    = 10 * time.Minute       // of a session
	allAnonymousSessions = 16                     // besides key holders, who have the rest
	anonymousSessions    = 4                      // of one address
	keyedSessions        = 64
	openSessions         = 8     // of an open server, for those without a key
	anonymousFiles       = 512   // of one address
	allAnonymousRecords  = 10000 // a day: stored results of clients of foreign programs, some 4 KiB each
	anonymousRecords     = 1000
	keyedRecords         = 10000 // besides those
)

// Limits bound what a server gives its clients, as KEY=VALUE,... each; "" derives them from
// what is free on the host.
type Limits struct {
	All       string // for all clients together; egress and time by the day, or by the hour
	Anonymous string // of that, for all clients without a key
	Source    string // of that, for one address without a key; also the lifetime of a session
}

// room is the free capacity of this host.
type room struct {
	memory, disk units.Bytes // 0 is unknown
	files        budget.Division
}

// visitors says which clients a server admits.
type visitors struct {
	open      bool // clients without a key too
	sessions  int  // at a time; 0 is the default
	listeners int  // of other protocols
}

// visitors returns which clients this server admits.
func (c *Config) visitors() visitors {
	return visitors{open: c.Open, sessions: c.Sessions, listeners: len(c.Foreign.Addrs)}
}

// lookForRoom reads the free capacity, and raises the limit of open files.
func lookForRoom(env app.Env, state string, v visitors) room {
	var r room
	if dir, err := local.StateDir(state); err == nil {
		memory, disk := filecopy.Room(filepath.Join(dir, local.CopiesDir))
		r.memory, r.disk = memory.Or(0), disk.Or(0)
	}
	files, err := budget.RaiseDescriptors()
	if err != nil {
		env.Observe(app.Trouble{Err: err})
	}
	r.files = budget.Divide(files, v.listeners)
	return r
}

// config returns the budget of a server on a host with room r that admits v.
func (l Limits) config(r room, v visitors) (budget.Config, error) {
	c := defaultBudget(r, v)
	p := limitParser{window: &c.Window}
	p.parse("limit", l.All, &c.Server, nil)
	c.AllAnonymous.Memory = partOf(c.Server.Memory, allAnonymousMemory)
	c.AllAnonymous.Disk = partOf(c.Server.Disk, allAnonymousDisk)
	c.AllAnonymous.Descriptors = partOf(c.Server.Descriptors, budget.MostDescriptors)
	switch {
	case v.open:
		c.AllAnonymous.Sessions = min(v.anonymous(), c.Server.Sessions-c.Server.Sessions/4)
	case v.listeners > 0:
		c.AllAnonymous.Sessions = partOf(c.Server.Sessions, allAnonymousSessions)
	default: // no client comes without a key, so that keys share them all
		c.AllAnonymous.Sessions = -1
	}
	p.parse("limit-anonymous", l.Anonymous, &c.AllAnonymous, nil)
	p.parse("limit-source", l.Source, &c.Anonymous.Source, &c.Anonymous.Lifetime)
	// One session with a key must leave room for others.
	c.Keyed.Session.Memory, c.Keyed.Session.Disk = c.Server.Memory/2, c.Server.Disk/2
	return c, p.err
}

// partOf returns the share of anonymous clients: half of all, at most most.
func partOf[T int | units.Bytes](all, most T) T {
	if all <= 0 {
		return most
	}
	return min((all+1)/2, most)
}

// defaultBudget returns the budget for v on a host with room r, except for the share of
// anonymous clients in what others get too.
func defaultBudget(r room, v visitors) budget.Config {
	c := budget.Config{
		Server: budget.Limits{
			Sessions: keyedSessions, Descriptors: r.files.Sessions,
			Memory: r.memory / freePart, Disk: r.disk / freePart, Records: allAnonymousRecords + keyedRecords,
		},
		AllAnonymous: budget.Limits{UDP: allAnonymousUDP, Egress: allAnonymousEgress, Records: allAnonymousRecords},
		Anonymous: budget.Part{
			Source: budget.Limits{
				Sessions: anonymousSessions, Descriptors: anonymousFiles, Memory: anonymousMemory, Disk: anonymousDisk,
				UDP: anonymousUDP, Egress: anonymousEgress, Time: anonymousTime, Records: anonymousRecords,
			},
			Lifetime: anonymousLifetime,
		},
		Window: 24 * time.Hour,
	}
	switch {
	case v.open: // clients with a key have room besides them
		c.Server.Sessions += v.anonymous()
	case v.sessions > 0:
		c.Server.Sessions = v.sessions
	}
	return c
}

// anonymous returns how many sessions an open server has for clients without a key; that is
// what --max-sessions means for it.
func (v visitors) anonymous() int {
	if v.sessions > 0 {
		return v.sessions
	}
	return openSessions
}

// limitParser parses the values of --limit and the like.
type limitParser struct {
	window *time.Duration // for the quantities that are used up
	by     string         // as written: "/day" or "/hour"
	err    error          // the first one
}

// parse reads KEY=VALUE,... into l; lifetime is nil if it has no meaning.
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
			p.err = fault.WithHint(fault.Usagef("--%s: %v", flag, err), "write it like --%s %s", flag, LimitExample)
		}
	}
}

// LimitExample shows how to write Limits.
const LimitExample = "sessions=16,memory=1GiB,disk=10GiB,egress=1TiB/day,udp=1Gbit/s,time=2h/day"

// set sets one value: a number with its unit, 0 for nothing at all, or "none" for no limit.
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
	case "records":
		err = number(value, &l.Records, strconv.Atoi)
	case "lifetime":
		if lifetime == nil {
			return fmt.Errorf("lifetime belongs to --limit-source")
		}
		err = number(value, lifetime, units.ParseDuration)
	default:
		return fmt.Errorf("no key %q: there are sessions, descriptors, memory, disk, udp, egress, time, records", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// span cuts "/day" or "/hour" off the value of a quantity that is used up. A server uses only
// one of the two.
func (p *limitParser) span(key, value string) (string, error) {
	if key != "egress" && key != "time" && key != "records" {
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

// number parses value into to, where 0 means no limit and less than 0 means nothing.
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
