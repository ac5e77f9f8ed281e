package origin

import (
	"math"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
)

// setting is what a key of a file sets.
type setting struct {
	knob model.KnobID
	text func(value string) string // what it sets, from the words of the file
}

// linkFileKeys are the keys of the [Link] section of systemd.link(5), version
// 252.
func linkFileKeys() map[string][]setting {
	one := func(id model.KnobID, text func(string) string) []setting { return []setting{{id, text}} }
	return map[string][]setting{
		"MTUBytes":                             one("link.mtu", binaryBytes),
		"TransmitQueueLength":                  one("txqueuelen", same),
		"AutoNegotiation":                      one("nic.media.autoneg", command.Truth),
		"BitsPerSecond":                        one("nic.media.speed", megabits),
		"Duplex":                               one("nic.media.duplex", same),
		"Advertise":                            one("nic.media.advertise", same),
		"RxFlowControl":                        one("nic.pause.rx", command.Truth),
		"TxFlowControl":                        one("nic.pause.tx", command.Truth),
		"AutoNegotiationFlowControl":           one("nic.pause.autoneg", command.Truth),
		"WakeOnLan":                            one("nic.wol", same),
		"RxBufferSize":                         one("nic.ring.rx", same),
		"RxJumboBufferSize":                    one("nic.ring.rx_jumbo", same),
		"TxBufferSize":                         one("nic.ring.tx", same),
		"RxChannels":                           one("nic.queues.rx", same),
		"TxChannels":                           one("nic.queues.tx", same),
		"CombinedChannels":                     one("nic.queues.combined", same),
		"RxCoalesceSec":                        one("nic.coalesce.rx_usecs", micros),
		"TxCoalesceSec":                        one("nic.coalesce.tx_usecs", micros),
		"RxMaxCoalescedFrames":                 one("nic.coalesce.rx_frames", same),
		"TxMaxCoalescedFrames":                 one("nic.coalesce.tx_frames", same),
		"UseAdaptiveRxCoalesce":                one("nic.coalesce.adaptive_rx", command.Truth),
		"UseAdaptiveTxCoalesce":                one("nic.coalesce.adaptive_tx", command.Truth),
		"ReceiveChecksumOffload":               one("nic.offload.rx_csum", command.Truth),
		"TransmitChecksumOffload":              one("nic.offload.tx_csum", command.Truth),
		"TCPSegmentationOffload":               one("nic.offload.tso", command.Truth),
		"GenericSegmentationOffload":           one("nic.offload.gso", command.Truth),
		"GenericReceiveOffload":                one("nic.offload.gro", command.Truth),
		"GenericReceiveOffloadHardware":        one("nic.offload.gro_hw", command.Truth),
		"LargeReceiveOffload":                  one("nic.offload.lro", command.Truth),
		"ReceiveVLANCTAGHardwareAcceleration":  one("nic.offload.vlan_rx", command.Truth),
		"TransmitVLANCTAGHardwareAcceleration": one("nic.offload.vlan_tx", command.Truth),
		"GenericSegmentOffloadMaxBytes":        one("nic.gso_max_size", binaryBytes),
	}
}

// netplanKeys are keys of a definition in netplan(5), version 1.0.
func netplanKeys() map[string]setting {
	return map[string]setting{
		"mtu":                          {"link.mtu", same},
		"wakeonlan":                    {"nic.wol", magic},
		"receive-checksum-offload":     {"nic.offload.rx_csum", command.Truth},
		"transmit-checksum-offload":    {"nic.offload.tx_csum", command.Truth},
		"tcp-segmentation-offload":     {"nic.offload.tso", command.Truth},
		"generic-segmentation-offload": {"nic.offload.gso", command.Truth},
		"generic-receive-offload":      {"nic.offload.gro", command.Truth},
		"large-receive-offload":        {"nic.offload.lro", command.Truth},
	}
}

func same(s string) string { return s }

// magic is netplan's switch for magic packets.
func magic(s string) string {
	switch command.Switch(s) {
	case "1":
		return "magic"
	case "0":
		return "none"
	}
	return s
}

// binaryBytes is a size of systemd.syntax(7) with K, M and G as powers of 1024
// in bytes, or what stands there.
func binaryBytes(s string) string { return scaled(s, 1024, 1) }

// megabits is a rate in bit/s with powers of 1000, in Mbit/s.
func megabits(s string) string { return scaled(s, 1000, 1e6) }

func scaled(s string, base, unit float64) string {
	factor, number := 1.0, s
	for i, letter := range []string{"K", "M", "G", "T"} {
		if n, ok := strings.CutSuffix(s, letter); ok {
			factor, number = math.Pow(base, float64(i+1)), n
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if v = v * factor / unit; err != nil || v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
		return s
	}
	return strconv.FormatInt(int64(v), 10)
}

// micros is a time span of systemd.time(7) with one unit, in microseconds; a
// number alone is in seconds.
func micros(s string) string {
	for _, u := range []struct {
		unit  string
		times float64
	}{{"usec", 1}, {"us", 1}, {"μs", 1}, {"µs", 1}, {"msec", 1e3}, {"ms", 1e3}, {"sec", 1e6}, {"s", 1e6}, {"", 1e6}} {
		if n, ok := strings.CutSuffix(s, u.unit); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
			if v *= u.times; err != nil || v < 0 || v > math.MaxInt32 || v != math.Trunc(v) {
				return s
			}
			return strconv.FormatInt(int64(v), 10)
		}
	}
	return s
}
