package importer

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"linerate/internal/confined"
	"linerate/internal/must"
)

// hostile returns files that take far more memory than they are long, by name: of a size,
// or as large as they may be.
func hostile(size int, allowed bool) map[string]func() string {
	fill := func(head, one, tail string) func() string {
		return func() string {
			n := (size - len(head) - len(tail)) / len(one)
			for part, most := range map[string]int{"{": maxObjects - 100, "\n": maxLines - 10, ",": maxFields - 100, "[": maxFields - 100} {
				if each := strings.Count(one, part); allowed && each > 0 {
					n = min(n, most/each)
				}
			}
			return head + strings.Repeat(one, n) + tail
		}
	}
	const start = `{"start":{"connected":[],"version":"iperf 3.12","timestamp":{"timesecs":1},"test_start":{"protocol":"TCP","num_streams":1}},`
	return map[string]func() string{
		"spaces":        fill("", " ", ""),
		"flent":         fill(`{"version":4,"metadata":{},"results":{"TCP upload":[1]},"x_values":[1`, ",1", "]}"),
		"flent raw":     fill(`{"x_values":[1],"results":{"TCP upload":[1]},"raw_values":{"TCP upload":[{}`, ",{}", "]}}"),
		"intervals":     fill(start+`"end":{},"intervals":[{}`, ",{}", "]}"),
		"streams":       fill(start+`"end":{},"intervals":[{"streams":[{}`, ",{}", "]}]}"),
		"events":        fill(`{"event":"start","data":{}}`+"\n", `{"event":"interval","data":{}}`+"\n", ""),
		"nested":        fill(`{"x_values":1,"results":`, "[", ""),
		"short lines":   fill("a,b\n", "1,1\n", ""),
		"one line":      fill("a,b\n", ",", ""),
		"iperf 2":       fill("Client connecting to 10.0.0.2, TCP port 5001\n[ ID] Interval       Transfer     Bandwidth\n", "[  3]  0.0- 1.0 sec  1.00 MBytes  8.39 Mbits/sec\n", ""),
		"iperf 2, CSV":  fill("", "20261121120000,10.0.0.1,5001,10.0.0.2,5001,3,0.0-1.0,1000,8000\n", ""),
		"iperf 3":       fill("Connecting to host 10.0.0.2, port 5201\n[ ID] Interval           Transfer     Bitrate\n", "[  5]   0.00-1.00 sec  1.00 MBytes  8.39 Mbits/sec    0    100 KBytes\n", ""),
		"np.out":        fill("", "1 1.0 0.1\n", ""),
		"key and value": fill("MIGRATED TCP STREAM TEST from 1.1.1.1 to 1.1.1.2\n", "THROUGHPUT=1\n", ""),
	}
}

// readHostile reads each file in a process that has little memory: as large as it may be,
// or packed.
func readHostile(t *testing.T, size int, packed bool) {
	confined.Run(t, 480<<20, 120, func(t *testing.T) {
		for name, text := range hostile(size, !packed) {
			file := []byte(text())
			if packed {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				must.Get(z.Write(file))(t)
				must.Do(t, z.Close())
				file = b.Bytes()
			}
			o := Options{}
			if strings.HasSuffix(name, "line") || strings.HasSuffix(name, "lines") {
				o.Columns = []Column{must.Get(ParseColumn("goodput=b:Mbit/s"))(t)}
			}
			_, err := Read("", file, o)
			if packed {
				must.Fail(t, err, "%s of %d bytes", name, len(file))
			}
			t.Logf("%s of %d bytes: %v", name, len(file), err)
		}
	})
}

// TestHostilePacked: a packed file of some kilobytes that unpacks to 40 MB is refused.
func TestHostilePacked(t *testing.T) { readHostile(t, 40<<20, true) }
