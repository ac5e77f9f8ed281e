// Package mtu finds the MTU that several hosts can agree on.
//
// An MTU is the size of the largest IP packet of a link (RFC 791 section 3.2). Drivers report
// their range in two ways: some count the packet, some the frame with its header of 14 bytes.
// Setting "9014 at both ends" has therefore made two different links. All results here count
// the packet.
package mtu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/lists"
)

// Counting says what a driver's numbers include.
type Counting int

// The ways of counting.
const (
	Packets Counting = iota // the IP packet, as in ifconfig and ip
	Frames                  // and the Ethernet header of 14 bytes, as in *JumboPacket of Windows
)

const (
	// header is the length of an Ethernet header without tags (IEEE 802.3-2022
	// section 3.1.1), which Frames counts.
	header = 14
	// Least is the packet size that every host must accept, in bytes (RFC 791 section 3.1).
	Least = 576
	// Most is the limit of IPv4's length field, in bytes.
	Most = 65535
)

// Side is one host with the range of its driver. 0 stands for an unknown bound.
type Side struct {
	Name     string
	Now      int // the present MTU, counted in packets; 0 if unknown
	Min, Max int
	Only     []int // all accepted values, if they are a list; takes precedence over Min and Max
	Counts   Counting
	// Floor is the least MTU for other reasons, counted in packets: 1280 with IPv6 (RFC 8200
	// section 5); 0 for none.
	Floor int
}

// less returns by how much the numbers of s exceed the packet size.
func (s Side) less() int {
	if s.Counts == Frames {
		return header
	}
	return 0
}

// bounds returns the least and the largest MTU of s, counted in packets. known says whether the
// driver reports its largest.
func (s Side) bounds() (low, high int, known bool) {
	low, high = max(Least, s.Floor), Most
	if len(s.Only) > 0 {
		return max(low, slices.Min(s.Only)-s.less()), min(high, slices.Max(s.Only)-s.less()), true
	}
	if s.Min > 0 {
		low = max(low, s.Min-s.less())
	}
	if s.Max > 0 {
		high = min(high, s.Max-s.less())
	}
	return low, high, s.Max > 0
}

// Takes reports whether s accepts an MTU, by its driver's range.
func (s Side) Takes(mtu int) bool {
	low, high, _ := s.bounds()
	return low <= mtu && mtu <= high && (len(s.Only) == 0 || slices.Contains(s.Only, mtu+s.less()))
}

// String describes the range of s: "nas takes 576 to 9000".
func (s Side) String() string {
	low, high, known := s.bounds()
	counted := ""
	if s.Counts == Frames {
		counted = fmt.Sprintf(", counted as frames of %d bytes more", header)
	}
	switch {
	case len(s.Only) > 0:
		all := lists.Each(slices.Sorted(slices.Values(s.Only)), func(n int) string { return fmt.Sprint(n - s.less()) })
		return fmt.Sprintf("%s takes only %s%s", s.Name, strings.Join(all, ", "), counted)
	case !known:
		return fmt.Sprintf("%s does not report what it takes", s.Name)
	}
	return fmt.Sprintf("%s takes %d to %d%s", s.Name, low, high, counted)
}

// Errors that those of this package wrap.
var (
	// ErrRange reports an MTU that a host does not accept.
	ErrRange = errors.New("outside what the driver takes")
	// ErrNone reports that no MTU suits all hosts.
	ErrNone = errors.New("no MTU that all hosts take")
	// ErrUnknown reports that no driver reports its range.
	ErrUnknown = errors.New("no driver reports the largest MTU that it takes")
)

// Agreement is the largest MTU that all hosts accept.
type Agreement struct {
	MTU int    // counted in packets
	Why string // a sentence
}

// Largest returns the largest MTU that all sides accept. A side with an unknown largest MTU
// sets no limit. The error wraps ErrNone, or ErrUnknown if no side reports its largest.
func Largest(sides ...Side) (Agreement, error) {
	low, high, known := Least, Most, false
	var taken [][]int
	for _, s := range sides {
		l, h, k := s.bounds()
		low, high, known = max(low, l), min(high, h), known || k
		if len(s.Only) > 0 {
			list := lists.Each(s.Only, func(n int) int { return n - s.less() })
			taken = append(taken, list)
		}
	}
	if !known {
		return Agreement{}, fmt.Errorf("%w: %s", ErrUnknown, sentence(sides))
	}
	best := high
	if len(taken) > 0 {
		best = 0
		for _, n := range taken[0] {
			if n > best && !slices.ContainsFunc(sides, func(s Side) bool { return !s.Takes(n) }) {
				best = n
			}
		}
	}
	if best < low {
		return Agreement{}, fmt.Errorf("%w: %s", ErrNone, sentence(sides))
	}
	return Agreement{MTU: best, Why: sentence(sides)}, nil
}

func sentence(sides []Side) string {
	all := lists.Each(sides, func(s Side) string { return s.String() })
	return strings.Join(all, "; ")
}

// Check returns an error if a side does not accept an MTU. The error wraps ErrRange and names
// every such side; Largest returns the MTU that all accept.
func Check(mtu int, sides ...Side) error {
	var errs []error
	for _, s := range sides {
		if !s.Takes(mtu) {
			errs = append(errs, fmt.Errorf("link.mtu %d: %s: %w", mtu, s, ErrRange))
		}
	}
	return errors.Join(errs...)
}

// FarFirst returns the order in which two hosts change their MTUs: the far one before the near
// one, or after it. nearFrom and nearTo are the near host's MTUs before and after, 0 if
// unknown.
//
// Both hosts send and receive, so the rule "raise receivers first, lower senders first" applies
// to both, and datagrams may get lost in either order. TCP is not affected: both ends of a new
// connection use the smaller of the two MTUs, since each announces its own (RFC 9293 section
// 3.7.1). The order therefore only has to keep the far host reachable: its MTU changes only
// while the near host has the smaller of its own two values. Then every new connection to the
// far host, also one for an undo there, begins with segments that passed before. A near MTU
// that grows is changed last, one that shrinks first; undo goes the other way and keeps the
// rule.
func FarFirst(nearFrom, nearTo int) bool { return nearFrom == 0 || nearTo >= nearFrom }

// Mismatch describes the effect of different MTUs on one link, "" if they are equal or one is
// unknown (diagnosis.md 6.1, M1 and M6).
func Mismatch(a, b Side) string {
	if a.Now == b.Now || a.Now == 0 || b.Now == 0 {
		return ""
	}
	if a.Now < b.Now {
		a, b = b, a
	}
	return fmt.Sprintf("%s has an MTU of %d and %s one of %d: TCP uses the smaller, and larger datagrams of %s are lost without a message", a.Name, a.Now, b.Name, b.Now, a.Name)
}
