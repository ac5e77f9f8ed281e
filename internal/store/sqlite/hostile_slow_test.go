//go:build slow

package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"linerate/internal/confined"
	"linerate/internal/core/model"
	"linerate/internal/core/packed"
	"linerate/internal/must"
	"linerate/internal/store/tables"
)

// TestMoreHostileValues is TestHostileValues with files that take long to make.
func TestMoreHostileValues(t *testing.T) {
	readHostile(t, []hostileValue{
		{"ends of nothing", `UPDATE runs SET ends = '[{}' || replace(hex(zeroblob(9000000)), '00', ',{}') || ']'`, `SELECT octet_length(ends) > 26000000 FROM runs`},
		{"samples of 40 MB", `INSERT INTO sample_parts VALUES (1, 9, 1, zeroblob(40000000))`, `SELECT max(octet_length(packed)) >= 40000000 FROM sample_parts`},
		{"a million changes", `INSERT INTO changes SELECT 1, 10 + x, '[]' FROM
			(WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1100000) SELECT x FROM c)`, `SELECT count(*) > 1100000 FROM changes`},
		{"ends of 300 MB", `INSERT INTO runs (session, number, state, document, ends) VALUES (1, 2, 'valid', '{}', zeroblob(300000000))`, `SELECT max(octet_length(ends)) >= 300000000 FROM runs`},
	})
}

// TestTooManySamples: reading refuses a run with more samples than any run can have.
func TestTooManySamples(t *testing.T) {
	confined.Run(t, 384<<20, hostileCPU, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "many.db")
		s := must.Get(Open(t.Context(), path))(t)
		err := errors.Join(s.CreateSession(t.Context(), model.Session{ID: "it", State: model.SessionDone}),
			s.AddRun(t.Context(), "it", model.Run{Number: 1}, make([]model.Sample, packed.MaxSamples), nil), s.Close())
		must.Do(t, err)
		for part := 1; part <= tables.MaxSamples/packed.MaxSamples; part++ {
			alter(t, path, fmt.Sprintf(`INSERT INTO sample_parts SELECT run, %d, count, packed FROM sample_parts WHERE part = 0`, part))
		}
		over, err := OpenFrozen(t.Context(), path, 0)
		must.Do(t, err)
		defer over.Close()
		n := 0
		for p, e := range over.Pieces(t.Context(), "it") {
			n, err = n+len(p.Samples), e
		}
		must.True(t, errors.Is(err, tables.ErrTooLarge) && n == tables.MaxSamples, "%d samples: %v", n, err)
	})
}
