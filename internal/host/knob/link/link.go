//go:build linux

// Package link reads and writes attributes of a network interface over
// rtnetlink (Linux).
package link

import (
	"context"
)

// Attribute is one number of one interface. It is safe for concurrent use.
type Attribute struct {
	device string
	name   string
}

// The attributes, by native name.
const (
	MTU    = "mtu"          // IFLA_MTU, bytes
	TxQLen = "txqlen"       // IFLA_TXQLEN, packets
	GSOMax = "gso_max_size" // IFLA_GSO_MAX_SIZE, bytes
	GROMax = "gro_max_size" // IFLA_GRO_MAX_SIZE, bytes

	// MinMTU and those below are facts, which cannot be written.
	MinMTU = "min_mtu"      // IFLA_MIN_MTU, bytes
	MaxMTU = "max_mtu"      // IFLA_MAX_MTU, bytes; 0 is that the driver does not say
	TSOMax = "tso_max_size" // IFLA_TSO_MAX_SIZE, bytes
	Up     = "up"           // 1 when the interface is up and carries (RFC 2863 operational status)
)

// Open returns the attribute name of the interface called device. It asks
// nothing of the system. It wraps errors.ErrUnsupported for other names, and on
// systems other than Linux, which it names.
func Open(device, name string) (*Attribute, error) { return open(device, name) }

// Read returns the number in decimal. It wraps fs.ErrNotExist when there is no
// such interface.
func (a *Attribute) Read(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return a.read()
}

// Check reports whether raw could be written: a number, on an interface that
// exists, and no MTU that would end IPv6 there while it has IPv6 addresses.
func (a *Attribute) Check(ctx context.Context, raw string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.check(raw)
}

// Write sets the number. It wraps fs.ErrPermission and fs.ErrNotExist. A value
// that the driver refuses is an error with the driver's reason.
func (a *Attribute) Write(ctx context.Context, raw string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.write(raw)
}
