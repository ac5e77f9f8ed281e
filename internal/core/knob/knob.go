// Package knob knows the settings of a host, a link or a test flow that linerate may read and
// change.
//
// The catalogue is data: one entry per knob, the same on every system, with each system's
// native name. Everything that needs no machine is here too: how people write a value, how a
// native text represents it, which values go together, in which order changes are made, and
// what a name means. The system (a GOOS) is an argument. Package host/knob reads and writes the
// settings of this machine.
package knob

import (
	"linerate/internal/core/model"
)

// Scope says what a knob belongs to: host, link, route or flow.
type Scope string

// The scopes.
const (
	ScopeHost  Scope = "host"  // the network stack of a machine
	ScopeLink  Scope = "link"  // one interface of a machine
	ScopeRoute Scope = "route" // one route of a machine
	ScopeFlow  Scope = "flow"  // the test traffic; no host is changed
)

// Type says what values a knob takes, and how they are written.
type Type string

// The types. Canonical texts are what model.Assignment and plans carry.
const (
	TypeBytes Type = "bytes" // an amount of data; canonical is a decimal count of bytes
	TypeInt   Type = "int"   // a whole number of Unit; canonical is decimal
	TypeRate  Type = "rate"  // data per time; canonical is a decimal count of bit/s
	TypeBool  Type = "bool"  // a switch; canonical is 0 or 1
	TypeEnum  Type = "enum"  // one of Choices; canonical is Choice.Value
	TypeName  Type = "name"  // a word that the system knows, such as "cubic"
	TypeWords Type = "words" // words that the system knows, with commas or semicolons between: "0-3;8"
)

// Effect says when a new value takes effect (knobs.md section 0).
type Effect string

// The effect classes.
const (
	EffectNow    Effect = "now"    // also for existing connections
	EffectNew    Effect = "new"    // for connections or sockets made afterwards
	EffectBounce Effect = "bounce" // the driver may reset the link: a stall of 1 to 10 s is normal
	EffectReinit Effect = "reinit" // the interface must go down and up
	EffectBoot   Effect = "boot"   // at boot or driver load only
)

// Risk says what a bad value can do. The zero value is the lowest risk.
type Risk int

// The risk classes (knobs.md section 0).
const (
	RiskNone        Risk = iota // harmless
	RiskWaste                   // may waste memory or processor time
	RiskSlow                    // may lower throughput or add latency
	RiskConnection              // may cut the connection that carries the command
	RiskUnreachable             // may make the host unreachable for every new connection
)

// Stage orders related changes: a limit is raised before the values below it, and lowered after
// them (knobs.md section 0, rule 3). The zero value takes no part in this order.
type Stage int

// The stages, outermost limit first.
const (
	StageNone    Stage = iota
	StageLimit         // what a program may request
	StageCeiling       // where autotuning ends
	StageInitial       // where autotuning starts
)

// Knob is one entry of the catalogue. It is a value; the caller owns its slices and maps.
type Knob struct {
	ID        model.KnobID
	Summary   string // what it is, for display, lower case
	Scope     Scope
	Type      Type
	Unit      string   // of TypeInt: "packets"; "" if the type implies it
	Min, Max  int64    // inclusive range of TypeBytes, TypeInt and TypeRate
	Zero      string   // display name of the value 0 outside the range: "auto"; "" if 0 is not special
	Choices   []Choice // of TypeEnum
	Named     []Choice // of TypeInt and TypeBytes: numbers that are not amounts, in addition to the range; see For
	Effect    Effect   // the slowest of all systems that have the knob
	Risk      Risk     // the highest of all systems that have the knob
	NeedsBoth bool     // useful only if both ends, and the devices between them, agree
	ReadOnly  bool     // a fact about the machine: not writable on any system
	Stage     Stage
	Native    map[string]Native // by GOOS; a system without an entry has no such knob
	Defaults  []Default
	When      string // the symptom that calls for it; "" if it is rarely worth trying
	Avoid     string // when not to change it
	Verify    string // how to see that a new value took effect, beyond reading it back
	Source    string // source of range and meaning
}

// Choice is one value of an enumeration.
type Choice struct {
	Value   string `json:"value"` // canonical and native text
	Meaning string `json:"meaning"`
}

// Default is the initial value on some versions of a system. It is for display and for
// detecting tuned hosts; it never replaces reading.
type Default struct {
	System string `json:"system"` // "linux since 6.18"
	Value  string `json:"value"`  // "4 MiB", or a rule such as "by memory"
}

// Native says where a system keeps a knob, and what is special there.
type Native struct {
	Mechanism Mechanism // NotYet if linerate knows the name but cannot use it
	Name      string    // "net.ipv4.tcp_rmem", "mtu"; {if} and {dev} stand for the interface, see Host.Place
	Also      []string  // further native names that belong to it but that linerate does not set
	Encoding  Encoding
	Choices   string // native name of the list of currently accepted words, for TypeName
	Effect    Effect // if different from the knob's; EffectBoot cannot be tried
	ReadOnly  bool   // not writable on this system
	Min, Max  int64  // the system's own range if narrower; both 0: the knob's
	Absent    string // canonical value of a missing setting, for WinReg
	Keep      string // permanent form if different from the mechanism's, see Permanent
	Note      string // what else to know; NotYet says why
}

// Mechanism names how a system is accessed: one folder each.
type Mechanism string

// The mechanisms.
const (
	NotYet  Mechanism = ""        // known by name only
	Sysctl  Mechanism = "sysctl"  // package sysctl: files under /proc/sys, or the system call of FreeBSD and macOS
	Link    Mechanism = "link"    // package link: attributes of an interface over rtnetlink
	Ethtool Mechanism = "ethtool" // package ethtool: the driver of an interface
	Qdisc   Mechanism = "qdisc"   // package qdisc: the egress scheduler of an interface
	Route   Mechanism = "route"   // package route: metrics of one route
	IRQ     Mechanism = "irq"     // package irq: files per interrupt, queue or processor
	IfIoctl Mechanism = "ifioctl" // package ifioctl: interface requests of FreeBSD and macOS
	WinReg  Mechanism = "winreg"  // package winreg: values of the Windows registry
	WinTCP  Mechanism = "wintcp"  // package wintcp: cmdlets and netsh of Windows
	Command Mechanism = "command" // package command: a command that the user gave; no knob of the catalogue
)

// Mechanisms returns the mechanisms that system (a GOOS) has, or none.
func Mechanisms(system string) []Mechanism {
	return map[string][]Mechanism{
		"linux":   {Sysctl, Link, Ethtool, Qdisc, Route, IRQ},
		"freebsd": {Sysctl, IfIoctl},
		"darwin":  {Sysctl, IfIoctl},
		"windows": {WinReg, WinTCP},
	}[system]
}

// Systems returns the systems that the catalogue covers, by GOOS.
func Systems() []string { return []string{"linux", "freebsd", "darwin", "windows"} }

// Bounds returns the inclusive range of the knob on system, for TypeBytes and
// TypeInt.
func (k Knob) Bounds(system string) (low, high int64) {
	if n := k.Native[system]; n.Min != 0 || n.Max != 0 {
		return n.Min, n.Max
	}
	return k.Min, k.Max
}

// EffectOn returns when a new value takes effect on system.
func (k Knob) EffectOn(system string) Effect {
	if e := k.Native[system].Effect; e != "" {
		return e
	}
	return k.Effect
}
