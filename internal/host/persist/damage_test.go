package persist_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// twoKept writes two files in two records.
func twoKept(t *testing.T) persist.Keeper {
	t.Helper()
	k := persist.Keeper{Root: t.TempDir(), State: t.TempDir()}
	must.Do(t, os.Mkdir(filepath.Join(k.Root, "etc"), 0o755))
	for i, name := range []string{"/etc/a", "/etc/b"} {
		must.Get(k.Write(time.Unix(int64(i), 0), []files.File{{Path: name, Content: []byte("x\n"), Mode: 0o644}}))(t)
	}
	return k
}

// TestDamagedRecords: a byte that flips, a torn end and a lost file in one copy of
// a record cost nothing; in both copies they cost that record alone, which is told
// until somebody removes it.
func TestDamagedRecords(t *testing.T) {
	damages := map[string]func([]byte) []byte{
		"gone":  func([]byte) []byte { return nil },
		"empty": func([]byte) []byte { return []byte{} },
		"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
	}
	for _, tenth := range []int{1, 3, 5, 7, 9} {
		damages[fmt.Sprintf("torn at %d0%%", tenth)] = func(b []byte) []byte { return b[:len(b)*tenth/10] }
		damages[fmt.Sprintf("flipped at %d0%%", tenth)] = func(b []byte) []byte {
			b = bytes.Clone(b)
			b[len(b)*tenth/10] ^= 0x10
			return b
		}
	}
	for name, damage := range damages {
		for which, names := range map[string][]string{"first": {"record.json"}, "second": {"record.copy.json"}, "both": {"record.json", "record.copy.json"}} {
			t.Run(name+"/"+which, func(t *testing.T) {
				k := twoKept(t)
				for _, file := range names {
					path := filepath.Join(k.State, "kept", "000002", file)
					b, err := os.ReadFile(path)
					must.Do(t, err)
					if b = damage(b); b == nil {
						err = os.Remove(path)
					} else {
						err = os.WriteFile(path, b, 0o600)
					}
					must.Do(t, err)
				}
				results, err := k.Restore("")
				lost := which == "both"
				must.True(t, errors.Is(err, persist.ErrDamaged) == lost && len(results) == 2 && (results[0].State == model.FileFailed) == lost && results[1].State == model.FileRestored, "Restore = %+v, %v", results, err)
				left, _ := os.ReadDir(filepath.Join(k.Root, "etc"))
				must.Equal(t, len(left) > 0, lost, "left: %v", left)
				if !lost {
					return
				}
				records := must.Get(k.Records())(t)
				must.True(t, len(records) == 1 && strings.Contains(records[0].Damage, "000002"), "Records = %+v", records)
				must.Is(t, must.Err(k.Restore("")), persist.ErrDamaged, "told once only")
				r := must.Get(k.Write(time.Unix(9, 0), []files.File{{Path: "/etc/c", Content: []byte("x\n"), Mode: 0o644}}))(t)
				must.True(t, r.ID == "000003", "Write beside it: %+v", r)
			})
		}
	}
}

// TestNewerRecord is refused, and nothing of it is dropped.
func TestNewerRecord(t *testing.T) {
	k := twoKept(t)
	for _, name := range []string{"record.json", "record.copy.json"} {
		must.Do(t, os.WriteFile(filepath.Join(k.State, "kept", "000001", name), []byte(`{"v":2,"what":"unknown"}`), 0o600))
	}
	results, err := k.Restore("")
	must.True(t, errors.Is(err, persist.ErrNewer) && len(results) == 0, "Restore = %+v, %v", results, err)
	must.Is(t, must.Err(k.Write(time.Unix(9, 0), []files.File{{Path: "/etc/c", Content: []byte("x\n"), Mode: 0o644}})), persist.ErrNewer, "Write")
	left, _ := os.ReadDir(filepath.Join(k.Root, "etc"))
	must.True(t, len(left) == 2, "left: %v", left)
}
