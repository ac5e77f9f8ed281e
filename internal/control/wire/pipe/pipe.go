// Package pipe carries a session inside one process: the agent of the machine
// that the controller runs on.
package pipe

import (
	"context"
	"net"
	"sync"

	"linerate/internal/control/wire"
	"linerate/internal/rescue"
)

// Start runs serve in a goroutine on one end of a pipe and returns the other as
// a peer. serve must return when its connection ends. It is not ended by ctx,
// whose end would otherwise cut the undoing short, but by Close, which waits.
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
