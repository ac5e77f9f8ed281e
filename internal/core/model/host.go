package model

// Host names one end of a session. Near is the end that steers the test unless the user says
// otherwise; Far is the other end. The values appear in documents and on command lines, also
// before a knob: "far.tcp.sack".
type Host string

// The two ends.
const (
	Near Host = "near"
	Far  Host = "far"
)

// ParseHost parses the word for an end, near or far.
func ParseHost(word string) (Host, bool) {
	switch h := Host(word); h {
	case Near, Far:
		return h, true
	}
	return "", false
}

// Of returns the name of a knob of this end as users write it, "far.tcp.sack". For the empty
// host it is the plain name.
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
