package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peek prints the kernel's state as JSON:
//
//	peek sysctl NAME...        each one's type, format, access and value
//	peek sysctl -a             all of them
//	peek interface NAME...     flags, MTU, media words and capabilities
//	peek device NAME           whether a file can be opened
//
// It shares no code with linerate.
func peek(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: peek sysctl|interface NAME...")
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	switch args[0] {
	case "sysctl":
		all := map[string]variable{}
		names := args[1:]
		if names[0] == "-a" {
			names = allNames()
		}
		for _, n := range names {
			v, err := readVariable(n)
			if err != nil {
				v.Error = err.Error()
			}
			all[n] = v
		}
		return out.Encode(all)
	case "interface":
		all := map[string]device{}
		for _, n := range args[1:] {
			all[n] = readDevice(n)
		}
		return out.Encode(all)
	}
	return fmt.Errorf("peek knows no %q", args[0])
}

// variable is one node of the kernel's tree.
type variable struct {
	Type     string // node, int, string, s64, opaque, uint, long, ulong, u64, u8, u16, s8, s16, s32, u32
	Format   string `json:",omitempty"` // I, IU, L, LU, A, S,struct
	Writable bool
	Tunable  bool   // by the loader
	Number   *int64 `json:",omitempty"`
	Text     string `json:",omitempty"`
	Bytes    int
	Raw      string `json:",omitempty"` // in hexadecimal digits
	Error    string `json:",omitempty"`
}

// typeNames are the types of sys/sysctl.h CTLTYPE.
func typeNames() []string {
	return []string{"", "node", "int", "string", "s64", "opaque", "uint", "long", "ulong", "u64", "u8", "u16", "s8", "s16", "s32", "u32"}
}

func sysctl(oid []int32, old, value []byte) ([]byte, error) {
	size := uintptr(len(old))
	var oldAt, newAt unsafe.Pointer
	if len(old) > 0 {
		oldAt = unsafe.Pointer(&old[0])
	}
	if len(value) > 0 {
		newAt = unsafe.Pointer(&value[0])
	}
	_, _, errno := unix.Syscall6(unix.SYS___SYSCTL, uintptr(unsafe.Pointer(&oid[0])), uintptr(len(oid)),
		uintptr(oldAt), uintptr(unsafe.Pointer(&size)), uintptr(newAt), uintptr(len(value)))
	if errno != 0 {
		return nil, errno
	}
	return old[:min(size, uintptr(len(old)))], nil
}

func oidOf(b []byte) []int32 {
	oid := make([]int32, len(b)/4)
	for i := range oid {
		oid[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return oid
}

// allNames walks the tree by CTL_SYSCTL_NEXT, 0.2, and CTL_SYSCTL_NAME, 0.1.
func allNames() []string {
	var all []string
	for at := []int32{1}; ; {
		b, err := sysctl(append([]int32{0, 2}, at...), make([]byte, 200), nil)
		if err != nil || len(b) == 0 {
			return all
		}
		at = oidOf(b)
		name, err := sysctl(append([]int32{0, 1}, at...), make([]byte, 1024), nil)
		if err == nil {
			all = append(all, strings.TrimRight(string(name), "\x00"))
		}
	}
}

func readVariable(name string) (variable, error) {
	b, err := sysctl([]int32{0, 3}, make([]byte, 200), []byte(name))
	if err != nil {
		return variable{}, err
	}
	oid := oidOf(b)
	b, err = sysctl(append([]int32{0, 4}, oid...), make([]byte, 1024), nil)
	if err != nil || len(b) < 4 {
		return variable{}, errors.Join(err, errors.New("no format"))
	}
	kind := binary.LittleEndian.Uint32(b)
	v := variable{
		Format: strings.TrimRight(string(b[4:]), "\x00"), Writable: kind&0x40000000 != 0, Tunable: kind&0x80000 != 0,
	}
	if names := typeNames(); int(kind&0xf) < len(names) {
		v.Type = names[kind&0xf]
	}
	if b, err = sysctl(oid, make([]byte, 256<<10), nil); err != nil {
		return v, err
	}
	v.Bytes = len(b)
	if len(b) <= 64 || v.Type == "opaque" {
		v.Raw = hex.EncodeToString(b)
	}
	v.interpret(b)
	return v, nil
}

func (v *variable) interpret(b []byte) {
	var n int64
	switch {
	case v.Type == "string":
		v.Text = strings.TrimRight(string(b), "\x00")
		return
	case v.Type == "node" || v.Type == "opaque":
		return
	case len(b) == 8:
		n = int64(binary.LittleEndian.Uint64(b))
	case len(b) == 4 && strings.HasPrefix(v.Type, "u"):
		n = int64(binary.LittleEndian.Uint32(b))
	case len(b) == 4:
		n = int64(int32(binary.LittleEndian.Uint32(b)))
	case len(b) == 2:
		n = int64(binary.LittleEndian.Uint16(b))
	case len(b) == 1:
		n = int64(b[0])
	default:
		return
	}
	v.Number = &n
}

// device is the result of ioctls on an interface.
type device struct {
	Index                   int
	Flags                   string
	MTU                     int32
	MediaCurrent, MediaWord string // requested, and active
	MediaStatus             int32
	CanDo, Does             string // capabilities, as masks
	MAC                     string
}

func readDevice(name string) device {
	var d device
	if i, err := net.InterfaceByName(name); err == nil {
		d.Index, d.MAC = i.Index, i.HardwareAddr.String()
	}
	ask := func(request uint, size int) []byte {
		b := make([]byte, size)
		copy(b[:16], name)
		if ioctl(request, unsafe.Pointer(&b[0])) != nil {
			return make([]byte, size)
		}
		return b
	}
	word := func(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	flags := ask(0xc0206911, 32) // SIOCGIFFLAGS
	d.Flags = fmt.Sprintf("0x%x", uint32(binary.LittleEndian.Uint16(flags[16:]))|uint32(binary.LittleEndian.Uint16(flags[18:]))<<16)
	d.MTU = int32(word(ask(0xc0206933, 32), 16)) // SIOCGIFMTU
	c := ask(0xc020691f, 32)                     // SIOCGIFCAP
	d.CanDo, d.Does = fmt.Sprintf("0x%x", word(c, 16)), fmt.Sprintf("0x%x", word(c, 20))
	m := ask(0xc0306938, 48) // SIOCGIFMEDIA
	d.MediaCurrent, d.MediaWord, d.MediaStatus = fmt.Sprintf("0x%x", word(m, 16)), fmt.Sprintf("0x%x", word(m, 28)), int32(word(m, 24))
	return d
}
