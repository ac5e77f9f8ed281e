package datagram

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Sizes and numbers from rtnetlink(7) and include/uapi/linux/{rtnetlink,pkt_sched}.h.
const (
	messageHeader   = 16         // struct nlmsghdr
	attributeHeader = 4          // struct rtattr
	routeHeader     = 12         // struct rtmsg
	queueHeader     = 20         // struct tcmsg
	attributeKind   = 1          // TCA_KIND
	rootParent      = 0xffffffff // TC_H_ROOT
)

// ask sends one rtnetlink(7) request and calls f with each message of the answer.
func ask(kind uint16, flags uint16, request []byte, f func(kind uint16, b []byte)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	limit := unix.Timeval{Sec: 1}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return os.NewSyscallError("setsockopt SO_RCVTIMEO", err)
	}
	m := make([]byte, messageHeader, messageHeader+len(request))
	binary.NativeEndian.PutUint32(m[0:], uint32(messageHeader+len(request)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags|unix.NLM_F_REQUEST)
	if err := unix.Sendto(fd, append(m, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("send", err)
	}
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return os.NewSyscallError("recv", err)
		}
		more, err := eachMessage(buf[:n], f)
		if err != nil || !more || flags&unix.NLM_F_DUMP == 0 {
			return err
		}
	}
}

// eachMessage calls f with the messages in b. It returns whether more follow, or the kernel's
// error.
func eachMessage(b []byte, f func(kind uint16, b []byte)) (more bool, err error) {
	for len(b) >= messageHeader {
		n := int(binary.NativeEndian.Uint32(b[0:]))
		if n < messageHeader || n > len(b) {
			return false, errors.New("netlink message of a wrong length")
		}
		kind, body := binary.NativeEndian.Uint16(b[4:]), b[messageHeader:n]
		switch kind {
		case unix.NLMSG_DONE:
			return false, nil
		case unix.NLMSG_ERROR:
			if len(body) < 4 {
				return false, errors.New("netlink error of a wrong length")
			}
			if code := -int32(binary.NativeEndian.Uint32(body)); code != 0 {
				return false, unix.Errno(code)
			}
		default:
			f(kind, body)
		}
		b = b[min(len(b), aligned(n)):]
	}
	return true, nil
}

// aligned returns n rounded up to netlink's alignment (NLMSG_ALIGN).
func aligned(n int) int { return (n + 3) &^ 3 }

// appendAttribute appends an attribute to a message.
func appendAttribute(m []byte, kind uint16, data []byte) []byte {
	m = binary.NativeEndian.AppendUint16(m, uint16(attributeHeader+len(data)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = append(m, data...)
	return append(m, make([]byte, aligned(len(data))-len(data))...)
}

// attribute returns the attribute of that kind in b, or nil.
func attribute(b []byte, kind uint16) []byte {
	for len(b) >= attributeHeader {
		n := int(binary.NativeEndian.Uint16(b[0:]))
		if n < attributeHeader || n > len(b) {
			return nil
		}
		if binary.NativeEndian.Uint16(b[2:]) == kind {
			return b[attributeHeader:n]
		}
		b = b[min(len(b), aligned(n)):]
	}
	return nil
}

// parseRoute returns the interface of a route, 0 if it has none.
func parseRoute(b []byte) int32 {
	if len(b) < routeHeader {
		return 0
	}
	oif := attribute(b[routeHeader:], unix.RTA_OIF)
	if len(oif) < 4 {
		return 0
	}
	return int32(binary.NativeEndian.Uint32(oif))
}

// queue is a queueing discipline of an interface.
type queue struct {
	link           int32
	handle, parent uint32
	kind           string
}

// parseQueue parses a message about a queue.
func parseQueue(b []byte) (queue, bool) {
	if len(b) < queueHeader {
		return queue{}, false
	}
	return queue{
		link:   int32(binary.NativeEndian.Uint32(b[4:])),
		handle: binary.NativeEndian.Uint32(b[8:]),
		parent: binary.NativeEndian.Uint32(b[12:]),
		kind:   string(bytes.TrimRight(attribute(b[queueHeader:], attributeKind), "\x00")),
	}, true
}

// leaf returns the kind of the queue that packets pass through. Under mq, which has one queue
// for each hardware queue, it is their common kind, or "mixed" if they differ. Other queues
// choose by the packet, so leaf returns the queue itself.
func leaf(queues []queue) string {
	root := queue{kind: "none"}
	for _, q := range queues {
		if q.parent == rootParent {
			root = q
		}
	}
	if root.kind != "mq" {
		return root.kind
	}
	kind := root.kind
	for _, q := range queues {
		// The major number, in the high half, is the parent's handle.
		if q.parent == rootParent || q.parent>>16 != root.handle>>16 {
			continue
		}
		if kind != root.kind && kind != q.kind {
			return "mixed"
		}
		kind = q.kind
	}
	return kind
}
