package path

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/health"
)

// Totals are what the interface called name counted since the machine was started.
func Totals(name string) fact.Of[health.Errors] { return totals(name) }
