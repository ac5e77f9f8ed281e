//go:build !linux && !freebsd && !darwin

package peer

import "net"

func delivered(*net.TCPConn) (bool, error) { return false, unsupported("send queue") }
func unread(*net.TCPConn) (int, error)     { return 0, unsupported("receive queue") }
