package sysctl

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
)

// The files of linerate's own.
const (
	// Path sorts after all common names.
	Path        = "/etc/sysctl.d/zz-linerate.conf"
	modulesPath = "/etc/modules-load.d/linerate.conf"
)

// Format is sysctl.d(5), for settings of the kernel. Its zero value is ready to use.
type Format struct{}

// Plan implements files.Format.
func (Format) Plan(_ context.Context, h files.Host, r files.Request) (files.Draft, error) {
	d := render(r)
	if len(d.Files) == 0 {
		return d, nil
	}
	now := Read(h.Root)
	d.Notes = now.refused()
	for _, l := range now.Lines {
		if _, wanted := d.Want[files.SysctlKey(Name(l.Key))]; path.Base(l.File) == path.Base(Path) && l.File != Path && !wanted {
			return d, files.Refuse(l.FileLine, "rename that file, by hand", "%s would hide it", Path)
		}
	}
	then := Read(h.With(d.Files).Root)
	for _, key := range now.Keys() { // in linerate's own file, which is replaced
		name := files.SysctlKey(Name(key))
		if _, wanted := d.Want[name]; wanted {
			continue
		}
		if l, ok := now.Holds(key); ok && l.File == Path {
			d.Want[name], _ = then.text(key)
		}
	}
	return d, nil
}

// Export implements files.Format.
func (Format) Export(r files.Request) files.Draft {
	r.Head = append(slices.Clip(r.Head), "Not proven: that no file whose name comes later sets the same; systemd-analyze cat-config sysctl.d shows all of them.")
	return render(r)
}

// render writes the files.
func render(r files.Request) files.Draft {
	d := files.Draft{Want: make(map[string]string)}
	var body strings.Builder
	module := ""
	for _, s := range r.Settings {
		if s.Text == "" {
			continue // a setting of a link
		}
		key := Key(s.Name)
		d.Want[files.SysctlKey(Name(key))] = s.Text
		body.WriteString("\n" + files.Comments(s.Remarks...) + Name(key) + " = " + s.Text + "\n")
		if key == "net/ipv4/tcp_congestion_control" && !builtIn(s.Text) {
			module = "tcp_" + s.Text
		}
	}
	if body.Len() == 0 {
		return d
	}
	d.Files = append(d.Files, files.File{Path: Path, Mode: 0o644, Content: []byte(files.Comments(r.Head...) + body.String())})
	d.Commands = append(d.Commands, "sysctl -p "+Path)
	if module != "" {
		d.Files = append(d.Files, files.File{Path: modulesPath, Mode: 0o644, Content: []byte(files.Comments(r.Head...) + "\n" +
			files.Comments("The congestion control has to be there before its sysctl is set.") + module + "\n")})
		d.Commands = append([]string{"modprobe " + module}, d.Commands...)
	}
	return d
}

// builtIn reports whether a congestion control needs no module: reno always, cubic in every
// distribution kernel.
func builtIn(name string) bool { return name == "reno" || name == "cubic" }

// Outcome implements files.Format: the value of each key that a file names, as the kernel
// takes it.
func (Format) Outcome(_ context.Context, h files.Host) (files.Outcome, error) {
	b := Read(h.Root)
	o := files.Outcome{Judge: "documented rules of sysctl.d(5), as systemd-sysctl applies them"}
	if !b.BySystemd {
		o.Judge = "documented rules of sysctl(8), as procps applies them"
	}
	for _, key := range b.Keys() {
		if text, l := b.text(key); l.File != "" {
			o.Set(files.SysctlKey(Name(key)), model.FileLine{File: l.File, Number: l.Number, Text: text})
		}
	}
	return o, nil
}

// text returns the kernel's value of a key, "" if unknown, and the line that sets it.
func (b Boot) text(key string) (string, Line) {
	l, ok := b.Holds(key)
	if !ok {
		return "", l
	}
	text, err := Kernel(key, l.Text)
	if err != nil {
		return "", l
	}
	return text, l
}

// refused describes the effective lines that the kernel will refuse.
func (b Boot) refused() []string {
	var all []string
	for _, key := range b.Keys() {
		if l, ok := b.Holds(key); ok && l.File != Path {
			if _, err := Kernel(key, l.Text); err != nil {
				all = append(all, fmt.Sprintf("%s:%d sets no %s: %v", l.File, l.Number, Name(key), err))
			}
		}
	}
	return all
}
