package access_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/control/access"
	"linerate/internal/must"
)

func ring(t *testing.T, s access.Store) *access.Ring {
	t.Helper()
	r := must.Get(s.Ring(func(line string) { t.Log(line) }))(t)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func add(t *testing.T, s access.Store, name string, right access.Right, expires time.Time) []byte {
	t.Helper()
	_, secret, err := s.Add(name, right, expires)
	must.Do(t, err)
	return secret
}

func over(g *access.Grant) bool {
	select {
	case <-g.Over:
		return true
	default:
		return false
	}
}

// TestKeyComesAndGoes follows a key through a running server.
func TestKeyComesAndGoes(t *testing.T) {
	s := access.Store{Dir: t.TempDir()}
	r := ring(t, s)
	_, ok := r.Find(nil)
	must.True(t, !ok, "nothing opens it")
	secret := add(t, s, "ci", access.Measure, time.Time{})
	other := add(t, s, "ops.2", access.Tune, time.Time{})
	g, ok := r.Find(secret)
	must.Need(t, ok && g.Name == "ci" && g.Right == access.Measure && !over(g), "%+v, %v", g, ok)
	o, ok := r.Find(other)
	must.Need(t, ok && o.Right == access.Tune, "%+v, %v", o, ok)
	for _, wrong := range [][]byte{nil, {}, secret[:31], append(bytes.Clone(secret), 0), bytes.Repeat([]byte{7}, 32)} {
		_, ok := r.Find(wrong)
		must.True(t, !ok, "%x opens it", wrong)
	}
	_, _, err := s.Add("ci", access.Tune, time.Time{})
	must.True(t, errors.Is(err, access.ErrExists), "added twice: %v", err)
	must.Get(s.Revoke("ci"))(t)
	if _, ok := r.Find(secret); ok || !over(g) || over(o) {
		t.Errorf("after it was revoked: found %v, over %v, the other over %v", ok, over(g), over(o))
	}
	must.Is(t, must.Err(s.Revoke("ci")), access.ErrUnknown, "revoked twice")
	again := add(t, s, "ci", access.Tune, time.Time{})
	must.True(t, !bytes.Equal(again, secret), "the same secret again")
	_, ok = r.Find(secret)
	must.True(t, !ok, "the old secret opens the new key")
	g, ok = r.Find(again)
	must.True(t, ok && g.Right == access.Tune, "%+v, %v", g, ok)
	keys := must.Get(s.List())(t)
	must.True(t, len(keys) == 2 && keys[0].Name == "ci" && keys[1].Name == "ops.2", "%+v", keys)
	must.OK(t, r.Close()) // which writes the times of use
	used := s.Used()
	must.True(t, time.Since(used[access.HashOf(again)]) <= time.Minute && len(used) == 3, "used: %v", used)
}

// TestWatchEndsSessions: Watch notices a revoked and an expired key within a second, without a
// look-up.
func TestWatchEndsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := access.Store{Dir: t.TempDir()}
		r := ring(t, s)
		secrets := [][]byte{add(t, s, "a", access.Tune, time.Time{}), add(t, s, "b", access.Measure, time.Now().Add(time.Hour))}
		go r.Watch(t.Context())
		var grants []*access.Grant
		for _, secret := range secrets {
			g, ok := r.Find(secret)
			must.Need(t, ok, "a valid key is not found")
			grants = append(grants, g)
		}
		began := time.Now()
		must.Get(s.Revoke("a"))(t)
		<-grants[0].Over
		took := time.Since(began)
		must.True(t, took <= 2*time.Second, "noticed after %v", took)
		<-grants[1].Over
		took = time.Since(began)
		must.True(t, took >= 59*time.Minute && took <= 61*time.Minute, "the hour took %v", took)
		_, ok := r.Find(secrets[1])
		must.True(t, !ok, "an expired key is found")
		_, _, err := s.Add("b", access.Measure, time.Time{})
		must.True(t, err == nil, "an expired key makes no room: %v", err)
	})
}

