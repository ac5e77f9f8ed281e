package model

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DataPath says how a session makes its data connections. In its zero value the near end
// connects to the far one, at any free port.
type DataPath struct {
	// ConnectFrom is the end that connects; "" is Near, which works through NAT.
	ConnectFrom Host `json:"connect_from,omitempty"`
	// Ports are the ports at which the other end accepts, TCP and UDP.
	Ports Ports `json:"data_ports,omitzero"`
	// Through is a tunnel that carries the connections: ThroughSSH, or "" for none.
	Through string `json:"through,omitempty"`
	// Egress is where the near end's data leaves from, and how both ends mark theirs.
	Egress
}

// ThroughSSH carries the data in the ssh connection to the far host: TCP only.
const ThroughSSH = "ssh"

// ParseConnectFrom parses near or far.
func ParseConnectFrom(s string) (Host, error) {
	switch s {
	case "near":
		return "", nil
	case "far":
		return Far, nil
	}
	return "", fmt.Errorf("%.20q is neither near nor far", s)
}

// ParseThrough parses the name of a tunnel.
func ParseThrough(s string) (string, error) {
	if s != "" && s != ThroughSSH {
		return "", fmt.Errorf("%.20q carries no data: ssh is all there is", s)
	}
	return s, nil
}

// Flags returns the command-line flags that select this data path.
func (p DataPath) Flags() []string {
	var out []string
	if p.ConnectFrom == Far {
		out = append(out, "--connect-from far")
	}
	if p.Ports != (Ports{}) {
		out = append(out, "--data-port "+p.Ports.String())
	}
	if p.Through != "" {
		out = append(out, "--through "+p.Through)
	}
	return append(out, p.Egress.Flags()...)
}

// String describes the data path in a few words, "" for the zero value.
func (p DataPath) String() string {
	var out []string
	if p.ConnectFrom == Far {
		out = append(out, "the far end connects to the near one")
	}
	if p.Ports != (Ports{}) {
		out = append(out, "data port "+p.Ports.String())
	}
	if p.Through != "" {
		out = append(out, "through "+p.Through)
	}
	if from := p.Egress.String(); from != "" {
		out = append(out, from)
	}
	return strings.Join(out, ", ")
}

// Ports is a range of port numbers, both ends included; the zero value is any free port.
type Ports struct {
	First int `json:"first,omitempty"`
	Last  int `json:"last,omitempty"`
}

// Valid reports whether the range is valid.
func (p Ports) Valid() bool {
	return p == Ports{} || 1 <= p.First && p.First <= p.Last && p.Last <= 65535
}

// Has reports whether the range includes n.
func (p Ports) Has(n int) bool { return p == Ports{} || p.First <= n && n <= p.Last }

// String returns N or FIRST-LAST.
func (p Ports) String() string {
	if p.First == p.Last {
		return strconv.Itoa(p.First)
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

// ParsePorts parses N or FIRST-LAST, from 1 to 65535.
func ParsePorts(s string) (Ports, error) {
	first, last, isRange := strings.Cut(strings.TrimSpace(s), "-")
	if !isRange {
		last = first
	}
	a, err := strconv.Atoi(first)
	b, berr := strconv.Atoi(last)
	p := Ports{a, b}
	if errors.Join(err, berr) != nil || a == 0 || !p.Valid() {
		return Ports{}, fmt.Errorf("%.20q is no port or range of ports; write it like 5300 or 5300-5310", s)
	}
	return p, nil
}
