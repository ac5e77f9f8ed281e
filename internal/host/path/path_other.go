//go:build !linux

package path

import (
	"net/netip"
	"runtime"

	"linerate/internal/core/fact"
	"linerate/internal/core/health"
)

// here reports nothing beyond the facts: none of linerate's libraries reads it on this
// system.
func here() system { return silent{} }

type silent struct{}

func (silent) remote(string, netip.Addr) (netip.Addr, bool) { return netip.Addr{}, false }
func (silent) route(netip.Addr) (name, gw string, ok bool)  { return "", "", false }
func (silent) active(string) (string, bool)                 { return "", false }
func (silent) port(string, netip.Addr) (string, bool)       { return "", false }
func (silent) other(string) (string, bool)                  { return "", false }
func (silent) hardware(netip.Addr) (string, bool)           { return "", false }

func totals(string) fact.Of[health.Errors] {
	return fact.Unknown[health.Errors]("counters since the start are not read on " + runtime.GOOS)
}
