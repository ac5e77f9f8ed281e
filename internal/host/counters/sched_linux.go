package counters

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tasks is where Linux lists the threads of this process.
const tasks = "/proc/self/task"

// readThreads returns the times of this process's threads, sorted by id; nil if the kernel
// does not count them (CONFIG_SCHED_INFO).
func readThreads() []thread {
	names, err := os.ReadDir(tasks)
	if err != nil {
		return nil
	}
	out := make([]thread, 0, len(names))
	for _, n := range names {
		id, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(tasks, n.Name(), "schedstat"))
		if err != nil {
			continue // it ended meanwhile
		}
		if t, ok := parseThread(b); ok {
			t.id = id
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(x, y thread) int { return x.id - y.id })
	return out
}

// parseThread parses "ran waited slices", times in ns (Linux
// Documentation/scheduler/sched-stats.rst).
func parseThread(b []byte) (thread, bool) {
	ran, rest := field(bytes.TrimSpace(b))
	waited, _ := field(rest)
	run, ok1 := number(ran, 10)
	wait, ok2 := number(waited, 10)
	if !ok1 || !ok2 || run > 1<<62 || wait > 1<<62 {
		return thread{}, false
	}
	return thread{run: time.Duration(run), wait: time.Duration(wait)}, true
}

// groups are the control groups that schedule this process, innermost first.
type groups struct {
	stat []*text // cpu.stat of each that has one
	// local is cpu.stat.local of the innermost group: it includes the cost of the quotas of
	// all groups around it, even of those that a container does not show (Linux 6.6, commit
	// 677ea015f231). nil before.
	local  *text
	quotas []quotaFiles
}

// quotaFiles hold the quota of one group: cpu.max, or the two files of version 1.
type quotaFiles struct{ quota, period *text }

// openGroups opens the files of the groups that this process is in, and of those around them,
// under root: the quota of any of them can throttle the process.
func openGroups(root string) groups {
	var g groups
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return g
	}
	open := func(dir, name string) *text {
		t, err := openText(filepath.Join(root, dir, name))
		if err != nil {
			return nil // a group without the file has no quota of its own
		}
		return t
	}
	for _, dir := range groupFolders(string(b)) {
		if t := open(dir, "cpu.stat"); t != nil {
			g.stat = append(g.stat, t)
		}
		if g.local == nil {
			g.local = open(dir, "cpu.stat.local")
		}
		if t := open(dir, "cpu.max"); t != nil {
			g.quotas = append(g.quotas, quotaFiles{quota: t})
		}
		if q, p := open(dir, "cpu.cfs_quota_us"), open(dir, "cpu.cfs_period_us"); q != nil && p != nil {
			g.quotas = append(g.quotas, quotaFiles{q, p})
		}
	}
	return g
}

func (g groups) files() []*text {
	out := append(slices.Clone(g.stat), g.local)
	for _, q := range g.quotas {
		out = append(out, q.quota, q.period)
	}
	return out
}

// groupFolders returns the usual mount points of the groups in /proc/self/cgroup that
// schedule CPUs, and the folders around them.
func groupFolders(list string) []string {
	const root = "/sys/fs/cgroup"
	var out []string
	for l := range strings.Lines(list) {
		parts := strings.SplitN(strings.TrimSpace(l), ":", 3)
		if len(parts) != 3 {
			continue
		}
		mounts := []string{filepath.Join(root, parts[1])} // version 1: "cpu", "cpu,cpuacct"
		if parts[1] == "" {
			mounts = []string{root, filepath.Join(root, "unified")}
		} else if !slices.Contains(strings.Split(parts[1], ","), "cpu") {
			continue
		}
		for _, m := range mounts {
			for dir := filepath.Clean("/" + parts[2]); ; dir = filepath.Dir(dir) {
				out = append(out, filepath.Join(m, dir))
				if dir == "/" {
					break
				}
			}
		}
	}
	return out
}

// throttling holds a control group's counters of its CPU quota.
type throttling struct {
	stood            time.Duration // summed over CPUs
	periods, stopped uint64
}

// read fills in how often and for how long the groups were throttled, and the smallest of
// their quotas.
func (g groups) read(o *Snapshot) {
	var sum throttling
	some := false
	for _, t := range g.stat {
		if b, err := t.read(); err == nil {
			if q, ok := parseThrottled(b); ok {
				sum.stood, sum.periods, sum.stopped, some = sum.stood+q.stood, sum.periods+q.periods, sum.stopped+q.stopped, true
			}
		}
	}
	if g.local != nil {
		if b, err := g.local.read(); err == nil {
			if q, ok := parseThrottled(b); ok {
				sum.stood, some = q.stood, true
			}
		}
	}
	if some {
		o.values.set(cgroupThrottled, uint64(sum.stood.Milliseconds()))
		o.values.set(cgroupPeriods, sum.periods)
		o.values.set(cgroupStopped, sum.stopped)
	}
	for _, f := range g.quotas {
		if v, ok := f.read(); ok && (o.quota == 0 || v < o.quota) {
			o.quota = v
		}
	}
}

// read returns a quota in CPUs, false for a group without one.
func (f quotaFiles) read() (float64, bool) {
	b, err := f.quota.read()
	if err != nil {
		return 0, false
	}
	text := string(b)
	if f.period != nil {
		p, err := f.period.read()
		if err != nil {
			return 0, false
		}
		text += " " + string(p)
	}
	return parseQuota(text)
}

// parseQuota parses "20000 100000": microseconds per period. Without a quota version 2 has
// "max 100000", version 1 "-1 100000" (Linux Documentation/admin-guide/cgroup-v2.rst,
// scheduler/sched-bwc.rst).
func parseQuota(text string) (float64, bool) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return 0, false
	}
	quota, err1 := strconv.ParseUint(f[0], 10, 52)
	period, err2 := strconv.ParseUint(f[1], 10, 52)
	if err1 != nil || err2 != nil || quota == 0 || period == 0 {
		return 0, false
	}
	return float64(quota) / float64(period), true
}

// parseThrottled finds "throttled_usec 12" of version 2, or "throttled_time 12000" in ns of
// version 1, and before it the number of periods with work, and of those that were throttled
// (Linux Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst).
func parseThrottled(b []byte) (throttling, bool) {
	var q throttling
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		name, rest := field(l)
		text, _ := field(rest)
		n, ok := number(text, 10)
		switch {
		case !ok || n > 1<<52:
		case string(name) == "throttled_usec":
			q.stood = time.Duration(n) * time.Microsecond
			return q, true
		case string(name) == "throttled_time":
			q.stood = time.Duration(n)
			return q, true
		case string(name) == "nr_periods":
			q.periods = n
		case string(name) == "nr_throttled":
			q.stopped = n
		}
	}
	return throttling{}, false
}
