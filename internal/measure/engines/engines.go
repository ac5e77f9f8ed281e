// Package engines lists the engines that linerate has.
package engines

import (
	"fmt"
	"strings"

	"linerate/internal/core/traffic"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/filecopy"
	"linerate/internal/measure/loaded"
	"linerate/internal/measure/packets"
	"linerate/internal/measure/pingpong"
	"linerate/internal/measure/reqresp"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/measure/udpflow"
)

// Options are the engines' settings on this host. The zero value works.
type Options struct {
	// State is the directory in which filecopy records the files that it creates; if "",
	// filecopy creates none.
	State string
	// Files limits what filecopy may do.
	Files filecopy.Options
	// KernelLog, if not nil, opens the kernel's log for pingpong.
	KernelLog func() (pingpong.LogReader, error)
}

// List returns new engines; a nil List is All.
type List func(Options) []engine.Engine

// Make returns the engines of the list.
func (list List) Make(o Options) []engine.Engine {
	if list == nil {
		return All(o)
	}
	return list(o)
}

// Kinds returns the metadata of the engines of the list.
func (list List) Kinds() traffic.Kinds {
	var kinds traffic.Kinds
	for _, e := range list.Make(Options{}) {
		kinds = append(kinds, e.Kind())
	}
	return kinds
}

// All returns a new instance of every engine. It is a List.
func All(o Options) []engine.Engine {
	bulk, datagrams := tcpbulk.New(), udpflow.New()
	return []engine.Engine{
		bulk, datagrams, pingpong.New(o.KernelLog), reqresp.New(), loaded.New(bulk, datagrams), filecopy.New(o.State, o.Files), packets.New(),
	}
}

// ByName returns the engine of list with that name. The error lists the known names.
func ByName(list []engine.Engine, name string) (engine.Engine, error) {
	var known []string
	for _, e := range list {
		if e.Name() == name {
			return e, nil
		}
		known = append(known, e.Name())
	}
	return nil, fmt.Errorf("engine %q: not one of %s", name, strings.Join(known, ", "))
}
