package atboot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"linerate/internal/host/durable"
)

// copyProgram has a copy of linerate on disk and returns its size in bytes.
func (k Keeper) copyProgram() (size int64, err error) {
	from := k.Program
	if from == "" {
		if from, err = running(); err != nil {
			return 0, err
		}
	}
	in, err := os.Open(from)
	if err != nil {
		return 0, fmt.Errorf("copy linerate: %w", err)
	}
	defer in.Close()
	temp := k.program() + newSuffix
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("copy linerate: %w", err)
	}
	size, err = io.Copy(out, in)
	if err = errors.Join(err, seal(out, 0o700)); err == nil {
		err = os.Rename(temp, k.program())
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(k.dir()), executable(k.program()))
	}
	if err != nil {
		return 0, fmt.Errorf("copy linerate: %w", err)
	}
	return size, nil
}
