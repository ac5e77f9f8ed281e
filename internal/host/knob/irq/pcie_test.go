package irq

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/must"
)

// registers returns a configuration space with a power management capability at 0x40 that
// points to PCI Express at 0x60, as on ConnectX cards.
func registers(size int, control uint16) []byte {
	b := make([]byte, size)
	b[statusAt], b[listAt] = hasList, 0x40
	if size > 0x6a {
		b[0x40], b[0x41] = 1, 0x60
		b[0x60] = capabilityPCIe
		binary.LittleEndian.PutUint16(b[0x68:], control)
	}
	return b
}

// The device control words are those that vendors print next to lspci's decoding: setpci 68.w
// gives 2930 or 2936 for 512 bytes and 5930 or 5936 for 4096.
func TestMaxReadRequest(t *testing.T) {
	loop := registers(256, 0)
	loop[0x60], loop[0x61] = 5, 0x40
	outside := registers(256, 0)
	outside[0x41] = 0xfc
	for name, c := range map[string]struct {
		config []byte
		want   string
		err    error
	}{
		"512":          {registers(256, 0x2936), "512", nil},
		"4096":         {registers(4096, 0x5930), "4096", nil},
		"128":          {registers(256, 0x0930), "128", nil},
		"reserved":     {registers(256, 0x6930), "", errors.ErrUnsupported},
		"as a user":    {registers(64, 0), "", fs.ErrPermission},
		"no list":      {make([]byte, 256), "", errors.ErrUnsupported},
		"nothing":      {nil, "", errors.ErrUnsupported},
		"in a circle":  {loop, "", errors.ErrUnsupported},
		"past the end": {outside, "", errors.ErrUnsupported},
	} {
		got, err := maxReadRequest(c.config)
		must.True(t, got == c.want && errors.Is(err, c.err), "%s: %q, %v", name, got, err)
	}
	root := t.TempDir()
	dir := filepath.Join(root, "sys/class/net/eth0/device")
	must.Do(t, os.MkdirAll(dir, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "config"), registers(256, 0x2936), 0o600))
	f := must.Get(Open(root, "eth0", "max_read_request"))(t)
	must.Equal(t, must.Get(f.Read(t.Context()))(t), "512")
	must.Is(t, f.Check(t.Context(), "4096"), errors.ErrUnsupported, "a fact may be written")
}

func FuzzMaxReadRequest(f *testing.F) {
	f.Add(registers(256, 0x2936))
	f.Add(registers(64, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := maxReadRequest(b)
		must.True(t, (err == nil) != (got == ""), "%q, %v", got, err)
	})
}

// TestMasksAndLists: converting a list to a mask and back returns the same list.
func TestMasksAndLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.MapOf(rapid.IntRange(0, 200), rapid.Just(true)).Draw(t, "processors")
		var list []int
		for n := range 201 {
			if set[n] {
				list = append(list, n)
			}
		}
		text := knob.CPUList(list)
		back := must.Get(parseList(text))(t)
		must.Need(t, knob.CPUList(back) == text, "%v is %q is %v", list, text, back)
		got, err := knob.CPUsOfMask(maskOf(list))
		must.Need(t, got == text && err == nil, "%q is mask %s is %q, %v", text, maskOf(list), got, err)
	})
	for _, bad := range []string{"", "3-1", "1,1", "x", "-1", "1-", "99999", "0-16384", "2,1"} {
		must.Fail(t, must.Err(parseList(bad)), "parseList(%q)", bad)
	}
}

func FuzzLists(f *testing.F) {
	f.Add("0-3,8")
	f.Add("ff,00000001")
	f.Fuzz(func(t *testing.T, s string) {
		if list, err := parseList(s); err == nil {
			must.Len(t, must.Get(parseList(knob.CPUList(list)))(t), len(list), "%q is %v, then", s, list)
		}
		text, err := knob.CPUsOfMask(s)
		must.True(t, err != nil || !strings.Contains(text, "--"), "mask %q is %q", s, text)
	})
}
