package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"linerate/internal/host/durable"
)

// Names of files below a server's directory.
const (
	keysDir    = "keys"              // read by a running server
	keysFile   = "keys.json"         // in keysDir
	lockFile   = "lock"              // in keysDir
	secretFile = "serve-measure.txt" // base64url of the secret of the key "default"
)

// Limits of the key file.
const (
	version  = 1
	maxKeys  = 1000    // including revoked ones
	maxFile  = 4 << 20 // bytes
	patience = 5 * time.Second
	retry    = 20 * time.Millisecond
)

// Store is a server's keys. It is safe for use by several processes.
type Store struct {
	Dir string           // of the server's files
	Now func() time.Time // nil is time.Now
}

// document is the content of the key file.
type document struct {
	Version int   `json:"v"`
	Keys    []Key `json:"keys"`
}

func (s Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Add makes a key and returns its secret, which it does not store. A revoked or expired key
// of that name is replaced. The error wraps ErrName, ErrExists or ErrDamaged.
func (s Store) Add(name string, right Right, expires time.Time) (Key, []byte, error) {
	if err := CheckName(name); err != nil {
		return Key{}, nil, err
	}
	if !right.valid() {
		return Key{}, nil, fmt.Errorf("%q is no right", right)
	}
	secret, err := newSecret()
	if err != nil {
		return Key{}, nil, err
	}
	now := s.now()
	k := Key{Name: name, Right: right, Created: now.UTC().Truncate(time.Second), Hash: HashOf(secret)}
	if !expires.IsZero() {
		k.Expires = expires.UTC().Truncate(time.Second)
	}
	err = s.change(func(d *document) error {
		if i := d.find(name); i >= 0 {
			if d.Keys[i].State(now) == Valid {
				return fmt.Errorf("%w: %s", ErrExists, name)
			}
			d.Keys = slices.Delete(d.Keys, i, i+1)
		}
		if len(d.Keys) >= maxKeys {
			return fmt.Errorf("there are %d keys already, at most %d", len(d.Keys), maxKeys)
		}
		d.Keys = append(d.Keys, k)
		return nil
	})
	if err != nil {
		return Key{}, nil, err
	}
	if name == DefaultName { // the readable secret is not that of the new key
		if err := os.Remove(filepath.Join(s.Dir, secretFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Key{}, nil, fmt.Errorf("remove the secret of the key before: %w", err)
		}
	}
	return k, secret, nil
}

// Revoke revokes a key. The error wraps ErrUnknown if no unrevoked key has that name, or
// ErrDamaged.
func (s Store) Revoke(name string) (Key, error) {
	var revoked Key
	err := s.change(func(d *document) error {
		i := d.find(name)
		if i < 0 || !d.Keys[i].Revoked.IsZero() {
			return fmt.Errorf("%w: %.40q", ErrUnknown, name)
		}
		d.Keys[i].Revoked, d.Keys[i].Shown = s.now().UTC().Truncate(time.Second), false
		revoked = d.Keys[i]
		return nil
	})
	if err == nil && name == DefaultName { // it opens nothing any more
		if err := os.Remove(filepath.Join(s.Dir, secretFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return revoked, fmt.Errorf("%s is revoked; remove its secret: %w", name, err)
		}
	}
	return revoked, err
}

// List returns all keys by name, none if there is no file.
func (s Store) List() ([]Key, error) {
	f, err := os.Open(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	defer func() { _ = f.Close() }()
	d, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path(), err)
	}
	return d.Keys, nil
}

// Default makes the key "default", with the right to measure, unless it exists. If an
// earlier start was interrupted between its two files, Default takes over that secret. made
// reports a new secret. A revoked key stays revoked. If the key was added by hand, Default
// leaves it alone and returns a nil secret.
func (s Store) Default() (secret []byte, made bool, err error) {
	err = s.change(func(d *document) error {
		i := d.find(DefaultName)
		if i >= 0 && !d.Keys[i].Shown {
			return errSame
		}
		if secret, err = s.Shown(); err != nil {
			return err
		}
		if secret == nil {
			if secret, err = newSecret(); err != nil {
				return err
			}
			made = true
			text := []byte(base64.RawURLEncoding.EncodeToString(secret))
			if err := replace(s.Dir, secretFile, text, 0o600); err != nil {
				return fmt.Errorf("write secret: %w", err)
			}
		}
		hash := HashOf(secret)
		switch {
		case i < 0:
			d.Keys = append(d.Keys, Key{Name: DefaultName, Right: Measure, Created: s.now().UTC().Truncate(time.Second), Hash: hash, Shown: true})
		case d.Keys[i].Hash != hash:
			d.Keys[i].Hash = hash
		default:
			return errSame
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return secret, made, nil
}

// Shown returns the readable secret of the key "default", or nil if there is none: the key
// was revoked, or added by hand.
func (s Store) Shown() ([]byte, error) {
	name := filepath.Join(s.Dir, secretFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	secret, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(secret) != SecretBytes {
		return nil, fmt.Errorf("read %s: not a secret; remove the file for a new one", name)
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, fmt.Errorf("protect secret: %w", err)
	}
	return secret, nil
}

// errSame reports that a change has no effect.
var errSame = errors.New("nothing to change")

func (s Store) path() string { return filepath.Join(s.Dir, keysDir, keysFile) }

// change calls do with the keys, under the lock, and writes the result.
func (s Store) change(do func(d *document) error) error {
	dir := filepath.Join(s.Dir, keysDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the keys: %w", err)
	}
	unlock, err := lock(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	defer unlock()
	keys, err := s.List()
	if err != nil {
		return err
	}
	d := document{Version: version, Keys: keys}
	if err := do(&d); err != nil {
		if errors.Is(err, errSame) {
			return nil
		}
		return err
	}
	slices.SortFunc(d.Keys, byName)
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o040 != 0 {
		mode |= 0o040 // a server without root reads it; see Ring.Share
	}
	if err := replace(dir, keysFile, append(text, '\n'), mode); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	return nil
}

// lock locks out other processes until unlock is called.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock keys: %w", err)
	}
	if err := adopt(f, filepath.Dir(name)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock keys: %w", err), f.Close())
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		err := durable.Lock(f)
		if err == nil {
			return func() { _ = durable.Close(f) }, nil
		}
		if !errors.Is(err, durable.ErrLocked) {
			return nil, errors.Join(fmt.Errorf("lock keys: %w", err), f.Close())
		}
		select {
		case <-late.C:
			return nil, errors.Join(fmt.Errorf("lock keys: %w", err), f.Close())
		case <-again.C:
		}
	}
}

// replace atomically writes b to the file name in dir: after a crash the file is the old or
// the new one.
func replace(dir, name string, b []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = adopt(f, dir)
	}
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return durable.SyncDir(dir)
}

// read parses a key file. The error wraps ErrDamaged.
func read(r io.Reader) (document, error) {
	var d document
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return d, err
	case len(text) > maxFile:
		return d, fmt.Errorf("%w: it has more than %d bytes", ErrDamaged, maxFile)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if d.Version != version {
		return d, fmt.Errorf("%w: it is of version %d, this linerate knows %d", ErrDamaged, d.Version, version)
	}
	if len(d.Keys) > maxKeys {
		return d, fmt.Errorf("%w: %d keys", ErrDamaged, len(d.Keys))
	}
	slices.SortFunc(d.Keys, byName)
	for i, k := range d.Keys {
		err := CheckName(k.Name)
		if err == nil && !k.Right.valid() {
			err = fmt.Errorf("%q is no right", k.Right)
		}
		if err == nil && i > 0 && d.Keys[i-1].Name == k.Name {
			err = fmt.Errorf("%s is there twice", k.Name)
		}
		if err != nil {
			return d, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return d, nil
}

func byName(a, b Key) int { return strings.Compare(a.Name, b.Name) }

func (d document) find(name string) int {
	return slices.IndexFunc(d.Keys, func(k Key) bool { return k.Name == name })
}
