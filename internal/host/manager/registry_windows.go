package manager

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/windows/registry"
)

// localMachine is the 64-bit view of this machine's registry.
type localMachine struct{}

func ownRegistry() Registry { return localMachine{} }

// Values implements Registry: it returns texts and numbers, and omits other values.
func (localMachine) Values(_ context.Context, key string) (map[string]string, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return nil, fmt.Errorf(`open HKLM\%s: %w`, key, err)
	}
	defer k.Close()
	names, err := k.ReadValueNames(-1)
	if err != nil {
		return nil, fmt.Errorf(`list the values of HKLM\%s: %w`, key, err)
	}
	out := map[string]string{}
	for _, name := range names {
		text, _, err := k.GetStringValue(name)
		if errors.Is(err, registry.ErrUnexpectedType) {
			var n uint64
			n, _, err = k.GetIntegerValue(name)
			text = strconv.FormatUint(n, 10)
		}
		if err == nil {
			out[name] = text
		}
	}
	return out, nil
}
