package sockio

import "net"

// Refused reports whether err of a stream or a datagram socket says that nobody
// listens on the port at the other end.
func Refused(err error) bool { return refused(err) }

// HearRefusals has a connected socket report by its errors, which Refused knows,
// that nobody listens at the other end (RFC 1122 section 4.1.3.3). Every system
// but Windows does so anyway; there package net switches it off.
func HearRefusals(c *net.UDPConn) error { return hearRefusals(c) }
