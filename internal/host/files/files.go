// Package files knows the permanent files of a system: which program owns an interface, where
// a setting is, how to write it, and what will be in force after the next boot.
//
// linerate writes no file unless its effect is proven. The steps are:
//
//  1. Host is the present machine: the tree of its files, and its devices as the
//     kernel shows them.
//  2. A Format plans: its Plan returns the files that would hold the settings, and
//     in Want the keys of the outcome that they may change. If something prevents
//     that, it returns a *Refusal, which names the file and line.
//  3. The Format's Outcome is what will be in force after the next boot, without and
//     with the planned files (Host.With). It runs the owner's own program over a
//     copy of the tree if that is safe (Host.Ask), else it applies the documented
//     rules; Outcome.Judge says which.
//  4. Prove compares both outcomes: exactly the wanted keys may differ.
//  5. Package persist writes the files, and Check compares the outcome of the real
//     tree with the promise. If they differ, the files are restored.
//
// Each folder below holds one format; tree, device and yamlmap read files and decide which
// device they match.
package files

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// Host is one machine as the formats see it.
type Host struct {
	Root    fs.FS           // its files, from /
	System  string          // GOOS
	Devices []device.Device // Linux: as device.All reads them from Root
	Ask     Asker           // runs an owner's program; nil: apply the documented rules instead
	// Edited says when linerate wrote a file that was edited by hand since; nil means none.
	Edited func(path string) (written time.Time, edited bool)
}

// Tree returns the files of the host, to read by line.
func (h Host) Tree() tree.Tree { return tree.Tree{Root: h.Root} }

// With returns the host with the written files in place.
func (h Host) With(written []File) Host {
	h.Root = Overlay(h.Root, written)
	return h
}

// Device returns the device called name. ok is false if the host has none.
func (h Host) Device(name string) (d device.Device, ok bool) {
	i := slices.IndexFunc(h.Devices, func(d device.Device) bool { return d.Name == name })
	if i < 0 {
		return device.Device{Name: name}, false
	}
	return h.Devices[i], true
}

// File is one file to write.
type File struct {
	Path    string      // absolute on that system; a bare name is for the user to place
	Mode    fs.FileMode // for a new file; an existing one keeps its mode if Block is set
	Content []byte
	Block   bool // part of a shared file; Content begins and ends with the lines that mark it
}

// Text returns the content as UTF-8, whatever its encoding.
func (f File) Text() string {
	b := f.Content
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) {
		units := make([]uint16, 0, len(b)/2)
		for i := 2; i+1 < len(b); i += 2 {
			units = append(units, uint16(b[i])|uint16(b[i+1])<<8)
		}
		return string(utf16.Decode(units))
	}
	return string(bytes.TrimPrefix(b, []byte{0xef, 0xbb, 0xbf}))
}

