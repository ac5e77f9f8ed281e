package sqlite

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store/storetest"
)

// TestHourSize: six minutes at one second, of 57 samples each, take less than the tenth of
// a MB that an hour of 1 MB allows them, beside the 0.2 MB that empty tables take.
func TestHourSize(t *testing.T) {
	want := storetest.Seconds(rand.New(rand.NewPCG(12, 6)), 360)
	var bytes [2]int64 // without any samples, and with them
	for i, samples := range [][]model.Sample{nil, want} {
		path := filepath.Join(t.TempDir(), "hour.db")
		s, err := Open(t.Context(), path)
		must.Do(t, err)
		session := model.Session{ID: "hour"}
		err = s.CreateSession(t.Context(), session)
		if err == nil {
			err = s.AddRun(t.Context(), session.ID, model.Run{Number: 1}, samples, nil)
		}
		got, readErr := s.Samples(t.Context(), session.ID, 1)
		must.Do(t, errors.Join(err, readErr, s.Close()))
		must.True(t, slices.Equal(samples, got), "what is packed reads as something else")
		info := must.Get(os.Stat(path))(t)
		bytes[i] = info.Size()
	}
	t.Logf("%d samples: %d bytes, without any %d", len(want), bytes[1], bytes[0])
	must.True(t, bytes[1] <= bytes[0]+100_000 && bytes[1] > bytes[0], "%d samples: %d bytes, without any %d", len(want), bytes[1], bytes[0])
}
