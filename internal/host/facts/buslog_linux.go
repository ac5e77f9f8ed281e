package facts

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/host/kmsg"
)

// tellSlot adds to the bus of a card on an old one what its driver found of the slot,
// where neither the card nor the slot tells both: in the kernel's log, or where that is
// gone in the dump of the driver's registers. Both are for root, or for who may read the
// log; without it stays unknown.
func (r nicReader) tellSlot(b *model.Bus, device string, i info) {
	kind, address := b.Kind.Or(""), b.Address.Or("")
	if kind != "pci" && kind != "virtual" || !pciAddress.MatchString(address) || b.Width.IsKnown() && b.Clock.IsKnown() {
		return
	}
	s, ok := loggedSlot(address)
	if !ok && i.driver == "e1000" {
		s, ok = registeredSlot(device, i.registers)
	}
	if !ok {
		return
	}
	s.take(b)
	narrowest(r.root, address, b)
}

// loggedSlot looks for a device in the log of this start of the machine.
func loggedSlot(address string) (slotBus, bool) {
	log, err := kmsg.OpenAll()
	if err != nil {
		return slotBus{}, false
	}
	defer log.Close()
	var last slotBus
	found := false
	_ = log.Each(func(line string) { // what was read until an error counts
		if s, ok := slotOf(line, address); ok {
			last, found = s, true
		}
	})
	return last, found
}

// registeredSlot asks for the dump of a driver's registers, of size bytes
// (ETHTOOL_GREGS: struct ethtool_regs, which is command, version and length before it).
func registeredSlot(device string, size uint32) (slotBus, bool) {
	const command, head = 4, 12
	if size < e1000Registers || size > 1<<16 {
		return slotBus{}, false
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return slotBus{}, false
	}
	defer unix.Close(fd)
	b := make([]byte, head+int(size))
	binary.NativeEndian.PutUint32(b, command)
	binary.NativeEndian.PutUint32(b[8:], size)
	var request struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	request.data = unsafe.Pointer(&b[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return slotBus{}, false
	}
	return slotOfRegisters(binary.NativeEndian.Uint32(b[4:]), b[head:])
}
