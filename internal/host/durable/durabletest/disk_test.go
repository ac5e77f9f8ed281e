package durabletest_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"linerate/internal/host/durable"
	"linerate/internal/host/durable/durabletest"
	"linerate/internal/must"
)

// TestLose: synced data is left, and of the rest as much as requested.
func TestLose(t *testing.T) {
	for _, c := range []struct {
		names, bytes int
		want         string
		there        []string
	}{
		{0, 0, "abc", []string{"old"}}, {1, 0, "abc", []string{"new", "old"}}, {0, 2, "abcde", []string{"old"}}, {9, 9, "abcdef", []string{"new", "old"}},
	} {
		var d durabletest.Disk
		p := d.Process(nil)
		f := open(t, p, "/s/old")
		write(t, f, "abc")
		must.Do(t, errors.Join(f.Sync(), p.SyncDir("/s")))
		write(t, f, "def")
		open(t, p, "/s/new")
		names, bytes := d.Unsynced()
		must.True(t, names == 1 && bytes == 3, "%d names and %d bytes are not synced", names, bytes)
		p.End()
		d.Lose(c.names, func(_ string, n int) int { return min(n, c.bytes) })
		got, err := d.Process(nil).Read("/s/old")
		must.True(t, string(got) == c.want && err == nil && slices.Equal(d.Names("/s"), c.there), "%d names, %d bytes: %q, %v, %q", c.names, c.bytes, got, err, d.Names("/s"))
	}
}

// TestLock: the end of a process releases its lock.
func TestLock(t *testing.T) {
	var d durabletest.Disk
	first, second := d.Process(nil), d.Process(nil)
	a := open(t, first, "/s/lock")
	b := open(t, second, "/s/lock")
	must.Do(t, a.Lock())
	must.Is(t, b.Lock(), durable.ErrLocked, "a second lock")
	first.End()
	must.OK(t, b.Lock())
}

// TestReplaceIsOneStep: after a power loss at any moment the old text or the new one is
// there.
func TestReplaceIsOneStep(t *testing.T) {
	steps, seen := 0, map[string]bool{}
	for at := 1; at <= max(1, steps); at++ {
		for names := range 4 {
			var d durabletest.Disk
			f := open(t, d.Process(nil), "/s/f")
			write(t, f, "old")
			must.Do(t, errors.Join(f.Sync(), d.Process(nil).SyncDir("/s")))
			n := 0
			_ = durable.Replace(d.Process(func(durabletest.Op) error {
				if n++; n >= at && steps > 0 {
					return errors.New("gone")
				}
				return nil
			}), "/s/f", []byte("new"), 0o600)
			steps = max(steps, n)
			d.Lose(names, func(_ string, n int) int { return n / 2 })
			got := must.Get(d.Process(nil).Read("/s/f"))(t)
			must.True(t, (string(got) == "old" || string(got) == "new"), "after step %d with %d names: %q", at, names, got)
			seen[string(got)] = true
		}
	}
	must.True(t, steps >= 4 && len(seen) == 2, "%d steps, seen %v", steps, seen)
}

func open(t *testing.T, p *durabletest.Process, path string) durable.File {
	t.Helper()
	if _, err := p.List("/s"); err != nil {
		must.Do(t, p.MakeDir("/s"))
	}
	return must.Get(p.Open(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600))(t)
}

func write(t *testing.T, f durable.File, text string) {
	t.Helper()
	must.Get(f.Write([]byte(text)))(t)
}
