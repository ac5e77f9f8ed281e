package filecopy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestPath(t *testing.T) {
	for name, direct := range map[string]bool{"cached": false, "direct": true} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			v := must.Get(ReadVolume(h.folder))(t)
			var complete int
			sizes := []units.Bytes{1, 70_001, odd}
			got, err := Path(t.Context(), h.folder, PathOptions{StateDir: h.state, Sizes: sizes, Repeats: 2, Block: 64 << 10, Direct: direct}, func(p PathProgress) {
				if p.Trial != nil {
					complete++
				}
			})
			must.Do(t, err)
			must.True(t, len(got.Trials) == 12 && complete == 12 && got.Volume.Type == v.Type && len(got.Warnings) != 0,
				"%d trials, %+v", complete, got)
			count := map[PathTrial]int{}
			for _, trial := range got.Trials {
				must.True(t, trial.Took > 0 && trial.Rate > 0 && trial.Flush <= trial.Took, "%+v", trial)
				must.True(t, trial.Operation != WriteFile || strings.Contains(trial.How, "flushed"), "%+v", trial)
				count[PathTrial{Operation: trial.Operation, Size: trial.Size}]++
			}
			for k, n := range count {
				must.True(t, n == 2, "%+v %d times", k, n)
			}
			h.checkEmpty(t)
		})
	}
}

func TestPathFaults(t *testing.T) {
	h := newHome(t)
	file := filepath.Join(h.folder, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		dir string
		o   PathOptions
	}{
		"no folder": {filepath.Join(h.folder, "nowhere"), PathOptions{}},
		"a file":    {file, PathOptions{}},
		"size":      {h.folder, PathOptions{Sizes: []units.Bytes{0}}},
		"repeats":   {h.folder, PathOptions{Repeats: -1}},
		"block":     {h.folder, PathOptions{Block: 100, Direct: true}},
		"too large": {h.folder, PathOptions{Sizes: []units.Bytes{maxBytes}}},
	} {
		c.o.StateDir = h.state
		must.Say(t, must.Err(Path(t.Context(), c.dir, c.o, nil)), c.dir, "%s", name)
	}
}

// TestPathStopped ends in the middle of a file, with what was measured before.
func TestPathStopped(t *testing.T) {
	h := newHome(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	got, err := Path(ctx, h.folder, PathOptions{StateDir: h.state, Sizes: []units.Bytes{odd}, Repeats: 1000}, func(p PathProgress) {
		if p.Trial != nil && p.Repeat == 2 {
			cancel(why)
		}
	})
	must.True(t, errors.Is(err, why) && len(got.Trials) >= 3 && len(got.Trials) <= 4, "%d trials, %v", len(got.Trials), err)
	h.checkEmpty(t)
}

// TestPathCorrupted: what the folder gives back is compared.
func TestPathCorrupted(t *testing.T) {
	h := newHome(t)
	_, err := Path(t.Context(), h.folder, PathOptions{StateDir: h.state, Sizes: []units.Bytes{odd}, Repeats: 1}, func(p PathProgress) {
		if p.Trial == nil || p.Operation != WriteFile {
			return
		}
		names, _ := filepath.Glob(filepath.Join(h.folder, filePrefix+"*"))
		f := must.Get(os.OpenFile(names[0], os.O_WRONLY, 0))(t)
		defer f.Close()
		must.Get(f.WriteAt([]byte{'x', 'y'}, 1<<20))(t)
	})
	must.Say(t, err, "differs", "error")
	h.checkEmpty(t)
}
