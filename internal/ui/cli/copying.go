package cli

import (
	"fmt"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/units"
	"linerate/internal/ui/screen"
)

// Copies that end within copyPatience get one line. Longer ones report their progress, every
// copyLines if stderr is not a terminal.
const (
	copyPatience = 2 * time.Second
	copyLines    = 5 * time.Second
)

// copying reports the progress of copying this program to a host.
func (a *console) copying(e app.Copying) {
	switch {
	case a.quiet:
	case e.Done == 0:
		a.copied = 0
		a.talk("copying linerate to %s (%s)", e.Host, units.Bytes(e.Bytes))
	case a.ErrTerminal && a.Getenv("TERM") != "dumb":
		if e.Done == e.Bytes {
			screen.Line(a.Err, "")
		} else if e.Elapsed >= copyPatience {
			screen.Line(a.Err, copyLine(e))
		}
	case e.Elapsed >= copyPatience && e.Elapsed-a.copied >= copyLines && e.Done < e.Bytes:
		a.copied = e.Elapsed
		a.talk("%s", copyLine(e))
	}
}

// copyLine says how much of a copy is done, how fast it goes and how long it will take.
func copyLine(e app.Copying) string {
	rate := float64(e.Done) / e.Elapsed.Seconds() // bytes/s
	left := time.Duration(float64(e.Bytes-e.Done) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("copying linerate to %s: %s of %s, %s, %s left", e.Host, units.Bytes(e.Done), units.Bytes(e.Bytes),
		units.BitRate(rate*8), units.FormatDuration(max(left, time.Second)))
}
