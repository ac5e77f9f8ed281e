//go:build truth

package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestBulk stores one long run and demands that a sample costs less than a transaction: 10,000
// samples must cost less than 100 runs of one sample.
func TestBulk(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		s := open(t, filepath.Join(try.TempDir(), "results.db"))
		must.Do(try, s.CreateSession(try.Context(), model.Session{ID: "bulk"}))
		clock := func(f func() error) time.Duration {
			try.Helper()
			began := time.Now()
			must.Do(try, f())
			return time.Since(began)
		}
		one := make([]model.Sample, 1)
		single := clock(func() error {
			for n := range 100 {
				if err := s.AddRun(try.Context(), "bulk", model.Run{Number: n + 1}, one, nil); err != nil {
					return err
				}
			}
			return nil
		})
		bulk := clock(func() error {
			return s.AddRun(try.Context(), "bulk", model.Run{Number: 1000}, make([]model.Sample, 10_000), nil)
		})
		try.Claim("10,000 samples in one run, over 100 runs of one", bulk.Seconds()/single.Seconds(), 0, 100, "")
	})
}
