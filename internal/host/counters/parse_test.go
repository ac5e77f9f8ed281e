package counters

import (
	"encoding/binary"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// The texts of linux-6.18 are captured. Those of linux-6.1 and linux-5.4 have these kernels'
// columns, with distinct numbers.
var kernels = []string{"linux-5.4", "linux-6.1", "linux-6.18"}

func fixture(t testing.TB, kernel, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join("testdata", kernel, name)))(t)
}

// slowPairs parses pairs of lines in the simplest way.
func slowPairs(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, numbers := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		must.Need(t, len(names) == len(numbers) && names[0] == numbers[0], "fixture: lines %d", i)
		for k := 1; k < len(names); k++ {
			out[strings.TrimSuffix(names[0], ":")+"."+names[k]] = numbers[k]
		}
	}
	return out
}

// TestTables compares every counter of the list with a simple reading of three kernels'
// texts.
func TestTables(t *testing.T) {
	for _, kernel := range kernels {
		t.Run(kernel, func(t *testing.T) {
			var v values
			want := map[string]string{}
			for _, file := range []string{"snmp", "netstat"} {
				b := fixture(t, kernel, file)
				table := newTable()
				for range 2 { // the second pass uses the known columns
					must.Dof(t, table.parse(b, &v), "%s", file)
				}
				maps.Copy(want, slowPairs(t, string(b)))
			}
			six := fixture(t, kernel, "snmp6")
			must.Do(t, parseSNMP6(six, wanted6(), &v))
			for l := range strings.Lines(string(six)) {
				f := strings.Fields(l)
				want[f[0]] = f[1]
			}
			absent := 0
			for _, c := range counters() {
				n, ok := want[c.key]
				if !ok || c.key == "" {
					must.True(t, !v[c.id].known, "%s %s is known as %d, and the kernel does not show it", c.name, c.of, v[c.id].n)
					absent++
					continue
				}
				got := strconv.FormatUint(v[c.id].n, 10)
				must.True(t, v[c.id].known && got == n, "%s %s = %s, want %s of %s", c.name, c.of, got, n, c.key)
			}
			interfaceOnly := int(counterCount) - int(nicRxPackets) + len(cgroupCounters()) +
				len(trackCounters()) + len(mbufCounters()) + len(logCounters()) // these have their own files
			most := interfaceOnly + 2
			must.True(t, absent >= interfaceOnly && absent <= most, "%d counters are absent, of which %d belong to interfaces", absent, interfaceOnly)
		})
	}
}

// TestTableLearnsNewColumns: one table can read the texts of two kernels in turn.
func TestTableLearnsNewColumns(t *testing.T) {
	table := newTable()
	for _, c := range []struct {
		text string
		want uint64
	}{
		{"Udp: InDatagrams RcvbufErrors\nUdp: 1 2\n", 2},
		{"Udp: RcvbufErrors InDatagrams\nUdp: 3 4\n", 3},
		{"Ip: Forwarding\nIp: 1\nUdp: InDatagrams RcvbufErrors\nUdp: 5 6\n", 6},
	} {
		var v values
		err := table.parse([]byte(c.text), &v)
		must.True(t, err == nil && v[udpReceiveBuffer].n == c.want, "%q: %d, %v", c.text, v[udpReceiveBuffer].n, err)
	}
	var v values
	err := table.parse([]byte("Udp: RcvbufErrors InDatagrams\nUdp: -1 7\n"), &v)
	must.True(t, err == nil && !v[udpReceiveBuffer].known && v[udpIn].n == 7, "a negative number: %+v, %v", v[udpReceiveBuffer], err)
}

func TestTableRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"one line":         "Udp: InDatagrams\n",
		"other prefix":     "Udp: InDatagrams\nTcp: 1\n",
		"no prefix":        "InDatagrams\n1\n",
		"too few numbers":  "Udp: InDatagrams NoPorts\nUdp: 1\n",
		"empty line first": "\n\n",
	} {
		must.Is(t, newTable().parse([]byte(text), new(values)), errShape, "%s", name)
	}
	must.Is(t, parseSNMP6([]byte("Udp6InDatagrams x\n"), wanted6(), new(values)), errShape, "snmp6 without a number")
}

func TestParseStat(t *testing.T) {
	cores, err := parseStat(fixture(t, "linux-6.1", "stat"), nil)
	must.Need(t, err == nil && len(cores) == 2, "%v %v", cores, err)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	must.Equal(t, cores[0], core{id: 0, user: ms(138800), system: ms(22230), irq: ms(40), softirq: ms(280), steal: ms(710)}, "cpu0")
	must.Equal(t, cores[1].busy(), ms(151990+26740+50+560), "cpu1 was busy for")
	// Two of four cores are offline.
	cores, err = parseStat([]byte("cpu  1 1 1 1 1 1 1 1\ncpu0 1 0 0 0 0 0 0 0 0 0\ncpu3 2 0 0 0 0 0 0 0\nintr 1\n"), nil)
	must.True(t, err == nil && len(cores) == 2 && cores[1].id == 3, "%+v, %v", cores, err)
	for name, text := range map[string]string{
		"empty": "", "no core": "cpu 1 1 1 1 1 1 1 1\nintr 0\n", "short": "cpu0 1 2 3\n", "word": "cpu0 1 2 3 4 x 6 7 8\n",
		"twice": "cpu0 1 1 1 1 1 1 1 1\ncpu0 1 1 1 1 1 1 1 1\n", "huge": "cpu0 99999999999999999999 1 1 1 1 1 1 1\n",
	} {
		must.Is(t, must.Err(parseStat([]byte(text), nil)), errShape, "%s", name)
	}
}

