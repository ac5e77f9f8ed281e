//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"linerate/bench/internal/results"
	"linerate/internal/control/audit"
	"linerate/internal/core/fleet"
	"linerate/internal/core/plain"
)

// audited is what the audit found.
type audited struct {
	leases   map[int64]fleet.Lease
	ended    map[int64]entry // of the hosts' logs
	sessions int
	overlaps []string
	lost     []string // results that hosts finished and no hub has
	gone     []string // hosts and hubs that ended by themselves
	spoiled  int      // finished, but the host was killed or its disk was full before it had stored them
	invented []string // stored as done, and no host finished them
	pairs    int      // that were looked at
	open     int      // leases without a result
	since    time.Time
}

// port is a port of a host.
var port = regexp.MustCompile(`:\d+`)

// settled is how long after a fault results may still come.
const settled = 8 * time.Minute

// audit compares the logs of the hosts with the database.
func (w *world) audit(ctx context.Context) (*audited, error) {
	a := &audited{since: time.Now().Add(45 * time.Second)}
	w.say("no more faults; waiting for the results of all windows until %s", a.since.Format(time.TimeOnly))
	names := map[int64]*process{}
	for _, h := range w.hosts {
		h.busy.Lock()
		defer h.busy.Unlock()
	}
	err := w.until(ctx, settled, "all results are there", func() (bool, error) {
		if err := w.read(ctx, a, names); err != nil {
			return false, err
		}
		a.judge(names)
		return time.Now().After(a.since) && a.open == 0 && len(a.lost) == 0, nil
	})
	if a.leases == nil {
		return nil, err
	}
	for _, p := range slices.Concat(w.hosts, w.hubs) {
		if p.gone() {
			a.gone = append(a.gone, p.name)
		}
	}
	w.say("%d leases, %d sessions", len(a.leases), a.sessions)
	return a, nil // what is missing is part of the result
}

// read reads all leases and all logs.
func (w *world) read(ctx context.Context, a *audited, names map[int64]*process) error {
	a.leases, a.ended = map[int64]fleet.Lease{}, map[int64]entry{}
	logs := map[int64]string{}
	for n := (fleet.News{More: true}); n.More; {
		var err error
		if n, err = w.store.News(ctx, n.To); err != nil {
			return err
		}
		for _, l := range n.Leases {
			a.leases[l.ID] = l
		}
		for _, one := range n.Hosts {
			for _, p := range w.hosts {
				if slices.Contains(p.hosts, one.Name) {
					names[one.ID], logs[one.ID] = p, w.log(one.Name)
				}
			}
		}
	}
	a.sessions, a.overlaps = 0, nil
	for id, h := range names {
		own, err := logged(logs[id], func(e entry) (span, bool) {
			if e.Finished {
				a.ended[e.Lease] = e
			}
			return span{e.Lease, e.Began, e.Ended}, true
		})
		if err != nil {
			return err
		}
		others, err := logged(logs[id]+auditFile, visit)
		if err != nil {
			return err
		}
		a.sessions += len(own)
		a.overlaps = append(a.overlaps, a.twice(id, h, append(own, others...))...)
	}
	return nil
}

// span is a time in which a host took part in a run; to is zero if its end was not logged.
type span struct {
	lease    int64
	from, to time.Time
}

// visit returns the session that a line of an audit log begins or ends.
func visit(e struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Key   string    `json:"key"`
}) (s span, ok bool) {
	if _, err := fmt.Sscanf(e.Key, "fleet:%d", &s.lease); err != nil {
		return s, false
	}
	switch e.Event {
	case string(audit.SessionBegin):
		s.from = e.Time
	case string(audit.SessionEnd):
		s.to = e.Time
	default:
		return s, false
	}
	return s, true
}

// logged returns the sessions of a log, each with its beginning and its end.
func logged[Line any](path string, of func(Line) (span, bool)) (all []span, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	place := map[int64]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var l Line
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue // cut off by a kill
		}
		s, ok := of(l)
		if !ok {
			continue
		}
		if i, known := place[s.lease]; known {
			all[i].to = s.to
			continue
		}
		place[s.lease] = len(all)
		all = append(all, s)
	}
	return all, errors.Join(lines.Err(), f.Close())
}

// slack is how long after its window a host may take to notice its end.
const slack = 2 * time.Second

