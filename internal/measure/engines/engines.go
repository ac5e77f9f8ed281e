// Package engines lists the engines that linerate has.
package engines

import (
	"fmt"
	"strings"

	"linerate/internal/measure/engine"
	"linerate/internal/measure/tcpbulk"
)

// All returns every engine, new.
func All() []engine.Engine {
	return []engine.Engine{tcpbulk.New()}
}

// ByName returns the engine that is called name, new. The error names those
// that there are.
func ByName(name string) (engine.Engine, error) {
	var known []string
	for _, e := range All() {
		if e.Name() == name {
			return e, nil
		}
		known = append(known, e.Name())
	}
	return nil, fmt.Errorf("engine %q: not one of %s", name, strings.Join(known, ", "))
}