// UTF16 encodes a text in UTF-16 with a byte order mark, for Windows programs.
func UTF16(text string) []byte {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

// XML escapes a text for XML.
func XML(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;").Replace(text)
}

// Setting is one setting in the terms of a system.
type Setting struct {
	Knob    model.KnobID       // the first one, if a native text holds several
	Value   string             // canonical, of Knob
	Name    string             // native name: "net.ipv4.tcp_rmem"; for a setting of a link that of the catalogue
	Text    string             // native text of a sysctl: "4096 131072 8388608"; "" for settings of links
	Remarks []string           // for the comments above it; safe in every format
	AtBoot  bool               // on FreeBSD: the kernel reads it only at boot
	Also    []model.Assignment // further knobs that the text holds
}

// Request is what a format is to plan.
type Request struct {
	Link     string // interface that settings of links are for; "" for settings of the host alone
	MAC      string // of Link, for a host that is not read; "" if unknown
	Settings []Setting
	Head     []string // comments at the top of each file; safe in every format
}

// Draft is the plan of a format.
type Draft struct {
	Files    []File
	Want     map[string]string // keys of the outcome that may change, and their new values
	Commands []string          // to run once, as root, after the files are in place
	Omitted  []model.Omission
	Notes    []string // what to know before using the files
}

// Format is one format of permanent files.
type Format interface {
	// Plan returns the files that would hold the settings on a host. It returns a *Refusal if
	// something prevents that.
	Plan(ctx context.Context, h Host, r Request) (Draft, error)
	// Outcome returns what will be in force on a host after its next boot.
	Outcome(ctx context.Context, h Host) (Outcome, error)
	// Export returns the files for a host that is not read. Their comments say what is not
	// proven.
	Export(r Request) Draft
}

// Proposal is a proven draft.
type Proposal struct {
	Draft
	Outcome // with the files in place
}

// Propose plans and proves. It returns a *Refusal if it cannot prove that the files change
// the settings and nothing else.
func Propose(ctx context.Context, f Format, h Host, r Request) (Proposal, error) {
	d, err := f.Plan(ctx, h, r)
	if err != nil || len(d.Files) == 0 {
		return Proposal{Draft: d}, err
	}
	for _, file := range d.Files {
		if err := cmp.Or(h.regular(file.Path), h.edited(file)); err != nil {
			return Proposal{Draft: d}, err
		}
	}
	before, err := f.Outcome(ctx, h)
	if err != nil {
		return Proposal{}, err
	}
	after, err := f.Outcome(ctx, h.With(d.Files))
	if err != nil {
		return Proposal{}, err
	}
	if err := Prove(before, after, d.Want); err != nil {
		return Proposal{d, after}, err
	}
	if _, mtu := d.Want[LinkKey(r.Link, "link.mtu")]; !mtu {
		return Proposal{d, after}, nil
	}
	return Proposal{d, after}, h.carries(after, r)
}

// regular returns a *Refusal if place is not a regular file.
func (h Host) regular(place string) error {
	at, name := model.FileLine{File: place}, strings.TrimPrefix(place, "/")
	info, err := fs.Lstat(h.Root, name)
	if err != nil || info.Mode().IsRegular() {
		return nil // writing a file that cannot be read fails with a better message
	}
	target, err := fs.ReadLink(h.Root, name)
	switch {
	case err != nil:
		return Refuse(at, "move it away, by hand", "it is no regular file")
	case target == "/dev/null": // systemd.unit(5), sysctl.d(5)
		return Refuse(at, "if the mask is not needed, remove it by hand: rm "+place, "a link to /dev/null masks every file called %s, in all folders", path.Base(name))
	}
	return Refuse(at, "move the link away, by hand", "it is a link to %s, and linerate replaces no links", target)
}

// edited returns a *Refusal if a file of linerate's own was edited by hand, with the first
// line that would be lost.
func (h Host) edited(f File) error {
	if h.Edited == nil {
		return nil
	}
	written, yes := h.Edited(f.Path)
	if !yes {
		return nil
	}
	now, err := fs.ReadFile(h.Root, strings.TrimPrefix(f.Path, "/"))
	if err != nil {
		return err
	}
	refusal := &Refusal{File: f.Path, Why: "it was edited by hand after linerate wrote it on " + written.Format(time.DateOnly), edited: true}
	line := 0
	if f.Block {
		before, inner, _, err := Split(now)
		if err != nil {
			refusal.Why += fmt.Sprintf(": %v", err)
			return fault.WithHint(refusal, "mend the marks of the block by hand, or remove it")
		}
		now, line = inner, bytes.Count(before, []byte("\n"))
	}
	then := slices.Collect(strings.Lines(string(f.Content)))
	for text := range strings.Lines(string(now)) {
		if line++; !slices.Contains(then, text) {
			refusal.Line, refusal.Why = line, fmt.Sprintf("%s; writing it again would lose %q", refusal.Why, strings.TrimSpace(text))
			return fault.WithHint(refusal, "move it away by hand, and keep again: mv %s %[1]s.mine", f.Path)
		}
	}
	refusal.Why += ", and lines of it are gone"
	return fault.WithHint(refusal, "if what was removed shall be kept again, remove the file by hand first: rm %s", f.Path)
}

// carries returns a *Refusal if a port of a bridge or the parent of a VLAN will have a
// smaller MTU than the request needs.
func (h Host) carries(after Outcome, r Request) error {
	needs := h.Members(after, r)
	if len(needs) == 0 {
		return nil
	}
	need := needs[0]
	l := after.Values[LinkKey(need.Link, "link.mtu")]
	if l.Text == "" {
		l.Text = usualMTU
	}
	if l.File == "" { // where the MTU of the bridge is set
		l.File = after.Values[LinkKey(r.Link, "link.mtu")].File
	}
	return Refuse(l, "linerate set link.mtu="+need.Settings[0].Value+" --interface "+need.Link+", and keep that first",
		"%s is made of %s, which will have an MTU of %s", r.Link, need.Link, l.Text)
}

// Members returns a request for each device below the link of r, the lowest first, whose MTU
// in an outcome is smaller than the one in r. It leaves out the ports of a bond, which get
// the bond's MTU.
func (h Host) Members(o Outcome, r Request) (all []Request) {
	i := slices.IndexFunc(r.Settings, func(s Setting) bool { return s.Knob == "link.mtu" })
	if i < 0 {
		return nil
	}
	one := r.Settings[i]
	one.Also, one.Remarks = nil, []string{Comment("the MTU of " + r.Link + " needs it")}
	want, err := strconv.Atoi(one.Value)
	if err != nil {
		return nil
	}
	var below func(name string)
	below = func(name string) {
		link, _ := h.Device(name)
		for _, d := range h.Devices {
			port, parent := link.Kind == "bridge" && d.Master == name, d.Name == link.Parent
			is := cmp.Or(o.Values[LinkKey(d.Name, "link.mtu")].Text, usualMTU)
			if n, err := strconv.Atoi(is); !port && !parent || err == nil && n >= want {
				continue
			}
			if slices.ContainsFunc(all, func(r Request) bool { return r.Link == d.Name }) || d.Name == r.Link {
				continue
			}
			below(d.Name)
			all = append(all, Request{Link: d.Name, Head: r.Head, Settings: []Setting{one}})
		}
	}
	below(r.Link)
	return all
}

// usualMTU is that of Ethernet, RFC 894.
const usualMTU = "1500"

// Check returns a *Refusal if a host, with the files of a proposal written, will not boot
// into the outcome of the proposal.
func Check(ctx context.Context, f Format, h Host, p Proposal) error {
	if len(p.Files) == 0 {
		return nil
	}
	now, err := f.Outcome(ctx, h)
	if err != nil {
		return err
	}
	want := maps.Clone(p.Want)
	return Prove(p.Outcome, now, want)
}
