package local

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/host/kmsg"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/filecopy"
	"linerate/internal/measure/pingpong"
)

// CopiesDir is the directory of the ledger of test files, below the state directory.
const CopiesDir = "copies"

// noLog is a kernel log that this user may not read.
type noLog struct{}

// Lines returns nothing.
func (noLog) Lines() ([]string, error) { return nil, nil }

// Close does nothing.
func (noLog) Close() error { return nil }

// Engines returns the engines of list for this host. namedPaths allows the controller to name
// paths of files, which only the user who started this process may do.
func Engines(list engines.List, state string, namedPaths bool) []engine.Engine {
	dir, err := StateDir(state)
	if err != nil {
		return EnginesAt(list, "", namedPaths) // filecopy says so
	}
	return EnginesAt(list, filepath.Join(dir, CopiesDir), namedPaths)
}

// EnginesAt is Engines with the ledger of test files in copies.
func EnginesAt(list engines.List, copies string, namedPaths bool) []engine.Engine {
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
	return list.Make(o)
}

// SweepUp removes the files that killed copies left.
func SweepUp(env app.Env, state string) {
	if dir, err := StateDir(state); err == nil {
		SweepUpAt(env, filepath.Join(dir, CopiesDir))
	}
}

// SweepUpAt is SweepUp for the ledger in copies.
func SweepUpAt(env app.Env, copies string) {
	removed, err := filecopy.Clean(copies)
	for _, path := range removed {
		env.Observe(app.SweptUp{Path: path})
	}
	if err != nil {
		env.Observe(app.Trouble{Err: fmt.Errorf("files of killed copies: %w", err)})
	}
}

// KnobIDs returns the knobs of hosts, links and routes.
func KnobIDs(x *knob.Index) []model.KnobID {
	var ids []model.KnobID
	for _, k := range x.All() {
		if k.Scope != knob.ScopeFlow {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// LinkExists returns an error unless this machine has the interface.
func LinkExists(name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return fault.WithHint(fault.Usagef("--interface: no interface %q here", name), "known are %s", LinkNames())
	}
	return nil
}

// LinkNames lists this machine's interfaces for a hint.
func LinkNames() string {
	all, err := net.Interfaces()
	if err != nil {
		return "not readable: " + err.Error()
	}
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Name
	}
	return strings.Join(names, ", ")
}
