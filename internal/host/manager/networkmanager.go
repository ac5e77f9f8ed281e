package manager

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/networkmanager"
)

// networkManager adds that NetworkManager resets the MTU of interfaces that it manages if no
// keyfile sets one, and withdraws its claims on interfaces of other managers.
func (s *search) networkManager() {
	manages := s.nmManages()
	for i, c := range s.claims {
		if c.Manager == model.ManagerNetworkManager && c.File != "" && c.Active.Or(false) {
			s.claims[i].Active = manages
		}
	}
	if !manages.Or(false) || s.states("link.mtu", model.ManagerNetworkManager, model.ManagerWicked, model.ManagerNetworkScripts) {
		return
	}
	s.add(turnLink, model.Claim{Knob: "link.mtu", Manager: model.ManagerNetworkManager, Active: manages, File: s.keyfile.File,
		When: "whenever the connection comes up again, since its profile names no MTU: to that of a DHCP lease, or to the usual one"})
}

// nmManages reports whether NetworkManager runs and manages the interface: by the state that
// it writes for the device, else by its configuration.
func (s *search) nmManages() fact.Of[bool] {
	runs := s.runs("NetworkManager")
	if s.link == "" || !runs.Or(true) {
		return runs
	}
	switch l := networkmanager.State(s.tree, s.device); l.Text {
	case "true":
		if runs.IsKnown() {
			return fact.Known(true, l.File)
		}
	case "false":
		return fact.Known(false, l.File)
	}
	if managed, l := networkmanager.Configured(s.tree, s.device, s.interfaces); managed.IsKnown() && !managed.Or(true) {
		return fact.Known(false, l.File)
	}
	return runs
}
