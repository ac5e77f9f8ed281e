package netplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/networkd"
)

// Format is netplan(5), for settings of links. Its zero value is ready to use.
type Format struct{}

// generated returns the folders below /run that the generator writes.
func generated() []string {
	return []string{"run/systemd/network", "run/NetworkManager/system-connections", "run/udev/rules.d"}
}

// isGenerated reports whether netplan made a file.
func isGenerated(name string) bool {
	base := path.Base(name)
	return slices.Contains(generated(), path.Dir(name)) && (strings.HasPrefix(base, "10-netplan-") || strings.HasPrefix(base, "netplan-") || strings.Contains(base, "-netplan"))
}

// Outcome implements files.Format: it has netplan's generator make its files, and returns
// what udev, systemd-networkd and NetworkManager make of these. Without the generator it
// applies netplan's rules for merging definitions.
func (Format) Outcome(ctx context.Context, h files.Host) (files.Outcome, error) {
	a, err := generate(ctx, h)
	if errors.Is(err, errors.ErrUnsupported) {
		return merged(h), nil
	}
	if err != nil {
		return files.Outcome{}, err
	}
	made := files.Host{Root: files.Overlay(files.Without(h.Root, isGenerated), a.Files), System: h.System, Devices: h.Devices}
	o := networkd.Outcome(made, a.Program+" over a copy, and the documented rules of systemd.network(5) and systemd.link(5)")
	byFile := make(map[string]*Definition)
	for _, d := range Read(h.Tree()) {
		byFile["/run/NetworkManager/system-connections/netplan-"+d.ID+".nmconnection"] = d
	}
	for _, f := range a.Files {
		switch {
		case path.Ext(f.Path) == ".rules":
			for i, line := range strings.Split(string(f.Content), "\n") {
				o.Set(fmt.Sprintf("udev%s/%d", f.Path, i+1), model.FileLine{File: f.Path, Number: i + 1, Text: line})
			}
		case path.Ext(f.Path) == ".nmconnection":
			connection(&o, made, f.Path, byFile[f.Path])
		}
	}
	return o, nil
}

// connection adds a profile of NetworkManager.
func connection(o *files.Outcome, h files.Host, file string, def *Definition) {
	all, _ := h.Tree().Keyfile(strings.TrimPrefix(file, "/"))
	for _, e := range all {
		if def != nil && e.Section == "ethernet" && e.Key == "mtu" {
			for _, d := range h.Devices {
				if def.IsFor(d) == device.Yes {
					o.Set(files.LinkKey(d.Name, "link.mtu"), e.FileLine)
				}
			}
			continue
		}
		o.Set("nm"+file+"/"+e.Section+"."+e.Key, e.FileLine)
	}
}

// generate runs netplan's generator over a copy of its files. If the generator refuses them,
// the error is a *files.Refusal.
func generate(ctx context.Context, h files.Host) (files.Answer, error) {
	if h.Ask == nil {
		return files.Answer{}, errors.ErrUnsupported
	}
	a, err := h.Ask(ctx, h.Root, files.Question{
		Programs: []string{"/usr/libexec/netplan/generate", "/lib/netplan/generate"}, Args: []string{"--root-dir", files.CopyDir},
		Parts: dirs(), Answers: generated(),
	})
	if err != nil || a.Code == 0 {
		return a, err
	}
	var at model.FileLine
	for word := range strings.FieldsSeq(a.Text) { // /etc/netplan/90-lan.yaml:4:5: Error in network definition: …
		parts := strings.Split(word, ":")
		if line, err := strconv.Atoi(parts[min(1, len(parts)-1)]); err == nil && strings.HasPrefix(parts[0], "/") {
			at.File, at.Number = parts[0], line
			break
		}
	}
	return a, files.Refuse(at, "make netplan generate succeed first", "netplan refuses its files: %s", strings.Join(strings.Fields(a.Text), " "))
}

// merged returns the outcome by netplan's own rules for merging.
func merged(h files.Host) files.Outcome {
	o := files.Outcome{Judge: "documented rules of netplan(5); its generator is not installed"}
	for _, def := range Read(h.Tree()) {
		link := ""
		for _, d := range h.Devices {
			if def.IsFor(d) == device.Yes {
				link = d.Name
			}
		}
		for word, l := range def.Words {
			if id, value, ok := Setting(word, l.Text); ok && link != "" {
				l.Text = value
				o.Set(files.LinkKey(link, id), l)
				continue
			}
			o.Set("netplan/"+def.Kind+"/"+def.ID+"/"+word, l)
		}
	}
	return o
}

// key is a key of a definition in netplan(5), version 1.0, and its knob.
type key struct {
	name string
	knob model.KnobID
}

// keys returns the table. A knob may have two keys.
func keys() []key {
	return []key{
		{"mtu", "link.mtu"}, {"wakeonlan", "nic.wol"},
		{"receive-checksum-offload", "nic.offload.rx_csum"}, {"transmit-checksum-offload", "nic.offload.tx_csum"},
		{"tcp-segmentation-offload", "nic.offload.tso"}, {"tcp6-segmentation-offload", "nic.offload.tso"},
		{"generic-segmentation-offload", "nic.offload.gso"}, {"generic-receive-offload", "nic.offload.gro"}, {"large-receive-offload", "nic.offload.lro"},
	}
}

// Setting returns the knob that a key of a definition sets, and its canonical value. ok is
// false if the key has no knob.
func Setting(name, text string) (id model.KnobID, value string, ok bool) {
	i := slices.IndexFunc(keys(), func(k key) bool { return k.name == name })
	if i < 0 || name == "tcp6-segmentation-offload" || text == "" {
		return "", "", false
	}
	switch name {
	case "mtu":
	case "wakeonlan":
		text = cmp.Or(map[string]string{"1": "magic", "0": "none"}[command.Switch(text)], text)
	default:
		text = command.Truth(text)
	}
	return keys()[i].knob, text, true
}

// lines returns the keys of a definition that set a knob; none if netplan has no word for the
// value.
func lines(id model.KnobID, value string) []string {
	var all []string
	for _, k := range keys() {
		if k.knob != id {
			continue
		}
		text := map[string]string{"1": "true", "0": "false"}[value]
		switch id {
		case "link.mtu":
			text = value
		case "nic.wol": // a switch for magic packets only
			text = map[string]string{"magic": "true", "none": "false"}[value]
		}
		if text != "" {
			all = append(all, k.name+": "+text)
		}
	}
	return all
}

// own is linerate's file; its name sorts after all common ones.
const own = "/etc/netplan/zz-linerate.yaml"

// missing returns why netplan cannot hold a setting.
func missing(s files.Setting) model.Omission {
	if len(networkd.Lines(s.Knob, s.Value)) == 0 {
		return model.Omission{Knob: s.Knob, Value: s.Value, Reason: "netplan has no key for it, and " + networkd.Missing(s)}
	}
	return model.Omission{Knob: s.Knob, Value: s.Value, Reason: "netplan has no key for " + s.Name + "; put it into a drop-in of the .link file that netplan makes"}
}
