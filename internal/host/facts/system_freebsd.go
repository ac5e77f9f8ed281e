package facts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

func readMachine(ctx context.Context) model.Machine { return ask(ctx, "freebsd").freebsdMachine() }

func readNICs(ctx context.Context, x *knob.Index, first string) ([]model.NIC, error) {
	return ask(ctx, "freebsd").readNICs(ctx, x, first)
}

// configSpace reads a device's registers, pci(4), which needs root.
func configSpace(p pciPlace) ([]byte, error) {
	f, err := os.OpenFile("/dev/pci", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer f.Close()         // nothing was written
	const read = 0xc0147002 // PCIOCREAD of FreeBSD sys/sys/pciio.h
	var io struct {         // struct pci_io
		domain            uint32
		bus, slot, number uint8
		_                 uint8
		register, width   int32
		data              uint32
	}
	config := make([]byte, 0, maxConfiguration)
	for at := 0; at < maxConfiguration; at += 4 {
		io.domain, io.bus, io.slot, io.number = p.domain, p.bus, p.slot, p.number
		io.register, io.width = int32(at), 4
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), read, uintptr(unsafe.Pointer(&io))); errno != 0 {
			return nil, errors.New(errno.Error())
		}
		config = append(config, byte(io.data), byte(io.data>>8), byte(io.data>>16), byte(io.data>>24))
	}
	return config, nil
}

func lookUpRoute(ctx context.Context, peer netip.Addr) (gateway string, mtu int, err error) {
	return freebsdRoutes().lookUp(ctx, peer)
}
