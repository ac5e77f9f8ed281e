package path

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/health"
)

// Totals returns the errors that the interface called name has counted since boot.
func Totals(name string) fact.Of[health.Errors] { return totals(name) }
