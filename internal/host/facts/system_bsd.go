//go:build freebsd || darwin

package facts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/kenv"
	"linerate/internal/host/knob/ifioctl"
	"linerate/internal/host/knob/sysctl"
)

// ask returns the functions of the running system.
func ask(ctx context.Context, name string) bsd {
	return bsd{
		name: name, kenv: kenv.Get, config: configSpace, addresses: addresses,
		sysctl: func(name string) (string, error) {
			k, err := sysctl.Open("", name)
			if err != nil {
				return "", err
			}
			return k.Read(ctx)
		},
		attribute: func(device, name string) (string, error) {
			s, err := ifioctl.Open(device, name)
			if err != nil {
				return "", err
			}
			return s.Read(ctx)
		},
	}
}

func (b bsd) readNICs(ctx context.Context, x *knob.Index, first string) ([]model.NIC, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var all []model.NIC
	for _, i := range orderInterfaces(list, first) {
		n := b.nic(i)
		if _, err := b.attribute(i.Name, "active"); i.Name == first && errors.Is(err, errors.ErrUnsupported) { // its media is not Ethernet
			tellRadio(&n)
		}
		if i.Name != first && n.Bus.Kind.Or("") != "virtual" {
			n.Settings = settings(ctx, x, i.Name)
		}
		all = append(all, n)
	}
	return all, nil
}

// routeTime is how long to wait for the kernel's answer, which it writes during the request.
const routeTime = time.Second

// routeAnswers bounds the messages to read: changes of the routing table arrive on the same
// socket.
const routeAnswers = 64

// lookUp asks a routing socket for the route to peer.
func (a routeABI) lookUp(ctx context.Context, peer netip.Addr) (gateway string, mtu int, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	fd, err := unix.Socket(unix.AF_ROUTE, unix.SOCK_RAW, unix.AF_UNSPEC)
	if err != nil {
		return "", 0, fmt.Errorf("open a routing socket: %s", err.Error())
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(int64(routeTime))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return "", 0, fmt.Errorf("set up a routing socket: %s", err.Error())
	}
	process := int32(os.Getpid())
	if _, err := unix.Write(fd, a.request(peer, process, 1)); err != nil {
		return "", 0, fmt.Errorf("route to %s: %s", peer, err.Error())
	}
	buffer := make([]byte, 4096)
	for range routeAnswers {
		n, err := unix.Read(fd, buffer)
		if err != nil {
			return "", 0, fmt.Errorf("route to %s: %s", peer, err.Error())
		}
		if a.answers(buffer[:n], process, 1) {
			return a.decode(buffer[:n])
		}
	}
	return "", 0, fmt.Errorf("route to %s: no answer among %d messages", peer, routeAnswers)
}
