//go:build !linux && !freebsd

package plane

import "net"

func newWire(c *net.TCPConn, _ bool) (wire, error) { return newPoller(c), nil }
