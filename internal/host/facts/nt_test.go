package facts

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// record makes one record of GetLogicalProcessorInformationEx: relation, size,
// a body of zeros with the count of groups at 30 and a mask for each group from
// 32 on (winnt.h SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX).
func record(relation uint32, masks ...uint64) []byte {
	b := make([]byte, 32+16*len(masks))
	binary.LittleEndian.PutUint32(b, relation)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
	binary.LittleEndian.PutUint16(b[30:], uint16(len(masks)))
	for i, m := range masks {
		binary.LittleEndian.PutUint64(b[32+16*i:], m)
	}
	return b
}

// twoSockets is a machine of two sockets with two cores of two threads each.
func twoSockets() []byte {
	var b []byte
	for i := range 4 {
		b = append(b, record(relationCore, 3<<(2*i))...)
	}
	b = append(b, record(relationNode, 0xf)...)
	b = append(b, record(relationNode, 0xf0)...)
	b = append(b, record(2, 0xff)...) // a cache
	b = append(b, record(relationPackage, 0xf)...)
	b = append(b, record(relationPackage, 0xf0)...)
	return append(b, record(4, 0xff)...) // the group
}

func TestDecodeTopology(t *testing.T) {
	must.Equal(t, must.Get(decodeTopology(twoSockets()))(t), (ntTopology{sockets: 2, cores: 4, threads: 8, nodes: 2}))
	whole := twoSockets()
	for n := range whole {
		if n%48 != 0 || n == 0 {
			must.Fail(t, must.Err(decodeTopology(whole[:n])), "%d of %d bytes are accepted", n, len(whole))
		}
	}
}

func TestParseLocation(t *testing.T) {
	for text, want := range map[string]string{
		"@System32\\drivers\\pci.sys,#65536;PCI bus %1, device %2, function %3;(0,31,6)": "0000:00:1f.6",
		"@System32\\drivers\\pci.sys,#65536;PCI bus %1, device %2, function %3;(3,0,1)":  "0000:03:00.1",
		"Port_#0003.Hub_#0001": "", "(1,32,0)": "", "(256,0,0)": "", "(0,0,9)": "", "": "",
	} {
		got, ok := parseLocation(text)
		must.True(t, got == want && ok == (want != ""), "%q: %q, %v", text, got, ok)
	}
}

// intel is the class key of an adapter of Windows 10, as e1d68x64.inf fills it
// in, with the ranges below Ndi\params.
func intel() map[string]string {
	return map[string]string{
		"DriverDesc": "Intel(R) Ethernet Connection (5) I219-LM", "DriverVersion": "12.19.1.37", "MatchingDeviceId": `pci\ven_8086&dev_15e3`,
		"*SpeedDuplex": "0", "*LsoV2IPv4": "1", "*LsoV2IPv6": "0", "*TCPChecksumOffloadIPv4": "3",
		`Ndi\params\*JumboPacket\min`: "1514", `Ndi\params\*JumboPacket\max`: "9014",
	}
}

func device(values map[string]string, location string, link map[uint32]uint32) ntDevice {
	return ntDevice{
		value: func(name string) string { return values[name] }, location: location,
		link: func(p uint32) (uint32, bool) { v, ok := link[p]; return v, ok },
	}
}

func TestWindowsDevice(t *testing.T) {
	n := model.NIC{Media: unknownMedia("x")}
	device(intel(), "PCI bus %1, device %2, function %3;(0,31,6)", map[uint32]uint32{pciCurrentSpeed: 1, pciCurrentWidth: 1, pciMaxSpeed: 2, pciMaxWidth: 4}).fill(&n)
	must.True(t, n.Driver.Or("") == "Intel(R) Ethernet Connection (5) I219-LM" && n.Version.Or("") == "12.19.1.37" && n.MTUMin.Or(0) == 1500 && n.MTUMax.Or(0) == 9000 && n.Media.Autoneg.Or(false), "%+v", n)
	if b := n.Bus; b.Kind.Or("") != "pcie" || b.Address.Or("") != "0000:00:1f.6" || b.Device.Or("") != "8086:15e3" || !about(b.Allows.Or(0), 2e9) || !about(b.AllowsMax.Or(0), 16e9) {
		t.Errorf("%+v", b)
	}
	want := []model.Offload{{Name: "*LsoV2IPv4", On: true}, {Name: "*LsoV2IPv6"}, {Name: "*TCPChecksumOffloadIPv4", On: true}}
	must.True(t, slices.Equal(n.Offloads.Or(nil), want), "%+v", n.Offloads)
	for id, want := range map[string]string{`pci\ven_8086&dev_1026`: "pci", `PCI\VEN_1AF4&DEV_1000`: "virtual", `USB\VID_0BDA&PID_8153`: "usb", `VMBUS\{f8615163-df3e-46c5-913f-f2d2f965ed0e}`: "virtual", "": "", "vms_mp": ""} {
		b := device(map[string]string{"MatchingDeviceId": id}, "", nil).bus()
		must.True(t, b.Kind.Or("") == want && !b.Allows.IsKnown() && b.Allows.Reason() != "", "%q: %+v", id, b)
	}
	bare := model.NIC{Media: unknownMedia("x")}
	device(nil, "", nil).fill(&bare)
	must.True(t, !bare.Driver.IsKnown() && !bare.MTUMax.IsKnown() && !bare.Offloads.IsKnown() && !bare.Media.Autoneg.IsKnown() && bare.MTUMax.Reason() != "", "%+v", bare)
}

func TestWindowsWords(t *testing.T) {
	must.True(t, ntSpeed(1e9).Or(0) == 1e9 && !ntSpeed(0).IsKnown() && !ntSpeed(1<<64-1).IsKnown(), "speeds")
	must.True(t, ntKind(6) == "device" && ntKind(71) == "wireless" && ntKind(53) == "type 53", "kinds")
	must.True(t, ntVirtual("Microsoft Corporation", "Virtual Machine").Or("") == "hyperv" && ntVirtual("LENOVO", "20KH").Or("") == model.NotVirtual && !ntVirtual("", "").IsKnown(), "hypervisors")
}

func TestWindowsAddress(t *testing.T) {
	for text, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "0.0.0.0": "", "::": "", "fe80::1%3": "fe80::1"} {
		must.Equal(t, must.Get(decodeNTAddress(encodeNTAddress(netip.MustParseAddr(text))))(t), want, "%s", text)
	}
	must.Fail(t, must.Err(decodeNTAddress([ntAddressSize]byte{1})), "an address of no family is accepted")
}

func FuzzDecodeTopology(f *testing.F) {
	f.Add(twoSockets())
	f.Add(record(relationCore, 1, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeTopology(b)
		must.True(t, err != nil || got.threads >= 1 && got.cores >= 1, "%+v", got)
	})
}

func FuzzWindowsDevice(f *testing.F) {
	f.Add(`pci\ven_8086&dev_15e3`, "(0,31,6)", "1514", "9014", uint32(3), uint32(8))
	f.Fuzz(func(t *testing.T, id, location, low, high string, speed, width uint32) {
		n := model.NIC{}
		device(map[string]string{"MatchingDeviceId": id, `Ndi\params\*JumboPacket\min`: low, `Ndi\params\*JumboPacket\max`: high}, location,
			map[uint32]uint32{pciCurrentSpeed: speed, pciCurrentWidth: width}).fill(&n)
		must.True(t, n.Bus.Allows.Or(1) > 0 && n.MTUMax.Or(1) > 0, "%+v", n)
	})
}
