package knob

import (
	"fmt"
	"math/bits"
	"slices"

	"linerate/internal/core/model"
)

// Constraints returns the rules of knobs.md section 6 that the values of one machine can break.
// The others concern paths or several machines: C-01 and C-15 apply to plans for buffers, C-09
// and C-10 to changes of several links, C-17 to plans for trials. C-18 is the range of every
// entry.
func Constraints() []Constraint {
	return slices.Concat(bufferConstraints(), windowConstraints(), linkConstraints())
}

// Reserve is the part of kern.ipc.maxsockbuf that FreeBSD allows a buffer: MCLBYTES of every
// MCLBYTES + MSIZE, 2048/2304 ([B13, B14 uipc_sockbuf.c]).
func Reserve(maxsockbuf int64) int64 { return maxsockbuf * 2048 / 2304 }

// atMost returns the constraint that low may not exceed high.
func atMost(id string, systems []string, low, high, rule, source string) Constraint {
	l, h := model.KnobID(low), model.KnobID(high)
	return Constraint{
		ID: id, Systems: systems, Knobs: []model.KnobID{l, h}, Rule: rule, Source: source,
		Breaks: func(before, after Values) string {
			over := func(v Values) (int64, bool) {
				a, okA := v.Int(l)
				b, okB := v.Int(h)
				return a - b, okA && okB
			}
			if !worse(over, before, after) {
				return ""
			}
			return fmt.Sprintf("%s %s is above %s %s", l, after[l], h, after[h])
		},
	}
}

// worse reports whether values exceed a limit further after a change than before it. A kernel's
// own defaults may break a rule, as FreeBSD's do: a change that leaves that alone, or repairs a
// part of it, is not at fault.
func worse(over func(Values) (int64, bool), before, after Values) bool {
	now, known := over(after)
	was, compared := over(before)
	return known && now > 0 && (!compared || now > was)
}

func bufferConstraints() []Constraint {
	bsd, darwin, linux := []string{"freebsd", "darwin"}, []string{"darwin"}, []string{"linux"}
	reserved := ids("tcp.recv_buffer_initial", "tcp.send_buffer_initial", "tcp.recv_buffer_max", "tcp.send_buffer_max", "socket.recv_buffer_default")
	triple := "least, initial and ceiling are in order"
	all := []Constraint{
		{
			ID: "C-02", Systems: []string{"freebsd"}, Knobs: append(ids("socket.buffer_max"), reserved...),
			Rule:   "every buffer fits in 8/9 of socket.buffer_max: above it no socket can be made, or growth stops for good",
			Source: "[B13, B14 uipc_sockbuf.c; tcp_usrreq.c tcp_usr_attach; tcp_input.c]",
			Breaks: func(before, after Values) string {
				for _, id := range reserved {
					over := func(v Values) (int64, bool) {
						n, ok := v.Int(id)
						limit, okLimit := v.Int("socket.buffer_max")
						return n - Reserve(limit), ok && okLimit
					}
					if worse(over, before, after) {
						limit, _ := after.Int("socket.buffer_max")
						return fmt.Sprintf("%s %s is above 8/9 of socket.buffer_max %d, which is %d", id, after[id], limit, Reserve(limit))
					}
				}
				return ""
			},
		},
		atMost("C-03", bsd, "tcp.recv_buffer_initial", "tcp.recv_buffer_max", "the first size is at most the ceiling", "[B13 tcp_input.c] [X]"),
		atMost("C-03", bsd, "tcp.send_buffer_initial", "tcp.send_buffer_max", "the first size is at most the ceiling", "[B13 tcp_output.c] [X]"),
		atMost("C-04", darwin, "tcp.recv_buffer_max", "socket.buffer_max", "autotuning ends at the limit of all buffers", "[X tcp_subr.c]"),
		atMost("C-04", darwin, "tcp.recv_buffer_initial", "socket.buffer_max", "a first size above the limit is refused", "[X tcp_usrreq.c]"),
		atMost("C-04", darwin, "tcp.send_buffer_initial", "socket.buffer_max", "a first size above the limit is refused", "[X tcp_usrreq.c]"),
		atMost("C-05", linux, "tcp.recv_buffer_min", "tcp.recv_buffer_initial", triple, "[L6.1 tcp.c tcp_init_sock]"),
		atMost("C-05", linux, "tcp.send_buffer_min", "tcp.send_buffer_initial", triple, "[L6.1 tcp.c tcp_init_sock]"),
		atMost("C-05", linux, "tcp.mem_pressure", "tcp.mem_limit", "pressure begins before the limit", "[L6.1 tcp.c]"),
		onlyGrows("mbuf.clusters"), onlyGrows("mbuf.jumbo_p"), onlyGrows("mbuf.jumbo9"), onlyGrows("mbuf.jumbo16"), onlyGrows("mbuf.total"),
	}
	for _, way := range []string{"recv", "send"} {
		all = append(all, initialBelowCeiling(way, triple))
	}
	return append(all, Constraint{
		ID: "C-06", Systems: linux, Knobs: ids("tcp.recv_buffer_max"), Advice: true, Source: "[E18] L-03",
		Rule: "a ceiling below the running one shrinks what the kernel chose by memory",
		Breaks: func(before, after Values) string {
			old, okOld := before.Int("tcp.recv_buffer_max")
			n, ok := after.Int("tcp.recv_buffer_max")
			if !ok || !okOld || n >= old {
				return ""
			}
			return fmt.Sprintf("tcp.recv_buffer_max %d is below the running %d", n, old)
		},
	})
}