// TestSecretsAreNotStored searches all files on disk.
func TestSecretsAreNotStored(t *testing.T) {
	s := access.Store{Dir: t.TempDir()}
	secret := add(t, s, "ci", access.Measure, time.Now().Add(time.Hour))
	r := ring(t, s)
	r.Find(secret)
	must.Do(t, r.Close())
	files := 0
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		for _, form := range [][]byte{secret, fmt.Appendf(nil, "%x", secret), []byte(base64.StdEncoding.EncodeToString(secret)[:20]), []byte(base64.RawURLEncoding.EncodeToString(secret)[:20])} {
			must.True(t, !bytes.Contains(b, form), "%s holds the secret", path)
		}
		info, ierr := d.Info()
		must.True(t, runtime.GOOS == "windows" || ierr == nil && info.Mode().Perm() == 0o600, "%s has mode %v, %v", path, info.Mode(), ierr)
		return err
	})
	must.True(t, err == nil && files >= 3, "%d files, %v", files, err)
}

// TestDefault makes the first key, and takes over the secret of a start that was cut short.
func TestDefault(t *testing.T) {
	s := access.Store{Dir: t.TempDir()}
	first, made, err := s.Default()
	must.Need(t, err == nil && made && len(first) == access.SecretBytes, "%x, %v, %v", first, made, err)
	second, made, err := s.Default()
	must.True(t, err == nil && !made && bytes.Equal(first, second), "the second start: %x, %v, %v", second, made, err)
	r := ring(t, s)
	g, ok := r.Find(first)
	must.True(t, ok && g.Name == "default" && g.Right == access.Measure, "%+v, %v", g, ok)
	must.Get(s.Revoke("default"))(t)
	third, made, err := s.Default()
	must.True(t, err == nil && !made && third == nil, "a start after default was revoked: %x, %v, %v", third, made, err)
	shown := must.Get(s.Shown())(t)
	must.True(t, shown == nil, "the secret of a revoked key is shown: %x", shown)
	_, ok = r.Find(first)
	must.True(t, !ok, "revoked, it opens")
	added := add(t, s, "default", access.Tune, time.Time{})
	if secret, made, err := s.Default(); err != nil || made || secret != nil {
		t.Errorf("a start after default was added by hand: %x, %v, %v", secret, made, err)
	}
	g, ok = r.Find(added)
	must.True(t, ok && g.Right == access.Tune, "%+v, %v", g, ok)

	cut := access.Store{Dir: t.TempDir()}
	secret := bytes.Repeat([]byte{9}, 32)
	must.Do(t, os.WriteFile(filepath.Join(cut.Dir, "serve-measure.txt"), []byte(base64.RawURLEncoding.EncodeToString(secret)), 0o600))
	if got, made, err := cut.Default(); err != nil || made || !bytes.Equal(got, secret) {
		t.Errorf("of a start that was cut short: %x, %v, %v", got, made, err)
	}
	g, ok = ring(t, cut).Find(secret)
	must.True(t, ok && g.Name == "default", "%+v, %v", g, ok)
	must.Do(t, os.WriteFile(filepath.Join(cut.Dir, "serve-measure.txt"), []byte("damaged"), 0o600))
	_, _, err = cut.Default()
	must.True(t, err != nil, "a damaged secret is accepted")
}

// TestManyAtOnce: several commands that run at the same time lose no key.
func TestManyAtOnce(t *testing.T) {
	s := access.Store{Dir: t.TempDir()}
	r := ring(t, s)
	secrets := make([][]byte, 8)
	defaults := make([][]byte, len(secrets))
	var all sync.WaitGroup
	for i := range secrets {
		all.Go(func() {
			var err error
			_, secrets[i], err = s.Add(fmt.Sprint("k", i), access.Measure, time.Time{})
			must.OK(t, err)
			defaults[i], _, err = s.Default()
			must.OK(t, err)
			r.Find(nil)
		})
	}
	all.Wait()
	for i := range secrets {
		g, ok := r.Find(secrets[i])
		must.True(t, ok && g.Name == fmt.Sprint("k", i), "key %d: %+v", i, g)
		must.True(t, bytes.Equal(defaults[i], defaults[0]), "two servers that started at once differ")
	}
}

