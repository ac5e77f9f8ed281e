package counters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"linerate/internal/host/knob/ethtool"
	"linerate/internal/host/radio"
)

// source holds all files and sockets open.
type source struct {
	gaps
	stat, softnet, snmp, netstat, snmp6 *text
	snmpTable, netstatTable             *table
	want6                               map[string]id
	link                                *link // nil without an interface
	radio                               *radio.Radio
	coreCount, queueCount               int
	groups                              groups
	track                               *text // nil without connection tracking
	log                                 kernelLog
}

// openSource opens everything in one thread: network files and sockets belong to the
// namespace of the thread that opens them, whichever thread reads them later.
func openSource(iface string) (*source, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &source{snmpTable: newTable(), netstatTable: newTable(), want6: wanted6()}
	own := "/proc/thread-self/net/"
	if _, err := os.Stat(own); err != nil {
		own = "/proc/self/net/" // before Linux 3.17, or /proc of another process tree
	}
	for _, f := range []struct {
		to   **text
		path string
	}{
		{&s.stat, "/proc/stat"}, {&s.softnet, own + "softnet_stat"}, {&s.snmp, own + "snmp"},
		{&s.netstat, own + "netstat"}, {&s.snmp6, own + "snmp6"},
	} {
		var err error
		*f.to, err = openText(f.path)
		s.note(f.path, err)
	}
	s.groups = openGroups("/")
	s.track, _ = openText(own + "stat/nf_conntrack") // does not exist without connection tracking
	s.note("kernel log", s.log.open(iface))
	if iface != "" {
		var err error
		s.link, err = openLink(iface)
		s.note("interface "+iface, err)
		s.radio = openRadio(iface, &s.gaps)
	}
	return s, nil
}

func (s *source) missing() []string { return s.texts() }

func (s *source) close() error {
	var errs []error
	for _, t := range append([]*text{s.stat, s.softnet, s.snmp, s.netstat, s.snmp6, s.track}, s.groups.files()...) {
		if t != nil {
			errs = append(errs, t.f.Close())
		}
	}
	if s.link != nil {
		errs = append(errs, s.link.close())
	}
	if s.radio != nil {
		errs = append(errs, s.radio.Close())
	}
	errs = append(errs, s.log.close())
	return errors.Join(errs...)
}

// read fills in o. It returns an error only if nothing at all could be read.
func (s *source) read(o *Snapshot, driver bool) error {
	some := false
	try := func(t *text, parse func([]byte) error) {
		if t == nil {
			return
		}
		b, err := t.read()
		if err == nil {
			err = parse(b)
		}
		s.note(t.f.Name(), err)
		some = some || err == nil
	}
	try(s.stat, func(b []byte) (err error) {
		o.cores, err = parseStat(b, make([]core, 0, s.coreCount))
		s.coreCount = len(o.cores)
		o.parts = coreParts{user: true, system: true, irq: true, softirq: true, steal: true}
		return err
	})
	try(s.softnet, func(b []byte) (err error) {
		o.queues, err = parseSoftnet(b, make([]queue, 0, s.queueCount))
		s.queueCount = len(o.queues)
		return err
	})
	try(s.snmp, func(b []byte) error { return s.snmpTable.parse(b, &o.values) })
	try(s.netstat, func(b []byte) error { return s.netstatTable.parse(b, &o.values) })
	try(s.snmp6, func(b []byte) error { return parseSNMP6(b, s.want6, &o.values) })
	try(s.track, func(b []byte) error { return parseTrack(b, &o.values) })
	s.note("kernel log", s.log.read(&o.values))
	o.threads = readThreads()
	s.groups.read(o)
	if s.link != nil {
		s.link.read(o, driver, &s.gaps)
		some = some || o.values[nicRxPackets].known
	}
	o.readRadio(s.radio, driver, &s.gaps)
	if !some {
		return fmt.Errorf("nothing can be read: %q", s.texts())
	}
	return nil
}

// text is a file of /proc for repeated reading.
type text struct {
	f   *os.File
	buf []byte
}

func openText(path string) (*text, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &text{f: f, buf: make([]byte, 16<<10)}, nil
}

// mostText is more than the files have on any machine: /proc/stat has a number for each
// interrupt.
const mostText = 4 << 20

// read returns the whole file, valid until the next call. The kernel generates single-page
// files (stat, snmp, netstat, snmp6) at once if the buffer is large enough.
func (t *text) read() ([]byte, error) {
	n := 0
	for {
		k, err := unix.Pread(int(t.f.Fd()), t.buf[n:], int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, fmt.Errorf("read: %w", err)
		case k == 0:
			return t.buf[:n], nil
		}
		if n += k; n < len(t.buf) {
			continue
		}
		if n >= mostText {
			return nil, fmt.Errorf("more than %d bytes: %w", n, errShape)
		}
		t.buf = append(t.buf, make([]byte, len(t.buf))...)
		n = 0 // again, in one piece
	}
}

