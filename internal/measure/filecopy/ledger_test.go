package filecopy

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// TestKilled: the next process removes what a killed one left, and nothing else.
func TestKilled(t *testing.T) {
	for name, sink := range map[string]string{"memory": "memory", "disk": "disk", "folder": "FOLDER", "new file": "FOLDER/new"} {
		t.Run(name, func(t *testing.T) {
			p := findMemory(int64(odd))
			must.SkipIf(t, name == "memory" && p.anonymous, "%v", p.warning)
			h := newHome(t)
			unknown := filepath.Join(h.folder, filePrefix+"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
			must.Do(t, os.WriteFile(unknown, []byte("not linerate's"), 0o600))
			child := inTheMiddle(t, task{h.state, files.Params{Sink: h.path(sink)}})
			removed, err := Clean(h.state)
			must.Need(t, len(removed) == 0 && err == nil, "removed %q of a process that lives, %v", removed, err)
			kill(t, child)
			removed, err = Clean(h.state)
			must.Need(t, len(removed) == 1 && err == nil, "removed %q, %v", removed, err)
			must.Fail(t, must.Err(os.Stat(removed[0])), "%s is still there", removed[0])
			must.OK(t, must.Err(os.Stat(unknown)))
			must.Len(t, left(t, h.state), 0, "the ledger still holds")
			removed, err = Clean(h.state)
			must.True(t, len(removed) == 0 && err == nil, "a second time: %q, %v", removed, err)
		})
	}
}

// TestReplaced: a file that replaced ours stays.
func TestReplaced(t *testing.T) {
	h := newHome(t)
	path := filepath.Join(h.folder, "new")
	kill(t, inTheMiddle(t, task{h.state, files.Params{Sink: path}}))
	must.Do(t, os.Remove(path))
	// If the inode is reused, only the birth time tells them apart.
	must.Do(t, os.WriteFile(path, []byte("somebody else's"), 0o600))
	removed, err := Clean(h.state)
	must.Need(t, len(removed) == 0 && err == nil, "removed %q, %v", removed, err)
	text := must.Get(os.ReadFile(path))(t)
	must.True(t, string(text) == "somebody else's", "%q", text)
	must.Len(t, left(t, h.state), 0, "the ledger still holds")
}

// TestReplacedWhileRunning: the same at the end of a run.
func TestReplacedWhileRunning(t *testing.T) {
	h := newHome(t)
	c := must.Get(makeFile(h.state, h.folder, 0))(t)
	err := os.Remove(c.Name())
	must.SkipIf(t, err != nil, "this system removes no open file: %v", err)
	must.Do(t, os.WriteFile(c.Name(), []byte("x"), 0o600))
	for range 2 {
		must.Do(t, c.remove())
	}
	must.OK(t, must.Err(os.Stat(c.Name())))
}

// TestCleanEntries settles entries left by kills at odd moments.
func TestCleanEntries(t *testing.T) {
	h := newHome(t)
	random := filepath.Join(h.folder, filePrefix+"RANDOM")
	named := filepath.Join(h.folder, "named")
	line := func(v any) string { return string(must.Get(json.Marshal(v))(t)) + "\n" }
	for name, c := range map[string]struct {
		text    string
		content string // of the file; "-" is no file
		path    string
		removed bool
		kept    bool // the entry
	}{
		"empty":               {"", "-", random, false, true},
		"half a line":         {`{"v":1,"pa`, "-", random, false, true},
		"no file":             {line(promise{Version: 1, Path: random}), "-", random, false, false},
		"made, not written":   {line(promise{Version: 1, Path: random}), "", random, true, false},
		"named, not written":  {line(promise{Version: 1, Path: named, Named: true}), "", named, false, false},
		"other's content":     {line(promise{Version: 1, Path: random}), "x", random, false, false},
		"other inode":         {line(promise{Version: 1, Path: random}) + line(identity{1, 2, 3}), "x", random, false, false},
		"name of no copy":     {line(promise{Version: 1, Path: named}), "", named, false, true},
		"other version":       {line(promise{Version: 9, Path: random}), "", random, false, true},
		"relative":            {line(promise{Version: 1, Path: filePrefix + "X"}), "-", random, false, true},
		"second line is torn": {line(promise{Version: 1, Path: random}) + `{"inode":1`, "", random, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, os.MkdirAll(h.state, 0o700))
			entry := filepath.Join(h.state, entryPrefix+"X"+entrySuffix)
			must.Do(t, os.WriteFile(entry, []byte(c.text), 0o600))
			if c.content != "-" {
				must.Do(t, os.WriteFile(c.path, []byte(c.content), 0o600))
			}
			removed := must.Get(Clean(h.state))(t)
			must.True(t, slices.Contains(removed, c.path) == c.removed && len(removed) <= 1, "removed %q", removed)
			_, err := os.Stat(c.path)
			must.True(t, (err == nil) == (c.content != "-" && !c.removed), "the file: %v", err)
			_, err = os.Stat(entry)
			must.True(t, (err == nil) == c.kept, "the entry: %v", err)
			// An unreadable old entry was never finished.
			old := time.Now().Add(-2 * abandoned)
			if c.kept {
				must.Do(t, os.Chtimes(entry, old, old))
				must.OK(t, must.Err(Clean(h.state)))
				must.Fail(t, must.Err(os.Stat(entry)), "an old entry of nothing is kept")
			}
			_ = os.Remove(c.path)
		})
	}
	removed, err := Clean(filepath.Join(h.folder, "nowhere"))
	must.True(t, removed == nil && err == nil, "no ledger: %q, %v", removed, err)
}

