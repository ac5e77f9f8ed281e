//go:build !unix

package tuner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
)

// Tuner is the server's side of its tuner.
type Tuner struct{}

func unsupported() error {
	return fmt.Errorf("a server that changes settings on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Start returns an error that wraps errors.ErrUnsupported.
func Start(context.Context, []string, io.Writer) (*Tuner, error) { return nil, unsupported() }

// Open returns an error that wraps errors.ErrUnsupported.
func (t *Tuner) Open(context.Context, Request) (net.Conn, error) { return nil, unsupported() }

// Close does nothing.
func (t *Tuner) Close() error { return nil }

// Serve returns an error that wraps errors.ErrUnsupported.
func Serve(context.Context, *os.File, func(context.Context, Request, net.Conn)) error {
	return unsupported()
}
