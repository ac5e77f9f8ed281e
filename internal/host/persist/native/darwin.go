package native

import (
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/host/files"
)

const plistPath = "/Library/LaunchDaemons/linerate.plist"

// darwin renders a launchd.plist(5) that sets sysctls at boot, and networksetup commands, which
// make settings of a link permanent.
func (r *rendering) darwin() {
	if all := r.texts(r.take(knob.Sysctl)); len(all) > 0 {
		r.plist(all)
		r.out.Commands = append(r.out.Commands, "chown root:wheel "+plistPath, "launchctl bootstrap system "+plistPath)
	}
	var media []*entry
	for _, e := range r.take(knob.IfIoctl) {
		switch e.native.Name {
		case "mtu":
			r.out.Commands = append(r.out.Commands, "networksetup -setMTU "+r.in.Interface+" "+e.value)
		case "media":
			media = append(media, e)
		default:
			r.omit(e, "networksetup has no word for %s", e.name)
		}
	}
	for _, t := range r.texts(media) {
		r.out.Commands = append(r.out.Commands, "networksetup -setMedia "+r.in.Interface+" "+strings.ReplaceAll(t.raw, ",", " "))
	}
}

func (r *rendering) plist(all []text) {
	p := r.page(plistPath)
	p.remark = func(s string) string { // "--" is not allowed in a comment (XML 1.0 section 2.5)
		for strings.Contains(s, "--") {
			s = strings.ReplaceAll(s, "--", "- -")
		}
		return "<!-- " + s + " -->"
	}
	p.line(`<?xml version="1.0" encoding="UTF-8"?>`)
	p.line(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">`)
	p.comments(r.head()...)
	p.line(`<plist version="1.0">`)
	p.line("<dict>")
	p.line("  <key>Label</key>")
	p.line("  <string>linerate</string>")
	p.line("  <key>RunAtLoad</key>")
	p.line("  <true/>")
	p.line("  <key>ProgramArguments</key>")
	p.line("  <array>")
	p.line("    <string>/usr/sbin/sysctl</string>")
	for _, t := range limitsFirst(all) {
		p.entry(t.entries...)
		p.line("    <string>%s</string>", files.XML(t.name+"="+t.raw))
	}
	p.line("  </array>")
	p.line("</dict>")
	p.line("</plist>")
}
