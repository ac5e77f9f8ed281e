//go:build !linux

package confined

import "errors"

const supported = false

func limit(uint64, uint64) error { return errors.ErrUnsupported }