// TestLedgerFirst: a file that cannot be recorded is not created.
func TestLedgerFirst(t *testing.T) {
	h := newHome(t)
	state := filepath.Join(h.folder, "state")
	must.Do(t, os.WriteFile(state, nil, 0o600)) // no folder can exist there
	must.Fail(t, must.Err(makeFile(state, h.folder, 0)), "made without a ledger")
	must.Len(t, left(t, h.folder), 1, "files")
	must.Fail(t, must.Err(register(h.state, state, true, 0)), "overwritten")
	must.Len(t, left(t, h.state), 0, "an entry of nothing")
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		a, b identity
		same bool
	}{
		{identity{1, 2, 3}, identity{1, 2, 3}, true},
		{identity{1, 2, 3}, identity{9, 2, 3}, true}, // after a reboot
		{identity{1, 2, 3}, identity{1, 2, 4}, false},
		{identity{1, 2, 3}, identity{1, 7, 3}, false},
		{identity{1, 2, 0}, identity{1, 2, 3}, true},
		{identity{1, 2, 0}, identity{9, 2, 0}, false},
	} {
		must.Equal(t, c.a.same(c.b), c.same, "%v %v", c.a, c.b)
	}
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"v":1,"path":"/dev/shm/linerate-copy-X"}` + "\n" + `{"device":24,"inode":17,"birth":17}` + "\n"))
	f.Add([]byte(`{"v":1,"path":"/a","named":true}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, _, ok := parseEntry(b)
		must.True(t, !ok || filepath.IsAbs(p.Path), "%q is accepted", p.Path)
	})
}

// shared returns a share of memory and disk, and a function that returns what is taken of both.
func shared(t *testing.T, most units.Bytes) (*budget.Share, func() [2]int64) {
	t.Helper()
	b := budget.New(budget.Config{Keyed: budget.Part{Session: budget.Limits{Memory: most, Disk: most}}})
	s := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), "key"))(t)
	return s, func() [2]int64 {
		u := b.Usage().Kinds
		return [2]int64{u[budget.Memory].Used(), u[budget.Disk].Used()}
	}
}

