package kmsg

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"linerate/internal/must"
)

// As in /dev/kmsg of Linux 6.18.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want record
	}{
		{"5,0,0,-;Linux version 6.18.44\n", record{0, 5, "Linux version 6.18.44"}},
		{"6,339,5140900,-,caller=T1;NET: Registered PF_INET6 protocol family\n SUBSYSTEM=net\n DEVICE=n2\n",
			record{0, 6, "NET: Registered PF_INET6 protocol family"}},
		{"12,600,123,-;systemd: started; really\n", record{1, 4, "systemd: started; really"}},
		{"3,1,1,c;NETDEV WATCHDOG: eth0 (8139too): transmit queue 0 timed out", record{0, 3, "NETDEV WATCHDOG: eth0 (8139too): transmit queue 0 timed out"}},
		{"7,1,1,-;\n", record{0, 7, ""}},
		{"6,1,1,-;a\\x0ab\n", record{0, 6, `a\x0ab`}},
		{"6,1,1,-;\x1b[2J\xff\n", record{0, 6, "?[2J?"}},
	} {
		must.Equal(t, must.Get(parse([]byte(c.in)))(t), c.want, "%q", c.in)
	}
	for _, in := range []string{"", "6,1,1,-", ";text", "-1,1,1,-;x", "x;y", "99999999999,1;x"} {
		got, err := parse([]byte(in))
		must.True(t, err != nil && got == (record{}), "%q is %+v", in, got)
	}
	got, err := parse([]byte("6,1,1,-;" + strings.Repeat("µ", 1000)))
	must.True(t, err == nil && len(got.text) <= maxText && utf8.ValidString(got.text), "a long line has %d bytes, %v", len(got.text), err)
}

func TestAtMostTwentyLines(t *testing.T) {
	left := 45
	lines, err := collect(func() ([]byte, error) {
		if left == 0 {
			return nil, nil
		}
		left--
		return fmt.Appendf(nil, "6,1,1,-;line %d", left), nil
	})
	must.True(t, err == nil && len(lines) == maxLines+1 && lines[0] == "line 44" && lines[maxLines] == "… and 25 more lines", "%q, %v", lines, err)
	failure := errors.New("broken")
	lines, err = collect(func() ([]byte, error) { return nil, failure })
	must.True(t, errors.Is(err, failure) && lines == nil, "%q, %v", lines, err)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"6,339,5140900,-;NET\n DEVICE=n2\n", "6,1,1,-", ";x", "6;\xff\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parse(b)
		must.True(t, (err == nil || r == (record{})) && len(r.text) <= maxText && utf8.ValidString(r.text) && !strings.ContainsAny(r.text, "\n\x1b"), "%+v, %v", r, err)
		must.True(t, r.facility >= 0 && r.level >= 0 && r.level <= 7, "%+v", r)
	})
}

// TestMessageBuffer reads kern.msgbuf of FreeBSD as it grows and wraps around. The lines are
// those of re(4), em(4) and of the zone limits (sys/kern/kern_mbuf.c).
func TestMessageBuffer(t *testing.T) {
	var m msgbuf
	said := func(b string) []string {
		m.take([]byte(b))
		return must.Get(collect(func() ([]byte, error) { return m.next(), nil }))(t)
	}
	boot := strings.Repeat("usbus0: 480Mbps High Speed USB v2.0\n", 20) + "Copyright (c) 1992-2023 The FreeBSD Project.\n<118>Starting sshd.\nre0: link state changed to UP\n"
	got := said("\x00\x00" + boot)
	must.True(t, got == nil, "before it was opened: %q", got)
	got = said(boot)
	must.True(t, got == nil, "nothing new: %q", got)
	must.Same(t, said(boot+"re0: watchdog timeout\n<118>a program's line\n[zone: mbuf_clus"), []string{"re0: watchdog timeout"})
	grown := boot + "re0: watchdog timeout\n<118>a program's line\n[zone: mbuf_cluster] kern.ipc.nmbclusters limit reached\n"
	must.Same(t, said(grown), []string{"[zone: mbuf_cluster] kern.ipc.nmbclusters limit reached"})
	must.Same(t, said(grown[60:]+"re0: watchdog timeout\n"), []string{"re0: watchdog timeout"}, "after it went round")
	must.Same(t, said("re0: no memory for jumbo buffers\n"), []string{"re0: no memory for jumbo buffers"}, "after it went round altogether")
	got = said("")
	must.True(t, got == nil, "empty: %q", got)
}

// Each has no limit except on records.
func TestEach(t *testing.T) {
	left, n := 45, 0
	err := each(func() ([]byte, error) {
		if left == 0 {
			return nil, nil
		}
		left--
		return []byte("6,1,1,-;line"), nil
	}, func(l string) {
		must.True(t, strings.HasPrefix(l, "line"), "%v", l)
		n++
	})
	must.True(t, err == nil && n == 45, "%d lines, %v", n, err)
}
