package facts

import (
	"fmt"

	"golang.org/x/sys/windows"

	"linerate/internal/core/fact"
)

// kernel returns the version that no application manifest alters: "10.0.20348".
func kernel() fact.Of[string] {
	v := windows.RtlGetVersion()
	return fact.Known(fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber), "RtlGetVersion")
}
