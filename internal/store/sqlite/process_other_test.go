//go:build !linux

package sqlite_test

import (
	"context"
	"errors"
)

func runLinuxChild(context.Context, string, string) error { return errors.ErrUnsupported }
