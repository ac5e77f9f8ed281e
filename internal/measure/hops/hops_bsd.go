//go:build freebsd || darwin

package hops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pair is a UDP socket, and a raw socket that receives all ICMP to its address, which only root
// may open. The quote in the ICMP message shows whether it answers a probe.
type pair struct {
	conn      *net.UDPConn
	raw       syscall.RawConn
	icmp      *net.IPConn
	near, far netip.AddrPort
	b         [512]byte // more than two IP headers with all options and a probe's payload
	oob       [64]byte
}

func open(ctx context.Context, c Config) (socket, error) {
	conn, err := dial(ctx, c)
	if err != nil {
		return nil, err
	}
	p := &pair{conn: conn, near: plain(conn.LocalAddr()), far: plain(conn.RemoteAddr())}
	if p.raw, err = conn.SyscallConn(); err == nil {
		err = p.listen()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return p, nil
}

// plain returns an address in the form that packets have.
func plain(a net.Addr) netip.AddrPort {
	p := a.(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// listen opens the ICMP socket, with kernel time stamps.
func (p *pair) listen() error {
	network := "ip4:1" // protocol numbers of IANA
	if p.near.Addr().Is6() {
		network = "ip6:58"
	}
	local := p.conn.LocalAddr().(*net.UDPAddr)
	icmp, err := net.ListenIP(network, &net.IPAddr{IP: local.IP, Zone: local.Zone})
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("trace the routers: needs root on %s: %w", runtime.GOOS, err)
	}
	if err != nil {
		return fmt.Errorf("open socket of the trace: %w", err)
	}
	raw, err := icmp.SyscallConn()
	if err == nil {
		err = set(raw, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 1)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("prepare socket of the trace: %w", err), icmp.Close())
	}
	p.icmp = icmp
	return nil
}

func set(raw syscall.RawConn, level, option, value int) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), level, option, value))
	})
	return errors.Join(err, failed)
}

func (p *pair) send(ttl int, b []byte) error {
	level, option := unix.IPPROTO_IP, unix.IP_TTL
	if p.near.Addr().Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
	}
	if err := set(p.raw, level, option, ttl); err != nil {
		return err
	}
	_, err := p.conn.Write(b)
	return err
}

func (p *pair) receive() (answer, error) {
	for {
		n, oobn, _, from, err := p.icmp.ReadMsgIP(p.b[:], p.oob[:])
		if err != nil {
			return answer{}, err
		}
		now := time.Now()
		if a, ok := quotes(p.b[:n], p.near, p.far); ok {
			address, _ := netip.AddrFromSlice(from.IP)
			a.from, a.at = address.Unmap(), stamped(p.oob[:oobn], now)
			return a, nil
		}
	}
}

// stamped returns the kernel's time stamp of a datagram (SO_TIMESTAMP, getsockopt(2)), else
// now.
func stamped(oob []byte, now time.Time) time.Time {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return now
	}
	for _, m := range all {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMP && len(m.Data) >= int(unsafe.Sizeof(unix.Timeval{})) {
			return time.Unix((*unix.Timeval)(unsafe.Pointer(unsafe.SliceData(m.Data))).Unix())
		}
	}
	return now
}

func (p *pair) close() error { return errors.Join(p.conn.Close(), p.icmp.Close()) }
