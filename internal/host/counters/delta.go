package counters

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"time"

	"linerate/internal/core/model"
)

// Bounds on the output of one interval.
const (
	manyCores  = 64 // above it, list only the busiest individually
	listed     = 16 // this many
	mostDriver = 32 // counters of the driver, those that moved most
)

// others is the Of of the sum over the cores that are not listed.
const others = "other cpus"

// move is the change of one name between two snapshots.
type move struct {
	name, of string
	n        int64
}

// Delta returns the changes of the host's counters from a to b, only of those that moved, in
// a fixed order, and how many were watched (counters_read). It omits counters that were reset
// meanwhile; those of 32 bits may wrap around once.
func Delta(a, b Snapshot) []model.Counter {
	var out []model.Counter
	add := func(name, of string, n int64) {
		if n != 0 {
			out = append(out, model.Counter{Name: name, Of: of, Value: n})
		}
	}
	spent, sum := coreMoves(a, b)
	add(cpuBusyTime, "", sum.busy().Milliseconds())
	add(cpuSoftIRQTime, "", sum.softirq.Milliseconds())
	add(cpuStealTime, "", sum.steal.Milliseconds())
	for _, c := range busiest(spent) {
		add(cpuBusyTime, cpuName(c.id), c.busy().Milliseconds())
		add(cpuSoftIRQTime, cpuName(c.id), c.softirq.Milliseconds())
		add(cpuStealTime, cpuName(c.id), c.steal.Milliseconds())
	}
	if t, ok := busiestThread(a, b); ok {
		add(threadRun, "", t.run.Milliseconds())
		add(threadWait, "", t.wait.Milliseconds())
	}
	length := b.at.Sub(a.at)
	if len(spent) > 0 {
		add(cpuWindow, "", length.Milliseconds())
	}
	if b.quota > 0 {
		add(cgroupQuota, "", int64(b.quota*float64(length.Milliseconds())))
	}
	for _, m := range moves(a, b) {
		add(m.name, m.of, m.n)
	}
	queues, _ := queuesSent(a, b)
	out = append(out, queues...)
	for _, g := range read(a, b) {
		add(countersRead, string(g.group), int64(g.n))
	}
	return out
}

// Samples returns the changes on host between a and b as samples of the interval that starts
// at start and is length long: cpu_busy of every core, other CPU times if not zero, and all
// other counters that moved. On machines with more than 64 cores it lists only the 16
// busiest; the sum over all cores has an empty Of. Length must not be 0.
func Samples(host model.Host, a, b Snapshot, start, length time.Duration) []model.Sample {
	var out []model.Sample
	add := func(name, of string, v float64) {
		out = append(out, model.Sample{Host: host, Metric: model.Metric(name), Of: of, Start: start, Length: length, Value: v})
	}
	if length <= 0 {
		return nil
	}
	share := func(name, of string, d time.Duration, always bool) {
		if always || d != 0 {
			add(name, of, d.Seconds()/length.Seconds())
		}
	}
	spent, sum := coreMoves(a, b)
	if len(spent) > 0 {
		share(cpuBusy, "", sum.busy(), true)
		share(cpuUser, "", sum.user, b.parts.user)
		share(cpuSystem, "", sum.system, b.parts.system)
		share(cpuIRQ, "", sum.irq, false)
		share(cpuSoftIRQ, "", sum.softirq, b.parts.softirq)
		share(cpuSteal, "", sum.steal, b.parts.steal)
	}
	for _, c := range busiest(spent) {
		share(cpuBusy, cpuName(c.id), c.busy(), true)
		share(cpuSoftIRQ, cpuName(c.id), c.softirq, false)
		share(cpuSteal, cpuName(c.id), c.steal, false)
	}
	for _, m := range moves(a, b) {
		if m.n != 0 {
			add(m.name, m.of, float64(m.n))
		}
	}
	if b.qdisc.known && b.qdisc.backlog > 0 {
		add(qdiscBacklog, b.device, float64(b.qdisc.backlog))
	}
	for _, l := range b.levels {
		add(l.name, b.device, l.value)
	}
	return out
}

func cpuName(i int) string { return "cpu" + strconv.Itoa(i) }

// both returns the pairs of elements with the same id in two lists, each sorted by id.
func both[T any](a, b []T, id func(T) int) iter.Seq2[T, T] {
	return func(yield func(T, T) bool) {
		i := 0
		for _, y := range b {
			for i < len(a) && id(a[i]) < id(y) {
				i++
			}
			if i < len(a) && id(a[i]) == id(y) && !yield(a[i], y) {
				return
			}
		}
	}
}

// coreMoves returns the time of each core between two snapshots, and of all cores together.
// It omits cores that appeared, disappeared or ran backwards.
func coreMoves(a, b Snapshot) (each []core, sum core) {
	each = make([]core, 0, len(b.cores))
	for x, y := range both(a.cores, b.cores, func(c core) int { return c.id }) {
		d := core{
			id: y.id, user: y.user - x.user, system: y.system - x.system, irq: y.irq - x.irq,
			softirq: y.softirq - x.softirq, steal: y.steal - x.steal,
		}
		if min(d.user, d.system, d.irq, d.softirq, d.steal) < 0 {
			continue
		}
		each = append(each, d)
		sum.user += d.user
		sum.system += d.system
		sum.irq += d.irq
		sum.softirq += d.softirq
		sum.steal += d.steal
	}
	return each, sum
}

