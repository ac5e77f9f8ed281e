package native

import (
	"slices"
	"strings"

	"linerate/internal/core/knob"
)

// freebsd renders blocks of sysctl.conf(5), loader.conf(5) and rc.conf(5).
func (r *rendering) freebsd() {
	var boot, run []*entry
	for _, e := range r.take(knob.Sysctl) {
		if atBoot(e) {
			boot = append(boot, e)
			continue
		}
		run = append(run, e)
	}
	r.loaderConf(r.texts(boot), run)
	if all := r.texts(run); len(all) > 0 {
		p := r.block("/etc/sysctl.conf")
		for _, t := range limitsFirst(all) { // they are set one after the other
			p.entry(t.entries...)
			p.line("%s=%s", t.name, t.raw)
		}
		r.out.Commands = append(r.out.Commands, "service sysctl restart")
	}
	r.rcConf()
}

// block begins a block in a file that others write to as well.
func (r *rendering) block(path string) *page {
	p := r.page(path)
	p.block = true
	p.comments(r.head()...)
	return p
}

// loaderConf renders what is read at boot, and the modules that others need.
func (r *rendering) loaderConf(boot []text, run []*entry) {
	var modules []string
	for _, e := range run {
		switch {
		case e.knob.ID == "tcp.congestion_control" && e.value != "newreno" && e.value != "cubic":
			modules = append(modules, "cc_"+e.value)
		case e.knob.ID == "tcp.congestion_control" && e.value == "cubic":
			modules = append(modules, "cc_cubic") // part of the kernel since 14, where this line does nothing
		case e.knob.ID == "tcp.stack" && e.value != "freebsd":
			modules = append(modules, "tcp_"+e.value)
		}
	}
	if len(boot) == 0 && len(modules) == 0 {
		return
	}
	p := r.block("/boot/loader.conf")
	for _, m := range modules {
		p.comments("a module that " + sysctlUser(m) + " needs")
		p.line("%s_load=\"YES\"", m)
	}
	for _, t := range boot {
		p.entry(t.entries...)
		p.line("%s=%s", t.name, rcQuote(t.raw))
	}
	r.note("what stands in /boot/loader.conf takes effect at the next boot")
}

func sysctlUser(module string) string {
	if strings.HasPrefix(module, "cc_") {
		return "net.inet.tcp.cc.algorithm"
	}
	return "net.inet.tcp.functions_default"
}

// rcQuote is a double-quoted text of rc.conf and loader.conf; native texts hold
// nothing that a shell acts on but what is escaped here.
func rcQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
}

// rcConf renders the options of the interface's ifconfig(8) line. rc.conf is a
// shell script, so that a line can add to the one before it.
func (r *rendering) rcConf() {
	link := r.take(knob.IfIoctl)
	if len(link) == 0 {
		return
	}
	var options []string
	var media []*entry
	var kept []*entry
	for _, e := range link {
		option, ok := ifconfigOption(e)
		switch {
		case e.native.Name == "media":
			media = append(media, e)
		case ok:
			options, kept = append(options, option), append(kept, e)
		default:
			r.omit(e, "ifconfig(8) has no option for %s", e.name)
		}
	}
	for _, t := range r.texts(media) {
		words := strings.Split(t.raw, ",")
		options = append(options, "media "+words[0])
		if len(words) > 1 {
			options = append(options, "mediaopt "+strings.Join(words[1:], ","))
		}
		kept = append(kept, t.entries...)
	}
	if len(kept) == 0 {
		return
	}
	variable := "ifconfig_" + strings.NewReplacer(".", "_", "-", "_").Replace(r.in.Interface)
	p := r.block("/etc/rc.conf")
	p.comments("Adds to the line above that configures the interface; where there is none (ifconfig_DEFAULT), write one first.")
	p.entry(kept...)
	p.line("%s=\"${%s} %s\"", variable, variable, strings.Join(options, " "))
	r.out.Commands = append(r.out.Commands, "service netif restart "+r.in.Interface)
}

// ifconfigOption is the word for a setting that is one of ifconfig(8).
func ifconfigOption(e *entry) (string, bool) {
	if e.native.Name == "mtu" {
		return "mtu " + e.value, true
	}
	if e.native.Name == "wol" {
		return wolOptions(e.value)
	}
	name, ok := strings.CutPrefix(e.native.Name, "cap.")
	if !ok || !slices.Contains([]string{"rxcsum", "txcsum", "tso", "lro", "vlanhwtag", "polling"}, name) {
		return "", false
	}
	if e.value == "0" {
		name = "-" + name
	}
	return name, true
}

func wolOptions(v string) (string, bool) {
	if v == "none" {
		return "-wol", true
	}
	var all []string
	for w := range strings.SplitSeq(v, ",") {
		if !slices.Contains([]string{"ucast", "mcast", "magic"}, w) {
			return "", false
		}
		all = append(all, "wol_"+w)
	}
	return strings.Join(all, " "), true
}
