package manager

import (
	"context"
	"io/fs"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/knob/origin"
)

// freebsd says what loader(8), rc(8) and devd(8) set.
func (s *search) freebsd() {
	for _, st := range s.found.Settings {
		c := model.Claim{Knob: st.Knob, Sets: st.Text, File: st.File, Line: st.Number, Active: atStart()}
		switch st.Source {
		case origin.LoaderConf:
			c.Manager, c.When = model.ManagerFreeBSDLoader, "before the kernel starts"
		case origin.RCConf:
			c.Manager, c.When = model.ManagerFreeBSDRC, "at the start of the machine, by service netif restart, and by devd when the interface appears"
		default:
			c.Manager, c.When = model.ManagerFreeBSDRC, "at the start of the machine, and by service sysctl restart"
		}
		s.add(turnLink, c)
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

// darwin says what launch daemons set, and that network services keep the MTU.
func (s *search) darwin() {
	for _, st := range s.found.Settings {
		c := model.Claim{Knob: st.Knob, Sets: st.Text, File: st.File, Line: st.Number}
		if st.Source == origin.SysctlConf {
			c.Manager, c.When, c.Active = model.ManagerLaunchDaemon, "never on macOS of today: only old releases read this file", fact.Known(false, "knobs of macOS")
		} else {
			c.Manager, c.When, c.Active = model.ManagerLaunchDaemon, "at the start of the machine", atStart()
		}
		s.add(turnLink, c)
	}
	for _, id := range []model.KnobID{"link.mtu", "nic.media.speed", "nic.media.duplex", "nic.media.autoneg"} {
		s.add(turnAlways, model.Claim{
			Knob: id, Manager: model.ManagerMacNetworkService, Active: atStart(),
			When: "when the location is changed, the service is switched on or the machine starts; networksetup changes what it keeps",
		})
	}
}

// qosKey holds the policies of "Advanced QoS Settings" of Group Policy.
const qosKey = `SOFTWARE\Policies\Microsoft\Windows\QoS`

// windows says which policies of the registry stand over settings of TCP.
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
