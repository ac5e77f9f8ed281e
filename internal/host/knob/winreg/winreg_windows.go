package winreg

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

func system() (store, error) { return machine{}, nil }

// machine is the registry of this machine, the 64-bit view of it.
type machine struct{}

func (machine) get(key, name string) (data, bool, error) {
	k, err := openKey(key, registry.QUERY_VALUE)
	if err != nil {
		return data{}, false, err
	}
	defer k.Close() // nothing was written
	_, kindOf, err := k.GetValue(name, nil)
	if errors.Is(err, registry.ErrNotExist) {
		return data{}, false, nil
	}
	if err != nil && !errors.Is(err, registry.ErrShortBuffer) {
		return data{}, false, classify(err)
	}
	var d data
	switch kindOf {
	case registry.DWORD, registry.QWORD:
		d.kind = dword
		if kindOf == registry.QWORD {
			d.kind = qword
		}
		d.number, _, err = k.GetIntegerValue(name)
	case registry.SZ, registry.EXPAND_SZ:
		d.kind = sz
		if kindOf == registry.EXPAND_SZ {
			d.kind = expand
		}
		d.text, _, err = k.GetStringValue(name)
	default:
		return data{}, false, fmt.Errorf("type %d: %w", kindOf, errors.ErrUnsupported)
	}
	if err != nil {
		return data{}, false, classify(err)
	}
	return d, true, nil
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

// classify keeps the sentinels and the text of an error of the system, and
// leaves its number behind; nil stays nil.
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
