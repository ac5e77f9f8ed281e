package facts

import (
	"encoding/binary"

	"linerate/internal/core/model"
	"linerate/internal/host/kmsg"
	"linerate/internal/host/knob/ethtool"
)

// tellSlot adds what the driver of a card on a conventional bus reports about the slot, if
// neither the card nor the slot reports both facts: from the kernel log, which two drivers write
// it to (see slotText), or else from the dump of the driver's registers. Both need root, or the
// right to read the log; without it the facts stay unknown.
func (r nicReader) tellSlot(b *model.Bus, device string, i ethtool.Info) {
	kind, address := b.Kind.Or(""), b.Address.Or("")
	if i.Driver != "e1000" && i.Driver != "tg3" || kind != "pci" && kind != "virtual" || !pciAddress.MatchString(address) || b.Width.IsKnown() && b.Clock.IsKnown() {
		return
	}
	s, ok := loggedSlot(address)
	if !ok && i.Driver == "e1000" {
		s, ok = registeredSlot(device, i.Registers)
	}
	if !ok {
		return
	}
	s.take(b)
	narrowest(r.root, address, b)
}

// loggedSlot searches the kernel log since boot for a device.
func loggedSlot(address string) (slotBus, bool) {
	log, err := kmsg.OpenAll()
	if err != nil {
		return slotBus{}, false
	}
	defer log.Close()
	var last slotBus
	found := false
	_ = log.Each(func(line string) { // lines read before an error count
		if s, ok := slotOf(line, address); ok {
			last, found = s, true
		}
	})
	return last, found
}

// registeredSlot reads the dump of a driver's registers, of size bytes (ETHTOOL_GREGS: struct
// ethtool_regs, which has command, version and length before it).
func registeredSlot(device string, size uint32) (slotBus, bool) {
	const command, head = 4, 12
	if size < e1000Registers || size > 1<<16 {
		return slotBus{}, false
	}
	socket, err := ethtool.OpenSocket()
	if err != nil {
		return slotBus{}, false
	}
	defer socket.Close() // nothing was written
	b := make([]byte, head+int(size))
	binary.NativeEndian.PutUint32(b, command)
	binary.NativeEndian.PutUint32(b[8:], size)
	if socket.Do(device, b) != nil {
		return slotBus{}, false
	}
	return slotOfRegisters(binary.NativeEndian.Uint32(b[4:]), b[head:])
}
