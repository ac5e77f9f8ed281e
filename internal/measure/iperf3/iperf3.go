// Package iperf3 holds the wire format of iperf3, versions 3.1 to 3.21, for both ends.
//
// docs/wire/iperf3.md describes the formats; "section" in this package is a section of that
// text. Nothing here opens a socket or reads a clock. Every decoder is bounded: it refuses
// input longer than its limit before it holds more than that in memory.
package iperf3

import (
	"bytes"
	"crypto/subtle"
	"fmt"
	"io"
)

// DefaultPort is the port of the control connection and of all streams,
// TCP and UDP (section 1).
const DefaultPort = 5201

// CookieLen is the length of a cookie in bytes, including the final NUL (section 2).
const CookieLen = 37

// cookieAlphabet is the alphabet of iperf3 3.2 and later: 32 characters, so that five random
// bits choose one without bias.
const cookieAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

// Cookie names one test: 36 characters and a NUL (section 2). The client chooses it and sends
// it first on the control connection and on every TCP stream. The zero value is not a valid
// cookie.
type Cookie [CookieLen]byte

// NewCookie draws a cookie from random, which must be a cryptographic source if other clients
// must not guess it. It reads 36 bytes and returns the source's error.
func NewCookie(random io.Reader) (Cookie, error) {
	var c Cookie
	if _, err := io.ReadFull(random, c[:CookieLen-1]); err != nil {
		return Cookie{}, fmt.Errorf("draw cookie: %w", err)
	}
	for i, b := range c[:CookieLen-1] {
		c[i] = cookieAlphabet[b%byte(len(cookieAlphabet))]
	}
	return c, nil
}

// ReadCookie reads exactly one cookie. It does not validate it.
func ReadCookie(r io.Reader) (Cookie, error) {
	var c Cookie
	if _, err := io.ReadFull(r, c[:]); err != nil {
		return Cookie{}, fmt.Errorf("read cookie: %w", err)
	}
	return c, nil
}

// Validate returns an error unless the cookie ends in a NUL and starts with
// another byte. Any other content is legal: 3.1 and older build cookies from
// the host name and the time (section 2).
func (c Cookie) Validate() error {
	if c[CookieLen-1] != 0 {
		return fmt.Errorf("cookie ends in 0x%02x, not in NUL", c[CookieLen-1])
	}
	if c[0] == 0 {
		return fmt.Errorf("cookie is empty")
	}
	return nil
}

// Equal reports whether all 37 bytes agree, in constant time.
func (c Cookie) Equal(other Cookie) bool { return subtle.ConstantTimeCompare(c[:], other[:]) == 1 }

// String returns the characters before the first NUL.
func (c Cookie) String() string {
	text, _, _ := bytes.Cut(c[:], []byte{0})
	return string(text)
}
