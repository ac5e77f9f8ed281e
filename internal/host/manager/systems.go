package manager

import (
	"context"
	"io/fs"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/rcconf"
)

// freebsd adds what loader(8), rc(8) and devd(8) set.
func (s *search) freebsd() {
	loader := source{turn: turnLink, manager: model.ManagerFreeBSDLoader, when: "before the kernel starts", active: atStart()}
	rc := source{turn: turnLink, manager: model.ManagerFreeBSDRC, when: "at the start of the machine, and by service sysctl restart", active: atStart()}
	running, boot := rcconf.Sysctls(s.tree)
	for name, l := range boot {
		s.saySysctl(loader, name, l, l.Text)
	}
	for name, l := range running {
		s.saySysctl(rc, name, l, l.Text)
	}
	rc.when = "at the start of the machine, by service netif restart, and by devd when the interface appears"
	options := map[string]model.KnobID{
		"mtu": "link.mtu", "rxcsum": "nic.offload.rx_csum", "txcsum": "nic.offload.tx_csum", "tso": "nic.offload.tso", "lro": "nic.offload.lro", "polling": "polling",
	}
	for option, l := range rcconf.Options(s.tree, s.link) { // append drops them if there is no interface
		s.say(rc, options[option], l, command.Truth(l.Text))
	}
	s.devd()
	s.leases()
}

// devd reads the commands of devd.conf(5):
//
//	notify 100 {
//		match "system" "IFNET";
//		action "/sbin/ifconfig em0 mtu 9000";
//	};
func (s *search) devd() {
	files := append([]string{"etc/devd.conf"}, s.tree.ByName(".conf", "etc/devd")...)
	for _, name := range append(files, s.tree.ByName(".conf", "usr/local/etc/devd")...) {
		for _, l := range s.tree.Lines(name, "#") {
			rest, ok := strings.CutPrefix(l.Text, "action")
			if !ok {
				continue
			}
			action := strings.Trim(strings.TrimSuffix(strings.TrimSpace(rest), ";"), `"`)
			c := model.Claim{Manager: model.ManagerDevd, When: "whenever the event happens that the file names", File: l.File, Line: l.Number, Active: s.runs("devd")}
			for _, one := range command.Settings(action, s.link) {
				c.Knob, c.Sets = one.Knob, one.Text
				s.add(turnAlways, c)
			}
			for key, value := range command.Sysctls(action) {
				c.Sets = value
				s.addSysctl(turnAlways, key, c)
			}
		}
	}
}

// darwin adds what launch daemons set, and that network services keep the MTU.
func (s *search) darwin() {
	s.launchDaemons(source{turn: turnLink, manager: model.ManagerLaunchDaemon, when: "at the start of the machine", active: atStart()})
	old := source{turn: turnLink, manager: model.ManagerLaunchDaemon, when: "never on macOS of today: only old releases read this file",
		active: fact.Known(false, "knobs of macOS"), unread: true} // knobs.md section 4
	s.sysctlConf(func(key string, l model.FileLine) { s.sysctlLine(old, key, l) })
	for _, id := range []model.KnobID{"link.mtu", "nic.media.speed", "nic.media.duplex", "nic.media.autoneg"} {
		s.add(turnAlways, model.Claim{
			Knob: id, Manager: model.ManagerMacNetworkService, Active: atStart(),
			When: "when the location is changed, the service is switched on or the machine starts; networksetup changes what it keeps",
		})
	}
}

// qosKey holds the policies of "Advanced QoS Settings" of Group Policy.
const qosKey = `SOFTWARE\Policies\Microsoft\Windows\QoS`

// windows adds the policies of the registry that override settings of TCP.
func (s *search) windows(ctx context.Context, r Registry) {
	if r == nil {
		return
	}
	values, err := r.Values(ctx, qosKey)
	if err != nil {
		return
	}
	for name, text := range values {
		if strings.EqualFold(name, "Tcp Autotuning Level") {
			level := strings.ReplaceAll(text, " ", "") // "Highly Restricted"
			if strings.EqualFold(level, "off") {
				level = "Disabled"
			}
			s.add(turnAlways, model.Claim{
				Knob: "tcp.autotune_level", Manager: model.ManagerGroupPolicy, Sets: level, Active: fact.Known(true, `HKLM\`+qosKey),
				When: "always: the policy stands over the local setting",
			})
		}
	}
}

// nothing is a tree without files.
type nothing struct{}

// Open implements fs.FS.
func (nothing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}
