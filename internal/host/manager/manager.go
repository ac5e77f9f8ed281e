// Package manager finds the programs that set a machine's settings by themselves.
//
// A setting that somebody changes by hand lasts until such a program sets it
// again: when an interface comes up, a lease is renewed, a profile is switched
// or the machine starts. Everything here reads files and the list of running
// programs; nothing is started, asked or changed.
package manager

import (
	"context"
	"io/fs"
	"maps"

	"linerate/internal/core/model"
)

// Registry reads values of the Windows registry.
type Registry interface {
	// Values returns the values of a key below HKEY_LOCAL_MACHINE by name, as
	// text. It wraps fs.ErrNotExist where there is no such key.
	Values(ctx context.Context, key string) (map[string]string, error)
}

// Machine is a machine as it is searched. It is safe for concurrent use where
// its functions are.
type Machine struct {
	Root     fs.FS                                              // root of its files, with /proc, /sys and /run on Linux
	System   string                                             // GOOS
	Running  func(ctx context.Context) (map[string]bool, error) // names of processes, on Linux as in /proc/PID/comm (at most 15 bytes); nil: not known
	Registry Registry                                           // of Windows; nil: not known
}

// Merge returns lines with those of claims in their place where a claim names a
// file and is, as far as known, at work. Claims stand as Claims returned them.
func Merge(lines map[model.KnobID]model.FileLine, claims []model.Claim) map[model.KnobID]model.FileLine {
	all := make(map[model.KnobID]model.FileLine, len(lines))
	maps.Copy(all, lines)
	for _, c := range claims {
		if c.File != "" && c.Line > 0 && c.Active.Or(true) {
			all[c.Knob] = model.FileLine{File: c.File, Number: c.Line, Text: c.Sets}
		}
	}
	return all
}
