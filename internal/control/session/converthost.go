package session

import (
	"cmp"
	"maps"
	"slices"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// This file converts what a host says of its machine, its route and its
// interfaces.

func encodeMachine(m *model.Machine) *sessionpb.Machine {
	if m == nil {
		return nil
	}
	return &sessionpb.Machine{
		Vendor: encodeText(m.Vendor), Product: encodeText(m.Product), Virtual: encodeText(m.Virtual), Cpu: encodeText(m.CPU),
		Sockets: encodeNumber(m.Sockets), Cores: encodeNumber(m.Cores), Threads: encodeNumber(m.Threads),
		NumaNodes: encodeNumber(m.NUMA), Memory: encodeNumber(m.Memory),
	}
}

func decodeMachine(c *check, p *sessionpb.Machine) *model.Machine {
	if p == nil {
		return nil
	}
	return &model.Machine{
		Vendor: decodeText(c, "vendor", p.GetVendor()), Product: decodeText(c, "product", p.GetProduct()),
		Virtual: decodeText(c, "hypervisor", p.GetVirtual()), CPU: decodeText(c, "processor", p.GetCpu()),
		Sockets: decodeNumber[int](c, "sockets", p.GetSockets()), Cores: decodeNumber[int](c, "cores", p.GetCores()),
		Threads: decodeNumber[int](c, "threads", p.GetThreads()), NUMA: decodeNumber[int](c, "NUMA nodes", p.GetNumaNodes()),
		Memory: decodeNumber[units.Bytes](c, "memory", p.GetMemory()),
	}
}

func encodeRoute(r *model.Route) *sessionpb.Route {
	if r == nil {
		return nil
	}
	p := &sessionpb.Route{
		Peer: clean(r.Peer, MaxAddress), Interface: encodeText(r.Interface), Source: encodeText(r.Source),
		Gateway: encodeText(r.Gateway), Mtu: encodeNumber(r.MTU),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		p.Metrics = append(p.Metrics, &sessionpb.Metric{Name: clean(name, MaxName), Value: clean(r.Metrics[name], MaxValue)})
	}
	p.Metrics = p.Metrics[:min(len(p.Metrics), maxListed)]
	return p
}

func decodeRoute(c *check, p *sessionpb.Route) *model.Route {
	if p == nil {
		return nil
	}
	c.count("metrics of a route", len(p.GetMetrics()), maxListed)
	if c.err != nil {
		return nil
	}
	r := &model.Route{
		Peer: c.text("peer", p.GetPeer(), MaxAddress), Interface: decodeText(c, "interface", p.GetInterface()),
		Source: decodeText(c, "source address", p.GetSource()), Gateway: decodeText(c, "gateway", p.GetGateway()),
		MTU: decodeNumber[int](c, "mtu", p.GetMtu()),
	}
	for _, m := range p.GetMetrics() {
		name := c.name("metric of a route", m.GetName())
		_, twice := r.Metrics[name]
		c.that(!twice, "metric %s occurs twice", name)
		if r.Metrics == nil {
			r.Metrics = map[string]string{}
		}
		r.Metrics[name] = c.text("metric of a route", m.GetValue(), MaxValue)
	}
	return r
}

func encodeNICs(list []model.NIC) []*sessionpb.Nic {
	var out []*sessionpb.Nic
	for _, n := range list[:min(len(list), MaxNICs)] {
		out = append(out, &sessionpb.Nic{
			Name: clean(n.Name, MaxName), Kind: encodeText(n.Kind), Up: encodeTruth(n.Up), Mac: encodeText(n.MAC),
			Addresses: encodeNames(n.Addresses, maxListed), Mtu: encodeNumber(n.MTU), MtuMin: encodeNumber(n.MTUMin), MtuMax: encodeNumber(n.MTUMax),
			Driver: encodeText(n.Driver), DriverVersion: encodeText(n.Version), Firmware: encodeText(n.Firmware),
			Bus: encodeBus(n.Bus), Media: encodeMedia(n.Media), Offloads: encodeOffloads(n.Offloads), Qdisc: encodeText(n.Qdisc),
			Master: encodeText(n.Master), Below: encodeNames(n.Below, maxListed), Vlan: encodeNumber(n.VLAN), Bond: encodeText(n.Bond),
			Settings: encodeKnobs(n.Settings),
		})
	}
	return out
}

func decodeNICs(c *check, list []*sessionpb.Nic) []model.NIC {
	c.count("interfaces", len(list), MaxNICs)
	if c.err != nil {
		return nil
	}
	seen := map[string]bool{}
	var out []model.NIC
	for _, p := range list {
		n := model.NIC{
			Name: c.name("interface", p.GetName()), Kind: decodeText(c, "kind", p.GetKind()), Up: decodeTruth(c, "up", p.GetUp()),
			MAC: decodeText(c, "mac", p.GetMac()), Addresses: decodeNames(c, "addresses", p.GetAddresses(), maxListed),
			MTU: decodeNumber[int](c, "mtu", p.GetMtu()), MTUMin: decodeNumber[int](c, "least mtu", p.GetMtuMin()),
			MTUMax: decodeNumber[int](c, "largest mtu", p.GetMtuMax()),
			Driver: decodeText(c, "driver", p.GetDriver()), Version: decodeText(c, "driver version", p.GetDriverVersion()),
			Firmware: decodeText(c, "firmware", p.GetFirmware()), Bus: decodeBus(c, p.GetBus()), Media: decodeMedia(c, p.GetMedia()),
			Offloads: decodeOffloads(c, p.GetOffloads()), Qdisc: decodeText(c, "qdisc", p.GetQdisc()),
			Master: decodeText(c, "master", p.GetMaster()), Below: decodeNames(c, "parts", p.GetBelow(), maxListed),
			VLAN: decodeNumber[int](c, "vlan", p.GetVlan()), Bond: decodeText(c, "bond", p.GetBond()),
			Settings: decodeKnobs(c, p.GetSettings()),
		}
		c.that(!seen[n.Name], "interface %s occurs twice", n.Name)
		seen[n.Name] = true
		out = append(out, n)
	}
	return out
}

func encodeBus(b model.Bus) *sessionpb.Bus {
	return &sessionpb.Bus{
		Kind: encodeText(b.Kind), Address: encodeText(b.Address), Device: encodeText(b.Device), NumaNode: encodeNumber(b.NUMA),
		Width: encodeNumber(b.Width), WidthMax: encodeNumber(b.WidthMax), Clock: encodeReal(b.Clock), ClockMax: encodeReal(b.ClockMax),
		Allows: encodeReal(b.Allows), AllowsMax: encodeReal(b.AllowsMax), Narrowest: clean(b.Narrowest, MaxName),
	}
}

func decodeBus(c *check, p *sessionpb.Bus) model.Bus {
	return model.Bus{
		Kind: decodeText(c, "bus", p.GetKind()), Address: decodeText(c, "bus address", p.GetAddress()),
		Device: decodeText(c, "device", p.GetDevice()), NUMA: decodeNumber[int](c, "NUMA node", p.GetNumaNode()),
		Width: decodeNumber[int](c, "bus width", p.GetWidth()), WidthMax: decodeNumber[int](c, "largest bus width", p.GetWidthMax()),
		Clock: decodeReal[float64](c, "bus clock", p.GetClock()), ClockMax: decodeReal[float64](c, "largest bus clock", p.GetClockMax()),
		Allows:    decodeReal[units.BitRate](c, "bus rate", p.GetAllows()),
		AllowsMax: decodeReal[units.BitRate](c, "largest bus rate", p.GetAllowsMax()),
		Narrowest: c.text("narrowest link", p.GetNarrowest(), MaxName),
	}
}

func encodeMedia(m model.Media) *sessionpb.Media {
	return &sessionpb.Media{
		Speed: encodeReal(m.Speed), Duplex: encodeText(m.Duplex), Autoneg: encodeTruth(m.Autoneg),
		Supported: encodeWords(m.Supported), Advertised: encodeWords(m.Advertised), Partner: encodeWords(m.Partner),
	}
}

func decodeMedia(c *check, p *sessionpb.Media) model.Media {
	return model.Media{
		Speed: decodeReal[units.BitRate](c, "speed", p.GetSpeed()), Duplex: decodeText(c, "duplex", p.GetDuplex()),
		Autoneg:   decodeTruth(c, "autoneg", p.GetAutoneg()),
		Supported: decodeWords(c, p.GetSupported()), Advertised: decodeWords(c, p.GetAdvertised()), Partner: decodeWords(c, p.GetPartner()),
	}
}

func encodeWords(f fact.Of[[]string]) *sessionpb.Words {
	list, known := f.Get()
	return &sessionpb.Words{Known: known, Words: encodeNames(list, maxModes), Source: clean(cmp.Or(f.Source(), f.Reason()), MaxText)}
}

func decodeWords(c *check, p *sessionpb.Words) fact.Of[[]string] {
	source := c.text("source of a list", p.GetSource(), MaxText)
	if !p.GetKnown() {
		return fact.Unknown[[]string](source)
	}
	list := decodeNames(c, "link modes", p.GetWords(), maxModes)
	if list == nil {
		list = []string{} // known to be empty
	}
	return fact.Known(list, source)
}

func encodeOffloads(f fact.Of[[]model.Offload]) *sessionpb.Offloads {
	list, known := f.Get()
	p := &sessionpb.Offloads{Known: known, Source: clean(cmp.Or(f.Source(), f.Reason()), MaxText)}
	for _, o := range list[:min(len(list), maxModes)] {
		p.Offloads = append(p.Offloads, &sessionpb.Offload{Name: clean(o.Name, MaxName), On: o.On, Fixed: o.Fixed})
	}
	return p
}

func decodeOffloads(c *check, p *sessionpb.Offloads) fact.Of[[]model.Offload] {
	source := c.text("source of offloads", p.GetSource(), MaxText)
	c.count("offloads", len(p.GetOffloads()), maxModes)
	if c.err != nil || !p.GetKnown() {
		return fact.Unknown[[]model.Offload](source)
	}
	list := make([]model.Offload, 0, len(p.GetOffloads()))
	for _, o := range p.GetOffloads() {
		list = append(list, model.Offload{Name: c.name("offload", o.GetName()), On: o.GetOn(), Fixed: o.GetFixed()})
	}
	return fact.Known(list, source)
}

func encodeNames(list []string, most int) []string {
	var out []string
	for _, s := range list[:min(len(list), most)] {
		out = append(out, clean(s, MaxName))
	}
	return out
}

func decodeNames(c *check, field string, list []string, most int) []string {
	c.count(field, len(list), most)
	if c.err != nil {
		return nil
	}
	var out []string
	for _, s := range list {
		out = append(out, c.text(field, s, MaxName))
	}
	return out
}

func encodePath(list []model.Hop) []*sessionpb.Hop {
	var out []*sessionpb.Hop
	for _, h := range list[:min(len(list), maxListed)] {
		out = append(out, &sessionpb.Hop{
			Kind: clean(string(h.Kind), MaxName), Name: clean(h.Name, MaxName), Mtu: encodeNumber(h.MTU), Rate: encodeReal(h.Rate),
			Duplex: encodeText(h.Duplex), To: clean(h.To, MaxText), Note: clean(h.Note, MaxText),
		})
	}
	return out
}

func decodePath(c *check, list []*sessionpb.Hop) []model.Hop {
	c.count("hops", len(list), maxListed)
	if c.err != nil {
		return nil
	}
	var out []model.Hop
	for _, p := range list {
		out = append(out, model.Hop{
			Kind: model.HopKind(c.name("kind of hop", p.GetKind())), Name: c.text("hop", p.GetName(), MaxName),
			MTU: decodeNumber[int](c, "mtu", p.GetMtu()), Rate: decodeReal[units.BitRate](c, "rate", p.GetRate()),
			Duplex: decodeText(c, "duplex", p.GetDuplex()), To: c.text("end of a hop", p.GetTo(), MaxText), Note: c.text("note", p.GetNote(), MaxText),
		})
	}
	return out
}
