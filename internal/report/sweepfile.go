package report

import (
	"fmt"
	"io"

	"linerate/internal/core/traffic/sizes"
)

// WriteNetPIPE writes the curve of d to w as NetPIPE 3.x writes its np.out, for
// programs that read such files: per line bytes, rate and seconds of one
// message one way, of the fastest trial. The rate is in 2^20 bits per second;
// where both ends sent at the same time, bytes and rate are those of both
// together (docs/wire/netpipe.md, "np.out"). Sizes without a time have no line.
func WriteNetPIPE(w io.Writer, d SweepDirection, mode string) error {
	factor := int64(1)
	if mode == sizes.Both {
		factor = 2
	}
	for _, s := range d.Curve.Sizes {
		if s.Trials == 0 {
			continue
		}
		bytes, seconds := factor*int64(s.Size), s.Min.Seconds()
		if _, err := fmt.Fprintf(w, "%8d %f %12.8f\n", bytes, float64(bytes)*8/(seconds*(1<<20)), seconds); err != nil {
			return fmt.Errorf("write np.out: %w", err)
		}
	}
	return nil
}
