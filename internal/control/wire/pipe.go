package wire

import (
	"context"
	"net"
	"sync"

	"linerate/internal/panics"
)

// Pipe carries a session inside one process: it runs serve in a goroutine on one end of a pipe and returns the other as a peer. serve
// must return when its connection ends. Close ends it and waits. ctx does not end it, since that
// would interrupt the undo.
func Pipe(ctx context.Context, name, dataHost string, serve func(ctx context.Context, c net.Conn) error) Peer {
	near, far := net.Pipe()
	var (
		once sync.Once
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		err = panics.Call(func() error { return serve(context.WithoutCancel(ctx), far) })
		_ = far.Close()
	}()
	return Peer{
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
