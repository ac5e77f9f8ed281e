package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// open prefers the generic netlink family to the older request.
func open() (transport, error) {
	family, err := netlink.GenlFamilyGet("ethtool")
	switch {
	case err == nil:
		return generic{family.ID}, nil
	case errors.Is(err, unix.ENOENT):
		return request{}, nil
	}
	return nil, fmt.Errorf("find the kernel's ethtool family: %s", err.Error())
}

// generic is the transport over generic netlink.
type generic struct{ family uint16 }

func (t generic) get(device string, g group) (Fields, error) {
	answers, err := t.do(g.get, device, g, Fields{}, 0)
	if err != nil {
		return Fields{}, classify(device, err)
	}
	if len(answers) != 1 {
		return Fields{}, errMessage
	}
	return Decode(g.name, answers[0])
}

func (t generic) set(device string, g group, f Fields) error {
	if _, err := t.do(g.set, device, g, f, unix.NLM_F_ACK); err != nil {
		return classify(device, err)
	}
	return nil
}

func (t generic) do(command uint8, device string, g group, f Fields, flags int) ([][]byte, error) {
	body, err := encodeRequest(command, device, g, f)
	if err != nil {
		return nil, err
	}
	req := nl.NewNetlinkRequest(int(t.family), flags)
	req.AddRawData(body)
	return req.Execute(unix.NETLINK_GENERIC, 0)
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number.
func classify(device string, err error) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return absent(device)
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("the driver has no such setting: %w", errors.ErrUnsupported)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return fmt.Errorf("the driver refuses: %s", err.Error())
	}
	return errors.New(err.Error())
}

// Ask returns what the driver of an interface says about a group of settings, such as
// linkmodes or features, by the names that Open knows.
func Ask(device, name string) (Fields, error) {
	t, err := open()
	if err != nil {
		return Fields{}, err
	}
	g, _ := groupByName(name)
	return t.get(device, g)
}

// Info is what the driver of an interface says of itself (ETHTOOL_GDRVINFO, which has
// no successor in netlink).
type Info struct {
	Driver, Version, Firmware, Bus string
	Registers                      uint32 // bytes of a register dump
	Counters                       uint32 // counters in ETHTOOL_GSTATS
}

// Info queries the driver of an interface.
func (s Socket) Info(device string) (Info, error) {
	i, err := unix.IoctlGetEthtoolDrvinfo(int(s), device)
	if err != nil {
		return Info{}, classify(device, err)
	}
	return Info{
		unix.ByteSliceToString(i.Driver[:]), unix.ByteSliceToString(i.Version[:]), unix.ByteSliceToString(i.Fw_version[:]), unix.ByteSliceToString(i.Bus_info[:]),
		i.Regdump_len, i.N_stats,
	}, nil
}

func (t generic) driver(device string) string { return request{}.driver(device) }

func (t request) driver(device string) (name string) {
	_ = with(func(s Socket) error { // "" if the driver does not report it
		i, err := s.Info(device)
		name = i.Driver
		return err
	})
	return name
}

// request is the transport over SIOCETHTOOL.
type request struct{}

func (t request) get(device string, g group) (Fields, error) {
	if g.name == features {
		names, err := t.names(device)
		if err != nil {
			return Fields{}, err
		}
		b := make([]byte, 8+16*((len(names)+31)/32))
		binary.NativeEndian.PutUint32(b, cmdGetFeatures)
		binary.NativeEndian.PutUint32(b[4:], uint32((len(names)+31)/32))
		if err := t.do(device, b); err != nil {
			return Fields{}, err
		}
		return decodeFeatures(b, names)
	}
	if g.ioctlGet == 0 {
		return Fields{}, fmt.Errorf("this kernel is older than 5.6: %w", errors.ErrUnsupported)
	}
	b := encodeWords(g, g.ioctlGet, nil, Fields{})
	if err := t.do(device, b); err != nil {
		return Fields{}, err
	}
	return decodeWords(g, b)
}

func (t request) set(device string, g group, f Fields) error {
	if g.name == features {
		names, err := t.names(device)
		if err != nil {
			return err
		}
		b, err := encodeFeatures(names, f.Sets["wanted"])
		if err != nil {
			return err
		}
		return t.do(device, b)
	}
	now := encodeWords(g, g.ioctlGet, nil, Fields{})
	if err := t.do(device, now); err != nil {
		return err
	}
	return t.do(device, encodeWords(g, g.ioctlSet, now, f))
}

// names returns the names of all features of the kernel.
func (t request) names(device string) ([]string, error) {
	info := make([]byte, 20) // struct ethtool_sset_info with one count
	binary.NativeEndian.PutUint32(info, cmdGetSetInfo)
	binary.NativeEndian.PutUint64(info[8:], 1<<stringFeatures)
	if err := t.do(device, info); err != nil {
		return nil, err
	}
	n := binary.NativeEndian.Uint32(info[16:])
	if n > maxStrings {
		return nil, errMessage
	}
	b := make([]byte, 12+int(n)*stringLen)
	binary.NativeEndian.PutUint32(b, cmdGetStrings)
	binary.NativeEndian.PutUint32(b[4:], stringFeatures)
	binary.NativeEndian.PutUint32(b[8:], n)
	if err := t.do(device, b); err != nil {
		return nil, err
	}
	return decodeStrings(b)
}

func (request) do(device string, b []byte) error {
	return with(func(s Socket) error { return s.Do(device, b) })
}

func with(f func(Socket) error) error {
	s, err := OpenSocket()
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// Socket makes SIOCETHTOOL requests in the network namespace in which it was opened.
type Socket int

// OpenSocket opens a socket for the interfaces of this thread's network namespace.
func OpenSocket() (Socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a socket: %s", err.Error())
	}
	return Socket(fd), nil
}

// Close closes the socket.
func (s Socket) Close() error { return unix.Close(int(s)) }

// Do makes one request: struct ifreq with the name and a pointer to b, which is one of the
// structs of include/uapi/linux/ethtool.h. b starts with its command, and receives the
// answer.
func (s Socket) Do(device string, b []byte) error {
	var ifreq struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the rest of the union, include/uapi/linux/if.h
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], device)
	ifreq.data = unsafe.Pointer(&b[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return classify(device, errno)
	}
	return nil
}
