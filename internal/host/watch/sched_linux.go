package watch

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

// readThreads returns the times of this process's threads, ascending id; nil
// where the kernel does not count them (CONFIG_SCHED_INFO).
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

// parseThread reads "ran waited slices", times in ns (Linux
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

// openGroups opens cpu.stat of the control groups that this process is in, and of
// those around them: a quota of any of them holds it back. A group without the
// file has no quota of its own.
func openGroups() []*text {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var out []*text
	for _, dir := range groupFolders(string(b)) {
		if t, err := openText(filepath.Join(dir, "cpu.stat")); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// groupFolders returns where the groups of /proc/self/cgroup that schedule
// processors are mounted as systems mount them, and the folders around them.
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

// quota is what a control group counts of its quota of processor time.
type quota struct {
	stood            time.Duration // added up over processors
	periods, stopped uint64
}

// readGroups adds up how often and for how long the groups stood still.
func (s *source) readGroups(o *Snapshot) {
	var sum quota
	some := false
	for _, g := range s.groups {
		if b, err := g.read(); err == nil {
			if q, ok := parseThrottled(b); ok {
				sum.stood, sum.periods, sum.stopped, some = sum.stood+q.stood, sum.periods+q.periods, sum.stopped+q.stopped, true
			}
		}
	}
	if some {
		o.values.set(cgroupThrottled, uint64(sum.stood.Milliseconds()))
		o.values.set(cgroupPeriods, sum.periods)
		o.values.set(cgroupStopped, sum.stopped)
	}
}

// parseThrottled finds "throttled_usec 12" of version 2, or "throttled_time 12000"
// in ns of version 1, and before it how many periods there were with work, and how many
// that were cut short (Linux Documentation/admin-guide/cgroup-v2.rst,
// scheduler/sched-bwc.rst).
func parseThrottled(b []byte) (quota, bool) {
	var q quota
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
	return quota{}, false
}
