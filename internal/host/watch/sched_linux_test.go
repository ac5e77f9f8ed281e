package watch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestParseSched(t *testing.T) {
	got, ok := parseThread([]byte("2500000 700000 12\n"))
	must.True(t, ok && got.run == 2500*time.Microsecond && got.wait == 700*time.Microsecond, "%+v, %v", got, ok)
	_, ok = parseThread([]byte("x 1 2\n"))
	must.True(t, !ok, "a text that is no number was read")
	for text, want := range map[string]throttling{
		"usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 1500\n": {1500 * time.Microsecond, 5, 3},
		"nr_periods 0\nnr_throttled 0\nthrottled_time 2000000":              {stood: 2 * time.Millisecond},
	} {
		got, ok := parseThrottled([]byte(text))
		must.True(t, ok && got == want, "%q: %v, %v", text, got, ok)
	}
	_, ok = parseThrottled([]byte("usage_usec 9\n"))
	must.True(t, !ok, "a group without a quota has a time")
	folders := groupFolders("3:cpu,cpuacct:/a/b\n2:memory:/m\n0::/x\n")
	for _, want := range []string{"/sys/fs/cgroup/cpu,cpuacct/a/b", "/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/x", "/sys/fs/cgroup/unified/x"} {
		must.True(t, slices.Contains(folders, want), "%s is not among %q", want, folders)
	}
	must.True(t, !slices.ContainsFunc(folders, func(f string) bool { return f == "/sys/fs/cgroup/memory/m" }),
		"memory's group does not schedule: %q", folders)
}

// TestBusiestThread: the thread that ran or waited the longest is the one that is
// told of; one that came or whose times ran backwards is none.
func TestBusiestThread(t *testing.T) {
	ms := time.Millisecond
	a := Snapshot{threads: []thread{{1, 10 * ms, 0}, {2, 5 * ms, 5 * ms}, {3, 900 * ms, 0}}}
	b := Snapshot{threads: []thread{{1, 40 * ms, 0}, {2, 15 * ms, 45 * ms}, {3, 1 * ms, 0}, {4, 999 * ms, 0}}}
	var got []model.Counter
	for _, c := range Delta(a, b) {
		if c.Name == threadRun || c.Name == threadWait || c.Of == string(GroupThread) {
			got = append(got, c)
		}
	}
	want := []model.Counter{{Name: threadRun, Value: 10}, {Name: threadWait, Value: 40}, {Name: countersRead, Of: "thread", Value: 2}}
	must.Same(t, got, want)
}

// TestOwnThreads: work of this process shows.
func TestOwnThreads(t *testing.T) {
	if readThreads() == nil {
		t.Skip("this kernel does not count the times of threads")
	}
	a := Snapshot{threads: readThreads()}
	for began := time.Now(); ; {
		most, ok := busiestThread(a, Snapshot{threads: readThreads()})
		if ok && most.run+most.wait >= 20*time.Millisecond {
			return
		}
		must.Need(t, time.Since(began) <= time.Minute, "after a minute of work: %+v, %v", most, ok)
	}
}

// TestGroups: quotas of both versions of control groups are read, the smallest of those
// around the process; what cpu.stat.local counts holds for all of them.
func TestGroups(t *testing.T) {
	stat := "nr_periods 10\nnr_throttled 9\nthrottled_"
	for name, c := range map[string]struct {
		files map[string]string
		want  throttling
		quota float64
	}{
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/box/in\n", "sys/fs/cgroup/box/cpu.max": "20000 100000\n", "sys/fs/cgroup/box/in/cpu.max": "max 100000\n",
			"sys/fs/cgroup/box/cpu.stat": stat + "usec 800000\n", "sys/fs/cgroup/box/in/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
		}, throttling{800 * time.Millisecond, 10, 9}, 0.2},
		"version 1": {map[string]string{
			"proc/self/cgroup": "3:cpu,cpuacct:/box\n0::/\n", "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "150000\n", "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.stat": stat + "time 800000000\n",
		}, throttling{800 * time.Millisecond, 10, 9}, 1.5},
		"local": {map[string]string{ // of a container, which does not see the group with the quota
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.stat": "usage_usec 5\n", "sys/fs/cgroup/cpu.stat.local": "throttled_usec 2400000\n",
		}, throttling{stood: 2400 * time.Millisecond}, 0},
		"local counts once": {map[string]string{
			"proc/self/cgroup": "1:cpu:/a\n", "sys/fs/cgroup/cpu/a/cpu.stat": stat + "time 400000000", "sys/fs/cgroup/cpu/cpu.stat": stat + "time 900000000", "sys/fs/cgroup/cpu/a/cpu.stat.local": "throttled_time 600000000",
		}, throttling{600 * time.Millisecond, 20, 18}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range c.files {
				path = filepath.Join(root, path)
				must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must.Do(t, os.WriteFile(path, []byte(text), 0o600))
			}
			g := openGroups(root)
			var o Snapshot
			g.read(&o)
			for _, f := range g.files() {
				if f != nil {
					must.Do(t, f.f.Close())
				}
			}
			got := throttling{time.Duration(o.values[cgroupThrottled].n) * time.Millisecond, o.values[cgroupPeriods].n, o.values[cgroupStopped].n}
			must.Equal(t, got, c.want, "throttling")
			must.Equal(t, o.quota, c.quota, "quota")
			o.at = time.Unix(10, 0)
			i := slices.IndexFunc(Delta(Snapshot{at: time.Unix(9, 0)}, o), func(m model.Counter) bool { return m.Name == cgroupQuota && m.Value == int64(1000*c.quota) })
			must.True(t, (i >= 0) == (c.quota > 0), "the quota of one second is not among the counters")
		})
	}
}
