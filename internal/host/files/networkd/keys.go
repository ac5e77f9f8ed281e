package networkd

import (
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
)

// key is a key of the [Link] section of systemd.link(5), version 252, and the knob that it
// sets.
type key struct {
	name  string
	knob  model.KnobID
	write func(value string) []string // from the canonical value to the file's text; none if it cannot be expressed
	read  func(text string) string    // back
}

// keys returns the table. The first key of a knob holds its value.
func keys() []key {
	text := func(name string, id model.KnobID) key { return key{name, id, one, same} }
	toggle := func(name string, id model.KnobID) key { return key{name, id, yes, command.Truth} }
	size := func(name string, id model.KnobID) key { return key{name, id, one, sizeBytes} }
	return []key{
		size("MTUBytes", "link.mtu"),
		text("TransmitQueueLength", "txqueuelen"),
		toggle("AutoNegotiation", "nic.media.autoneg"),
		{"BitsPerSecond", "nic.media.speed", func(v string) []string { return unless(v == "0", v+"M") }, megabits},
		{"Duplex", "nic.media.duplex", func(v string) []string { return unless(v == "auto", v) }, same},
		{"Advertise", "nic.media.advertise", advertise, same},
		toggle("RxFlowControl", "nic.pause.rx"),
		toggle("TxFlowControl", "nic.pause.tx"),
		toggle("AutoNegotiationFlowControl", "nic.pause.autoneg"),
		{"WakeOnLan", "nic.wol", wakeOnLAN, same},
		text("RxBufferSize", "nic.ring.rx"),
		text("RxJumboBufferSize", "nic.ring.rx_jumbo"),
		text("TxBufferSize", "nic.ring.tx"),
		text("RxChannels", "nic.queues.rx"),
		text("TxChannels", "nic.queues.tx"),
		text("CombinedChannels", "nic.queues.combined"),
		{"RxCoalesceSec", "nic.coalesce.rx_usecs", micros, microseconds},
		{"TxCoalesceSec", "nic.coalesce.tx_usecs", micros, microseconds},
		text("RxMaxCoalescedFrames", "nic.coalesce.rx_frames"),
		text("TxMaxCoalescedFrames", "nic.coalesce.tx_frames"),
		toggle("UseAdaptiveRxCoalesce", "nic.coalesce.adaptive_rx"),
		toggle("UseAdaptiveTxCoalesce", "nic.coalesce.adaptive_tx"),
		toggle("ReceiveChecksumOffload", "nic.offload.rx_csum"),
		toggle("TransmitChecksumOffload", "nic.offload.tx_csum"),
		toggle("TCPSegmentationOffload", "nic.offload.tso"),
		toggle("TCP6SegmentationOffload", "nic.offload.tso"),
		toggle("GenericSegmentationOffload", "nic.offload.gso"),
		toggle("GenericReceiveOffload", "nic.offload.gro"),
		toggle("GenericReceiveOffloadHardware", "nic.offload.gro_hw"),
		toggle("LargeReceiveOffload", "nic.offload.lro"),
		toggle("ReceiveVLANCTAGHardwareAcceleration", "nic.offload.vlan_rx"),
		toggle("TransmitVLANCTAGHardwareAcceleration", "nic.offload.vlan_tx"),
		size("GenericSegmentOffloadMaxBytes", "nic.gso_max_size"),
	}
}

// Read returns the knob that a key of [Link] sets, and its canonical value if the text has
// one. ok is false if the key has no knob, or is not the first key of the knob.
func Read(name, text string) (id model.KnobID, value string, ok bool) {
	all := keys()
	i := slices.IndexFunc(all, func(k key) bool { return k.name == name })
	if i < 0 || slices.IndexFunc(all, func(k key) bool { return k.knob == all[i].knob }) != i {
		return "", "", false
	}
	return all[i].knob, all[i].read(text), true
}

// Lines returns the lines of [Link] that set a knob; none if there is no key for it, or the
// value cannot be expressed.
func Lines(id model.KnobID, value string) []string {
	var lines []string
	for _, k := range keys() {
		if k.knob != id {
			continue
		}
		for _, text := range k.write(value) {
			lines = append(lines, k.name+"="+text)
		}
	}
	switch {
	case id == "nic.media.speed" && value == "0", id == "nic.media.duplex" && value == "auto":
		return []string{"AutoNegotiation=yes"}
	case id == "nic.media.speed": // fixes the mode, as the knob does
		lines = append(lines, "AutoNegotiation=no")
	}
	return lines
}

// Want adds the outcome keys that change when a knob of an interface is set.
func Want(want map[string]string, link string, id model.KnobID, value string) {
	for _, l := range Lines(id, value) {
		name, text, _ := strings.Cut(l, "=")
		key, value := outcomeKey(link, name, text)
		want[key] = value
	}
}

// outcomeKey returns the outcome's key and value for a key of [Link]; the key is "" if there
// is no knob for it.
func outcomeKey(link, name, text string) (key, value string) {
	if id, value, ok := Read(name, text); ok {
		return files.LinkKey(link, id), value
	}
	for _, k := range keys() {
		if k.name == name {
			return files.LinkKey(link, k.knob) + "/" + name, k.read(text)
		}
	}
	return "", ""
}

func same(s string) string     { return s }
func one(v string) []string    { return []string{v} }
func yes(v string) []string    { return []string{map[bool]string{true: "yes", false: "no"}[v == "1"]} }
func micros(v string) []string { return []string{v + "us"} }

func unless(auto bool, text string) []string {
	if auto {
		return nil
	}
	return []string{text}
}

// advertise writes a list such as 100baseT/Full,1000baseT/Full, one key per mode:
// 1000baset-full.
func advertise(v string) []string {
	var all []string
	for mode := range strings.SplitSeq(v, ",") {
		all = append(all, strings.ReplaceAll(strings.ToLower(mode), "/", "-"))
	}
	return all
}

func wakeOnLAN(v string) []string {
	text, whole := device.WakeOnLAN(v)
	return unless(!whole, text)
}
