package sockio

import (
	"os"
	"slices"
	"strings"
)

// allowedCongestion reads the list of this network namespace:
//
//	reno cubic
func allowedCongestion(name string) bool {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	return err == nil && slices.Contains(strings.Fields(string(text)), name)
}
