package counters

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Offsets in vm.zone_stats, which netstat -m of FreeBSD 12 and later reads (sys/vm/uma.h):
// struct uma_stream_header, and for each zone struct uma_type_header and a struct
// uma_percpu_stat for each CPU.
const (
	zoneStream   = 16
	zoneVersion  = 1 // UMA_STREAM_VERSION
	zoneHeader   = 120
	zoneCPU      = 64
	zoneNameSize = 32
	zoneFails    = 88
	zoneSleeps   = 96
)

// decodeZoneStats decodes the counters of network buffers that only FreeBSD 12 needs: failed
// requests, and waits at the limit.
func decodeZoneStats(b []byte, v *values) error {
	if err := atLeast(b, zoneStream, "vm.zone_stats"); err != nil {
		return err
	}
	version, cpus, count := word32(b, 0), int(word32(b, 1)), int(word32(b, 2))
	each := zoneHeader + cpus*zoneCPU
	if version != zoneVersion || cpus < 1 || cpus > 4096 || count < 0 || count > 1<<20 || len(b) < zoneStream+count*each {
		return fmt.Errorf("vm.zone_stats: version %d, %d zones on %d processors in %d bytes: %w", version, count, cpus, len(b), errShape)
	}
	for at := zoneStream; at < zoneStream+count*each; at += each {
		name, _, _ := bytes.Cut(b[at:at+zoneNameSize], []byte{0})
		for _, z := range zones() {
			if z.name != string(name) {
				continue
			}
			v.set(z.failed, binary.LittleEndian.Uint64(b[at+zoneFails:]))
			if z.bounded {
				v.set(z.waits, binary.LittleEndian.Uint64(b[at+zoneSleeps:]))
			}
		}
	}
	return nil
}

// Offsets in net.isr.work, which netstat -Q reads: a struct sysctl_netisr_work for each
// stream of work and protocol (sys/net/netisr.h). Its first word is its own length.
const (
	netisrSize    = 128
	netisrStream  = 1  // word of 32 bits: the stream of work, one for each thread
	netisrDropped = 6  // words of 64 bits from here on
	netisrHandled = 8  // of all that was handled directly or through a queue
	netisrCores   = 64 // more streams than this are implausible
)

// decodeNetisr adds up the protocols of each stream of work.
func decodeNetisr(b []byte) ([]queue, error) {
	if len(b) == 0 || len(b)%netisrSize != 0 {
		return nil, fmt.Errorf("net.isr.work: %d bytes: %w", len(b), errShape)
	}
	var all []queue
	for ; len(b) > 0; b = b[netisrSize:] {
		id := int(word32(b, netisrStream))
		if word32(b, 0) != netisrSize || id >= netisrCores {
			return nil, fmt.Errorf("net.isr.work: entry of %d bytes for stream %d: %w", word32(b, 0), id, errShape)
		}
		if len(all) == 0 || all[len(all)-1].id != id {
			if len(all) > 0 && all[len(all)-1].id > id {
				return nil, fmt.Errorf("net.isr.work: stream %d out of order: %w", id, errShape)
			}
			all = append(all, queue{id: id})
		}
		q := &all[len(all)-1]
		q.processed += uint32(word64(b, netisrHandled))
		q.dropped += uint32(word64(b, netisrDropped))
	}
	return all, nil
}