// TestDamage: a damaged key file admits no new client and turns no known one away.
func TestDamage(t *testing.T) {
	s := access.Store{Dir: t.TempDir()}
	secret := add(t, s, "ci", access.Measure, time.Time{})
	var told []string
	r := must.Get(s.Ring(func(line string) { told = append(told, line) }))(t)
	defer func() { _ = r.Close() }()
	path := filepath.Join(s.Dir, "keys", "keys.json")
	good := must.Get(os.ReadFile(path))(t)
	for _, bad := range []string{
		"", "{", `{"v":2,"keys":[]}`, `{"v":1,"keys":[{"name":"x/y","right":"measure","sha256":"` + strings.Repeat("0", 64) + `"}]}`,
		`{"v":1,"keys":[{"name":"x","right":"all","sha256":"` + strings.Repeat("0", 64) + `"}]}`, `{"v":1,"keys":[{"name":"x","right":"tune","sha256":"00"}]}`,
		strings.Replace(string(good), "}\n ]", "},\n"+string(good[bytes.IndexByte(good, '[')+1:bytes.LastIndexByte(good, ']')])+"]", 1),
	} {
		must.Do(t, os.WriteFile(path, []byte(bad), 0o600))
		must.Is(t, must.Err(s.List()), access.ErrDamaged, "%.40q", bad)
		_, _, err := s.Add("other", access.Tune, time.Time{})
		must.True(t, errors.Is(err, access.ErrDamaged), "added to %.40q: %v", bad, err)
		told = nil
		for range 3 {
			_, ok := r.Find(secret)
			must.True(t, ok, "%.40q: the key is gone", bad)
		}
		must.Equal(t, len(told), 1, "%.40q: told %q", bad, told)
	}
	must.Do(t, os.Remove(path)) // by the owner, on purpose
	_, ok := r.Find(secret)
	must.True(t, !ok, "a key of a file that was removed")
	must.Do(t, os.WriteFile(path, good, 0o600))
	_, ok = r.Find(secret)
	must.True(t, ok, "the file is back, the key is not")
}

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "CI-2.x_y", "0", strings.Repeat("n", 32)} {
		must.OK(t, access.CheckName(good), "%q", good)
	}
	for _, bad := range []string{"", "-a", ".", "..", "a b", "a/b", "ä", "a\n", "\x1b", strings.Repeat("n", 33)} {
		must.Is(t, access.CheckName(bad), access.ErrName, "%q", bad)
		_, _, err := (access.Store{Dir: t.TempDir()}).Add(bad, access.Measure, time.Time{})
		must.True(t, errors.Is(err, access.ErrName), "%q is added: %v", bad, err)
	}
}

// FuzzKeys: reading any file does not panic; an accepted one is written unchanged.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"v":1,"keys":[{"name":"x","right":"tune","created":"2026-11-22T08:00:00Z","sha256":"` + strings.Repeat("0a", 32) + `"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := access.Store{Dir: t.TempDir()}
		must.Do(t, os.Mkdir(filepath.Join(s.Dir, "keys"), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(s.Dir, "keys", "keys.json"), b, 0o600))
		before, err := s.List()
		if err != nil {
			return
		}
		_, secret, err := s.Default()
		if err != nil {
			return // a name or time that cannot be written
		}
		after, err := s.List()
		must.True(t, err == nil && len(after) >= len(before), "%d keys became %d, %v, %v", len(before), len(after), err, secret)
	})
}
