package facts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// adapters is the key of the class of network adapters; each adapter has a subkey of four
// digits.
const adapters = `SYSTEM\CurrentControlSet\Control\Class\{4d36e972-e325-11ce-bfc1-08002be10318}`

func readMachine(context.Context) model.Machine {
	const bios, cpu = `HARDWARE\DESCRIPTION\System\BIOS`, `HARDWARE\DESCRIPTION\System\CentralProcessor\0`
	reported := func(key, name string) fact.Of[string] {
		v := registryText(key, name)
		return fact.If(v != "", v, "registry", "the firmware does not report it")
	}
	m := model.Machine{Vendor: reported(bios, "SystemManufacturer"), Product: reported(bios, "SystemProductName"), CPU: reported(cpu, "ProcessorNameString"), Memory: memory()}
	m.Virtual = ntVirtual(m.Vendor.Or(""), m.Product.Or(""))
	t, err := topology()
	if err != nil {
		fact.Explain(&m, err.Error())
		return m
	}
	const source = "GetLogicalProcessorInformationEx"
	m.Sockets, m.Cores = fact.Known(t.sockets, source), fact.Known(t.cores, source)
	m.Threads, m.NUMA = fact.Known(t.threads, source), fact.Known(t.nodes, source)
	return m
}

// registryText reads a value below HKEY_LOCAL_MACHINE as text, "" for none.
func registryText(key, name string) string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer k.Close() // nothing was written
	if s, _, err := k.GetStringValue(name); err == nil {
		return strings.TrimSpace(s)
	}
	if n, _, err := k.GetIntegerValue(name); err == nil {
		return fmt.Sprint(n)
	}
	return ""
}

func topology() (ntTopology, error) {
	const all = 0xffff // RelationAll
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetLogicalProcessorInformationEx")
	if err := proc.Find(); err != nil {
		return ntTopology{}, fmt.Errorf("GetLogicalProcessorInformationEx: %w", errors.ErrUnsupported)
	}
	buffer := make([]byte, 64<<10)
	for range 3 { // processors may be added meanwhile
		size := uint32(len(buffer))
		ok, _, err := proc.Call(all, uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&size)))
		if ok != 0 {
			return decodeTopology(buffer[:min(int(size), len(buffer))])
		}
		if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) || size > 16<<20 {
			return ntTopology{}, fmt.Errorf("GetLogicalProcessorInformationEx: %s", err.Error())
		}
		buffer = make([]byte, size)
	}
	return ntTopology{}, errTopology
}

// memory reads GlobalMemoryStatusEx: a structure of 64 bytes that starts with its size and
// has the installed memory at 8 (sysinfoapi.h MEMORYSTATUSEX).
func memory() fact.Of[units.Bytes] {
	var status [64]byte
	binary.LittleEndian.PutUint32(status[:], uint32(len(status)))
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
	if err := proc.Find(); err != nil {
		return fact.Unknown[units.Bytes](err.Error())
	}
	if ok, _, err := proc.Call(uintptr(unsafe.Pointer(&status[0]))); ok == 0 {
		return fact.Unknown[units.Bytes]("GlobalMemoryStatusEx: " + err.Error())
	}
	return fact.Known(units.Bytes(binary.LittleEndian.Uint64(status[8:])), "GlobalMemoryStatusEx")
}

func readNICs(_ context.Context, _ *knob.Index, first string) ([]model.NIC, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	keys := classKeys()
	var all []model.NIC
	for _, i := range orderInterfaces(list, first) {
		all = append(all, readNIC(i, keys))
	}
	return all, nil
}

