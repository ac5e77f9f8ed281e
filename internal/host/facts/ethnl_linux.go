package facts

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
)

// drivers asks the drivers of interfaces.
type drivers struct {
	family uint16 // of generic netlink, 0 where the kernel has none
	why    string // it has none
}

func openDrivers() drivers {
	family, err := netlink.GenlFamilyGet("ethtool")
	if err != nil {
		return drivers{why: "kernels before 5.6 do not tell: " + err.Error()}
	}
	return drivers{family: family.ID}
}

func (d drivers) ask(command byte, device string) ([]byte, error) {
	if d.family == 0 {
		return nil, errors.New(d.why)
	}
	req := nl.NewNetlinkRequest(int(d.family), 0)
	req.AddRawData(ethRequest(command, device))
	answers, err := req.Execute(unix.NETLINK_GENERIC, 0)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil, errors.New("the driver does not tell")
	case err != nil:
		return nil, fmt.Errorf("ask the driver of %s: %s", device, err.Error())
	case len(answers) != 1:
		return nil, errMessage
	}
	return answers[0], nil
}

// media asks the driver, or where it says nothing its transceiver.
func (d drivers) media(device string) model.Media {
	m := d.modes(device)
	if m.Speed.IsKnown() || m.Duplex.IsKnown() || m.Autoneg.IsKnown() {
		return m
	}
	if told, err := readMII(device); err == nil {
		return told
	}
	return m
}

func (d drivers) modes(device string) model.Media {
	body, err := d.ask(ethGetModes, device)
	if err != nil {
		return unknownMedia(err.Error())
	}
	m, err := decodeModes(body)
	if err != nil {
		return unknownMedia(err.Error())
	}
	return m
}

func (d drivers) offloads(device string) fact.Of[[]model.Offload] {
	body, err := d.ask(ethGetFeatures, device)
	if err != nil {
		return fact.Unknown[[]model.Offload](err.Error())
	}
	all, err := decodeOffloads(body)
	if err != nil {
		return fact.Unknown[[]model.Offload](err.Error())
	}
	return fact.Known(all, "ethtool")
}

// info is what a driver says of itself.
type info struct {
	driver, version, firmware, place string
	registers                        uint32 // bytes of a dump of them
}

// info asks by the older request, which has no successor.
func (d drivers) info(device string) (info, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return info{}, fmt.Errorf("open a socket: %s", err.Error())
	}
	defer unix.Close(fd)
	i, err := unix.IoctlGetEthtoolDrvinfo(fd, device)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return info{}, errors.New("the interface has no driver that tells")
	}
	if err != nil {
		return info{}, fmt.Errorf("ask the driver of %s: %s", device, err.Error())
	}
	return info{
		driver: unix.ByteSliceToString(i.Driver[:]), version: unix.ByteSliceToString(i.Version[:]),
		firmware: unix.ByteSliceToString(i.Fw_version[:]), place: unix.ByteSliceToString(i.Bus_info[:]),
		registers: i.Regdump_len,
	}, nil
}
