// Package ifioctl reads and writes the MTU, the media and the capabilities of an interface of
// FreeBSD and macOS.
package ifioctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Setting is one setting of one interface. It is safe for concurrent use.
type Setting struct {
	device string
	name   string
	abi    abi
	kernel kernel
}

// kernel makes one request; buffer is the struct that is sent and filled in. It wraps
// fs.ErrNotExist, fs.ErrPermission and errors.ErrUnsupported.
type kernel interface {
	do(request uint, buffer []byte) error
}

// Open returns the setting called name of the interface called device: mtu, mtu_min, mtu_max,
// up, media, active, wol, or cap. and a capability such as cap.tso. It does not query the
// system. It wraps errors.ErrUnsupported for other names, and on systems other than FreeBSD
// and macOS.
func Open(device, name string) (*Setting, error) {
	a, k, err := system()
	if err != nil {
		return nil, fmt.Errorf("%s of interface %q: %w", name, device, err)
	}
	return open(a, k, device, name)
}

func open(a abi, k kernel, device, name string) (*Setting, error) {
	if device == "" || len(device) > maxDevice {
		return nil, fmt.Errorf("interface %q: not a name", device)
	}
	unknown := fmt.Errorf("%s of an interface on %s: %w", name, a.system, errors.ErrUnsupported)
	capability, isCapability := strings.CutPrefix(name, capPrefix)
	switch {
	case isCapability && len(a.members(capability)) == 0, name == "wol" && len(a.members("wol")) == 0:
		return nil, unknown
	case isCapability, name == "wol":
	case (name == "mtu_min" || name == "mtu_max") && a.getDeviceMTU == 0:
		return nil, unknown
	case name == "mtu", name == "mtu_min", name == "mtu_max", name == "up", name == "media", name == "active":
	default:
		return nil, unknown
	}
	return &Setting{device: device, name: name, abi: a, kernel: k}, nil
}

const (
	capPrefix = "cap."
	// maxDevice is the longest name of an interface, IFNAMSIZ less the final zero.
	maxDevice = 15
	// The kernel's own bounds of an MTU, IF_MINMTU and IF_MAXMTU of FreeBSD sys/net/if.h; the
	// driver has others too.
	minMTU = 72
	maxMTU = 65535
)

// Read returns the setting: a number in decimal, 0 or 1, a media text such as
// "1000baseT,full-duplex", "tso4=on tso6=on" for capabilities, or words with
// commas for wol. It wraps fs.ErrNotExist when there is no such interface.
func (s *Setting) Read(context.Context) (string, error) {
	switch s.name {
	case "mtu":
		b, err := s.ask(s.abi.getMTU)
		return strconv.Itoa(int(at(b, unionAt))), err
	case "mtu_min", "mtu_max":
		b, err := s.ask(s.abi.getDeviceMTU)
		n := at(b, unionAt+4) // struct ifdevmtu: current, least, most
		if s.name == "mtu_max" {
			n = at(b, unionAt+8)
		}
		return strconv.Itoa(int(n)), err
	case "up":
		return s.up()
	case "media", "active":
		b, err := s.askMedia()
		if err != nil {
			return "", err
		}
		where := mediaCurrentAt
		if s.name == "active" {
			where = mediaActiveAt
		}
		return s.abi.mediaText(uint32(at(b, where)))
	}
	b, err := s.ask(s.abi.getCap)
	if err != nil {
		return "", err
	}
	can, now := uint32(at(b, unionAt)), uint32(at(b, unionAt+4))
	if s.name == "wol" {
		return s.abi.wolText(can, now)
	}
	return s.abi.capText(strings.TrimPrefix(s.name, capPrefix), can, now)
}

// Check reports whether raw could be written: well-formed, and on an interface that exists.
// Only a write shows whether the driver accepts it.
func (s *Setting) Check(ctx context.Context, raw string) error {
	if _, err := s.Read(ctx); err != nil {
		return err
	}
	_, _, err := s.change(raw)
	return err
}

// Write sets the setting. It wraps fs.ErrPermission; a value that the driver
// refuses is an error with its reason.
func (s *Setting) Write(ctx context.Context, raw string) error {
	if _, err := s.Read(ctx); err != nil {
		return err
	}
	request, value, err := s.change(raw)
	if err != nil {
		return err
	}
	b := s.request()
	put(b, unionAt, int32(value))
	err = s.do(request, b)
	if s.name == "media" && errors.Is(err, fs.ErrNotExist) { // ENXIO, also for a medium that the driver lacks
		if _, gone := s.Read(ctx); gone == nil {
			return fmt.Errorf("%s has no medium %s: %w", s.device, raw, errors.ErrUnsupported)
		}
	}
	return err
}

// change returns the request that sets the setting to the text, and its value.
func (s *Setting) change(raw string) (request uint, value uint32, err error) {
	switch s.name {
	case "mtu":
		n, err := strconv.Atoi(raw)
		if err != nil || n < minMTU || n > maxMTU {
			return 0, 0, fmt.Errorf("mtu %q: want %d to %d", raw, minMTU, maxMTU)
		}
		return s.abi.setMTU, uint32(n), nil
	case "media":
		word, err := s.abi.mediaWord(raw)
		return s.abi.setMedia, word, err
	case "mtu_min", "mtu_max", "up", "active":
		return 0, 0, fmt.Errorf("%s of %s is a fact and no setting: %w", s.name, s.device, errors.ErrUnsupported)
	}
	b, err := s.ask(s.abi.getCap)
	if err != nil {
		return 0, 0, err
	}
	can, now := uint32(at(b, unionAt)), uint32(at(b, unionAt+4))
	if s.name == "wol" {
		value, err = s.abi.wolMask(can, now, raw)
	} else {
		value, err = s.abi.capMask(strings.TrimPrefix(s.name, capPrefix), can, now, raw)
	}
	return s.abi.setCap, value, err
}

// up reports whether the link is up: by its media, or else by the interface's flags.
func (s *Setting) up() (string, error) {
	b, err := s.askMedia()
	status := uint32(0)
	if err == nil {
		status = uint32(at(b, mediaStatusAt))
	} else if errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if status&statusValid != 0 {
		return bit(status&statusActive != 0), nil
	}
	b, err = s.ask(s.abi.getFlags)
	const both = flagUp | flagRunning
	return bit(uint32(at(b, unionAt))&both == both), err
}

func bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// askMedia prefers the request that knows the newer media.
func (s *Setting) askMedia() ([]byte, error) {
	var err error
	for _, request := range []uint{s.abi.getXMedia, s.abi.getMedia} {
		b := make([]byte, s.abi.mediaSize)
		copy(b[:maxDevice], s.device)
		if err = s.do(request, b); err == nil {
			return b, nil
		}
	}
	return make([]byte, s.abi.mediaSize), err
}

// ask makes a request that fills in struct ifreq.
func (s *Setting) ask(request uint) ([]byte, error) {
	b := s.request()
	return b, s.do(request, b)
}

func (s *Setting) request() []byte {
	b := make([]byte, ifreqSize)
	copy(b[:maxDevice], s.device)
	return b
}

func (s *Setting) do(request uint, b []byte) error {
	if err := s.kernel.do(request, b); err != nil {
		return fmt.Errorf("%s of %s: %w", s.name, s.device, err)
	}
	return nil
}
