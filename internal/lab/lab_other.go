//go:build !linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"linerate/internal/core/model"
)

// running is never created on this system.
type running struct{}

func unsupported() error {
	return fmt.Errorf("virtual hosts need the network namespaces of Linux, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func start(context.Context, Spec, Config) (*running, error) { return nil, unsupported() }

func (*running) dial(context.Context, model.Host, []string) (net.Conn, error) {
	return nil, unsupported()
}

func (*running) command(context.Context, model.Host, []string, io.Reader, io.Writer, io.Writer) error {
	return unsupported()
}

func (*running) stats(context.Context) (Stats, error) { return Stats{}, unsupported() }

func (*running) done() <-chan struct{} { return nil }

func (*running) close() error { return nil }

func child([]string) error { return unsupported() }
