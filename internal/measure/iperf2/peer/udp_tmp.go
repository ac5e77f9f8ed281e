package peer

import (
	"context"
	"errors"
	"net"
)

const (
	minDatagram = 16
	maxDatagram = 65507
)

func (t *clientTest) runUDP(ctx context.Context) error                  { return errors.ErrUnsupported }
func (s *server) serveUDP(ctx context.Context, pc net.PacketConn) error { <-ctx.Done(); return nil }
