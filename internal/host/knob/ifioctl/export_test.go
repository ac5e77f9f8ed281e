package ifioctl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
)

// Interface is an interface in memory that answers like the kernel.
type Interface struct {
	MTU, MinMTU, MaxMTU int32
	Can, Now            uint32
	Media, Active       uint32
	Status              int32
	Flags               int32
	NoMedia             bool
}

// machine is a kernel in memory.
type machine struct {
	abi        abi
	interfaces map[string]*Interface
}

// OpenMemory returns a setting of an interface in memory. system is freebsd or darwin.
func OpenMemory(system string, interfaces map[string]*Interface, device, name string) (*Setting, error) {
	a := map[string]abi{"freebsd": freebsd(), "darwin": darwin()}[system]
	return open(a, machine{a, interfaces}, device, name)
}

func (m machine) do(request uint, b []byte) error {
	name, _, _ := bytes.Cut(b[:16], []byte{0})
	i := m.interfaces[string(name)]
	if i == nil {
		return fmt.Errorf("device not configured: %w", fs.ErrNotExist)
	}
	a := m.abi
	if want := (request >> 16) & 0x1fff; int(want) != len(b) {
		return fmt.Errorf("request %#x has a struct of %d bytes, it got %d", request, want, len(b))
	}
	switch request {
	case a.getMTU:
		put(b, unionAt, i.MTU)
	case a.setMTU:
		if n := at(b, unionAt); n > i.MaxMTU || n < i.MinMTU {
			return errors.New("the driver refuses: invalid argument")
		}
		i.MTU = at(b, unionAt)
	case a.getDeviceMTU:
		put(b, unionAt, i.MTU)
		put(b, unionAt+4, i.MinMTU)
		put(b, unionAt+8, i.MaxMTU)
	case a.getCap:
		put(b, unionAt, int32(i.Can))
		put(b, unionAt+4, int32(i.Now))
	case a.setCap:
		if uint32(at(b, unionAt))&^i.Can != 0 {
			return errors.New("the driver refuses: invalid argument")
		}
		i.Now = uint32(at(b, unionAt))
	case a.getXMedia, a.getMedia:
		if i.NoMedia {
			return fmt.Errorf("the driver has no such setting: %w", errors.ErrUnsupported)
		}
		put(b, mediaCurrentAt, int32(i.Media))
		put(b, mediaStatusAt, i.Status)
		put(b, mediaActiveAt, int32(i.Active))
	case a.setMedia:
		i.Media = uint32(at(b, unionAt))
	case a.getFlags:
		put(b, unionAt, i.Flags)
	default:
		return fmt.Errorf("unknown request %#x", request)
	}
	return nil
}

// MediaText exposes the decoder of media words to tests.
func MediaText(system string, word uint32) (string, error) {
	return map[string]abi{"freebsd": freebsd(), "darwin": darwin()}[system].mediaText(word)
}

// MediaWord is the inverse of MediaText.
func MediaWord(system, text string) (uint32, error) {
	return map[string]abi{"freebsd": freebsd(), "darwin": darwin()}[system].mediaWord(text)
}
