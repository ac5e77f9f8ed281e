package counters

import (
	"regexp"
	"strings"
	"sync"
)

// logLines counts, by meaning, the lines that the kernel logs while watching (diagnosis.md
// section 3.3).
type logLines struct {
	device string // lines about an interface must name it
	count  map[id]uint64
}

// pattern is a kind of line to count.
type pattern struct {
	means id
	text  *regexp.Regexp
	named bool // only for the watched interface
}

// patterns returns the patterns of Linux and FreeBSD:
//
//	NETDEV WATCHDOG: eth0 (8139too): transmit queue 0 timed out
//	e1000e 0000:00:19.0 eth0: Detected Hardware Unit Hang:
//	re0: watchdog timeout
//	swapper/1: page allocation failure: order:3, mode:0x40a20(GFP_ATOMIC|__GFP_COMP)
//	nf_conntrack: nf_conntrack: table full, dropping packet
//	[zone: mbuf_cluster] kern.ipc.nmbclusters limit reached
//	re0: no memory for jumbo buffers
var patterns = sync.OnceValue(func() []pattern {
	line := func(means id, named bool, text string) pattern {
		return pattern{means, regexp.MustCompile("(?i)" + text), named}
	}
	return []pattern{
		line(logResets, true, `netdev watchdog|watchdog timeout|(tx|hardware) unit hang|hung queue|adapter reset|reset adapter`),
		line(logAllocations, false, `page allocation failure: order:[1-9]`),
		line(logTableFull, false, `nf_conntrack: table full`),
		line(logBuffers, false, `kern\.ipc\.nmb[a-z0-9]* limit reached|no memory for (jumbo|rx|mbuf)`),
	}
})

// add counts a line if it matches.
func (l *logLines) add(line string) {
	for _, p := range patterns() {
		if p.text.MatchString(line) && (!p.named || names(line, l.device)) {
			l.count[p.means]++
			return
		}
	}
}

// names reports whether a line is about an interface.
func names(line, device string) bool {
	return device != "" && strings.Contains(line, device) &&
		regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(device)+`($|[^\w.-])`).MatchString(line)
}

// set sets the counters to the present counts.
func (l *logLines) set(v *values) {
	for _, c := range logCounters() {
		v.set(c.id, l.count[c.id])
	}
}
