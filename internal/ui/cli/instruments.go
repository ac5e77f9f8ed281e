package cli

import (
	"path/filepath"

	"linerate/internal/host/journal"
	"linerate/internal/host/kmsg"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/filecopy"
	"linerate/internal/measure/pingpong"
)

// copiesDir is where the ledger of made files is, below the state directory.
const copiesDir = "copies"

// stateDir is dir, or the system's place for linerate's state.
func stateDir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	return journal.DefaultDir()
}

// instruments are the engines of this host. Paths of files may be named by who
// started this process and nobody else.
func (a *app) instruments(state string, namedPaths bool) []engine.Engine {
	o := engines.Options{
		Files: filecopy.Options{NamedPaths: namedPaths},
		KernelLog: func() (pingpong.LogReader, error) {
			r, err := kmsg.Open()
			if err != nil {
				return nil, err
			}
			return r, nil
		},
	}
	if dir, err := stateDir(state); err == nil { // without one, filecopy says so
		o.State = filepath.Join(dir, copiesDir)
	}
	return engines.All(o)
}

// sweepUp removes the files of copies that were killed, before others are made.
func (a *app) sweepUp(state string) {
	dir, err := stateDir(state)
	if err != nil {
		return
	}
	removed, err := filecopy.Clean(filepath.Join(dir, copiesDir))
	for _, path := range removed {
		a.talk("removed %s, which a copy that was killed had left", path)
	}
	if err != nil {
		a.talk("linerate: files of killed copies: %v", err)
	}
}
