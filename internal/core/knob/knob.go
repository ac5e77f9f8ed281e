// Package knob knows the settings of a host, a link or a test flow that
// linerate may read and change.
//
// The catalogue is data: one entry a knob, the same on every system, with the
// native name that each system uses. What can be said of it without asking a
// machine is here too: how people write a value, how a native text holds it,
// which values go together, in which order changes are made, and what a name
// means. The system (a GOOS) is an argument. Package host/knob reads and writes
// the settings of this machine.
package knob

import (
	"linerate/internal/core/model"
)

// Scope says what a knob belongs to.
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
	EffectNow    Effect = "now"    // also for connections that exist
	EffectNew    Effect = "new"    // for connections or sockets made afterwards
	EffectBounce Effect = "bounce" // the driver may reset the link: a stall of 1 to 10 s is normal
	EffectReinit Effect = "reinit" // the interface must go down and up
	EffectBoot   Effect = "boot"   // at boot or driver load only
)

// Risk says what a bad value can do. The zero value is the least.
type Risk int

// The risk classes (knobs.md section 0).
const (
	RiskNone        Risk = iota // harmless
	RiskWaste                   // may waste memory or processor time
	RiskSlow                    // may lower throughput or add latency
	RiskConnection              // may cut the connection that carries the command
	RiskUnreachable             // may make the host unreachable for every new connection
)

// Stage orders changes that belong together: a limit is raised before what it
// limits, and lowered after it (knobs.md section 0, rule 3). The zero value
// takes no part in this order.
type Stage int

// The stages, outermost limit first.
const (
	StageNone    Stage = iota
	StageLimit         // what a program may ask for
	StageCeiling       // where autotuning ends
	StageInitial       // where autotuning starts
)

// Knob is one entry of the catalogue. It is a value; nobody shares its slices
// and maps with the caller.
type Knob struct {
	ID        model.KnobID
	Summary   string // what it is, for people, lower case
	Scope     Scope
	Type      Type
	Unit      string   // of TypeInt: "packets"; "" where the type says it
	Min, Max  int64    // inclusive range of TypeBytes, TypeInt and TypeRate
	Zero      string   // what people call the value 0 outside the range: "auto"; "" when 0 is nothing special
	Choices   []Choice // of TypeEnum
	Named     []Choice // of TypeInt: numbers that are no amounts, beside the range; see For
	Effect    Effect   // the slowest of all systems that have the knob
	Risk      Risk     // the highest of all systems that have the knob
	NeedsBoth bool     // useful only when both ends, and what is between them, agree
	ReadOnly  bool     // a fact about the machine: nothing can be written anywhere
	Stage     Stage
	Native    map[string]Native // by GOOS; a system without an entry has no such knob
	Defaults  []Default
	When      string // the symptom that calls for it; "" when it is seldom worth a try
	Avoid     string // when to leave it alone
	Verify    string // how to see that a new value took effect, beyond reading it back
	Source    string // where range and meaning come from
}

// Choice is one value of an enumeration.
type Choice struct {
	Value   string `json:"value"` // canonical and native text
	Meaning string `json:"meaning"`
}

// Default is a value that some versions of a system start with. It is for
// people and for spotting tuned hosts; it never replaces reading.
type Default struct {
	System string `json:"system"` // "linux since 6.18"
	Value  string `json:"value"`  // "4 MiB", or a rule such as "by memory"
}

// Native says where a system keeps a knob, and what is special there.
type Native struct {
	Mechanism Mechanism // NotYet where linerate knows the name and cannot use it
	Name      string    // "net.ipv4.tcp_rmem", "mtu"; {if} and {dev} stand for the interface, see Host.Place
	Also      []string  // further native names that belong to it and are not set by linerate
	Encoding  Encoding
	Choices   string // native name of the list of words that are accepted now, for TypeName
	Effect    Effect // where it differs from the knob's; EffectBoot cannot be tried
	ReadOnly  bool   // this system lets nobody write it
	Min, Max  int64  // the system's own range where it is narrower; both 0: the knob's
	Absent    string // canonical value that a setting has which is not there, for WinReg
	Keep      string // permanent form where it differs from the mechanism's, see Permanent
	Note      string // what else to know; NotYet says why
}

// Mechanism names the way in which a system is asked: one folder each.
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
	Command Mechanism = "command" // package command: what a person gave; no knob of the catalogue
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
