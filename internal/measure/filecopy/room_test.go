package filecopy

import (
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// shared is a share of memory and disk, and what is taken of both.
func shared(t *testing.T, most units.Bytes) (*budget.Share, func() [2]int64) {
	t.Helper()
	b := budget.New(budget.Config{Keyed: budget.Part{Session: budget.Limits{Memory: most, Disk: most}}})
	s := must.Get(b.Open(netip.MustParseAddr("192.0.2.1"), "key"))(t)
	return s, func() [2]int64 {
		u := b.Usage().Kinds
		return [2]int64{u[budget.Memory].Used(), u[budget.Disk].Used()}
	}
}

// copyWithin carries f out, with a share of most for the far end.
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
	got := used()
	must.True(t, got == [2]int64{}, "%v: %d bytes of memory and disk are not given back", f.Params, got)
	h.checkEmpty(t)
	return a.Err, b.Err
}

// TestCopiesWithinAShare: what fits is copied whole, also where its memory is
// touched as it arrives, and what does not fit is refused with the number.
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
	// A size that nobody asked for is one that fits.
	for _, mode := range []string{files.Network, files.Memory} {
		near, far := copyWithin(t, flow(mode, model.From, 0), 80<<20)
		must.True(t, near == nil && far == nil, "%s of any size: %v, %v", mode, near, far)
	}
}

// TestMostBytesOfAnEnd refuses what the peer offers as it refuses what is asked
// for: an offer to a flow without a size was once taken whatever it was.
func TestMostBytesOfAnEnd(t *testing.T) {
	h := newHome(t)
	m := maker{engine: h.Engine, halted: func() bool { return false }, most: 1 << 20}
	must.Is(t, must.Err(m.sink(files.InMemory, 2<<20)), fs.ErrPermission, "a sink")
	must.Is(t, must.Err(m.plain(2<<20, false)), fs.ErrPermission, "memory")
	for _, c := range []struct{ a, b, want units.Bytes }{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {4, 5, 4}, {5, 4, 4}} {
		must.Equal(t, most(c.a, c.b), c.want, "most(%d, %d)", c.a, c.b)
	}
}

// TestAheadKeepsWhatArrived: making memory ready changes no byte of it, in
// whatever steps it fills.
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