// busiestThread returns the times between two snapshots of the thread that ran or waited to
// run the longest. It omits threads that are not in both.
func busiestThread(a, b Snapshot) (most thread, ok bool) {
	for x, y := range both(a.threads, b.threads, func(t thread) int { return t.id }) {
		d := thread{id: y.id, run: y.run - x.run, wait: y.wait - x.wait}
		if d.run < 0 || d.wait < 0 {
			continue
		}
		if !ok || d.run+d.wait > most.run+most.wait {
			most, ok = d, true
		}
	}
	return most, ok
}

// busiest returns the cores to list individually, sorted by id.
func busiest(all []core) []core {
	if len(all) <= manyCores {
		return all
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y core) int { return cmp.Compare(y.busy(), x.busy()) })
	all = all[:listed]
	slices.SortFunc(all, func(x, y core) int { return cmp.Compare(x.id, y.id) })
	return all
}

// moves returns the changes of everything known in both snapshots except the cores' time,
// including zeros.
func moves(a, b Snapshot) []move {
	out := queueMoves(a, b)
	for _, c := range counters() {
		if c.group == GroupQdisc && !a.qdisc.same(b.qdisc) {
			continue
		}
		of := c.of
		if c.group == GroupNIC || c.group == GroupRadio || c.group == GroupQdisc {
			of = b.device
		}
		if n, ok := moved(a.values[c.id], b.values[c.id]); ok {
			out = append(out, move{c.name, of, n})
		}
	}
	return append(out, driverMoves(a, b)...)
}

// queueMoves returns the receive path's counters per core. It adds up those of cores that are
// not listed, so that the sum over Of is always right.
func queueMoves(a, b Snapshot) []move {
	var out []move
	for _, part := range []struct {
		name string
		of   func(queue) (uint32, bool)
	}{
		{softnetProcessed, func(q queue) (uint32, bool) { return q.processed, true }},
		{softnetDropped, func(q queue) (uint32, bool) { return q.dropped, true }},
		{softnetSqueezed, func(q queue) (uint32, bool) { return q.squeezed, true }},
		{softnetLimited, func(q queue) (uint32, bool) { return q.limited, q.hasLimited }},
	} {
		var each []move
		for x, y := range both(a.queues, b.queues, func(q queue) int { return q.id }) {
			from, ok1 := part.of(x)
			to, ok2 := part.of(y)
			if n, ok := moved32(from, to); ok && ok1 && ok2 {
				each = append(each, move{part.name, cpuName(y.id), n})
			}
		}
		out = append(out, bounded(each, part.name)...)
	}
	return out
}

// bounded keeps the largest moves of many cores and adds up the others.
func bounded(each []move, name string) []move {
	if len(each) <= manyCores {
		return each
	}
	slices.SortStableFunc(each, func(x, y move) int { return cmp.Compare(y.n, x.n) })
	rest := move{name: name, of: others}
	for _, m := range each[listed:] {
		rest.n += m.n
	}
	return append(each[:listed:listed], rest)
}

// driverMoves returns the driver's counters that moved, the largest first, at most
// mostDriver.
func driverMoves(a, b Snapshot) []move {
	if len(a.driver.values) != len(b.driver.values) || len(b.driver.values) != len(b.driver.names) {
		return nil
	}
	var out []move
	for i, name := range b.driver.names {
		if _, ok := txQueue(name); ok {
			continue // see queuesSent
		}
		if n, ok := moved(value{n: a.driver.values[i], known: true}, value{n: b.driver.values[i], known: true}); ok && n > 0 {
			out = append(out, move{nicDriver, b.device + " " + name, n})
		}
	}
	slices.SortStableFunc(out, func(x, y move) int { return cmp.Compare(y.n, x.n) })
	return out[:min(len(out), mostDriver)]
}

type known struct {
	group Group
	n     int
}

// read returns how many counters of each group were known at both ends.
func read(a, b Snapshot) []known {
	count := map[Group]int{}
	if spent, _ := coreMoves(a, b); len(spent) > 0 {
		count[GroupCPU] = b.parts.count()
	}
	for _, c := range counters() {
		if _, ok := moved(a.values[c.id], b.values[c.id]); ok && (c.group != GroupQdisc || a.qdisc.same(b.qdisc)) {
			count[c.group]++
		}
	}
	softnet := map[string]bool{}
	for _, m := range queueMoves(a, b) {
		softnet[m.name] = true
	}
	count[GroupSoftnet] = len(softnet)
	if _, ok := busiestThread(a, b); ok {
		count[GroupThread] = 2 // times of it
	}
	if len(a.driver.values) == len(b.driver.values) {
		count[GroupDriver] = len(b.driver.values)
	}
	_, count[GroupQueue] = queuesSent(a, b)
	var out []known
	for _, g := range []Group{GroupCPU, GroupSoftnet, GroupIP, GroupUDP, GroupTCP, GroupNIC, GroupDriver, GroupRadio, GroupQdisc, GroupThread, GroupCgroup, GroupQueue, GroupECN, GroupTrack, GroupMbuf, GroupLog} {
		out = append(out, known{g, count[g]})
	}
	return out
}
