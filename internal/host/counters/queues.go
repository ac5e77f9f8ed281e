package counters

import (
	"regexp"
	"slices"
	"strconv"
	"sync"

	"linerate/internal/core/model"
)

// queueNames returns the drivers' names for the packets that a transmit queue sent: igb and
// ixgbe, mlx5 and virtio_net, i40e and ice, ena, bnxt.
var queueNames = sync.OnceValue(func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, form := range []string{
		`^tx_queue_(\d+)_packets$`, `^tx_?(\d+)_packets$`, `^tx-(\d+)\.(?:tx_)?packets$`, `^queue_(\d+)_tx_cnt$`, `^\[(\d+)\]: tx_ucast_packets$`,
	} {
		out = append(out, regexp.MustCompile(form))
	}
	return out
})

// txQueue returns the number of the transmit queue whose packets are in the driver's counter
// of this name.
func txQueue(name string) (int, bool) {
	for _, form := range queueNames() {
		if m := form.FindStringSubmatch(name); m != nil {
			n, err := strconv.Atoi(m[1])
			return n, err == nil
		}
	}
	return 0, false
}

// mostQueues bounds the queues to list; those that sent least are dropped.
const mostQueues = 64

// queuesSent returns what each transmit queue sent between two snapshots, and how many queues
// were known in both.
func queuesSent(a, b Snapshot) (out []model.Counter, known int) {
	if len(a.driver.values) != len(b.driver.values) || len(b.driver.values) != len(b.driver.names) {
		return nil, 0
	}
	for i, name := range b.driver.names {
		q, ok := txQueue(name)
		if !ok {
			continue
		}
		n, ok := moved(value{n: a.driver.values[i], known: true}, value{n: b.driver.values[i], known: true})
		if !ok {
			continue
		}
		known++
		if n > 0 {
			out = append(out, model.Counter{Name: queueSent, Of: b.device + " queue " + strconv.Itoa(q), Value: n})
		}
	}
	slices.SortStableFunc(out, func(x, y model.Counter) int { return int(min(max(y.Value-x.Value, -1), 1)) })
	return out[:min(len(out), mostQueues)], known
}
