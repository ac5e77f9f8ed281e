package sysctl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// kernel is the typed tree of FreeBSD and macOS, sysctl(3).
type kernel interface {
	// lookup returns the numbers of a name; it wraps fs.ErrNotExist.
	lookup(name string) (oid []int32, err error)
	// describe returns the kind, with flags, and the format of a node.
	describe(oid []int32) (kind uint32, format string, err error)
	get(oid []int32) ([]byte, error)
	set(oid []int32, value []byte) error
}

// The kinds of a node, its low four bits, and the flag of writable ones (FreeBSD
// sys/sys/sysctl.h CTLTYPE_*, CTLFLAG_WR; xnu bsd/sys/sysctl.h has the first five and gives
// sign and width in the format).
const (
	kindMask   = 0xf
	kindInt    = 2
	kindString = 3
	kindS64    = 4
	kindUint   = 6
	kindLong   = 7
	kindUlong  = 8
	kindU64    = 9
	kindU8     = 0xa
	kindU16    = 0xb
	kindS8     = 0xc
	kindS16    = 0xd
	kindS32    = 0xe
	kindU32    = 0xf

	flagWritable = 0x40000000
)

// form is how to read the bytes of a node.
type form int

const (
	formText form = iota
	formSigned
	formUnsigned
)

// formOf parses a kind and a format such as "I", "IU", "LU", "QU" and "A".
func formOf(kind uint32, format string) (form, error) {
	unsigned := strings.Contains(format, "U")
	switch kind & kindMask {
	case kindString:
		return formText, nil
	case kindUint, kindUlong, kindU64, kindU8, kindU16, kindU32:
		return formUnsigned, nil
	case kindInt, kindLong, kindS64, kindS8, kindS16, kindS32:
		if unsigned {
			return formUnsigned, nil
		}
		return formSigned, nil
	}
	return 0, fmt.Errorf("kind %d with format %q: %w", kind&kindMask, format, errors.ErrUnsupported)
}

// decodeValue returns the text of a node's bytes. The kernel decides the width of a number.
func decodeValue(f form, b []byte) (string, error) {
	if f == formText {
		text, _, _ := strings.Cut(string(b), "\x00")
		return text, nil
	}
	var n uint64
	switch len(b) {
	case 1:
		n = uint64(b[0])
	case 2:
		n = uint64(binary.NativeEndian.Uint16(b))
	case 4:
		n = uint64(binary.NativeEndian.Uint32(b))
	case 8:
		n = binary.NativeEndian.Uint64(b)
	default:
		return "", fmt.Errorf("a number of %d bytes: %w", len(b), errors.ErrUnsupported)
	}
	if f == formUnsigned {
		return strconv.FormatUint(n, 10), nil
	}
	shift := 64 - 8*len(b)
	return strconv.FormatInt(int64(n<<shift)>>shift, 10), nil
}

// encodeValue is the inverse; width is how many bytes the node has now.
func encodeValue(f form, text string, width int) ([]byte, error) {
	if f == formText {
		if text == "" || strings.ContainsAny(text, "\n\x00") {
			return nil, fmt.Errorf("value %q: want one line of text", text)
		}
		return []byte(text), nil
	}
	var n uint64
	var err error
	if f == formUnsigned {
		n, err = strconv.ParseUint(text, 10, 8*width)
	} else {
		var signed int64
		signed, err = strconv.ParseInt(text, 10, 8*width)
		n = uint64(signed)
	}
	if err != nil {
		return nil, fmt.Errorf("value %q: want a number of %d bits", text, 8*width)
	}
	switch width {
	case 1:
		return []byte{byte(n)}, nil
	case 2:
		return binary.NativeEndian.AppendUint16(nil, uint16(n)), nil
	case 4:
		return binary.NativeEndian.AppendUint32(nil, uint32(n)), nil
	case 8:
		return binary.NativeEndian.AppendUint64(nil, n), nil
	}
	return nil, fmt.Errorf("a number of %d bytes: %w", width, errors.ErrUnsupported)
}

// node is a setting of a typed tree.
type node struct {
	name   string
	kernel kernel
	choice func(name, value string) string // the driver's choice where it has one, "" for none; nil if not applicable
}

// found is the present state of a node.
type found struct {
	oid   []int32
	form  form
	write bool
	value []byte
}

func (n *node) find() (found, error) {
	oid, err := n.kernel.lookup(n.name)
	if err != nil {
		return found{}, err
	}
	kind, format, err := n.kernel.describe(oid)
	if err != nil {
		return found{}, err
	}
	f, err := formOf(kind, format)
	if err != nil {
		return found{}, fmt.Errorf("%s: %w", n.name, err)
	}
	value, err := n.kernel.get(oid)
	if err != nil {
		return found{}, err
	}
	return found{oid, f, kind&flagWritable != 0, value}, nil
}

// Read implements Key.
func (n *node) Read(context.Context) (string, error) {
	f, err := n.find()
	if err != nil {
		return "", err
	}
	text, err := decodeValue(f.form, f.value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", n.name, err)
	}
	if n.choice != nil {
		if c := n.choice(n.name, text); c != "" {
			return "0 (driver: " + c + ")", nil
		}
	}
	return text, nil
}

// Check implements Key.
func (n *node) Check(_ context.Context, raw string) error {
	_, _, err := n.prepare(raw)
	return err
}

func (n *node) prepare(raw string) (found, []byte, error) {
	f, err := n.find()
	if err != nil {
		return f, nil, err
	}
	if !f.write {
		return f, nil, fmt.Errorf("%s is read-only while the system runs: %w", n.name, errors.ErrUnsupported)
	}
	b, err := encodeValue(f.form, strings.TrimSpace(raw), len(f.value))
	if err != nil {
		return f, nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return f, b, nil
}

// Write implements Key.
func (n *node) Write(_ context.Context, raw string) error {
	f, b, err := n.prepare(raw)
	if err != nil {
		return err
	}
	return n.kernel.set(f.oid, b)
}
