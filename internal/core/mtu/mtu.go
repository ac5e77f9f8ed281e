// Package mtu finds the MTU that several hosts can agree on.
//
// An MTU is the size of the largest IP packet of a link (RFC 791 section 3.2).
// Drivers tell their range in two ways, which is why owners of two hosts have
// chosen "9014 at both ends" and got two different links: some count the packet,
// some the frame with its header of 14 bytes. All results here count the packet.
package mtu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/lists"
)

// Counting says what the numbers of a driver count.
type Counting int

// The ways of counting.
const (
	Packets Counting = iota // the IP packet, as ifconfig and ip do
	Frames                  // the Ethernet header of 14 bytes besides, as *JumboPacket of Windows does
)

const (
	// header is the length of an Ethernet header without tags (IEEE 802.3-2022
	// section 3.1.1), which Frames counts.
	header = 14
	// Least is what every host has to take whole, in bytes (RFC 791 section 3.1).
	Least = 576
	// Most is what the length field of IPv4 holds, in bytes.
	Most = 65535
)

// Side is one host: what its driver takes. 0 is that a bound is not known.
type Side struct {
	Name     string
	Now      int // the MTU that it has, counted in packets; 0 is unknown
	Min, Max int
	Only     []int // all that it takes, where that is a list; it wins over Min and Max
	Counts   Counting
	// Floor is the least for other reasons, counted in packets: 1280 where IPv6 is
	// in use (RFC 8200 section 5); 0 is none.
	Floor int
}

// less is what the numbers of s count more than packets.
func (s Side) less() int {
	if s.Counts == Frames {
		return header
	}
	return 0
}

// bounds are the least and the most that s takes, counted in packets. known says
// whether the driver tells its most.
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

// Takes reports whether s takes an MTU, as far as its driver tells.
func (s Side) Takes(mtu int) bool {
	low, high, _ := s.bounds()
	return low <= mtu && mtu <= high && (len(s.Only) == 0 || slices.Contains(s.Only, mtu+s.less()))
}

// String says what s takes: "nas takes 576 to 9000".
func (s Side) String() string {
	low, high, known := s.bounds()
	counted := ""
	if s.Counts == Frames {
		counted = fmt.Sprintf(", told as frames of %d bytes more", header)
	}
	switch {
	case len(s.Only) > 0:
		all := lists.Each(slices.Sorted(slices.Values(s.Only)), func(n int) string { return fmt.Sprint(n - s.less()) })
		return fmt.Sprintf("%s takes only %s%s", s.Name, strings.Join(all, ", "), counted)
	case !known:
		return fmt.Sprintf("%s does not tell what it takes", s.Name)
	}
	return fmt.Sprintf("%s takes %d to %d%s", s.Name, low, high, counted)
}

// What an error of this package may wrap.
var (
	// ErrRange says that a host does not take an MTU.
	ErrRange = errors.New("outside what the driver takes")
	// ErrNone says that there is no MTU that all hosts take.
	ErrNone = errors.New("no MTU that all hosts take")
	// ErrUnknown says that no driver tells its range.
	ErrUnknown = errors.New("no driver tells the largest MTU that it takes")
)

// Agreement is the largest MTU that all hosts take.
type Agreement struct {
	MTU int    // counted in packets
	Why string // a sentence
}

// Largest returns the largest MTU that all sides take. A side that does not tell
// its most sets no limit. The error wraps ErrNone, or ErrUnknown where no side
// tells its most.
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

// Check says whether all sides take an MTU. The error wraps ErrRange and names
// every side that does not; what all of them take is told by Largest.
func Check(mtu int, sides ...Side) error {
	var errs []error
	for _, s := range sides {
		if !s.Takes(mtu) {
			errs = append(errs, fmt.Errorf("link.mtu %d: %s: %w", mtu, s, ErrRange))
		}
	}
	return errors.Join(errs...)
}

// FarFirst says in which order two hosts get their MTUs: the far one before the
// near one or after it. From and to are those before and after, 0 for unknown.
//
// Both hosts send and receive, so the rule "raise receivers first, lower senders
// first" names both, and in between datagrams may get lost in either order. TCP
// does not mind: both ends of a new connection use the smaller of the two MTUs,
// since each announces its own (RFC 9293 section 3.7.1). So the rule is about
// being reached: the far host is changed only while the near one holds the
// smaller of its own two values. Then every new connection to the far host, also
// one that has to undo the change there, begins with segments that passed before.
// A near MTU that grows is therefore changed last, one that shrinks first; undo
// goes the other way and keeps the rule.
func FarFirst(nearFrom, nearTo int) bool { return nearFrom == 0 || nearTo >= nearFrom }

// Mismatch says what is to be expected of two hosts on one link with different
// MTUs, "" where they are the same or one is unknown (diagnosis.md 6.1, M1 and M6).
func Mismatch(a, b Side) string {
	if a.Now == b.Now || a.Now == 0 || b.Now == 0 {
		return ""
	}
	if a.Now < b.Now {
		a, b = b, a
	}
	return fmt.Sprintf("%s has an MTU of %d and %s one of %d: TCP uses the smaller, and larger datagrams of %s are lost without a message", a.Name, a.Now, b.Name, b.Now, a.Name)
}
