package local

import (
	"context"
	"path/filepath"

	"linerate/internal/app"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/filecopy"
)

// FolderOptions say how to measure a folder.
type FolderOptions struct {
	State   string      // directory of the list of test files; "" is the system's
	Size    units.Bytes // of a file
	Repeats int         // how often to write and read it
	Direct  bool        // past the page cache
	Seed    uint64      // of the order
}

// FolderResult is the measured speed of a folder.
type FolderResult = filecopy.PathResult

// Folder writes files into a folder and reads them back, as it is mounted here. If it returns
// an error, the result holds what was measured before it.
func Folder(ctx context.Context, env app.Env, path string, o FolderOptions) (FolderResult, error) {
	dir, err := StateDir(o.State)
	if err != nil {
		return FolderResult{}, err
	}
	SweepUp(env, o.State)
	c := filecopy.PathOptions{
		StateDir: filepath.Join(dir, CopiesDir), Sizes: []units.Bytes{o.Size}, Repeats: o.Repeats, Direct: o.Direct, Seed: o.Seed,
	}
	if err := c.Validate(); err != nil {
		return FolderResult{}, fault.WithKind(fault.Usage, err)
	}
	total, done := float64(2*o.Repeats)*float64(o.Size), 0.0
	return filecopy.Path(ctx, path, c, func(p filecopy.PathProgress) {
		moved := done + float64(p.Moved)
		if p.Trial != nil {
			done += float64(p.Size)
			moved = done
		}
		env.Observe(app.FolderProgress{Operation: string(p.Operation), Repeat: p.Repeat, Repeats: o.Repeats, Share: moved / total, Elapsed: p.Elapsed})
	})
}
