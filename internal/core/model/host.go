package model

// Host names one end of a session. Near is where the test is steered from
// unless the user says otherwise; Far is the other end. The values are the words
// that people and their programs read, and write before a knob: "far.tcp.sack".
type Host string

// The two ends.
const (
	Near Host = "near"
	Far  Host = "far"
)

// ParseHost reads the word for an end, near or far.
func ParseHost(word string) (Host, bool) {
	switch h := Host(word); h {
	case Near, Far:
		return h, true
	}
	return "", false
}

// Of returns the name of a knob of this end as people write it, "far.tcp.sack"; that
// of a knob of no end, or of both, is the plain one.
func (h Host) Of(knob KnobID) string {
	if h == "" {
		return string(knob)
	}
	return string(h) + "." + string(knob)
}

// Other returns the other end.
func (h Host) Other() Host {
	if h == Near {
		return Far
	}
	return Near
}
