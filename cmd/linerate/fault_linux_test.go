package main

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// faultsVar chooses the cases: "all" of them, or those whose names contain it.
// Without it there are perGroup of each operation, fault and host.
const faultsVar = "LINERATE_FAULTS"

// faultSeedVar has others be chosen.
const faultSeedVar = "LINERATE_FAULTS_SEED"

const (
	perGroup   = 1 // of deaths twice as many
	leastCases = 400
)

// faultCase is one fault after one step of one operation on one host.
type faultCase struct {
	op    operation
	fault fault
	host  string
	step  int // 1…
	after string
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s/%s/%s %02d %s", c.op.name, c.fault.name, c.host, c.step, c.after)
}

// TestFaults lets everything go wrong that can, after steps of every operation
// that changes a host. The steps are those that the operation reports in a dry
// run. Whatever happens:
//
//  1. Every setting has its old value again when the operation and its processes
//     have ended, or by the deadline; where nobody was left to put it back, at the
//     next linerate undo. What somebody else has set stays.
//  2. The report says nothing that is not so, and its document fits the schema.
//  3. No process, no file and no open intent is left, and a second undo has
//     nothing to do.
//
// Of what every operation can meet there are as many cases as operations and hosts,
// of deaths twice as many: kill of each process and of groups of them, hangs, signals,
// a terminal, ssh or a link that goes, full and read-only disks, other people,
// restarts and clocks. Of the rest there is a sample:
//
//	23  a driver that is busy when the watchdog undoes: at the end of its input (5), at
//	    SIGTERM (5), past the deadline (5), with nobody left (5); SIGTERM alone (3)
//	40  the journal: torn or flipped in one copy while it is open (2 x 4), in one copy
//	    (3 x 4), in different records of both (4) or in the last one of both (2 x 4)
//	    when all is dead; a record of a newer linerate (2 x 4)
//	20  a link that is renamed, replaced or gone (5), and who is killed then (4)
//	27  the other one of two hosts fails: its watchdog is killed or hangs, its disk is
//	    full, at any step (3 x 3), and at each step of keeping a change while an older
//	    one is in force, which must stay (3 x 6)
//	10  the cgroup of the agent killed, with the watchdog in a scope (6) or in it (4)
//	23  the note of keeping cut, empty, gone or zeros (4 x 2); kept records damaged in
//	    one copy or both (2 x 3); the journal held for 3 s or 21 s from the start, or
//	    for 21 s when all is dead (3 x 3)
//
// LINERATE_FAULTS=all has all of them, and LINERATE_FAULTS_SEED another sample.
func TestFaults(t *testing.T) {
	needRoot(t)
	began := time.Now()
	const most = 12 // they mostly wait
	hosts := newPool(t, most)
	cases := generate(t, hosts)
	if len(cases) < leastCases && os.Getenv(faultsVar) == "" {
		t.Errorf("%d fault cases, want at least %d", len(cases), leastCases)
	}
	var back, skipped atomic.Int64
	named := map[string]func(*testing.T){}
	for _, c := range cases {
		named[c.String()] = func(t *testing.T) {
			defer func() {
				switch {
				case t.Skipped():
					skipped.Add(1)
				case !t.Failed():
					back.Add(1)
				}
			}()
			c.run(t, hosts)
		}
	}
	atOnce(t, most, named)
	n, not := back.Load(), skipped.Load()
	count := map[string]int{}
	for _, c := range cases {
		count[c.fault.name]++
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%4d %s", count[name], name)
	}
	t.Logf("%d fault cases, %d came back, %d skipped, %d lost, in %v", len(cases), n, not, int64(len(cases))-n-not, time.Since(began).Round(time.Second))
}

// generate learns the steps of each operation from a dry run, and chooses.
func generate(t *testing.T, hosts *pool) []faultCase {
	t.Helper()
	choice := os.Getenv(faultsVar)
	var mu sync.Mutex
	steps := map[string]map[string][]string{} // by operation and host
	dry := map[string]func(*testing.T){}
	for _, o := range operations() {
		dry["no fault/"+o.name] = func(t *testing.T) {
			s := o.dryRun(t, hosts)
			mu.Lock()
			defer mu.Unlock()
			steps[o.name] = s
		}
	}
	atOnce(t, 4, dry)
	var cases []faultCase
	for _, f := range faults() {
		var groups [][]faultCase
		for _, o := range operations() {
			for _, host := range o.hosts {
				if f.fits(o, host) {
					groups = append(groups, group(o, f, host, steps[o.name][host]))
				}
			}
		}
		cases = append(cases, f.choose(groups, choice == "")...)
	}
	if choice == "" || choice == "all" {
		return cases
	}
	return slices.DeleteFunc(cases, func(c faultCase) bool { return !strings.Contains(c.String(), choice) })
}

