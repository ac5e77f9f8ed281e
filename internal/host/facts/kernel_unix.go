//go:build unix

package facts

import (
	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
)

// kernel returns the release from uname(2): "6.8.0-45-generic", "14.1-RELEASE".
func kernel() fact.Of[string] {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fact.Unknown[string]("uname: " + err.Error())
	}
	return fact.Known(unix.ByteSliceToString(u.Release[:]), "uname")
}
