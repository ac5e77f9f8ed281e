package model

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Egress says where an end's data leaves from, and how its packets are marked. The zero value
// leaves both to the system.
type Egress struct {
	// Bind is an address of the host, with the zone if it is link-local.
	Bind string `json:"bind,omitempty"`
	// Device is the interface through which the packets leave.
	Device string `json:"bind_dev,omitempty"`
	// From are the ports of the connecting sockets: each takes the first free one.
	From Ports `json:"client_ports,omitzero"`
	// DSCP marks the packets of both ends, 0 to 63 (RFC 2474 section 3).
	DSCP int `json:"dscp,omitempty" bound:"63"`
}

// MarkOnly returns the part of o that the other end of a path has too.
func (o Egress) MarkOnly() Egress { return Egress{DSCP: o.DSCP} }

// Flags returns the command-line flags that select this egress.
func (o Egress) Flags() (out []string) {
	if o.Bind != "" {
		out = append(out, "--bind "+o.Bind)
	}
	if o.Device != "" {
		out = append(out, "--bind-dev "+o.Device)
	}
	if o.From != (Ports{}) {
		out = append(out, "--cport "+o.From.String())
	}
	if o.DSCP != 0 {
		out = append(out, "--dscp "+FormatDSCP(o.DSCP))
	}
	return out
}

// String describes the egress in a few words, "" for the zero value.
func (o Egress) String() string {
	var out []string
	if o.Bind != "" {
		out = append(out, "from address "+o.Bind)
	}
	if o.Device != "" {
		out = append(out, "through interface "+o.Device)
	}
	if o.From != (Ports{}) {
		out = append(out, "from port "+o.From.String())
	}
	if o.DSCP != 0 {
		out = append(out, "marked "+FormatDSCP(o.DSCP))
	}
	return strings.Join(out, ", ")
}

// ParseBind parses ADDRESS or ADDRESS%INTERFACE. The interface after an address that is not
// link-local is the device that the packets leave through, as in iperf3.
func ParseBind(s string) (Egress, error) {
	host, device, zoned := strings.Cut(strings.Trim(s, "[]"), "%")
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil || zoned && device == "":
		return Egress{}, fmt.Errorf("%.60q is not an address of this host; write it like 10.0.0.2, fd00::2 or fe80::1%%eth0", s)
	case a.IsUnspecified() || a.IsMulticast():
		return Egress{}, fmt.Errorf("%s is not an address that data can leave from", a)
	case a.IsLinkLocalUnicast() && a.Is6() && !zoned:
		return Egress{}, fmt.Errorf("%s is on every interface: name one, as %[1]s%%eth0", a)
	case a.IsLinkLocalUnicast() && a.Is6():
		return Egress{Bind: a.WithZone(device).String()}, nil
	}
	if zoned {
		device, err = ParseDevice(device)
	}
	return Egress{Bind: a.Unmap().String(), Device: device}, err
}

// ParseDevice parses the name of an interface.
func ParseDevice(s string) (string, error) {
	if s == "" || len(s) > 64 || strings.ContainsAny(s, " /\t\r\n") {
		return "", fmt.Errorf("%.64q is not the name of an interface", s)
	}
	return s, nil
}

// ParseClientPorts parses the first port to use, N, or a range, FIRST-LAST.
func ParseClientPorts(s string) (Ports, error) {
	p, err := ParsePorts(s)
	if err == nil && !strings.Contains(s, "-") {
		p.Last = min(p.First+clientPorts-1, 65535)
	}
	return p, err
}

// clientPorts is how many ports from the named one on may be used: more than a run has
// connections, some of which are still closing when the next run begins.
const clientPorts = 4096

// classes are the names of differentiated services: RFC 2474 section 4.2.2 (cs),
// RFC 2597 section 6 (af), RFC 3246 section 2.7 (ef), RFC 5865 section 4 (va) and
// RFC 8622 section 4 (le).
var classes = []struct {
	name  string
	value int
}{
	{"cs0", 0}, {"le", 1}, {"cs1", 8}, {"af11", 10}, {"af12", 12}, {"af13", 14}, {"cs2", 16}, {"af21", 18}, {"af22", 20}, {"af23", 22},
	{"cs3", 24}, {"af31", 26}, {"af32", 28}, {"af33", 30}, {"cs4", 32}, {"af41", 34}, {"af42", 36}, {"af43", 38},
	{"cs5", 40}, {"va", 44}, {"ef", 46}, {"cs6", 48}, {"cs7", 56},
}

// MaxDSCP is the largest DSCP, of six bits (RFC 2474 section 3).
const MaxDSCP = 63

// DSCPNames returns the names that ParseDSCP accepts.
func DSCPNames() (out []string) {
	for _, c := range classes {
		out = append(out, c.name)
	}
	return out
}

// ParseDSCP parses the name of a class, or 0 to 63 in decimal, 0x or octal digits.
func ParseDSCP(s string) (int, error) {
	for _, c := range classes {
		if strings.EqualFold(s, c.name) {
			return c.value, nil
		}
	}
	n, err := strconv.ParseUint(s, 0, 8)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%.20q is not a DSCP; write 0 to 63, or a name such as ef, af41, cs1 or le", s)
	case n > MaxDSCP && n%4 == 0:
		return 0, fmt.Errorf("%s is more than 63; as a whole TOS byte it is DSCP %d", s, n/4)
	case n > MaxDSCP:
		return 0, errors.New(s + " is more than 63; the two lowest bits of a TOS byte belong to ECN (RFC 3168)")
	}
	return int(n), nil
}

// FormatDSCP returns the name of a class if it has one, else the number.
func FormatDSCP(n int) string {
	for _, c := range classes {
		if c.value == n {
			return c.name
		}
	}
	return strconv.Itoa(n)
}
