package main

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/must"
)

// faultsVar selects the cases: "all" for every step, or those whose names contain it.
const faultsVar = "LINERATE_FAULTS"

// faultCase is one fault after one step of one operation on one host.
type faultCase struct {
	op    operation
	fault fault
	host  string
	step  int // from 1
	after string
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s/%s/%s %02d %s", c.op.name, c.fault.name, c.host, c.step, c.after)
}

// TestFaults injects each class of fault into real processes once: over ssh and a link, in a
// cgroup, on a full disk, under a kernel that refuses. Package watchdog proves that every fault
// at every step ends well; here the processes, files and reports are real. Whatever happens:
//
//  1. Every setting has its old value again when the operation and its processes have ended, or
//     by the deadline; if no process was left to restore it, after the next linerate undo. A
//     value that another program has set stays.
//  2. The report says nothing untrue, and its document matches the schema.
//  3. No process, no file and no open intent is left, and a second undo has nothing to do.
//
// With the build tag slow each fault hits every operation on every host, and with
// LINERATE_FAULTS=all after every step.
func TestFaults(t *testing.T) {
	rootBeside(t)
	began := time.Now()
	const most = 12 // they mostly wait
	hosts := newPool(t, most)
	cases := generate(t, hosts)
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

// generate learns the steps of each operation from a dry run, and selects cases.
func generate(t *testing.T, hosts *pool) []faultCase {
	t.Helper()
	choice := os.Getenv(faultsVar)
	var mu sync.Mutex
	steps := map[string]map[string][]string{} // by operation and host
	dry := map[string]func(*testing.T){}
	for _, o := range operations() {
		dry["no fault/"+o.name] = func(t *testing.T) {
			s := o.dryRun(t, hosts)
			for host, again := range o.dryRun(t, hosts) { // a busy machine may repeat a run: skip those steps
				if len(again) < len(s[host]) {
					s[host] = again
				}
			}
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
		cases = append(cases, f.choose(groups, choice)...)
	}
	if choice == "" || choice == "all" {
		return cases
	}
	return slices.DeleteFunc(cases, func(c faultCase) bool { return !strings.Contains(c.String(), choice) })
}

// group returns the cases of one fault at every step of a host.
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

// choose returns the cases of a fault from the groups of all operations and hosts.
func (f fault) choose(groups [][]faultCase, choice string) []faultCase {
	if choice != "" {
		return slices.Concat(groups...)
	}
	groups = slices.DeleteFunc(groups, func(g []faultCase) bool { return len(g) == 0 })
	var all []faultCase
	for _, g := range groups { // spread out, so that all groups together cover all steps
		all = append(all, g[hash(g[0].op.name+f.name+g[0].host)%uint64(len(g))])
	}
	if must.Slow || len(all) == 0 {
		return all
	}
	if f.long {
		return nil
	}
	return all[hash(f.name)%uint64(len(all)):][:1]
}

func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// newRun prepares the hosts of a case, with gates on some of them.
func newRun(t *testing.T, c faultCase, hosts *pool, held time.Duration, gated ...string) *faultRun {
	pair := func(t *testing.T) *netns { return newNetns(t) }
	if !c.op.spare { // which may leave its link behind
		pair = hosts.lend
	}
	r := &faultRun{netns: pair(t), t: t, c: c, held: held, gates: map[string]*gate{}, stop: map[string]int{}}
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

// dryRun runs an operation without a fault, and returns the steps on each host.
func (o operation) dryRun(t *testing.T, hosts *pool) map[string][]string {
	r := newRun(t, faultCase{op: o}, hosts, heldFor, o.hosts...)
	gates := r.gates
	r.p = o.begin(r)
	r.check()
	steps := map[string][]string{}
	for _, host := range o.hosts {
		steps[host] = gates[host].steps(t)
		must.True(t, len(steps[host]) >= 2, "steps on %s: %q", host, steps[host])
	}
	return steps
}

// run runs one case. On a busy machine the deadline may pass before the step: then the case is
// repeated with a longer hold.
func (c faultCase) run(t *testing.T, hosts *pool) {
	for held := heldFor; held < 16*heldFor; held *= 2 {
		if c.once(t, hosts, held) || t.Failed() {
			return
		}
	}
	t.Error("the step did not come")
}

func (c faultCase) once(t *testing.T, hosts *pool, held time.Duration) (reached bool) {
	r := newRun(t, c, hosts, held, c.host)
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
