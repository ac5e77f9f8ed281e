//go:build !linux

package qdisc

import (
	"errors"
	"fmt"
	"runtime"
)

func (d *Discipline) unsupported() error {
	return fmt.Errorf("scheduler of %s on %s: %w", d.device, runtime.GOOS, errors.ErrUnsupported)
}

func (d *Discipline) state() (state, error) { return state{}, d.unsupported() }

func (d *Discipline) replace(_, _ state) error { return d.unsupported() }
