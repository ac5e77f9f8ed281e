package persist_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// A proof is replaced beside its files, which go back as before; a crash after any step
// leaves the old proof or the new one, and never none.
func TestRenew(t *testing.T) {
	for _, crash := range []string{"", "renewing record.json", "renewing record.copy.json"} {
		k := keeper(t)
		before := tree(t, k.Root)
		k.About = persist.About{Source: "a session", Proof: "old"}
		r := must.Get(k.Write(day, ours()))(t)
		written := tree(t, k.Root)
		func() {
			defer func() { _ = recover() }()
			k.After = func(step string) {
				if step == crash {
					panic(step)
				}
			}
			must.OK(t, k.Renew(r.ID, "new"))
		}()
		k.After = nil
		all, err := k.Peek()
		if err != nil || len(all) != 1 || all[0].Proof != "new" && (crash == "" || all[0].Proof != "old") || all[0].Source != "a session" || all[0].Damage != "" {
			t.Errorf("crash at %q: %+v, %v", crash, all, err)
		}
		got := tree(t, k.Root)
		must.True(t, len(got) == len(written), "crash at %q: %v", crash, got)
		must.OK(t, must.Err(k.Restore("")))
		if got := tree(t, k.Root); len(got) != len(before) {
			t.Errorf("crash at %q: %v is left", crash, got)
		}
	}
}

// A record that nobody keeps has no proof to replace, and a damaged one is told as that.
func TestRenewRefuses(t *testing.T) {
	k := keeper(t)
	must.Is(t, k.Renew("000001", "new"), fs.ErrNotExist)
	r := must.Get(k.Write(day, ours()))(t)
	for _, name := range []string{"record.json", "record.copy.json"} {
		must.Do(t, os.WriteFile(filepath.Join(k.State, "kept", r.ID, name), []byte("{"), 0o600))
	}
	must.Is(t, k.Renew(r.ID, "new"), persist.ErrDamaged)
}
