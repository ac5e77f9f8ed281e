package counters

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// steps records the intervals of the samples.
type steps struct {
	mu     sync.Mutex
	starts []time.Duration
	length []time.Duration
}

func (s *steps) take(all []model.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, all[0].Start)
	s.length = append(s.length, all[0].Length)
}

func (s *steps) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.starts)
}

// TestRun: one step per interval, another for a remainder of at least half an interval, and
// the counters of the whole run.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		run  time.Duration
		want int
		last time.Duration // length of the last step
	}{
		{"whole seconds and little", 3200 * time.Millisecond, 3, time.Second},
		{"most of a second is not lost", 3600 * time.Millisecond, 4, 600 * time.Millisecond},
		{"no interval at all", 100 * time.Millisecond, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watching(t, "lo")
				start := time.Now().Add(-5 * time.Second) // the run began before the watcher
				var s steps
				stop := w.Run(t.Context(), model.Near, 0, start, s.take)
				time.Sleep(c.run) // the bubble's clock
				counters := stop()
				must.Need(t, len(s.starts) == c.want, "%d steps, want %d: %v", len(s.starts), c.want, s.starts)
				for i := range s.starts {
					must.True(t, s.starts[i] == time.Duration(5+i)*time.Second && (i >= c.want-1 || s.length[i] == time.Second), "step %d from %v for %v", i, s.starts[i], s.length[i])
				}
				must.True(t, c.want == 0 || s.length[c.want-1] == c.last, "the last of the steps %v is not %v long", s.length, c.last)
				must.True(t, find(counters, countersRead, "udp") != 0, "%+v", counters)
				again := stop()
				must.True(t, len(again) == len(counters) && len(s.starts) == c.want, "stopped twice: %+v", again)
			})
		})
	}
}

// TestRunEnds: Run ends with its context, and if the watcher is closed.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "")
		ctx, cancel := context.WithCancel(t.Context())
		var s steps
		stop := w.Run(ctx, model.Near, time.Second, time.Now(), s.take)
		time.Sleep(2500 * time.Millisecond)
		cancel()
		time.Sleep(10 * time.Second)
		must.Equal(t, s.count(), 2, "steps after the context ended")
		must.Do(t, w.Close())
		got := stop()
		must.True(t, find(got, countersRead, "cpu") != 0, "the readings up to the end: %+v", got)
		stop = w.Run(t.Context(), model.Near, time.Second, time.Now(), s.take)
		time.Sleep(2500 * time.Millisecond)
		got = stop()
		must.True(t, got == nil && s.count() == 2, "a closed watcher: %+v", got)
	})
}

// BenchmarkRead measures one reading of everything. At one reading per second, 1 ms is 0.1 %
// of one core.
func BenchmarkRead(b *testing.B) {
	for _, device := range []string{"", "lo", "eth0"} {
		b.Run("interface="+device, func(b *testing.B) {
			w := must.Get(Open(device))(b)
			defer w.Close()
			for _, m := range w.Missing() {
				b.Log(m)
			}
			b.ReportAllocs()
			for b.Loop() {
				must.Get(w.Read(time.Time{}))(b)
			}
		})
	}
}

// BenchmarkSamples measures the work after a reading.
func BenchmarkSamples(b *testing.B) {
	w := must.Get(Open("lo"))(b)
	defer w.Close()
	first := must.Get(w.Read(time.Time{}))(b)
	second := must.Get(w.Read(time.Time{}))(b)
	b.ReportAllocs()
	for b.Loop() {
		Samples(model.Near, first, second, 0, time.Second)
	}
}

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
	must.True(t, !slices.ContainsFunc(folders, func(f string) bool { return f == "/sys/fs/cgroup/memory/m" }), "memory's group does not schedule: %q", folders)
}

// TestBusiestThread: the result is the thread that ran or waited longest. A thread that is
// new, or whose times ran backwards, does not count.
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
	must.Same(t, got, []model.Counter{{Name: threadRun, Value: 10}, {Name: threadWait, Value: 40}, {Name: countersRead, Of: "thread", Value: 2}})
}

// TestOwnThreads: work of this process shows up.
func TestOwnThreads(t *testing.T) {
	must.SkipIf(t, readThreads() == nil, "this kernel does not count the times of threads")
	a := Snapshot{threads: readThreads()}
	for began := time.Now(); ; {
		most, ok := busiestThread(a, Snapshot{threads: readThreads()})
		if ok && most.run+most.wait >= 20*time.Millisecond {
			return
		}
		must.Need(t, time.Since(began) <= time.Minute, "after a minute of work: %+v, %v", most, ok)
	}
}

// TestGroups: quotas are read from both cgroup versions, the smallest of the enclosing groups
// applies, and cpu.stat.local covers all of them.
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
		"local": {map[string]string{ // in a container, which does not see the group with the quota
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
