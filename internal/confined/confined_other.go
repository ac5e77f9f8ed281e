//go:build !linux

package confined

import "errors"

const supported = false

func limit(uint64, uint64) error { return errors.ErrUnsupported }

func Memory(int) (now, most int64, err error) { return 0, 0, errors.ErrUnsupported }