// TestParseSoftnet: 11 columns in 5.4, 13 in 6.1, 15 in 6.18.
func TestParseSoftnet(t *testing.T) {
	four := func(ids ...int) []queue {
		var out []queue
		for i, id := range ids {
			out = append(out, queue{id: id, processed: 0x12c000 + uint32(i), dropped: 0xa0 + uint32(i), squeezed: 0x10 + uint32(i), limited: 3 + uint32(i), hasLimited: true})
		}
		return out
	}
	for _, c := range []struct {
		kernel string
		want   []queue
	}{
		{"linux-5.4", four(0, 1, 2, 3)},
		{"linux-6.1", four(0, 1, 4, 5)}, // the lines give the core
		{"linux-6.18", nil},
	} {
		got, err := parseSoftnet(fixture(t, c.kernel, "softnet_stat"), nil)
		must.Dof(t, err, "%v", c.kernel)
		if c.want == nil {
			must.True(t, len(got) == 2 && got[0].id == 0 && got[1].id == 1 && got[1].processed > got[0].processed && got[0].hasLimited, "%s: %+v", c.kernel, got)
			continue
		}
		must.Need(t, len(got) == len(c.want), "%s: %+v", c.kernel, got)
		for i := range got {
			must.Equal(t, got[i], c.want[i], "%s line %d", c.kernel, i)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "short": "00000001 00000002\n", "not hex": "0000000g 00000000 00000000\n", "too wide": "100000000 00000000 00000000\n",
	} {
		must.Is(t, must.Err(parseSoftnet([]byte(text), nil)), errShape, "%s", name)
	}
}

func FuzzParseStat(f *testing.F) {
	for _, k := range kernels {
		f.Add(fixture(f, k, "stat"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cores, err := parseStat(b, nil)
		if err != nil {
			return
		}
		for i, c := range cores {
			must.True(t, c.busy() >= 0 && c.steal >= 0 && (i <= 0 || c.id > cores[i-1].id), "%+v", cores)
		}
	})
}

func FuzzParseSoftnet(f *testing.F) {
	for _, k := range kernels {
		f.Add(fixture(f, k, "softnet_stat"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		queues, err := parseSoftnet(b, nil)
		for i := 1; err == nil && i < len(queues); i++ {
			must.True(t, queues[i].id > queues[i-1].id, "%+v", queues)
		}
	})
}

func FuzzTable(f *testing.F) {
	for _, k := range kernels {
		f.Add(fixture(f, k, "snmp"), fixture(f, k, "netstat"))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		used, fresh := newTable(), newTable()
		var a, b values
		_ = used.parse(first, new(values))
		errUsed, errFresh := used.parse(second, &a), fresh.parse(second, &b)
		must.True(t, (errUsed == nil) == (errFresh == nil) && (errUsed != nil || a == b), "what was read before changes what is read: %v, %v", errUsed, errFresh)
	})
}

func FuzzParseSNMP6(f *testing.F) {
	for _, k := range kernels {
		f.Add(fixture(f, k, "snmp6"))
	}
	want := wanted6()
	f.Fuzz(func(_ *testing.T, b []byte) { _ = parseSNMP6(b, want, new(values)) })
}

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile("testdata/freebsd-12.1/" + name + ".bin"))(t)
}

// TestZoneStats reads FreeBSD 12.1's zone statistics, which had no refused allocations, and
// the same with a refused cluster.
func TestZoneStats(t *testing.T) {
	b := recorded(t, "vm.zone_stats")
	const clusterAt = "mbuf_cluster\x00"
	var calm values
	must.Do(t, decodeZoneStats(b, &calm))
	for _, z := range zones() {
		got := calm[z.failed]
		must.True(t, got.known && got.n == 0, "%s: %+v", z.name, got)
	}
	at := -1
	for i := range b {
		if i+len(clusterAt) <= len(b) && string(b[i:i+len(clusterAt)]) == clusterAt {
			at = i
		}
	}
	must.Need(t, at >= 0, "no zone of clusters")
	binary.LittleEndian.PutUint64(b[at+zoneFails:], 77)
	binary.LittleEndian.PutUint64(b[at+zoneSleeps:], 5)
	var short values
	err := decodeZoneStats(b, &short)
	must.True(t, err == nil && short[clusterFailed].n == 77 && short[clusterWaits].n == 5 && short[mbufFailed].n == 0, "%+v, %+v, %v", short[clusterFailed], short[clusterWaits], err)
	for _, bad := range [][]byte{nil, b[:15], b[:len(b)-1], append([]byte{2}, b[1:]...)} {
		must.Is(t, decodeZoneStats(bad, new(values)), errShape, "%d bytes", len(bad))
	}
}

// TestNetisr reads FreeBSD 12.1's single netisr workstream: IP queued 7193 packets, ARP 1,
// IPv6 8.
func TestNetisr(t *testing.T) {
	b := recorded(t, "net.isr.work")
	got := must.Get(decodeNetisr(b))(t)
	must.Need(t, len(got) == 1 && got[0].processed == 7202 && got[0].dropped == 0, "%+v", got)
	binary.LittleEndian.PutUint64(b[8*netisrDropped:], 9)
	got, err := decodeNetisr(b)
	must.True(t, err == nil && got[0].dropped == 9, "%+v, %v", got, err)
	for _, bad := range [][]byte{nil, b[:100], append([]byte{1}, b[1:]...)} {
		must.Is(t, must.Err(decodeNetisr(bad)), errShape, "%d bytes", len(bad))
	}
}
