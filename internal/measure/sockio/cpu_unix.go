//go:build linux || freebsd || darwin

package sockio

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

func processCPU() (CPUTime, error) { return usage("process", unix.RUSAGE_SELF) }

// usage returns getrusage(2) for who. Errors name it as what.
func usage(what string, who int) (CPUTime, error) {
	var r unix.Rusage
	if err := unix.Getrusage(who, &r); err != nil {
		return CPUTime{}, fmt.Errorf("read cpu time of %s: %w", what, err)
	}
	return CPUTime{
		User:   time.Duration(unix.TimevalToNsec(r.Utime)),
		System: time.Duration(unix.TimevalToNsec(r.Stime)),
	}, nil
}
