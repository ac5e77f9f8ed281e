package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PortName is the name of the virtio-serial port on which the guest answers:
// /dev/virtio-ports/linerate on a machine with udev.
const PortName = "linerate"

// Line is the connection to the guest.
type Line int

const (
	// Virtio is a virtio-serial port, as fast as memory.
	Virtio Line = iota
	// Serial is the second serial port of a PC (0x2F8, interrupt 3).
	Serial
)

// Config describes a machine. Files are paths on this machine.
type Config struct {
	Name string // for messages and files: letters, digits and dashes
	Dir  string // sockets, console log; an existing folder with a path below 80 bytes
	// Kernel is a Linux image, or with Multiboot an ELF file that takes Initrd as modules.
	Kernel    string
	Multiboot bool
	Initrd    []string // Linux: archives, concatenated
	Append    string   // the kernel's command line
	Memory    int      // MiB; 0 is 384
	CPUs      int      // 0 is 1
	Disks     []string // raw images, virtio, never written: changes last until the emulator ends
	Own       bool     // the disks are copies in Dir, and last until Close
	Cards     []Card
	Line      Line
	Clock     string   // the machine's initial clock, in the form of -rtc base=; "" is now
	Args      []string // further qemu arguments
}

// Card is a network card. Its back end is named n0, n1 and so on, in the order of Config.Cards;
// SetLink takes that name.
type Card struct {
	Model   string // the name in qemu-system-x86_64 -device: e1000, e1000e, virtio-net-pci
	MAC     string
	Cable   *Cable // nil: no cable
	Options string // further -device options: "mq=on,vectors=10"
}

// Cable joins one card of each of two machines. The machine that is started first holds its
// listening end, and must run as long as the other one. Both must be running before SetLink
// plugs it in: qemu 7.2 crashes on a null pointer at the first packet into an unconnected
// stream whose link is on (net/stream.c net_stream_receive, qio_channel_writev without a
// channel).
type Cable struct {
	path string
	used bool
}

// NewCable creates a cable whose socket is in dir.
func NewCable(dir, name string) *Cable { return &Cable{path: filepath.Join(dir, name+".cable")} }

// qemu is the program that runs machines.
const qemu = "qemu-system-x86_64"

// file returns the path of one of the machine's own files.
func (c Config) file(kind string) string { return filepath.Join(c.Dir, c.Name+"."+kind) }

// arguments returns qemu's arguments; initrd is the file or files for -initrd.
func (c Config) arguments(initrd string) ([]string, error) {
	memory, cpus := c.Memory, c.CPUs
	if memory == 0 {
		memory = 384
	}
	if cpus == 0 {
		cpus = 1
	}
	a := []string{
		"-name", c.Name, "-M", "pc,accel=" + accelerator(), "-m", fmt.Sprint(memory), "-smp", fmt.Sprint(cpus),
		"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none",
		"-kernel", c.Kernel, "-append", c.Append,
		"-chardev", "file,id=console,append=on,path=" + c.file("console"), "-serial", "chardev:console",
		"-chardev", "socket,id=line,server=on,wait=off,path=" + c.file("line"),
		"-qmp", "unix:" + c.file("qmp") + ",server=on,wait=off",
	}
	if initrd != "" {
		a = append(a, "-initrd", initrd)
	}
	if c.Clock != "" {
		a = append(a, "-rtc", "base="+c.Clock)
	}
	switch c.Line {
	case Virtio:
		a = append(a, "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=line,name="+PortName)
	case Serial:
		a = append(a, "-serial", "chardev:line")
	}
	for i, d := range c.Disks {
		kept := "on"
		if c.Own {
			kept = "off"
		}
		a = append(a, "-drive", fmt.Sprintf("file=%s,if=none,id=d%d,format=raw,snapshot=%s", d, i, kept), "-device", fmt.Sprintf("virtio-blk-pci,drive=d%d", i))
	}
	for i, card := range c.Cards {
		more, err := card.arguments(i)
		if err != nil {
			return nil, err
		}
		a = append(a, more...)
	}
	return append(a, c.Args...), nil
}

func (card Card) arguments(i int) ([]string, error) {
	id := fmt.Sprintf("n%d", i)
	var back string
	switch {
	case card.Cable == nil:
		back = "hubport,hubid=" + fmt.Sprint(i+1) + ",id=" + id // a hub with no other port
	case card.Cable.used:
		back = "stream,server=off,addr.type=unix,addr.path=" + card.Cable.path + ",id=" + id
	default:
		if err := os.Remove(card.Cable.path); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		card.Cable.used = true
		back = "stream,server=on,addr.type=unix,addr.path=" + card.Cable.path + ",id=" + id
	}
	device := card.Model + ",netdev=" + id + ",mac=" + card.MAC
	if card.Options != "" {
		device += "," + strings.TrimPrefix(card.Options, ",")
	}
	return []string{"-netdev", back, "-device", device}, nil
}

// accelerator returns qemu's emulation, which is the same everywhere, or this machine's KVM if
// LINERATE_KVM is set.
func accelerator() string {
	if os.Getenv("LINERATE_KVM") != "" {
		return "kvm"
	}
	return "tcg"
}
