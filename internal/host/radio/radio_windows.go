package radio

import (
	"errors"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/windows"

	"linerate/internal/core/fact"
)

// source is a session with the service for wireless networks.
type source struct {
	handle windows.Handle
	guid   windows.GUID // of the interface
}

// call calls a function of wlanapi.dll, which editions without wireless networks lack.
func call(name string, args ...uintptr) error {
	proc := windows.NewLazySystemDLL("wlanapi.dll").NewProc(name)
	if err := proc.Find(); err != nil {
		return fmt.Errorf("%s: %w", name, errors.ErrUnsupported)
	}
	if r, _, _ := proc.Call(args...); r != 0 {
		return fmt.Errorf("%s: %s", name, windows.Errno(r).Error())
	}
	return nil
}

func openSource(name string) (s source, err error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return s, err
	}
	row := windows.MibIfRow2{InterfaceIndex: uint32(i.Index)}
	if err := windows.GetIfEntry2Ex(windows.MibIfEntryNormal, &row); err != nil {
		return s, fmt.Errorf("GetIfEntry2Ex: %s", err.Error())
	}
	const wireless = 71 // IF_TYPE_IEEE80211
	if row.Type != wireless {
		return s, fmt.Errorf("not a wireless interface: %w", errors.ErrUnsupported)
	}
	s.guid = row.InterfaceGuid
	const version = 2 // Windows Vista and later
	var agreed uint32
	return s, call("WlanOpenHandle", version, 0, uintptr(unsafe.Pointer(&agreed)), uintptr(unsafe.Pointer(&s.handle)))
}

func (s source) close() error { return call("WlanCloseHandle", uintptr(s.handle), 0) }

// read reads the connection. Windows refuses if its privacy settings keep programs from
// knowing the machine's location.
func (s source) read(bool) (out State, err error) {
	const connection = 7 // wlan_intf_opcode_current_connection
	var size uint32
	var data *byte
	err = call("WlanQueryInterface", uintptr(s.handle), uintptr(unsafe.Pointer(&s.guid)), connection, 0,
		uintptr(unsafe.Pointer(&size)), uintptr(unsafe.Pointer(&data)), 0)
	if err != nil {
		return State{}, err
	}
	const most = 1 << 16
	if data != nil {
		defer windows.NewLazySystemDLL("wlanapi.dll").NewProc("WlanFreeMemory").Call(uintptr(unsafe.Pointer(data))) //nolint:errcheck // it returns nothing
		err = out.decodeConnection(unsafe.Slice(data, min(size, most)))
	}
	fact.Explain(&out, "Windows does not report it")
	return out, err
}
