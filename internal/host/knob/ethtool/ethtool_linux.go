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

func (t generic) get(device string, g group) (fields, error) {
	answers, err := t.do(encodeRequest(g.get, device, g, fields{}), 0)
	if err != nil {
		return fields{}, classify(device, err)
	}
	if len(answers) != 1 {
		return fields{}, errMessage
	}
	return decodeReply(g, answers[0])
}

func (t generic) set(device string, g group, f fields) error {
	if _, err := t.do(encodeRequest(g.set, device, g, f), unix.NLM_F_ACK); err != nil {
		return classify(device, err)
	}
	return nil
}

func (t generic) do(body []byte, flags int) ([][]byte, error) {
	req := nl.NewNetlinkRequest(int(t.family), flags)
	req.AddRawData(body)
	return req.Execute(unix.NETLINK_GENERIC, 0)
}

// classify keeps the sentinels and the text of an error of the system, and
// leaves its number behind.
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

func (t generic) driver(device string) string { return request{}.driver(device) }

// driver asks by the older request, which has no successor.
func (t request) driver(device string) string {
	b := make([]byte, drvInfoLen)
	binary.NativeEndian.PutUint32(b, cmdGetDrvInfo)
	if t.do(device, b) != nil {
		return ""
	}
	return unix.ByteSliceToString(b[4:36])
}

// request is the transport over SIOCETHTOOL.
type request struct{}

func (t request) get(device string, g group) (fields, error) {
	if g.name == features {
		names, err := t.names(device)
		if err != nil {
			return fields{}, err
		}
		b := make([]byte, 8+16*((len(names)+31)/32))
		binary.NativeEndian.PutUint32(b, cmdGetFeatures)
		binary.NativeEndian.PutUint32(b[4:], uint32((len(names)+31)/32))
		if err := t.do(device, b); err != nil {
			return fields{}, err
		}
		return decodeFeatures(b, names)
	}
	if g.ioctlGet == 0 {
		return fields{}, fmt.Errorf("this kernel is older than 5.6: %w", errors.ErrUnsupported)
	}
	b := encodeWords(g, g.ioctlGet, nil, fields{})
	if err := t.do(device, b); err != nil {
		return fields{}, err
	}
	return decodeWords(g, b)
}

func (t request) set(device string, g group, f fields) error {
	if g.name == features {
		names, err := t.names(device)
		if err != nil {
			return err
		}
		b, err := encodeFeatures(names, f.sets["wanted"])
		if err != nil {
			return err
		}
		return t.do(device, b)
	}
	now := encodeWords(g, g.ioctlGet, nil, fields{})
	if err := t.do(device, now); err != nil {
		return err
	}
	return t.do(device, encodeWords(g, g.ioctlSet, now, f))
}

// names asks for the names of all features of the kernel.
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

// do makes one request: struct ifreq with the name and a pointer to b, which
// the kernel reads and writes.
func (request) do(device string, b []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return classify(device, err)
	}
	defer unix.Close(fd)
	var ifreq struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the rest of the union, include/uapi/linux/if.h
	}
	copy(ifreq.name[:unix.IFNAMSIZ-1], device)
	ifreq.data = unsafe.Pointer(&b[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return classify(device, errno)
	}
	return nil
}
