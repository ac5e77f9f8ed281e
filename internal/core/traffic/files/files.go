// Package files holds the parameters of engine filecopy.
package files

import (
	"fmt"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/fault"
)

// Name is the engine's name.
const Name = "filecopy"

// Params are the parameters.
type Params struct {
	Mode   string `json:"mode,omitempty"`   // Copy ("" too) or one part alone
	Source string `json:"source,omitempty"` // at the sender: InMemory ("" too), OnDisk, or the path of a file or folder
	Sink   string `json:"sink,omitempty"`   // at the receiver: InMemory ("" too), OnDisk, or the path of a folder or of a new file
	Direct bool   `json:"direct,omitempty"` // past the page cache (O_DIRECT and its like)
	Sync   bool   `json:"sync,omitempty"`   // flushing to the disk is part of the timed write
	Plain  bool   `json:"plain,omitempty"`  // read and write through user memory even if sendfile is possible
}

// The sources and sinks that are not paths.
const (
	InMemory = "memory" // a file in a RAM disk
	OnDisk   = "disk"   // a file of linerate's on a disk
)

// The modes of a copy. The parts alone send nothing over the network; the end that does the
// work reports as the direction's receiver.
const (
	Copy    = "copy"    // source to sink over the network
	Network = "network" // memory to memory, no files
	Read    = "read"    // the sender reads its source alone
	Write   = "write"   // the receiver writes its sink alone
	Memory  = "memory"  // the sender copies memory to memory alone
)

// Of returns the parameters of f; false if f is of another engine, or they cannot be parsed.
func Of(f model.Flow) (Params, bool) {
	if f.Engine != Name {
		return Params{}, false
	}
	p, err := traffic.Read[Params](f.Params)
	return p, err == nil
}

// factors returns the parameters in which settings may differ: source and sink of a copy.
func factors() []traffic.Option {
	place := func(name string, at func(p *Params) *string) traffic.Option {
		return traffic.Param(traffic.Option{Name: name}, Place, at)
	}
	return []traffic.Option{
		place("source", func(p *Params) *string { return &p.Source }),
		place("sink", func(p *Params) *string { return &p.Sink }),
	}
}

// Kind is the kind of traffic.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Command: "copy", Why: "copies are not compared by plans", Options: factors(),
		Demand: func(f model.Flow) traffic.Demand {
			p, _ := traffic.Read[Params](f.Params)
			return traffic.Demand{Stored: true, Paths: isPath(p.Source) || isPath(p.Sink)}
		},
		// The sender measures the parts that it runs alone.
		Measures: func(f model.Flow, d model.Direction) model.Host {
			if p, _ := Of(f); p.Mode == Read || p.Mode == Memory {
				return d.Sender()
			}
			return d.Receiver()
		},
	}
}

// Place parses an end of a copy: InMemory, OnDisk, or a path with a separator in it.
func Place(text string) (string, error) {
	if strings.ContainsAny(text, `/\`) || !isPath(text) && text != "" {
		return text, nil
	}
	return "", fault.New(fault.Usage, fmt.Errorf("%.60q is not disk, memory or a path", text), "a file of the folder that you are in is written ./%s", text)
}

// isPath reports whether the end of a copy is not one of linerate's keywords.
func isPath(s string) bool { return s != "" && s != InMemory && s != OnDisk }
