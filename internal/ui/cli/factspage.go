package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/report/term"
)

// page collects lines of facts, and lists unknown ones for the end.
type page struct {
	term.Page
	knobs   *knob.Index
	subject string // of the current facts
	unknown []string
}

// line writes the non-empty parts after a label, or nothing.
func (p *page) line(label string, parts ...string) {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	p.Field(11, label, strings.Join(parts, ", "))
}

// miss records an unknown fact.
func (p *page) miss(what, reason string) {
	p.unknown = append(p.unknown, strings.TrimSpace(p.subject+" "+what)+": "+cmp.Or(reason, "no reason is given"))
}

// say formats a known fact, and records an unknown one under its name.
func say[T any](p *page, name, format string, f fact.Of[T]) string {
	v, ok := f.Get()
	if !ok {
		p.miss(name, f.Reason())
		return ""
	}
	return fmt.Sprintf(format, v)
}

// writeFacts writes a host's facts for people.
func writeFacts(to term.Page, x *knob.Index, f model.HostFacts) {
	p := &page{Page: to, knobs: x}
	p.host(f)
	for i, n := range f.NICs {
		p.subject = n.Name
		leads := i == 0 && n.Name == f.Interface.Or("")
		settings := n.Settings
		if leads {
			settings = f.Knobs
		}
		unknown := p.unknown
		p.nic(n, settings, leads)
		if !leads && software(n) {
			p.unknown = unknown // not useful
		}
	}
	p.stack(f)
	if len(p.unknown) > 0 {
		p.Title("not known")
	}
	for _, u := range p.unknown {
		p.Note(u)
	}
}

func (p *page) host(f model.HostFacts) {
	p.Text("%s", cmp.Or(f.Name, "a host without a name"))
	if f.OS != "" {
		p.line("system", strings.TrimSpace(f.OS+" "+say(p, "kernel", "%s", f.Kernel)), f.Arch)
	}
	if m := f.Machine; m != nil {
		p.line("machine", strings.TrimSpace(say(p, "vendor of the machine", "%s", m.Vendor)+" "+say(p, "product name", "%s", m.Product)), virtualText(p, m.Virtual))
		p.line("processor", say(p, "processor", "%s", m.CPU), count(p, "sockets", m.Sockets), count(p, "cores", m.Cores),
			count(p, "threads", m.Threads), count(p, "NUMA nodes", m.NUMA))
		if b, ok := m.Memory.Get(); ok {
			p.line("memory", b.Binary())
		} else {
			p.miss("memory", m.Memory.Reason())
		}
	}
	if r := f.Route; r != nil {
		through := ""
		if gw, ok := r.Gateway.Get(); ok {
			through = "on the link"
			if gw != "" {
				through = "through " + gw
			}
		}
		p.line("route", "to "+r.Peer, say(p, "interface to "+r.Peer, "by %s", r.Interface), say(p, "source address", "from %s", r.Source), through,
			say(p, "MTU of the route", "MTU %d", r.MTU))
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			p.line("", name+" "+r.Metrics[name])
		}
	}
	for i, h := range f.Path {
		first := ""
		if i == 0 {
			first = "path"
		}
		p.line(first, strings.TrimSpace(string(h.Kind)+" "+h.Name), mtuText(h.MTU), prefixed("to ", h.To), h.Note)
	}
}

