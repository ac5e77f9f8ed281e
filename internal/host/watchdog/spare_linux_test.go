package watchdog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// lowestFree returns the file descriptor that a process would get next: with it as its limit
// the process gets none.
func lowestFree(t *testing.T, pid int) uint64 {
	t.Helper()
	for n := uint64(0); ; n++ {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, n)); errors.Is(err, fs.ErrNotExist) && n > 2 {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoDescriptorsLeft: once a change is made, the watchdog gets no file descriptor any more
// but those that it held back. Its deadline, or the end of its agent, finds all that it needs.
// Without the right to raise its limit it does that with the files that it has open.
func TestNoDescriptorsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		soft, powerless bool // only the limit that a process may raise; it may not raise the other
		deadline        time.Duration
	}{
		"deadline": {deadline: time.Second}, "end of the agent": {deadline: time.Hour}, "soft limit of none, end of the agent": {soft: true, deadline: time.Hour},
		"none, deadline": {powerless: true, deadline: time.Second}, "none, end of the agent": {powerless: true, deadline: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b, dir := fakeBench(t), t.TempDir()
			before := b.values(t)
			if c.powerless {
				t.Setenv(powerlessVar, "1")
			}
			c1 := start(t, b, dir)
			must.Get(c1.Apply(t.Context(), b.changes, c.deadline))(t)
			pid := c1.process.pid
			var limit unix.Rlimit
			err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
			switch limit.Cur = 0; {
			case c.powerless:
				limit.Max = 0
			case !c.soft:
				limit.Cur = lowestFree(t, pid)
				limit.Max = limit.Cur
			}
			if err := errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)); err != nil {
				t.Skipf("the limits of another process may not be set here: %v", err)
			}
			if c.deadline == time.Hour {
				c1.close.Do(func() { _ = c1.process.in.Close() })
			}
			b.back(t, before, "with no descriptors left")
			must.OK(t, c1.Close(), "Close")
			records, damage, err := journal.Read(dir)
			open := journal.OpenIntents(records)
			must.True(t, len(open) == 0 && len(damage) == 0 && err == nil, "open %v, damage %v, %v", open, damage, err)
		})
	}
}

// back waits until a bench holds values again.
func (b bench) back(t *testing.T, want map[model.KnobID]string, when string) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-again.C {
		if now := b.values(t); sameValues(now, want) {
			return
		}
	}
	b.expect(t, want, when)
}

func sameValues(a, b map[model.KnobID]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestArmedOnlyWithDescriptors: where they cannot be held back, nothing is changed.
func TestArmedOnlyWithDescriptors(t *testing.T) {
	d := newDesk(t)
	d.cfg.sys.spare = noneLeft{}
	d.start(t.Context(), sinceBoot)
	a := d.apply("tcp.sack", "0")
	must.True(t, a.Error != nil && a.Error.Text == "none left", "Apply = %+v", a)
	d.expect(sack, "1")
	must.OK(t, d.stop())
}

type noneLeft struct{}

func (noneLeft) hold() error { return fmt.Errorf("none left") }
func (noneLeft) release()    {}
