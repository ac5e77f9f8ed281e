package wire

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The memory of all receive rings of a path, and the maximum and minimum of one ring. With 16
// MiB and MTU 1500 a ring holds 8192 frames, a tenth of a second at 1 Gbit/s.
const (
	allRings  = 64 << 20
	mostRing  = 16 << 20
	leastRing = 1 << 20
)

// packetPort receives from a memory-mapped TPACKET_V2 ring, whose memory is not bounded by
// net.core.rmem_max and whose frames have their arrival time, and sends with sendmmsg,
// bypassing the queueing discipline (Documentation/networking/packet_mmap.rst, Linux 6.18).
type packetPort struct {
	file   int
	ring   []byte
	stride int
	slots  int
	at     int

	headers [batch]mmsghdr
	vectors [batch]unix.Iovec
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

// tpacketReserve covers struct tpacket2_hdr, struct sockaddr_ll and the
// alignment that the kernel puts before the frame in a TPACKET_V2 slot.
const tpacketReserve = 128

// NewPacket returns a port on the interface with the given index in the calling thread's
// network namespace, for frames of up to size bytes. The path has that many ports.
func NewPacket(index, size, ports int) (Port, error) {
	proto := hostToNet16(unix.ETH_P_ALL)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	p := &packetPort{file: fd}
	err = p.setUp(size, max(leastRing, min(mostRing, allRings/ports)))
	if err == nil {
		// Bound last: the ring must exist before the first frame.
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up packet socket: %w", err), p.Close())
	}
	for i := range p.headers {
		p.headers[i].header.Iov = &p.vectors[i]
		p.headers[i].header.SetIovlen(1)
	}
	return p, nil
}

func (p *packetPort) setUp(size, ringBytes int) error {
	for _, o := range []struct {
		name  string
		key   int
		value int
	}{
		{"PACKET_VERSION", unix.PACKET_VERSION, unix.TPACKET_V2},
		{"PACKET_IGNORE_OUTGOING", unix.PACKET_IGNORE_OUTGOING, 1},
		{"PACKET_QDISC_BYPASS", unix.PACKET_QDISC_BYPASS, 1},
	} {
		if err := unix.SetsockoptInt(p.file, unix.SOL_PACKET, o.key, o.value); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	// Frames being sent are charged to the socket until the host has received them. Without
	// privilege in the first user namespace this is refused: then the system's largest ordinary
	// value.
	if unix.SetsockoptInt(p.file, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4<<20) != nil {
		if err := unix.SetsockoptInt(p.file, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<20); err != nil {
			return fmt.Errorf("SO_SNDBUF: %w", err)
		}
	}
	p.stride = 2048
	for p.stride < size+tpacketReserve {
		p.stride *= 2
	}
	block := max(p.stride, 64<<10)
	blocks := ringBytes / block
	p.slots = blocks * block / p.stride
	req := unix.TpacketReq{
		Block_size: uint32(block), Block_nr: uint32(blocks),
		Frame_size: uint32(p.stride), Frame_nr: uint32(p.slots),
	}
	if err := unix.SetsockoptTpacketReq(p.file, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return fmt.Errorf("PACKET_RX_RING of %d bytes: %w", ringBytes, err)
	}
	ring, err := unix.Mmap(p.file, 0, blocks*block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the receive ring: %w", err)
	}
	p.ring = ring
	return nil
}

func (p *packetPort) receive(buf []byte) (int, int64, bool) {
	slot := p.ring[p.at*p.stride : (p.at+1)*p.stride]
	h := (*unix.Tpacket2Hdr)(unsafe.Pointer(unsafe.SliceData(slot)))
	if atomic.LoadUint32(&h.Status)&unix.TP_STATUS_USER == 0 {
		return 0, 0, false
	}
	n := copy(buf, slot[h.Mac:uint32(h.Mac)+h.Snaplen])
	wall := int64(h.Sec)*1e9 + int64(h.Nsec)
	atomic.StoreUint32(&h.Status, unix.TP_STATUS_KERNEL)
	p.at++
	if p.at == p.slots {
		p.at = 0
	}
	return n, wall, true
}

func (p *packetPort) send(frames [][]byte) int {
	accepted := 0
	for len(frames) > 0 {
		n := min(len(frames), batch)
		for i, f := range frames[:n] {
			p.vectors[i].Base = unsafe.SliceData(f)
			p.vectors[i].SetLen(len(f))
		}
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(p.file),
			uintptr(unsafe.Pointer(&p.headers[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == 0 && sent > 0:
			accepted += int(sent)
			frames = frames[sent:]
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			// The host's backlog still holds earlier frames.
			poll([]unix.PollFd{{Fd: int32(p.file), Events: unix.POLLOUT}}, shortWait)
		default:
			frames = frames[1:] // the kernel refuses this one, not the next ones
		}
	}
	return accepted
}

func (p *packetPort) fd() int { return p.file }

func (p *packetPort) missed() uint64 {
	st, err := unix.GetsockoptTpacketStats(p.file, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0 // the option exists since Linux 2.2 and cannot be refused
	}
	return uint64(st.Drops)
}

func (p *packetPort) Close() error {
	var err error
	if p.ring != nil {
		err = unix.Munmap(p.ring)
	}
	return errors.Join(err, unix.Close(p.file))
}

func hostToNet16(v uint16) uint16 {
	b := *(*[2]byte)(unsafe.Pointer(&v))
	return uint16(b[0])<<8 | uint16(b[1])
}
