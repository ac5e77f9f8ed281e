package sockio

import (
	"errors"
	"fmt"
	"math/bits"
	"net"

	"golang.org/x/sys/windows"
)

// The Winsock options for the outgoing interface (ws2ipdef.h, "IPPROTO_IP socket options").
const (
	ipUnicastIF   = 31 // in network byte order
	ipv6UnicastIF = 31 // in host byte order
)

func setTOS(uintptr, int) error {
	return fmt.Errorf("windows marks packets by its policies, see New-NetQosPolicy: %w", errors.ErrUnsupported)
}

// reuseAddress does nothing: on Windows SO_REUSEADDR takes ports from other programs.
func reuseAddress(uintptr) error { return nil }

func bindDevice(fd uintptr, name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	s := windows.Handle(fd)
	err = windows.SetsockoptInt(s, windows.IPPROTO_IP, ipUnicastIF, int(int32(bits.ReverseBytes32(uint32(i.Index)))))
	err6 := windows.SetsockoptInt(s, windows.IPPROTO_IPV6, ipv6UnicastIF, i.Index)
	if err == nil || err6 == nil {
		return nil
	}
	return errors.Join(err, err6)
}