// link reads the counters of one interface by its index, so as not to mistake another
// interface that takes its name.
type link struct {
	name         string
	index        int
	netlink      int // socket
	sequence     uint32
	buf          []byte
	stats, state []byte // requests, as is qdisc
	qdisc        []byte
	fields       []id
	driver       *driver // nil if there is none
	noDriver     error
}

func openLink(name string) (*link, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	// a lost answer must not stop the watching for good
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, errors.Join(fmt.Errorf("open rtnetlink: %w", err), unix.Close(fd))
	}
	l := &link{
		name: name, index: i.Index, netlink: fd, buf: make([]byte, 64<<10), fields: linkFields(),
		stats: statsRequest(i.Index), state: linkRequest(i.Index), qdisc: qdiscRequest(),
	}
	l.driver, l.noDriver = openDriver(name)
	return l, nil
}

func (l *link) close() error {
	err := unix.Close(l.netlink)
	if l.driver != nil {
		err = errors.Join(err, l.driver.socket.Close())
	}
	return err
}

func (l *link) read(o *Snapshot, driver bool, g *gaps) {
	b, err := l.ask(l.stats)
	if err == nil {
		err = decodeStats(b, l.fields, &o.values)
	}
	if err == nil {
		if b, err = l.ask(l.state); err == nil {
			err = decodeLink(b, &o.values)
		}
	}
	g.note("interface "+l.name, err)
	err = l.readQdisc(o)
	g.note("queueing discipline of "+l.name, err)
	switch {
	case l.driver == nil:
		g.note("driver of "+l.name, l.noDriver)
	case driver:
		o.driver.names = l.driver.names
		o.driver.values, err = l.driver.read()
		g.note("driver of "+l.name, err)
	}
}

// readQdisc reads the queue in front of the interface.
func (l *link) readQdisc(o *Snapshot) error {
	b, err := l.ask(l.qdisc)
	for err == nil {
		var done bool
		if done, err = decodeQdiscs(b, l.index, &o.qdisc, &o.values); done || err != nil {
			break
		}
		b, err = l.answer(l.qdisc)
	}
	if err == nil && !o.qdisc.known {
		err = errors.New("it has none, or one that does not count")
	}
	return err
}

// ask sends a request and returns the first part of the answer.
func (l *link) ask(request []byte) ([]byte, error) {
	l.sequence++
	binary.NativeEndian.PutUint32(request[8:], l.sequence)
	if _, err := unix.Write(l.netlink, request); err != nil {
		return nil, fmt.Errorf("ask rtnetlink: %w", err)
	}
	return l.answer(request)
}

// answer returns the next part of the answer to request, valid until the next call. It skips
// late answers to earlier requests.
func (l *link) answer(request []byte) ([]byte, error) {
	for {
		n, err := unix.Read(l.netlink, l.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask rtnetlink: %w", err)
		}
		if n >= nlHeader && binary.NativeEndian.Uint32(l.buf[8:]) == binary.NativeEndian.Uint32(request[8:]) {
			return l.buf[:n], nil
		}
	}
}

// driver reads the counters of an interface's driver, as "ethtool -S" does.
type driver struct {
	socket  ethtool.Socket
	device  string
	count   int // counters that the driver has
	indexes []int
	names   []string
	buf     []byte // struct ethtool_stats
}

func openDriver(name string) (*driver, error) {
	socket, err := ethtool.OpenSocket()
	if err != nil {
		return nil, err
	}
	d := &driver{socket: socket, device: name}
	if err := d.learn(); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return d, nil
}

// learn reads the names of the driver's counters.
func (d *driver) learn() error {
	info, err := d.socket.Info(d.device)
	if err != nil {
		return fmt.Errorf("ask for its counters: %w", err)
	}
	n := info.Counters
	if n == 0 || n > mostStats {
		return fmt.Errorf("it has %d counters of its own: %w", n, errors.ErrUnsupported)
	}
	const ethSSStats = 1 // ETH_SS_STATS
	head := ethStatsHead + 4
	b := make([]byte, head+int(n)*ethName)
	binary.NativeEndian.PutUint32(b[4:], ethSSStats)
	binary.NativeEndian.PutUint32(b[8:], n)
	if err := d.call(b, unix.ETHTOOL_GSTRINGS); err != nil {
		return fmt.Errorf("ask for the names of its counters: %w", err)
	}
	d.count = int(n)
	d.indexes, d.names = pick(b[head:], int(n))
	if len(d.names) == 0 {
		return errors.New("none of its counters speaks of loss or errors")
	}
	// The driver writes as many values as it has at that moment, so leave room for queues
	// that are made later.
	d.buf = make([]byte, ethStatsHead+8*(2*mostStats))
	return nil
}

func (d *driver) read() ([]uint64, error) {
	clear(d.buf[:ethStatsHead])
	binary.NativeEndian.PutUint32(d.buf[4:], uint32(d.count))
	if err := d.call(d.buf, unix.ETHTOOL_GSTATS); err != nil {
		return nil, fmt.Errorf("read its counters: %w", err)
	}
	return decodeDriver(d.buf, d.count, d.indexes)
}

func (d *driver) call(b []byte, command uint32) error {
	binary.NativeEndian.PutUint32(b, command)
	return d.socket.Do(d.device, b)
}
