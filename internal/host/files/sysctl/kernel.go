package sysctl

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// numbers is how many numbers a key holds if more than one, kernel 6.18
// net/ipv4/sysctl_net_ipv4.c.
var numbers = map[string]int{
	"net/ipv4/tcp_rmem": 3, "net/ipv4/tcp_wmem": 3, "net/ipv4/tcp_mem": 3, "net/ipv4/udp_mem": 3, "net/ipv4/ip_local_port_range": 2, "net/ipv4/ping_group_range": 2,
}

// words are the keys that hold a single word, which must be the whole text.
var words = map[string]bool{"net/ipv4/tcp_congestion_control": true, "net/core/default_qdisc": true}

// Kernel returns the kernel's value after text was written to key. It returns an error if the
// kernel refuses the text and keeps the old value. For keys outside of net/ it returns text
// unchanged.
//
// A number ends at a blank, and what follows the last number is ignored (kernel
// 6.18 kernel/sysctl.c do_proc_dointvec). A word is compared as a whole.
func Kernel(key, text string) (string, error) {
	switch {
	case words[key]:
		if strings.ContainsAny(text, " \t") {
			return "", fmt.Errorf("the kernel looks for %q as a whole: a comment behind a value is part of it", text)
		}
		return text, nil
	case !strings.HasPrefix(key, "net/"), key == "net/ipv4/tcp_fastopen_key", key == "net/ipv4/tcp_allowed_congestion_control", strings.HasSuffix(key, "/stable_secret"), strings.HasSuffix(key, "_bitmap"), strings.HasSuffix(key, "local_reserved_ports"):
		return text, nil
	}
	n := max(numbers[key], 1)
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return "", errors.New("the kernel refuses an empty text")
	}
	for i, f := range fields[:min(n, len(fields))] {
		v, err := strconv.ParseInt(f, 0, 64)
		if err != nil || !kernelNumber(f) {
			return "", fmt.Errorf("the kernel refuses %q: numbers end at a blank, and have no units", f)
		}
		if least, most := limits(key); v < least || v > most {
			return "", fmt.Errorf("the kernel refuses %q: it takes %d to %d", f, least, most)
		}
		fields[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(fields[:min(n, len(fields))], " "), nil
}

// limits returns the smallest and the largest number that every kernel takes for a key at
// most: an int, or an unsigned long of pages (net/ipv4/tcp_ipv4.c, net/ipv4/udp.c), and for
// buffers of TCP at least 1 byte (tcp_rmem of net/ipv4/sysctl_net_ipv4.c).
func limits(key string) (least, most int64) {
	switch key {
	case "net/ipv4/tcp_mem", "net/ipv4/udp_mem":
		return 0, math.MaxInt64
	case "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem":
		return 1, math.MaxInt32
	}
	return math.MinInt32, math.MaxInt32
}

// kernelNumber reports whether the kernel parses the digits of f as Go does: it knows 0x for
// hexadecimal and 0 for octal numbers.
func kernelNumber(f string) bool {
	f = strings.TrimPrefix(f, "-")
	return !strings.ContainsAny(f, "+_") && (len(f) < 2 || f[0] != '0' || !strings.ContainsAny(f[1:2], "bBoO"))
}
