package mtu

import "slices"

// Common returns the usual MTUs of paths: the least of IPv4 and IPv6, tunnels, PPPoE (RFC
// 2516), Ethernet, 802.11, FDDI, jumbo frames, and each of these minus the 14 bytes of the
// header that some drivers count.
func Common() []int {
	return []int{576, 1280, 1400, 1420, 1450, 1476, 1480, 1492, 1500, 1504, 2304, 4074, 4088, 4352, 7408, 8166, 8986, 9000, 9014, 9198, 9202, 9216, 16110}
}

// Next returns the size to try next in a search for the largest packet that a path carries:
// passes bytes pass and lost bytes, which is more than one more, do not. First comes the size
// that a router reported (reported, 0 for none), then the commonest size, then the other usual
// ones, then the middle. One byte above a usual size is tried as soon as that size has passed
// (diagnosis.md section 6.4, step 3).
func Next(passes, lost, reported int) int {
	within := func(n int) bool { return n > passes && n < lost }
	switch {
	case within(reported):
		return reported
	case within(1500):
		return 1500
	case slices.Contains(Common(), passes) || reported > 0 && reported == passes:
		return passes + 1
	}
	var left []int
	for _, n := range Common() {
		if within(n) {
			left = append(left, n)
		}
	}
	if len(left) > 0 {
		return left[len(left)/2]
	}
	return (passes + lost) / 2
}
