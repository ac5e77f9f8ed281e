package kmsg

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestMessageBuffer reads kern.msgbuf of FreeBSD as it grows and goes round. The
// lines are those of re(4), em(4) and of the zone limits (sys/kern/kern_mbuf.c).
func TestMessageBuffer(t *testing.T) {
	var m msgbuf
	said := func(b string) []string {
		m.take([]byte(b))
		lines := must.Get(collect(func() ([]byte, error) { return m.next(), nil }))(t)
		return lines
	}
	boot := strings.Repeat("usbus0: 480Mbps High Speed USB v2.0\n", 20) + "Copyright (c) 1992-2023 The FreeBSD Project.\n<118>Starting sshd.\nre0: link state changed to UP\n"
	got := said("\x00\x00" + boot)
	must.True(t, got == nil, "before it was opened: %q", got)
	if got := said(boot); got != nil {
		t.Errorf("nothing new: %q", got)
	}
	must.Same(t, said(boot+"re0: watchdog timeout\n<118>a program's line\n[zone: mbuf_clus"), []string{"re0: watchdog timeout"})
	grown := boot + "re0: watchdog timeout\n<118>a program's line\n[zone: mbuf_cluster] kern.ipc.nmbclusters limit reached\n"
	must.Same(t, said(grown), []string{"[zone: mbuf_cluster] kern.ipc.nmbclusters limit reached"})
	must.Same(t, said(grown[60:]+"re0: watchdog timeout\n"), []string{"re0: watchdog timeout"}, "after it went round")
	must.Same(t, said("re0: no memory for jumbo buffers\n"), []string{"re0: no memory for jumbo buffers"}, "after it went round altogether")
	if got := said(""); got != nil {
		t.Errorf("empty: %q", got)
	}
}

// Each has no bound but that of records.
func TestEach(t *testing.T) {
	left, n := 45, 0
	if err := each(func() ([]byte, error) {
		if left == 0 {
			return nil, nil
		}
		left--
		return []byte("6,1,1,-;line"), nil
	}, func(l string) {
		must.True(t, strings.HasPrefix(l, "line"), "%v", l)
		n++
	}); err != nil || n != 45 {
		t.Errorf("%d lines, %v", n, err)
	}
}
