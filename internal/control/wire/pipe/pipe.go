// Package pipe carries a session inside one process, to the agent on the controller's own
// machine.
package pipe

import (
	"context"
	"net"
	"sync"

	"linerate/internal/control/wire"
	"linerate/internal/rescue"
)

// Start runs serve in a goroutine on one end of a pipe and returns the other as a peer. serve
// must return when its connection ends. Close ends it and waits. ctx does not end it, since that
// would interrupt the undo.
func Start(ctx context.Context, name, dataHost string, serve func(ctx context.Context, c net.Conn) error) wire.Peer {
	near, far := net.Pipe()
	var (
		once sync.Once
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		err = rescue.Call(func() error { return serve(context.WithoutCancel(ctx), far) })
		_ = far.Close()
	}()
	return wire.Peer{
		Control:  near,
		Name:     name,
		DataHost: dataHost,
		Why: func() error {
			select {
			case <-done:
				return err
			default:
				return nil
			}
		},
		Close: func() error {
			once.Do(func() { _ = near.Close() })
			<-done
			return err
		},
	}
}