// classKeys finds the class key of every adapter by its GUID.
func classKeys() map[string]string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, adapters, registry.ENUMERATE_SUB_KEYS)
	if err != nil {
		return nil // adapters are reported without it
	}
	defer k.Close() // nothing was written
	names, _ := k.ReadSubKeyNames(-1)
	keys := map[string]string{}
	for _, name := range names {
		if guid := registryText(adapters+`\`+name, "NetCfgInstanceId"); guid != "" {
			keys[strings.ToLower(guid)] = adapters + `\` + name
		}
	}
	return keys
}

func readNIC(i net.Interface, keys map[string]string) model.NIC {
	const why = "not available on windows"
	n := model.NIC{
		Name: i.Name, Up: fact.Known(i.Flags&net.FlagRunning != 0, "flags"), MAC: fact.Unknown[string]("has none"), Addresses: addresses(i),
		MTU: fact.Known(i.MTU, "GetAdaptersAddresses"), Bus: unknownBus("made by software"),
	}
	fact.Explain(&n, why)
	n.Bus.Kind = fact.Known("virtual", "registry")
	if len(i.HardwareAddr) > 0 {
		n.MAC = fact.Known(i.HardwareAddr.String(), "GetAdaptersAddresses")
	}
	row := windows.MibIfRow2{InterfaceIndex: uint32(i.Index)}
	if err := windows.GetIfEntry2Ex(windows.MibIfEntryNormal, &row); err != nil {
		n.Bus = unknownBus("GetIfEntry2Ex: " + err.Error())
		return n
	}
	n.Kind = fact.Known(ntKind(row.Type), "GetIfEntry2")
	const connected = 1 // MediaConnectStateConnected
	n.Up = fact.Known(row.OperStatus == windows.IfOperStatusUp && row.MediaConnectState == connected, "GetIfEntry2")
	tellRadio(&n)
	if key := keys[strings.ToLower(row.InterfaceGuid.String())]; key != "" {
		deviceOf(key).fill(&n)
	}
	n.Media.Speed = ntSpeed(row.TransmitLinkSpeed)
	if n.Bus.Kind.Or("") == "virtual" {
		n.Media.Speed = fact.Unknown[units.BitRate](i.Name + " is a virtual link")
	}
	return n
}

// deviceOf returns the device of a class key.
func deviceOf(key string) ntDevice {
	instance := registryText(key, "DeviceInstanceID")
	return ntDevice{
		value: func(name string) string {
			if at := strings.LastIndex(name, `\`); at >= 0 {
				return registryText(key+`\`+name[:at], name[at+1:])
			}
			return registryText(key, name)
		},
		location: registryText(`SYSTEM\CurrentControlSet\Enum\`+instance, "LocationInformation"),
		link:     func(property uint32) (uint32, bool) { return pciProperty(instance, property) },
	}
}

// pciProperty queries the bus driver for a number of a device (cfgmgr32.h
// CM_Get_DevNode_PropertyW; pciprop.h DEVPKEY_PciDevice_*).
func pciProperty(instance string, property uint32) (uint32, bool) {
	lib := windows.NewLazySystemDLL("cfgmgr32.dll")
	locate, get := lib.NewProc("CM_Locate_DevNodeW"), lib.NewProc("CM_Get_DevNode_PropertyW")
	id, err := windows.UTF16PtrFromString(instance)
	if err != nil || instance == "" || locate.Find() != nil || get.Find() != nil {
		return 0, false
	}
	var node uint32
	if r, _, _ := locate.Call(uintptr(unsafe.Pointer(&node)), uintptr(unsafe.Pointer(id)), 0); r != 0 {
		return 0, false
	}
	key := windows.DEVPROPKEY{
		FmtID: windows.DEVPROPGUID{Data1: 0x3ab22e31, Data2: 0x8264, Data3: 0x4b4e, Data4: [8]byte{0x9a, 0xf5, 0xa8, 0xd2, 0xd8, 0xe3, 0x3e, 0x62}},
		PID:   windows.DEVPROPID(property),
	}
	const number = 7 // DEVPROP_TYPE_UINT32
	var kind, value uint32
	size := uint32(unsafe.Sizeof(value))
	r, _, _ := get.Call(uintptr(node), uintptr(unsafe.Pointer(&key)), uintptr(unsafe.Pointer(&kind)), uintptr(unsafe.Pointer(&value)), uintptr(unsafe.Pointer(&size)), 0)
	return value, r == 0 && kind == number
}

// lookUpRoute looks up the best route. Windows has no MTU of routes.
func lookUpRoute(_ context.Context, peer netip.Addr) (gateway string, mtu int, err error) {
	proc := windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetBestRoute2")
	if err := proc.Find(); err != nil {
		return "", 0, fmt.Errorf("GetBestRoute2: %w", errors.ErrUnsupported)
	}
	to := encodeNTAddress(peer)
	var from [ntAddressSize]byte
	var row windows.MibIpForwardRow2
	r, _, _ := proc.Call(0, 0, 0, uintptr(unsafe.Pointer(&to[0])), 0, uintptr(unsafe.Pointer(&row)), uintptr(unsafe.Pointer(&from[0])))
	if r != 0 {
		return "", 0, fmt.Errorf("GetBestRoute2: %s", windows.Errno(r).Error())
	}
	hop := *(*[ntAddressSize]byte)(unsafe.Pointer(&row.NextHop))
	gateway, err = decodeNTAddress(hop)
	return gateway, 0, err
}
