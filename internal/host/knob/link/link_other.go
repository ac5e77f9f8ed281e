//go:build !linux

package link

import (
	"errors"
	"fmt"
	"runtime"
)

func open(device, name string) (*Attribute, error) {
	return nil, (&Attribute{device: device, name: name}).unsupported()
}

func (a *Attribute) unsupported() error {
	return fmt.Errorf("attribute %q of interface %q on %s: %w", a.name, a.device, runtime.GOOS, errors.ErrUnsupported)
}

func (a *Attribute) read() (string, error) { return "", a.unsupported() }

func (a *Attribute) check(string) error { return a.unsupported() }

func (a *Attribute) write(string) error { return a.unsupported() }

func nodes() ([]node, error) { return nil, nil }