// copyWithin runs f with a share of most for the far end.
func copyWithin(t *testing.T, f model.Flow, most units.Bytes) (near, far error) {
	t.Helper()
	h := newHome(t)
	share, used := shared(t, most)
	w := enginetest.NewWire(t)
	w.Change = func(host model.Host, e *engine.Env) {
		if host == model.Far {
			e.Share = share
		}
	}
	a, b := enginetest.Prepare(t, h.Engine, w, f)
	_ = enginetest.Conduct(t, a, b, f.Direction)
	must.Equal(t, used(), [2]int64{}, "%v bytes of memory and disk are not given back", f.Params)
	h.checkEmpty(t)
	return a.Err, b.Err
}

// TestCopiesWithinAShare: a copy that fits is complete, even if its memory is touched as data
// arrives; one that does not fit is refused with the numbers.
func TestCopiesWithinAShare(t *testing.T) {
	flow := func(mode string, d model.Direction, n units.Bytes) model.Flow {
		return model.Flow{
			Engine: Name, Direction: d, Bytes: n, Interval: engine.MinInterval,
			Params: traffic.Write(files.Params{Mode: mode, Source: files.InMemory, Sink: files.InMemory}),
		}
	}
	const size = 100<<20 + 12345
	for _, f := range []model.Flow{
		flow(files.Network, model.To, size), flow(files.Network, model.From, size), flow(files.Copy, model.To, size),
	} {
		if near, far := copyWithin(t, f, 128<<20); near != nil || far != nil {
			t.Errorf("%+v within: %v, %v", f.Params, near, far)
		}
		near, far := copyWithin(t, f, 64<<20)
		must.True(t, errors.Is(far, fs.ErrPermission) && errors.Is(far, budget.ErrSpent) && near != nil, "%+v above: %v, %v", f.Params, near, far)
		for _, err := range []error{near, far} {
			must.True(t, err == nil || strings.Contains(err.Error(), "this server gives 64 MiB to a session"), "%+v: no number in %v", f.Params, err)
		}
	}
	// Without a requested size, the default fits.
	for _, mode := range []string{files.Network, files.Memory} {
		near, far := copyWithin(t, flow(mode, model.From, 0), 80<<20)
		must.True(t, near == nil && far == nil, "%s of any size: %v, %v", mode, near, far)
	}
}

// TestMostBytesOfAnEnd: the limit applies to the peer's offer as to the request. An offer to a
// flow without a size was once accepted at any size.
func TestMostBytesOfAnEnd(t *testing.T) {
	m := maker{engine: newHome(t).Engine, halted: func() bool { return false }, most: 1 << 20}
	must.Is(t, must.Err(m.sink(files.InMemory, 2<<20)), fs.ErrPermission, "a sink")
	must.Is(t, must.Err(m.plain(2<<20, false)), fs.ErrPermission, "memory")
	for _, c := range []struct{ a, b, want units.Bytes }{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {4, 5, 4}, {5, 4, 4}} {
		must.Equal(t, most(c.a, c.b), c.want, "most(%d, %d)", c.a, c.b)
	}
}

// TestAheadKeepsWhatArrived: populating memory changes no byte of it, in whatever steps it
// fills.
func TestAheadKeepsWhatArrived(t *testing.T) {
	for _, size := range []int64{1, 5 << 20, 40<<20 + 1, 96<<20 + 5} {
		for _, step := range []int64{1 << 16, 1 << 20, 24 << 20} {
			mem, free, err := allocate((size + alignment - 1) / alignment * alignment)
			must.Do(t, err)
			a := makeAhead(mem)
			for at := int64(0); at < size; at += step {
				a.arrived(at)
				mem[at] = byte(at/step) | 1
			}
			a.end()
			for at := int64(0); at < size; at += step {
				must.Need(t, mem[at] == byte(at/step)|1, "byte %d of %d was changed, in steps of %d", at, size, step)
			}
			must.True(t, a.asked <= int64(len(mem)), "asked for %d of %d", a.asked, len(mem))
			must.Do(t, free())
		}
	}
}
