package facts

import (
	"errors"
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/knob/ethtool"
)

// media asks the driver, or where it says nothing its transceiver.
func media(device string) model.Media {
	f, err := ethtool.Ask(device, "linkmodes")
	m := unknownMedia(reason(err))
	if err == nil {
		m = mediaOf(f)
	}
	if m.Speed.IsKnown() || m.Duplex.IsKnown() || m.Autoneg.IsKnown() {
		return m
	}
	if told, err := readMII(device); err == nil {
		return told
	}
	return m
}

func offloads(device string) fact.Of[[]model.Offload] {
	f, err := ethtool.Ask(device, "features")
	if err != nil {
		return fact.Unknown[[]model.Offload](reason(err))
	}
	return fact.Known(offloadsOf(f), "ethtool")
}

// reason is why a driver says nothing.
func reason(err error) string {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return "the driver does not tell"
	}
	return fmt.Sprintf("ask the driver: %v", err)
}

// driverInfo asks a driver for its name and where its card is.
func driverInfo(device string) (ethtool.Info, error) {
	s, err := ethtool.OpenSocket()
	if err != nil {
		return ethtool.Info{}, err
	}
	defer s.Close() // nothing was written
	i, err := s.Info(device)
	if errors.Is(err, errors.ErrUnsupported) {
		return i, errors.New("the interface has no driver that tells")
	}
	return i, err
}
