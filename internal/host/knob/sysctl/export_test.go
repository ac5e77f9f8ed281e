package sysctl

import (
	"bytes"
	"errors"
	"testing"

	"linerate/internal/must"
)

// Node is a setting of a tree in memory.
type Node struct {
	Kind   uint32
	Format string
	Value  []byte
	Refuse func([]byte) bool // reports values that the kernel refuses with EINVAL
}

// OpenMemory returns a setting of a typed tree in memory.
func OpenMemory(nodes map[string]*Node, name string) Key {
	return &node{name: name, kernel: memory(nodes)}
}

// memory answers like the kernel; the numbers of a name are its letters.
type memory map[string]*Node

func (m memory) lookup(name string) ([]int32, error) {
	if m[name] == nil {
		return nil, missing(name)
	}
	var oid []int32
	for _, c := range name {
		oid = append(oid, c)
	}
	return oid, nil
}

func (m memory) at(oid []int32) *Node { return m[string([]rune(oid))] }

func (m memory) describe(oid []int32) (uint32, string, error) {
	n := m.at(oid)
	return n.Kind, n.Format, nil
}

func (m memory) get(oid []int32) ([]byte, error) { return bytes.Clone(m.at(oid).Value), nil }

func (m memory) set(oid []int32, value []byte) error {
	n := m.at(oid)
	if n.Refuse != nil && n.Refuse(value) {
		return errors.New("invalid argument")
	}
	n.Value = bytes.Clone(value)
	return nil
}

// Decode exposes the decoding of values to tests.
func Decode(kind uint32, format string, b []byte) (string, error) {
	f, err := formOf(kind, format)
	if err != nil {
		return "", err
	}
	return decodeValue(f, b)
}

// Encode is the inverse of Decode.
func Encode(kind uint32, format, text string, width int) ([]byte, error) {
	f, err := formOf(kind, format)
	if err != nil {
		return nil, err
	}
	return encodeValue(f, text, width)
}

// TestDriverChoice: a ring or queue left to the driver reads as the driver's choice, not as
// 0, which FreeBSD 12.1 reports for an 82540.
func TestDriverChoice(t *testing.T) {
	const log = "em0: attach_pre capping queues at 1\nem0: Using 512 TX descriptors and 256 RX descriptors\n" +
		"<6>em0: Using 1024 TX descriptors and 4096 RX descriptors\nem01: Using 2 TX descriptors and 2 RX descriptors\n"
	nodes := map[string]bool{"dev.em.0.iflib.rxq0": true, "dev.em.0.iflib.rxq1": true, "dev.em.0.iflib.txq0": true}
	for _, c := range []struct{ name, value, want string }{
		{"dev.em.0.iflib.override_nrxds", "", "4096"}, {"dev.em.0.iflib.override_ntxds", "0", "1024"},
		{"dev.em.0.iflib.override_nrxqs", "0", "2"}, {"dev.em.0.iflib.override_ntxqs", "0", "1"},
		{"dev.em.0.iflib.override_nrxds", "2048", ""}, {"dev.em.1.iflib.override_nrxds", "", ""}, {"dev.em.1.iflib.override_nrxqs", "0", ""},
		{"dev.em.0.iflib.rx_budget", "0", ""},
	} {
		must.Equal(t, driverChoice(c.name, c.value, func() string { return log }, func(n string) bool { return nodes[n] }), c.want, "%s=%q", c.name, c.value)
	}
}
