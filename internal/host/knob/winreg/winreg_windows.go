package winreg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

func system() (store, error) { return machine{}, nil }

// machine is the 64-bit view of this machine's registry.
type machine struct{}

func (machine) get(key, name string) (data, bool, error) {
	k, err := openKey(key, registry.QUERY_VALUE)
	if err != nil {
		return data{}, false, err
	}
	defer k.Close() // nothing was written
	kindOf, raw, err := whole(k, name)
	if errors.Is(err, registry.ErrNotExist) {
		return data{}, false, nil
	}
	if err != nil {
		return data{}, false, classify(err)
	}
	d, err := decode(kindOf, raw)
	return d, err == nil, err
}

// whole returns type and bytes of a value, read at once.
func whole(k registry.Key, name string) (kindOf uint32, raw []byte, err error) {
	raw = make([]byte, 256)
	for {
		n, kindOf, err := k.GetValue(name, raw)
		if !errors.Is(err, registry.ErrShortBuffer) {
			return kindOf, raw[:min(n, len(raw))], err
		}
		raw = make([]byte, max(n, 2*len(raw))) // it may grow between two calls
	}
}

// decode decodes a value that set would write identically. For one that it could not restore
// byte by byte it wraps errors.ErrUnsupported.
func decode(kindOf uint32, raw []byte) (data, error) {
	switch {
	case kindOf == registry.DWORD && len(raw) == 4:
		return data{kind: dword, number: uint64(binary.LittleEndian.Uint32(raw))}, nil
	case kindOf == registry.QWORD && len(raw) == 8:
		return data{kind: qword, number: binary.LittleEndian.Uint64(raw)}, nil
	case kindOf == registry.SZ || kindOf == registry.EXPAND_SZ:
		d := data{kind: sz}
		if kindOf == registry.EXPAND_SZ {
			d.kind = expand
		}
		units := make([]uint16, len(raw)/2)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(raw[2*i:])
		}
		d.text = windows.UTF16ToString(units) // up to the first zero
		same, err := windows.UTF16FromString(d.text)
		if err == nil && utf8.ValidString(d.text) && len(raw)%2 == 0 && slices.Equal(same, units) {
			return d, nil
		}
		return data{}, fmt.Errorf("a text that does not end in one zero, or is no Unicode: %w", errors.ErrUnsupported)
	}
	return data{}, fmt.Errorf("type %d with %d bytes: %w", kindOf, len(raw), errors.ErrUnsupported)
}

func (machine) set(key, name string, d data) error {
	k, err := openKey(key, registry.SET_VALUE)
	if err != nil {
		return err
	}
	switch d.kind {
	case dword:
		err = k.SetDWordValue(name, uint32(d.number))
	case qword:
		err = k.SetQWordValue(name, d.number)
	case sz:
		err = k.SetStringValue(name, d.text)
	case expand:
		err = k.SetExpandStringValue(name, d.text)
	}
	return errors.Join(classify(err), k.Close())
}

func (machine) remove(key, name string) error {
	k, err := openKey(key, registry.SET_VALUE)
	if err != nil {
		return err
	}
	err = k.DeleteValue(name)
	if errors.Is(err, registry.ErrNotExist) {
		err = nil
	}
	return errors.Join(classify(err), k.Close())
}

func openKey(key string, access uint32) (registry.Key, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, access|registry.WOW64_64KEY)
	return k, classify(err)
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number; nil stays nil.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return fs.ErrPermission
	case errors.Is(err, registry.ErrNotExist), errors.Is(err, windows.ERROR_PATH_NOT_FOUND):
		return fs.ErrNotExist
	}
	return errors.New(err.Error())
}
