package rcconf

import (
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
)

// block is a block of linerate's under construction.
type block struct {
	path string
	strings.Builder
}

func (b *block) add(remarks []string, line string) {
	b.WriteString(files.Comments(remarks...) + line + "\n")
}

// render returns the blocks, and the keys that they change.
func render(r files.Request) files.Draft {
	d := files.Draft{Want: make(map[string]string)}
	loader, running, link := &block{path: loaderConf}, &block{path: sysctlConf}, &block{path: startIf(r.Link)}
	boot := func(remarks []string, name, value string) {
		loader.add(remarks, name+`="`+value+`"`)
		d.Want["loader/"+name] = value
	}
	for _, s := range r.Settings {
		switch words := ifconfigWords(s); {
		case s.Text != "" && s.Name != "media" && s.AtBoot:
			boot(s.Remarks, s.Name, s.Text)
		case s.Text != "" && s.Name != "media":
			if m := module(s); m != "" {
				boot([]string{"a module that " + s.Name + " needs"}, m+"_load", "YES")
			}
			running.add(s.Remarks, s.Name+"="+s.Text)
			d.Want[files.SysctlKey(s.Name)] = s.Text
		case words == "":
			d.Omitted = append(d.Omitted, model.Omission{Knob: s.Knob, Value: s.Value, Reason: "ifconfig(8) has no option for " + s.Name})
		default:
			link.add(s.Remarks, "ifconfig "+r.Link+" "+words+" || :")
			var o files.Outcome
			ifconfig(&o, r.Link, model.FileLine{}, strings.Fields(words))
			for key, l := range o.Values {
				d.Want[key] = l.Text
			}
		}
	}
	for _, b := range []*block{loader, running, link} {
		if b.Len() == 0 {
			continue
		}
		d.Files = append(d.Files, files.File{Path: b.path, Mode: 0o644, Block: true, Content: []byte(files.BlockBegin + "\n" + files.Comments(r.Head...) + b.String() + files.BlockEnd + "\n")})
	}
	if loader.Len() > 0 {
		d.Notes = append(d.Notes, "what stands in /boot/loader.conf takes effect at the next boot")
	}
	if running.Len() > 0 {
		d.Commands = append(d.Commands, "service sysctl restart")
	}
	if link.Len() > 0 {
		d.Commands = append(d.Commands, "sh "+startIf(r.Link))
	}
	return d
}

// module returns the kernel module that a setting needs: cubic is part of the kernel since
// 14, where its line does nothing.
func module(s files.Setting) string {
	switch {
	case s.Knob == "tcp.congestion_control" && s.Text != "newreno":
		return "cc_" + s.Text
	case s.Knob == "tcp.stack" && s.Text != "freebsd":
		return "tcp_" + s.Text
	}
	return ""
}

// ifconfigWords returns the words of ifconfig(8) for a setting, "" if there are none.
func ifconfigWords(s files.Setting) string {
	switch s.Name {
	case "mtu":
		return "mtu " + s.Value
	case "media": // "100baseTX,full-duplex"
		media, rest, ok := strings.Cut(s.Text, ",")
		if ok {
			return "media " + media + " mediaopt " + rest
		}
		return "media " + media
	case "wol":
		if s.Value == "none" {
			return "-wol"
		}
		var all []string
		for w := range strings.SplitSeq(s.Value, ",") {
			if !slices.Contains([]string{"ucast", "mcast", "magic"}, w) {
				return ""
			}
			all = append(all, "wol_"+w)
		}
		return strings.Join(all, " ")
	}
	name, ok := strings.CutPrefix(s.Name, "cap.")
	if _, known := options[name]; !ok || !known {
		return ""
	}
	if s.Value == "0" {
		return "-" + name
	}
	return name
}

// Export implements files.Format.
func (Format) Export(r files.Request) files.Draft {
	r.Head = append(slices.Clip(r.Head), "Not proven: that no later line and no file that is read later (.local, loader.conf.d, the words of ifconfig_IF) sets the same.")
	var omitted []model.Omission
	var notes []string
	r.Settings = slices.DeleteFunc(slices.Clone(r.Settings), func(s files.Setting) bool {
		if s.Name != "mtu" {
			return false
		}
		omit, note := unseen(r.Link, s.Value)
		if omit == "" {
			notes = append(notes, note)
			return false
		}
		omitted = append(omitted, model.Omission{Knob: s.Knob, Value: s.Value, Reason: omit})
		return true
	})
	d := render(r)
	d.Omitted, d.Notes = append(d.Omitted, omitted...), append(d.Notes, notes...)
	return d
}