// mtuText formats the MTU of a hop, "" if unknown.
func mtuText(f fact.Of[int]) string {
	if n, ok := f.Get(); ok {
		return "MTU " + strconv.Itoa(n)
	}
	return ""
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func virtualText(p *page, f fact.Of[string]) string {
	switch v, ok := f.Get(); {
	case !ok:
		p.miss("hypervisor", f.Reason())
		return ""
	case v == model.NotVirtual:
		return "no hypervisor"
	default:
		return "virtual (" + v + ")"
	}
}

// count formats a number with its noun, "1 socket", "2 sockets".
func count(p *page, noun string, f fact.Of[int]) string {
	n, ok := f.Get()
	if !ok {
		p.miss("number of "+noun, f.Reason())
		return ""
	}
	if n == 1 {
		noun = strings.TrimSuffix(noun, "s")
	}
	return strconv.Itoa(n) + " " + noun
}

// software reports whether an interface has no device behind it.
func software(n model.NIC) bool {
	kind := n.Kind.Or("")
	return n.Bus.Kind.Or("") == "virtual" && kind != "device" && !n.Media.Speed.IsKnown()
}

// nic writes one interface; leads says that it leads to the other end.
func (p *page) nic(n model.NIC, settings map[model.KnobID]fact.Of[string], leads bool) {
	state := "down"
	if n.Up.Or(false) {
		state = "up"
	}
	p.Gap()
	p.Line(n.Name + "  " + strings.Join(slices.DeleteFunc([]string{n.Kind.Or(""), state, n.Bond.Or(""), vlanText(n.VLAN)}, func(s string) bool { return s == "" }), ", "))
	p.media(n.Media)
	if n.Radio != nil {
		p.line("radio", n.Radio.String())
		say(p, "rate of the radio", "%s", n.Radio.Transmit)
	}
	legal := ""
	if low, high := n.MTUMin.Or(0), n.MTUMax.Or(0); n.MTUMin.IsKnown() && n.MTUMax.IsKnown() {
		legal = fmt.Sprintf("the driver takes %d to %d", low, high)
	} else {
		p.miss("legal MTU", cmp.Or(n.MTUMax.Reason(), n.MTUMin.Reason()))
	}
	p.line("MTU", say(p, "MTU", "%d B", n.MTU), legal)
	p.line("driver", strings.TrimSpace(say(p, "driver", "%s", n.Driver)+" "+n.Version.Or("")), say(p, "firmware", "firmware %s", n.Firmware))
	p.bus(n.Bus)
	p.settings(settings)
	if leads || !software(n) {
		p.offloads(n.Offloads)
	}
	p.line("qdisc", n.Qdisc.Or(""))
	p.line("addresses", append([]string{n.MAC.Or("")}, n.Addresses...)...)
	p.line("part of", n.Master.Or(""))
	p.line("made of", n.Below...)
}

func vlanText(f fact.Of[int]) string {
	if id, ok := f.Get(); ok {
		return "VLAN " + strconv.Itoa(id)
	}
	return ""
}

func (p *page) media(m model.Media) {
	how := ""
	if on, ok := m.Autoneg.Get(); ok && m.Speed.IsKnown() {
		how = "fixed"
		if on {
			how = "negotiated"
		}
	}
	p.line("link", say(p, "speed", "%s", m.Speed), say(p, "duplex", "%s duplex", m.Duplex), how)
	p.modes("supports", m.Supported)
	p.modes("offers", m.Advertised)
	p.modes("other end", m.Partner)
	if !m.Partner.IsKnown() {
		p.miss("modes of the other end of the wire", m.Partner.Reason())
	}
}

func (p *page) modes(label string, f fact.Of[[]string]) {
	if list := f.Or(nil); len(list) > 0 {
		p.line(label, strings.Join(list, " "))
	}
}

func (p *page) bus(b model.Bus) {
	kind, known := b.Kind.Get()
	if !known {
		p.miss("bus", b.Kind.Reason())
		return
	}
	name := map[string]string{"pcie": "PCIe", "pci": "PCI", "usb": "USB"}[kind]
	parts := []string{cmp.Or(name, kind) + strings.TrimRight(" "+b.Address.Or(""), " ")}
	if id := b.Device.Or(""); id != "" {
		parts = append(parts, "device "+id)
	}
	switch kind {
	case "pcie":
		parts = append(parts, lanesText(b.Width, b.Clock, "")+lanesText(b.WidthMax, b.ClockMax, " of "))
	case "pci":
		parts = append(parts, strings.TrimSpace(pciText(b.Width, b.Clock, "runs at")+pciText(b.WidthMax, b.ClockMax, " made for")))
	}
	if ofCard := pciText(b.Width, b.Clock, "says of itself"); kind == "virtual" && ofCard != "" {
		parts = append(parts, ofCard+", which limits no emulated card")
	}
	if node, ok := b.NUMA.Get(); ok {
		parts = append(parts, "NUMA node "+strconv.Itoa(node))
	}
	p.line("bus", parts...)
	allows, known := b.Allows.Get()
	if !known {
		if kind != "virtual" && kind != "platform" {
			p.miss("rate of the bus", b.Allows.Reason())
		}
		return
	}
	way := " both ways together"
	switch kind {
	case "pcie":
		way = " each way"
	case "pci":
		way = fmt.Sprintf(" (%.0f MB/s)%s", float64(allows)/8e6, way)
	}
	where := ""
	if b.Narrowest != "" {
		where = "narrowest at " + b.Narrowest
	}
	most := ""
	if m, ok := b.AllowsMax.Get(); ok && m > allows {
		most = "the device alone " + m.String()
	}
	p.line("bus allows", allows.String()+way+", less packet headers", where, most)
}

func lanesText(width fact.Of[int], clock fact.Of[float64], before string) string {
	if !width.IsKnown() || !clock.IsKnown() {
		return ""
	}
	return fmt.Sprintf("%sx%d at %g GT/s", before, width.Or(0), clock.Or(0))
}

func pciText(width fact.Of[int], clock fact.Of[float64], before string) string {
	text := ""
	if n, ok := width.Get(); ok {
		text += fmt.Sprintf(" %d bit", n)
	}
	if mhz, ok := clock.Get(); ok {
		text += fmt.Sprintf(" %g MHz", mhz)
	}
	if text == "" {
		return ""
	}
	return before + text
}

// settings writes the driver's known knobs, with their maximum if there is one.
func (p *page) settings(all map[model.KnobID]fact.Of[string]) {
	var shown []string
	for _, k := range p.knobs.All() {
		v, ok := all[k.ID].Get()
		id := string(k.ID)
		switch {
		case !ok || k.Scope != knob.ScopeLink || strings.HasPrefix(id, "link.") || strings.HasSuffix(id, "_max") && strings.HasPrefix(id, "nic.ring"):
			continue
		case strings.HasPrefix(id, "nic.offload.") || strings.HasPrefix(id, "nic.media.") || strings.HasPrefix(id, "nic.queues.") && strings.HasSuffix(id, "_max") || id == "qdisc":
			continue
		}
		text := strings.TrimPrefix(id, "nic.") + " " + k.From(all[k.ID].Source()).Format(v)
		if most, ok := all[k.ID+"_max"].Get(); ok {
			text += " of " + most
		}
		shown = append(shown, text)
	}
	p.rows("settings", "", ", ", shown)
}

// rows writes words, a few per line.
func (p *page) rows(label, before, between string, words []string) {
	const few = 4
	for row := range slices.Chunk(words, few) {
		p.line(label, before+strings.Join(row, between))
		label = ""
	}
}

func (p *page) offloads(f fact.Of[[]model.Offload]) {
	all, ok := f.Get()
	if !ok {
		p.miss("offloads", f.Reason())
		return
	}
	var on, off, fixed []string
	for _, o := range all {
		switch {
		case o.Fixed:
			fixed = append(fixed, o.Name)
		case o.On:
			on = append(on, o.Name)
		default:
			off = append(off, o.Name)
		}
	}
	label := "offloads"
	for _, group := range []struct {
		label string
		names []string
	}{{"on", on}, {"off", off}, {"always on", fixed}} {
		p.rows(label, group.label+": ", " ", group.names)
		if len(group.names) > 0 {
			label = ""
		}
	}
}

// stack writes the settings of TCP and sockets.
func (p *page) stack(f model.HostFacts) {
	p.subject = ""
	first := true
	for _, k := range p.knobs.All() {
		v, ok := f.Knobs[k.ID].Get()
		id := string(k.ID)
		if !ok || k.Scope != knob.ScopeHost || !strings.HasPrefix(id, "tcp.") && !strings.HasPrefix(id, "socket.") {
			continue
		}
		if first {
			p.Title("TCP and sockets")
		}
		first = false
		p.Field(28, id, k.Format(v))
	}
}
