package main

import (
	"slices"
	"strings"
	"syscall"
)

// spareIndex is the number of the spare link.
const spareIndex = "77"

// linkFates have something become of the link whose MTU is changed: it has its
// old MTU again, under whatever name, and another one that got its name keeps its
// own.
func linkFates() []fault {
	spare := func(o operation, _ string) bool { return o.spare }
	fates := map[string]struct {
		commands []string // of ip, in the near host; MTU stands for that of another link
		at       string   // where the link is then, "" for nowhere
		other    string   // a link that is not linerate's
	}{
		"renamed":                            {[]string{"link set x0 down", "link set x0 name lan0"}, "lan0", ""},
		"renamed, its name another's":        {[]string{"link set x0 down", "link set x0 name lan0", "link add x0 mtu MTU type veth peer name x9"}, "lan0", "x0"},
		"replaced":                           {[]string{"link del x0", "link add x0 mtu MTU type veth peer name x9"}, "", "x0"},
		"replaced by one of the same number": {[]string{"link del x0", "link add x0 index " + spareIndex + " mtu MTU type bridge"}, "", "x0"},
		"gone":                               {[]string{"link del x0"}, "", ""},
	}
	endings := map[string][]string{
		"": nil, ", controller killed": {"controller"}, ", watchdog killed": {"watchdog-near"}, ", everything killed": everybody(),
	}
	// The others are of everyFault.
	short := []string{"renamed, everything killed", "renamed, its name another's, watchdog killed", "replaced, controller killed", "gone"}
	var all []fault
	for fate, f := range fates {
		for ending, roles := range endings {
			all = append(all, fault{name: "link " + fate + ending, fits: spare, long: !slices.Contains(short, fate+ending), inject: func(r *faultRun) {
				if r.open["near"] = len(roles) > 1; r.open["near"] { // none is to have time to undo
					r.kill(syscall.SIGKILL, roles...)
				}
				// The value that linerate writes is the one that it would take back: unless it
				// has not written yet, when to write there is the mistake.
				mtu := "1450"
				if r.mtuOf("x0") == "1400" {
					mtu = "1400"
				}
				for _, c := range f.commands {
					ip(r.t, append([]string{"-n", r.near}, strings.Fields(strings.ReplaceAll(c, "MTU", mtu))...)...)
				}
				r.link, r.others = f.at, map[string]string{}
				if f.other != "" {
					r.others[f.other] = mtu
				}
				if f.other != "" && f.at == "" && mtu == "1400" && !slices.Equal(roles, []string{"controller"}) { // whose watchdog nobody hears
					r.says = "x0 is another device now: it was index " + spareIndex
				}
				if len(roles) == 1 {
					r.kill(syscall.SIGKILL, roles...)
				}
			}})
		}
	}
	return all
}

// mtuOf is the MTU of a link of the near host.
func (r *faultRun) mtuOf(link string) string {
	r.t.Helper()
	_, rest, _ := strings.Cut(ip(r.t, "-n", r.near, "-o", "link", "show", "dev", link), " mtu ")
	value, _, _ := strings.Cut(rest, " ")
	return value
}
