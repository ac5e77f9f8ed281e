package qdisc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The parents that are not part of the root's tree: TC_H_ROOT is the root itself,
// TC_H_INGRESS is beside it (include/uapi/linux/pkt_sched.h).
const (
	parentRoot    = 0xffffffff
	parentIngress = 0xfffffff1
)

// The attributes of a discipline, include/uapi/linux/rtnetlink.h TCA_*.
const (
	attrKind         = 1
	attrOptions      = 2
	attrStab         = 8
	attrIngressBlock = 13
	attrEgressBlock  = 14
)

// state reads all disciplines of the interface.
func (d *Discipline) state() (state, error) {
	l, err := d.link()
	if err != nil {
		return state{}, err
	}
	messages, err := d.dump(unix.RTM_GETQDISC, unix.RTM_NEWQDISC, l, 0)
	if err != nil {
		return state{}, err
	}
	var s state
	made := 0 // disciplines below the root that a user made
	for _, m := range messages {
		msg := nl.DeserializeTcMsg(m)
		if int(msg.Ifindex) != l.Attrs().Index || msg.Parent == parentIngress {
			continue
		}
		if msg.Parent != parentRoot {
			if msg.Handle != 0 {
				made++
			}
			continue
		}
		s.handle = msg.Handle
		if err := s.decode(m[nl.SizeofTcMsg:]); err != nil {
			return state{}, d.classify(err)
		}
	}
	if made > 0 {
		s.complex = "other schedulers below it"
	}
	if s.handle != 0 && s.complex == "" {
		s.complex, err = d.attached(l, s.handle)
	}
	return s, err
}

// decode decodes the attributes of a root.
func (s *state) decode(b []byte) error {
	attributes, err := nl.ParseRouteAttr(b)
	if err != nil {
		return err
	}
	for _, a := range attributes {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case attrKind:
			s.kind = string(bytes.TrimRight(a.Value, "\x00"))
		case attrOptions:
			s.options = bytes.Clone(a.Value)
		case attrStab:
			s.complex = "a size table"
		case attrIngressBlock, attrEgressBlock:
			s.complex = "a shared block"
		}
	}
	if s.handle == 0 { // the kernel makes the same again
		s.options = nil
	}
	return nil
}

// attached reports whether the discipline has filters.
func (d *Discipline) attached(l netlink.Link, handle uint32) (string, error) {
	messages, err := d.dump(unix.RTM_GETTFILTER, unix.RTM_NEWTFILTER, l, handle)
	if err != nil {
		return "", err
	}
	for _, m := range messages {
		if int(nl.DeserializeTcMsg(m).Ifindex) == l.Attrs().Index {
			return "filters", nil
		}
	}
	return "", nil
}

func (d *Discipline) dump(get, answer int, l netlink.Link, parent uint32) ([][]byte, error) {
	req := nl.NewNetlinkRequest(get, unix.NLM_F_DUMP)
	req.AddData(&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(l.Attrs().Index), Parent: parent})
	messages, err := req.Execute(unix.NETLINK_ROUTE, uint16(answer))
	if err != nil {
		return nil, d.classify(err)
	}
	for _, m := range messages {
		if len(m) < nl.SizeofTcMsg {
			return nil, errors.New("the kernel's answer is cut short")
		}
	}
	return messages, nil
}

// replace makes want the root instead of now.
func (d *Discipline) replace(now, want state) error {
	l, err := d.link()
	if err != nil {
		return err
	}
	msg := &nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(l.Attrs().Index), Parent: parentRoot}
	if want.isDefault {
		if now.handle == 0 {
			return nil // the kernel's own is in place
		}
		req := nl.NewNetlinkRequest(unix.RTM_DELQDISC, unix.NLM_F_ACK)
		req.AddData(msg)
		_, err = req.Execute(unix.NETLINK_ROUTE, 0)
		return d.classify(err)
	}
	msg.Handle = want.handle
	req := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(attrKind, nl.ZeroTerminated(want.kind)))
	if len(want.options) > 0 {
		req.AddData(nl.NewRtAttr(attrOptions, want.options))
	}
	_, err = req.Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("the kernel has no scheduler %s: %w", want.kind, errors.ErrUnsupported)
	}
	if err == nil && l.Attrs().TxQLen == 0 {
		// the kernel has set it to 1000 (Linux 6.1 net/sched/sch_api.c, qdisc_create)
		err = netlink.LinkSetTxQLen(l, 0)
	}
	return d.classify(err)
}

func (d *Discipline) link() (netlink.Link, error) {
	l, err := netlink.LinkByName(d.device)
	if err != nil {
		return nil, d.classify(err)
	}
	return l, nil
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number; nil stays nil.
func (d *Discipline) classify(err error) error {
	_, notFound := errors.AsType[netlink.LinkNotFoundError](err)
	switch {
	case err == nil:
		return nil
	case notFound, errors.Is(err, unix.ENODEV):
		return fmt.Errorf("interface %s: %w", d.device, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("scheduler of %s: %w", d.device, fs.ErrPermission)
	}
	return fmt.Errorf("scheduler of %s: %s", d.device, err.Error())
}