// initialBelowCeiling is C-05 for one direction. Setting the ceiling alone lowers the initial
// size too, so only an explicitly changed initial size can be too large.
func initialBelowCeiling(way, rule string) Constraint {
	initial, ceiling := model.KnobID("tcp."+way+"_buffer_initial"), model.KnobID("tcp."+way+"_buffer_max")
	c := atMost("C-05", []string{"linux"}, string(initial), string(ceiling), rule, "[L6.1 tcp.c tcp_init_sock]")
	order := c.Breaks
	c.Breaks = func(before, after Values) string {
		if before[initial] == after[initial] {
			return ""
		}
		return order(before, after)
	}
	return c
}

// onlyGrows is the rule of FreeBSD's packet buffer pools (F-06: kern_mbuf.c rejects a smaller
// value with EINVAL), which also means that a trial could not be undone.
func onlyGrows(name string) Constraint {
	id := model.KnobID(name)
	return Constraint{
		ID: "F-06", Systems: []string{"freebsd"}, Knobs: []model.KnobID{id}, Source: "[B13 kern_mbuf.c]",
		Rule: "a pool can grow and not shrink while the system runs, so that a trial could not be undone",
		Breaks: func(before, after Values) string {
			if before[id] == after[id] {
				return ""
			}
			return fmt.Sprintf("%s cannot go back to %s without a restart: set it in /boot/loader.conf", id, before[id])
		},
	}
}

// maxScale is the largest window scale, RFC 7323 section 2.3.
const maxScale = 14

// WindowScale returns the window scale that a new connection's receiver offers on system with
// these values, and whether it can be computed (knobs.md section 1.2, C-11).
//
// Linux: floor(log2(max(tcp_rmem[2], rmem_max))) − 15 ([L6.1 tcp_output.c
// tcp_select_initial_window]). FreeBSD: the least s with 65535·2^s ≥ maxsockbuf
// ([B13 tcp_usrreq.c tcp_connect]). macOS: from win_scale_factor up while
// 65536·2^s < autorcvbufmax ([X tcp_subr.c tcp_set_max_rwinscale]). Windows: by
// autotuning level.
func WindowScale(system string, v Values) (int, bool) {
	ceiling, ok := v.Int("tcp.recv_buffer_max")
	if v["tcp.window_scaling"] == "0" {
		return 0, true
	}
	s := 0
	switch system {
	case "linux":
		limit, okLimit := v.Int("socket.recv_buffer_max")
		ok = ok && okLimit && ceiling > 0
		s = max(0, bits.Len64(uint64(max(ceiling, limit, 1)))-1-15)
	case "freebsd":
		var limit int64
		for limit, ok = v.Int("socket.buffer_max"); ok && s < maxScale && 65535<<s < limit; s++ {
		}
	case "darwin":
		least, known := v.Int("tcp.window_scale_min")
		if !known {
			least = 3
		}
		for s = int(least); ok && s < maxScale && 65536<<s < ceiling; s++ {
		}
	case "windows":
		for ; ok && s < maxScale && 65535<<s < ceiling; s += 2 {
		}
	default:
		ok = false
	}
	return min(s, maxScale), ok
}

func windowConstraints() []Constraint {
	scale := ids("tcp.recv_buffer_max", "tcp.window_scaling", "socket.recv_buffer_max")
	return []Constraint{
		{
			ID: "C-11", Systems: []string{"linux"}, Knobs: scale, Source: "[L6.1 tcp_output.c tcp_select_initial_window]; RFC 7323 section 2.3",
			Rule: "no window can be larger than 65535 << 14",
			Breaks: func(_, after Values) string {
				n, ok := after.Int("tcp.recv_buffer_max")
				s, known := WindowScale("linux", after)
				if !ok || !known || s < maxScale || n <= 2*(65535<<maxScale) {
					return ""
				}
				return fmt.Sprintf("tcp.recv_buffer_max %d is more than twice the largest window %d", n, 65535<<maxScale)
			},
		},
		{
			ID: "C-11", Systems: []string{"linux", "freebsd"}, Knobs: scale, Advice: true, Source: "RFC 7323 section 2.2",
			Rule: "without window scaling no window is larger than 65535 bytes",
			Breaks: func(_, after Values) string {
				if n, ok := after.Int("tcp.recv_buffer_max"); !ok || n <= 2*65535 || after["tcp.window_scaling"] != "0" {
					return ""
				}
				return "tcp.recv_buffer_max has no effect while tcp.window_scaling is off"
			},
		},
		{
			ID: "F-04", Systems: []string{"freebsd"}, Knobs: ids("tcp.recv_buffer_max", "socket.buffer_max"), Advice: true, Source: "[B13 tcp_usrreq.c tcp_connect]",
			Rule: "the window scale comes from socket.buffer_max alone",
			Breaks: func(_, after Values) string {
				n, ok := after.Int("tcp.recv_buffer_max")
				s, known := WindowScale("freebsd", after)
				if !ok || !known || n <= 65535<<s {
					return ""
				}
				return fmt.Sprintf("tcp.recv_buffer_max %d is above what window scale %d allows, %d", n, s, 65535<<s)
			},
		},
	}
}
