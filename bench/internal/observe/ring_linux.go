package observe

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Constants of packet(7) and include/uapi/linux/if_packet.h that package syscall lacks.
const (
	packetVersion = 10
	packetV3      = 2
	userOwns      = 1 // TP_STATUS_USER
)

// Offsets in struct tpacket_block_desc, and in struct tpacket3_hdr.
const (
	blockStatus, blockPackets, blockFirst = 8, 12, 16
	frameNext, frameSec, frameNsec        = 0, 4, 8
	frameLength                           = 16
	frameHeader                           = 48               // its length; struct sockaddr_ll follows
	frameType                             = frameHeader + 10 // sll_pkttype in it
)

const (
	blockSize  = 1 << 20
	blockCount = 64
	snap       = 64                     // bytes kept of a frame
	retire     = 100 * time.Millisecond // after which the kernel passes on a partly filled block
)

// ring is a ring of blocks that the kernel fills, with each frame's arrival time. It wakes its
// reader once per block, which leaves the CPUs to the measured programs.
type ring struct {
	o   options
	fd  int
	mem []byte
	at  int // the next block
}

// open creates a ring for the UDP packets that arrive at an interface.
func open(o options) (*ring, error) {
	device, err := net.InterfaceByName(o.device)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	r := &ring{o: o, fd: fd}
	if err := r.prepare(device.Index); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ring) prepare(device int) error {
	if err := syscall.SetsockoptInt(r.fd, syscall.SOL_PACKET, packetVersion, packetV3); err != nil {
		return os.NewSyscallError("setsockopt PACKET_VERSION", err)
	}
	// Incoming UDP over IPv4; the rest of each frame is not kept.
	filter := [...]syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_B | syscall.BPF_ABS, K: 14 + 9},
		{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, K: syscall.IPPROTO_UDP, Jf: 1},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: snap},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: 0},
	}
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, code := syscall.Syscall6(syscall.SYS_SETSOCKOPT, uintptr(r.fd), syscall.SOL_SOCKET, syscall.SO_ATTACH_FILTER,
		uintptr(unsafe.Pointer(&program)), unsafe.Sizeof(program), 0)
	if code != 0 {
		return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", code)
	}
	// struct tpacket_req3.
	var request []byte
	for _, v := range []uint32{
		blockSize, blockCount, blockSize, blockCount, uint32(retire.Milliseconds()), 0, 0,
	} {
		request = binary.NativeEndian.AppendUint32(request, v)
	}
	if err := syscall.SetsockoptString(r.fd, syscall.SOL_PACKET, syscall.PACKET_RX_RING, string(request)); err != nil {
		return os.NewSyscallError("setsockopt PACKET_RX_RING", err)
	}
	mem, err := syscall.Mmap(r.fd, 0, blockSize*blockCount, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.mem = mem
	var ip [2]byte
	binary.BigEndian.PutUint16(ip[:], syscall.ETH_P_IP)
	address := &syscall.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(ip[:]), Ifindex: device}
	return os.NewSyscallError("bind", syscall.Bind(r.fd, address))
}

func (r *ring) close() {
	if r.mem != nil {
		_ = syscall.Munmap(r.mem)
	}
	_ = syscall.Close(r.fd)
}

// collect returns the times of the packets that arrived until ended is closed, and how many it
// missed.
func (r *ring) collect(ended <-chan struct{}) (times []int64, missed int, err error) {
	times = make([]int64, 0, r.o.most)
	look := time.NewTicker(retire / 2)
	defer look.Stop()
	// The last arrivals are in a block that the kernel passes on a little later.
	for last := false; ; {
		times, missed = r.drain(times, missed)
		if last {
			dropped, err := r.dropped()
			return times, missed + dropped, err
		}
		select {
		case <-look.C:
		case <-ended:
			for range 4 {
				<-look.C
			}
			last = true
		}
	}
}

// drain reads the blocks that the kernel has passed on.
func (r *ring) drain(times []int64, missed int) ([]int64, int) {
	for range blockCount {
		block := r.mem[r.at*blockSize:][:blockSize]
		status := (*uint32)(unsafe.Pointer(&block[blockStatus]))
		if atomic.LoadUint32(status)&userOwns == 0 {
			break
		}
		var over int
		times, over = frames(block, r.o.size, times)
		missed += over
		atomic.StoreUint32(status, 0)
		r.at = (r.at + 1) % blockCount
	}
	return times, missed
}

// frames appends the times of the datagrams of a block while there is room, and returns how
// many did not fit.
func frames(block []byte, size int, times []int64) (_ []int64, missed int) {
	order := binary.NativeEndian
	at := int(order.Uint32(block[blockFirst:]))
	for range order.Uint32(block[blockPackets:]) {
		if at < 0 || at+frameHeader+snap > len(block) {
			break
		}
		f := block[at:]
		if f[frameType] != syscall.PACKET_OUTGOING {
			when := int64(order.Uint32(f[frameSec:]))*1e9 + int64(order.Uint32(f[frameNsec:]))
			n := trains(int(order.Uint32(f[frameLength:])), size)
			missed += max(0, n-(cap(times)-len(times)))
			for range min(n, cap(times)-len(times)) {
				times = append(times, when)
			}
		}
		next := int(order.Uint32(f[frameNext:]))
		if next == 0 {
			break // the last one, whatever the count says
		}
		at += next
	}
	return times, missed
}

// dropped returns how many packets found no room in the ring.
func (r *ring) dropped() (int, error) {
	var stats [3]uint32 // struct tpacket_stats_v3
	length := uint32(unsafe.Sizeof(stats))
	_, _, code := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(r.fd), syscall.SOL_PACKET, syscall.PACKET_STATISTICS,
		uintptr(unsafe.Pointer(&stats)), uintptr(unsafe.Pointer(&length)), 0)
	if code != 0 {
		return 0, fmt.Errorf("read what was dropped: %w", os.NewSyscallError("getsockopt PACKET_STATISTICS", code))
	}
	return int(stats[1]), nil
}