// twice returns where a host was in two sessions at a time, by its own logs. A session ended, too,
// when the host was killed, and with its window, after which a host that hung sends nothing.
func (a *audited) twice(id int64, h *process, all []span) (found []string) {
	for i := range all {
		s := &all[i]
		if end := time.Unix(a.leases[s.lease].Until, 0).Add(slack); s.to.IsZero() || s.to.After(end) {
			s.to = end
		}
		if at, down := h.killed(s.from, s.to); down {
			s.to = at
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	for i := 1; i < len(all); i++ {
		if one, next := all[i-1], all[i]; next.from.Before(one.to) {
			found = append(found, fmt.Sprintf("host %d: lease %d until %s, lease %d from %s", id, one.lease, one.to.Format("15:04:05.000"), next.lease, next.from.Format("15:04:05.000")))
		}
	}
	return found
}

// judge compares what hosts finished with what is stored, of windows before a.since.
func (a *audited) judge(names map[int64]*process) {
	a.lost, a.invented, a.spoiled, a.open, a.pairs = nil, nil, 0, 0, 0
	pairs := map[fleet.Way]bool{}
	for id, l := range a.leases {
		e, finished := a.ended[id]
		if l.State == fleet.Done {
			pairs[l.Way()] = true
			if !finished {
				a.invented = append(a.invented, fmt.Sprint("lease ", id))
			}
		}
		if l.Until > a.since.Unix() {
			continue
		}
		if l.State == fleet.Planned {
			a.open++
		}
		if !finished || l.State == fleet.Done {
			continue
		}
		if _, down := names[l.Near].killed(e.Ended.Add(-time.Millisecond), e.Ended.Add(2*time.Second)); down || l.State == fleet.Lost && names[l.Near].printed("is lost:") {
			a.spoiled++
			continue
		}
		a.lost = append(a.lost, fmt.Sprintf("lease %d of %s: %s %s", id, names[l.Near].name, l.State, l.Reason))
	}
	a.pairs = len(pairs)
}

// printed reports whether a program has printed a text.
func (p *process) printed(text string) bool {
	all, err := os.ReadFile(p.log)
	return err == nil && strings.Contains(string(all), text)
}

// err returns an error if a bar was missed.
func (a *audited) err() error {
	if n := len(a.overlaps) + len(a.lost) + len(a.invented) + len(a.gone) + a.open; n > 0 {
		return fmt.Errorf("%d faults of the fleet: %v", n, slices.Concat(a.overlaps, a.lost, a.invented, a.gone))
	}
	return nil
}

// section returns the result as a section of the document of all results.
func (w *world) section(a *audited, happened map[string]int) results.Section {
	var b strings.Builder
	states := map[string]int{}
	for _, l := range a.leases {
		if l.Until <= a.since.Unix() {
			states[strings.TrimSuffix(string(l.State)+": "+port.ReplaceAllString(l.Reason, ":PORT"), ": ")]++
		}
	}
	cost := func(all []*process) (cpu float64, mib int64) {
		var used, lived time.Duration
		for _, p := range all {
			if err := p.kill(); err == nil {
				used, lived, mib = used+p.cpu, lived+p.lives, max(mib, p.peak>>20)
			}
		}
		return 100 * used.Seconds() / lived.Seconds(), mib
	}
	hostCPU, hostMem := cost(w.hosts)
	hostCPU, hostMem = hostCPU/float64(w.together), hostMem/int64(w.together)
	hubCPU, hubMem := cost(w.hubs)
	all := w.options.hosts * (w.options.hosts - 1) / 2
	fmt.Fprintf(&b, "%d agents, %d to a process, and two hubs on PostgreSQL, on one machine with %s; real tickets over TLS, simulated traffic: 941 Mbit/s with 3 %% of noise. %d faults in %v, each host up to %d looks an hour, %d sessions.\n\n| fault | times |\n|---|---|\n",
		w.options.hosts, w.together, plain.Count(runtime.NumCPU(), "core"), w.faults, w.length, w.rounds, a.sessions)
	for _, f := range faults {
		fmt.Fprintf(&b, "| %s | %d |\n", f.name, happened[f.name])
	}
	b.WriteString("\n| what became of a planned run | times |\n|---|---|\n")
	for _, s := range sorted(states) {
		fmt.Fprintf(&b, "| %s | %d |\n", s, states[s])
	}
	fmt.Fprintf(&b, "\nOf %d pairs %d were looked at. %d results were finished and not stored, because their host was killed within two seconds or had no room on its disk and said so.\n", all, a.pairs, a.spoiled)
	row := results.Bars("fleet")
	return results.Section{Name: "fleet", Title: "a fleet through its faults", Body: b.String(), Verdicts: []results.Verdict{
		row("host in two runs at a time", "0", fmt.Sprint(len(a.overlaps)), len(a.overlaps) == 0),
		row("finished runs that no hub has", "0", fmt.Sprintf("%d of %d", len(a.lost), len(a.ended)), len(a.lost) == 0),
		row("runs stored that no host finished", "0", fmt.Sprint(len(a.invented)), len(a.invented) == 0),
		row("hosts and hubs that ended by themselves", "0", fmt.Sprint(len(a.gone)), len(a.gone) == 0),
		row("planned runs without an end", "0", fmt.Sprint(a.open), a.open == 0),
		row("processor and memory of a hub", "10 % of a core, 250 MB", fmt.Sprintf("%.1f %%, %d MiB", hubCPU, hubMem), hubCPU <= 10 && hubMem <= 238),
		row("processor and memory of an agent", "0.5 % of a core, 60 MB", fmt.Sprintf("%.2f %%, %d MiB (%d to a process)", hostCPU, hostMem, w.together), hostCPU <= .5 && hostMem <= 57),
	}}
}

func sorted(m map[string]int) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	return all
}
