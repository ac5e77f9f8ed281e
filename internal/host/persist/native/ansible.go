package native

import (
	"encoding/json"
	"fmt"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
)

// ansible renders a list of tasks that put the files of a system in place.
func (r *rendering) ansible(system string) error {
	switch system {
	case "linux":
		r.export(model.FormatSystemdNetworkd)
	case "freebsd":
		r.export(model.FormatFreeBSD)
	case "darwin":
		r.darwin()
	default:
		return fmt.Errorf("tasks of ansible for %s: use windows-powershell: %w", system, ErrInput)
	}
	if len(r.errs) > 0 {
		return nil // Render reports them
	}
	r.finish()
	written := r.out.Files
	r.out.Files = nil
	if len(written) == 0 {
		return nil
	}
	p := r.page("linerate.yml")
	p.comments(r.head()...)
	p.line("---")
	for i, f := range written {
		r.ansibleFile(p, i+1, f, system)
	}
	for _, c := range r.out.Commands {
		p.comments(files.Comment("then, where it is not running yet: " + c))
	}
	r.out.Commands = []string{"ansible-playbook a play whose tasks import linerate.yml"}
	return nil
}

// ansibleFile writes one task. The tag keeps Ansible from running its template engine over
// the text.
func (r *rendering) ansibleFile(p *page, number int, f files.File, system string) {
	group := "root"
	if system != "linux" {
		group = "wheel"
	}
	p.line("- name: %s", jsonText("linerate: settings in "+f.Path))
	body := string(f.Content)
	if f.Block {
		p.line("  ansible.builtin.blockinfile:")
		p.line("    path: %s", jsonText(f.Path))
		p.line("    create: true")
		p.line("    marker: %s", jsonText("# {mark} linerate"))
		p.line("    block: !unsafe |")
		body = strings.TrimSuffix(strings.TrimPrefix(body, files.BlockBegin+"\n"), files.BlockEnd+"\n")
	} else {
		p.line("  ansible.builtin.copy:")
		p.line("    dest: %s", jsonText(f.Path))
		p.line("    content: !unsafe |")
	}
	for l := range strings.Lines(body) {
		if l = strings.TrimSuffix(l, "\n"); l == "" {
			p.blank()
			continue
		}
		p.line("      %s", l)
	}
	p.line("    owner: root")
	p.line("    group: %s", group)
	p.line("    mode: %s", jsonText(fmt.Sprintf("%04o", f.Mode)))
	p.line("  register: linerate_%d", number)
}

// jsonText returns s as a double-quoted YAML scalar, which a JSON string is.
func jsonText(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
