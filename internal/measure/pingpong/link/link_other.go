//go:build !linux && !freebsd

package link

import "net"

func newWire(c *net.TCPConn, _ bool) (wire, error) { return newPoller(c), nil }
