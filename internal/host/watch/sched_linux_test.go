package watch

import (
	"slices"
	"testing"
	"time"

	"linerate/internal/core/model"
)

func TestParseSched(t *testing.T) {
	if got, ok := parseThread([]byte("2500000 700000 12\n")); !ok || got.run != 2500*time.Microsecond || got.wait != 700*time.Microsecond {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := parseThread([]byte("x 1 2\n")); ok {
		t.Error("a text that is no number was read")
	}
	for text, want := range map[string]quota{
		"usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 1500\n": {1500 * time.Microsecond, 5, 3},
		"nr_periods 0\nnr_throttled 0\nthrottled_time 2000000":              {stood: 2 * time.Millisecond},
	} {
		if got, ok := parseThrottled([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	if _, ok := parseThrottled([]byte("usage_usec 9\n")); ok {
		t.Error("a group without a quota has a time")
	}
	folders := groupFolders("3:cpu,cpuacct:/a/b\n2:memory:/m\n0::/x\n")
	for _, want := range []string{"/sys/fs/cgroup/cpu,cpuacct/a/b", "/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/x", "/sys/fs/cgroup/unified/x"} {
		if !slices.Contains(folders, want) {
			t.Errorf("%s is not among %q", want, folders)
		}
	}
	if slices.ContainsFunc(folders, func(f string) bool { return f == "/sys/fs/cgroup/memory/m" }) {
		t.Errorf("memory's group does not schedule: %q", folders)
	}
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
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
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
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute of work: %+v, %v", most, ok)
		}
	}
}