// group are the cases of one fault at every step of a host.
func group(o operation, f fault, host string, steps []string) []faultCase {
	if f.early {
		return []faultCase{{op: o, fault: f, host: host, after: "start"}}
	}
	var all []faultCase
	for i, step := range steps {
		if f.at != nil && !f.at(step) {
			continue
		}
		all = append(all, faultCase{op: o, fault: f, host: host, step: i + 1, after: step})
	}
	return all
}

// choose are the cases of a fault, of groups of all operations and hosts: all of
// them, or a sample that the seed decides on.
func (f fault) choose(groups [][]faultCase, sample bool) []faultCase {
	if !sample {
		return slices.Concat(groups...)
	}
	seed := os.Getenv(faultSeedVar)
	var all []faultCase
	if f.sample == 0 {
		for _, g := range groups {
			if len(g) == 0 {
				continue
			}
			n, name := f.number(), g[0].op.name+f.name+g[0].host+seed
			if g[0].op.older { // like keep: one of the two hosts
				n = int(hash(f.name+seed) % 2)
				if g[0].host == "b" {
					n = 1 - n
				}
			}
			all = append(all, some(g, n, name)...)
		}
		return all
	}
	// One of each group in turn, so that few cases are of many operations.
	random := rand.New(rand.NewPCG(hash(f.name), hash(seed)))
	random.Shuffle(len(groups), func(i, k int) { groups[i], groups[k] = groups[k], groups[i] })
	for _, g := range groups {
		random.Shuffle(len(g), func(i, k int) { g[i], g[k] = g[k], g[i] })
	}
	for round := 0; len(all) < f.sample; round++ {
		before := len(all)
		for _, g := range groups {
			if round < len(g) && len(all) < f.sample {
				all = append(all, g[round])
			}
		}
		if len(all) == before {
			break
		}
	}
	return all
}

func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// number is how many cases of a group there are by default.
func (f fault) number() int {
	if strings.HasPrefix(f.name, "kill ") {
		return 2 * perGroup
	}
	return perGroup
}

// some are n of a group, as far from each other as can be, beginning where
// the name says: so all groups together have all steps.
func some(group []faultCase, n int, name string) []faultCase {
	if len(group) <= n {
		return group
	}
	at := int(hash(name) % uint64(len(group)))
	var out []faultCase
	for range n {
		out = append(out, group[at])
		at = (at + len(group)/n) % len(group)
	}
	return out
}

// newRun makes the hosts of a case ready, with gates on some of them.
func newRun(t *testing.T, c faultCase, hosts *pool, gated ...string) *faultRun {
	pair := func(t *testing.T) *netns { return newNetns(t) }
	if !c.op.spare { // of which a link may stay
		pair = hosts.lend
	}
	r := &faultRun{netns: pair(t), t: t, c: c, gates: map[string]*gate{}, stop: map[string]int{}}
	for _, host := range gated {
		r.gates[host] = newGate(t, filepath.Join(r.dir, "gate-"+host))
	}
	if c.fault.disk || c.fault.otherDisk {
		dir := r.state(c.host)
		if c.fault.otherDisk {
			dir = r.state(c.other())
		}
		r.mounts = newMounts(t, "mkdir -p "+dir+"\nmount -t tmpfs -o size=64k,mode=700 none "+dir)
	}
	if c.fault.prepare != nil {
		c.fault.prepare(r)
	}
	if c.fault.mounts != nil {
		r.mounts = newMounts(t, c.fault.mounts(r))
	}
	r.ready()
	return r
}

// dryRun has an operation do its work, and returns the steps on each host.
func (o operation) dryRun(t *testing.T, hosts *pool) map[string][]string {
	r := newRun(t, faultCase{op: o}, hosts, o.hosts...)
	gates := r.gates
	r.p = o.begin(r)
	r.check()
	steps := map[string][]string{}
	for _, host := range o.hosts {
		steps[host] = gates[host].steps(t)
		if len(steps[host]) < 2 {
			t.Errorf("steps on %s: %q", host, steps[host])
		}
	}
	return steps
}

// run is one case. A machine that is busy may be too late for the step: a
// deadline passed before. That is a case of its own, and the step is tried again.
func (c faultCase) run(t *testing.T, hosts *pool) {
	const tries = 3
	for range tries {
		if c.once(t, hosts) || t.Failed() {
			return
		}
	}
	t.Errorf("in %d tries the step did not come", tries)
}

func (c faultCase) once(t *testing.T, hosts *pool) (reached bool) {
	r := newRun(t, c, hosts, c.host)
	g := r.gates[c.host]
	r.stop[c.host] = c.step
	if c.fault.early {
		c.fault.inject(r)
		r.p = c.op.begin(r)
		r.check()
		return true
	}
	r.p = c.op.begin(r)
	if _, _, reached = g.wait(t, r.p, patience); reached {
		c.fault.inject(r)
		g.open(t)
		if c.fault.follow != nil {
			c.fault.follow(r)
		}
	}
	r.check()
	return reached
}
