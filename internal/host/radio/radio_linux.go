package radio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// patience is the timeout of one answer: the kernel holds its lock of all interfaces
// meanwhile, which others may hold.
const patience = time.Second

// phys exists while the kernel's part for radios (cfg80211) is loaded. Requesting its family
// would load it (net/netlink/genetlink.c ctrl_getfamily), and so change the machine.
const phys = "/sys/class/ieee80211"

type source struct {
	conn    *genetlink.Conn
	family  genetlink.Family
	request []byte // the interface
}

func openSource(name string) (s source, err error) {
	if _, err := os.Stat(phys); err != nil {
		return s, fmt.Errorf("no %s: %w", phys, errors.ErrUnsupported)
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return s, err
	}
	e := netlink.NewAttributeEncoder()
	e.Uint32(attrIndex, uint32(i.Index))
	if s.request, err = e.Encode(); err != nil {
		return s, err
	}
	if s.conn, err = genetlink.Dial(nil); err != nil {
		return s, fmt.Errorf("open generic netlink: %s", err.Error())
	}
	if s.family, err = s.conn.GetFamily(source80211); err == nil {
		_, err = s.ask(cmdGetInterface, 0)
	}
	if err != nil {
		return s, errors.Join(err, s.close())
	}
	return s, nil
}

func (s source) close() error { return s.conn.Close() }

// read reads everything. What the driver does not have stays unknown.
func (s source) read(survey bool) (State, error) {
	var out State
	one := func(decode func([]byte) error) func([][]byte) error {
		return func(answers [][]byte) error {
			if len(answers) == 0 {
				return errMessage
			}
			return decode(answers[0])
		}
	}
	for _, q := range []struct {
		command uint8
		flags   netlink.HeaderFlags
		decode  func([][]byte) error
		wanted  bool
	}{
		{cmdGetInterface, 0, one(out.decodeInterface), true},
		{cmdGetStation, netlink.Dump, out.decodeStations, true},
		{cmdGetPowerSave, 0, one(out.decodePowerSave), true},
		{cmdGetSurvey, netlink.Dump, out.decodeSurvey, survey},
	} {
		if !q.wanted {
			continue
		}
		answers, err := s.ask(q.command, q.flags)
		if err == nil {
			err = q.decode(answers)
		}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return State{}, err
		}
	}
	return out, nil
}

// ask sends a command about the interface and returns the attributes of each answer.
func (s source) ask(command uint8, flags netlink.HeaderFlags) ([][]byte, error) {
	if err := s.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("ask nl80211: %s", err.Error())
	}
	m := genetlink.Message{Header: genetlink.Header{Command: command, Version: s.family.Version}, Data: s.request}
	got, err := s.conn.Execute(m, s.family.ID, netlink.Request|flags)
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("not a wireless interface: %w", errors.ErrUnsupported)
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, errors.ErrUnsupported
	case err != nil:
		return nil, fmt.Errorf("ask nl80211: %s", err.Error())
	}
	answers := make([][]byte, len(got))
	for i := range got {
		answers[i] = got[i].Data
	}
	return answers, nil
}
