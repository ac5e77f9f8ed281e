package sockio

import (
	"errors"
	"fmt"
)

func bindDevice(uintptr, string) error {
	return fmt.Errorf("freebsd chooses the interface by the address, see --bind: %w", errors.ErrUnsupported)
}
