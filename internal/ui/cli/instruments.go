package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/durable"
	"linerate/internal/host/journal"
	"linerate/internal/host/kmsg"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/filecopy"
	"linerate/internal/measure/pingpong"
)

// copiesDir is where the ledger of made files is, below the state directory.
const copiesDir = "copies"

// stateDir is dir, or the system's place for linerate's state. Root has it only
// where nobody else may write: it does what the files there say.
func stateDir(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = journal.DefaultDir(); err != nil {
			return "", err
		}
	}
	return dir, durable.Trusted(dir)
}

// noLog is a kernel log that this user may not read.
type noLog struct{}

// Lines returns nothing.
func (noLog) Lines() ([]string, error) { return nil, nil }

// Close does nothing.
func (noLog) Close() error { return nil }

// instruments are the engines of this host. Paths of files may be named by who
// started this process and nobody else.
func (a *console) instruments(state string, namedPaths bool) []engine.Engine {
	dir, err := stateDir(state)
	if err != nil {
		return a.instrumentsAt("", namedPaths) // filecopy says so
	}
	return a.instrumentsAt(filepath.Join(dir, copiesDir), namedPaths)
}

// instrumentsAt is instruments with the ledger of made files in copies.
func (a *console) instrumentsAt(copies string, namedPaths bool) []engine.Engine {
	o := engines.Options{
		Files: filecopy.Options{NamedPaths: namedPaths},
		KernelLog: func() (pingpong.LogReader, error) {
			r, err := kmsg.Open()
			if errors.Is(err, fs.ErrPermission) {
				return noLog{}, nil // only root reads it, as the manual says
			}
			if err != nil {
				return nil, err
			}
			return r, nil
		},
	}
	o.State = copies
	return engines.All(o)
}

// sweepUp removes the files of copies that were killed, before others are made.
func (a *console) sweepUp(state string) {
	if dir, err := stateDir(state); err == nil {
		a.sweepUpAt(filepath.Join(dir, copiesDir))
	}
}

// sweepUpAt is sweepUp for the ledger in copies.
func (a *console) sweepUpAt(copies string) {
	removed, err := filecopy.Clean(copies)
	for _, path := range removed {
		a.talk("removed %s, which a copy that was killed had left", path)
	}
	if err != nil {
		a.talk("linerate: files of killed copies: %v", err)
	}
}

// engineTakes reports what the engine of a plan does not take, of the flow or of
// a setting of it, so that it is said before any host is asked.
func engineTakes(p model.Plan) error {
	e, err := engines.ByName(engines.All(engines.Options{}), p.Flow.Engine)
	if err != nil {
		return app.WithKind(app.Usage, err)
	}
	for _, d := range p.Directions {
		flow := p.Flow
		flow.Direction = d
		if err := e.Validate(flow); err != nil {
			return app.WithKind(app.Usage, err)
		}
		for _, s := range p.Settings {
			of := slices.DeleteFunc(slices.Clone(s.Assignments), func(a model.Assignment) bool { return a.Host != "" })
			set, err := knob.ApplyFlow(flow, of)
			if err == nil {
				err = e.Validate(set)
			}
			if err != nil {
				return app.WithKind(app.Usage, fmt.Errorf("setting %s: %w", s.Name, err))
			}
		}
	}
	return nil
}
