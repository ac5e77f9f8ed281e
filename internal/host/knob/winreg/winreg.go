// Package winreg reads and writes values of the Windows registry, where a missing value has a
// meaning too.
package winreg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Value is one value of one key below HKEY_LOCAL_MACHINE. It is safe for
// concurrent use.
type Value struct {
	key, name string
	store     store
}

// store is a registry.
type store interface {
	// get returns the value; false if the key has none of this name. It wraps fs.ErrNotExist
	// if there is no such key.
	get(key, name string) (data, bool, error)
	set(key, name string, d data) error
	remove(key, name string) error
}

// data is the content of a value.
type data struct {
	kind   kind
	number uint64 // for dword and qword
	text   string // for sz and expand
}

// kind is the type of a value, as the prefix of its text.
type kind string

const (
	dword  kind = "dword"  // REG_DWORD
	qword  kind = "qword"  // REG_QWORD
	sz     kind = "sz"     // REG_SZ, also for numbers in the keywords of adapters
	expand kind = "expand" // REG_EXPAND_SZ
)

// Absent is the text of a missing value. Writing it removes the value.
const Absent = "absent"

const hive = `HKLM\`

// Open returns the value at path, such as
// HKLM\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters\EnablePMTUDiscovery.
// It does not access the registry. It wraps errors.ErrUnsupported on systems other than
// Windows.
func Open(path string) (*Value, error) {
	s, err := system()
	if err != nil {
		return nil, fmt.Errorf("registry value %q: %w", path, err)
	}
	return open(s, path)
}

func open(s store, path string) (*Value, error) {
	rest, ok := strings.CutPrefix(path, hive)
	i := strings.LastIndex(rest, `\`)
	if !ok || i <= 0 || i == len(rest)-1 || strings.Contains(path, "\x00") {
		return nil, fmt.Errorf("registry value %q: want %sKEY\\NAME", path, hive)
	}
	return &Value{key: rest[:i], name: rest[i+1:], store: s}, nil
}

// Read returns the text: "dword:1", "sz:9014", or Absent. It wraps fs.ErrNotExist if there is
// no such key, and errors.ErrUnsupported for types that are neither a number nor a text.
func (v *Value) Read(context.Context) (string, error) {
	d, ok, err := v.store.get(v.key, v.name)
	switch {
	case err != nil:
		return "", v.wrap(err)
	case !ok:
		return Absent, nil
	}
	return d.String(), nil
}

// Check reports whether raw could be written: a value of a type, of the present type if there
// is one, in a key that exists.
func (v *Value) Check(_ context.Context, raw string) error {
	now, ok, err := v.store.get(v.key, v.name)
	if err != nil {
		return v.wrap(err)
	}
	if raw == Absent {
		return nil
	}
	d, err := parse(raw)
	if err == nil && ok && d.kind != now.kind {
		err = fmt.Errorf("%s of type %s: it has type %s", raw, d.kind, now.kind)
	}
	if err != nil {
		return v.wrap(err)
	}
	return nil
}

// Write sets the value, or removes it if raw is Absent. It wraps fs.ErrPermission without
// administrator rights.
func (v *Value) Write(ctx context.Context, raw string) error {
	if err := v.Check(ctx, raw); err != nil {
		return err
	}
	if raw == Absent {
		if err := v.store.remove(v.key, v.name); err != nil {
			return v.wrap(err)
		}
		return nil
	}
	d, err := parse(raw)
	if err == nil {
		err = v.store.set(v.key, v.name, d)
	}
	if err != nil {
		return v.wrap(err)
	}
	return nil
}

func (v *Value) wrap(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("registry key %s%s: %w", hive, v.key, err)
	default:
		return fmt.Errorf("registry value %s: %w", v.name, err)
	}
}

// String returns the text that parse parses.
func (d data) String() string {
	if d.kind == dword || d.kind == qword {
		return string(d.kind) + ":" + strconv.FormatUint(d.number, 10)
	}
	return string(d.kind) + ":" + d.text
}

// parse parses a text. Real input:
//
//	dword:4294967295
//	sz:9014
//	expand:%SystemRoot%\System32
func parse(raw string) (data, error) {
	word, rest, ok := strings.Cut(raw, ":")
	d := data{kind: kind(word)}
	width := map[kind]int{dword: 32, qword: 64}[d.kind]
	switch {
	case ok && width > 0:
		n, err := strconv.ParseUint(rest, 10, width)
		if err != nil {
			return data{}, fmt.Errorf("%q: want a number of %d bits", raw, width)
		}
		d.number = n
		return d, nil
	case ok && (d.kind == sz || d.kind == expand) && !strings.Contains(rest, "\x00"):
		d.text = rest
		return d, nil
	}
	return data{}, fmt.Errorf("%q: want dword:N, qword:N, sz:TEXT, expand:TEXT or %s", raw, Absent)
}
