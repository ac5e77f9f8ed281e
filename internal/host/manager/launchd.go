package manager

import (
	"bytes"
	"encoding/xml"
	"path"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
)

// launchDaemons reads launchd.plist(5) files that run a command at boot:
//
//	<key>ProgramArguments</key>
//	<array><string>/usr/sbin/sysctl</string><string>kern.ipc.maxsockbuf=8388608</string></array>
func (s *search) launchDaemons(from source) {
	for _, dir := range []string{"System/Library/LaunchDaemons", "Library/LaunchDaemons"} {
		for _, name := range s.tree.ByName(".plist", dir) {
			words := s.programArguments(name)
			if len(words) == 0 {
				continue
			}
			switch path.Base(words[0].Text) {
			case "sysctl":
				for _, l := range words[1:] {
					if key, value, ok := strings.Cut(l.Text, "="); ok {
						s.saySysctl(from, strings.TrimSpace(key), l, strings.TrimSpace(value))
					}
				}
			case "networksetup": // -setMTU en0 9000
				if len(words) == 4 && words[1].Text == "-setMTU" && words[2].Text == s.link && s.link != "" {
					s.say(from, "link.mtu", words[3], words[3].Text)
				}
			case "ifconfig":
				if len(words) > 2 && words[1].Text == s.link && s.link != "" {
					for i, l := range words[2:] {
						if l.Text == "mtu" && i+3 < len(words) {
							s.say(from, "link.mtu", words[i+3], words[i+3].Text)
						}
					}
				}
			case "sh", "bash", "zsh": // sh -c "sysctl -w a=1; sysctl -w b=2"
				for _, l := range words[1:] {
					for key, value := range command.Sysctls(l.Text) {
						s.saySysctl(from, key, l, value)
					}
				}
			}
		}
	}
}

// programArguments returns the words of the command, each with its line; none for a binary
// plist, which is not supported.
func (s *search) programArguments(name string) []model.FileLine {
	b := s.tree.Read(name)
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	var words []model.FileLine
	key, in := "", ""
	for {
		token, err := d.Token()
		if err != nil {
			return words
		}
		switch x := token.(type) {
		case xml.StartElement:
			in = x.Name.Local
		case xml.EndElement:
			if x.Name.Local == "array" && key == "ProgramArguments" {
				return words
			}
			in = ""
		case xml.CharData:
			text := strings.TrimSpace(string(x))
			switch {
			case text == "":
			case in == "key":
				key = text
			case in == "string" && key == "ProgramArguments":
				at, _ := d.InputPos()
				words = append(words, model.FileLine{File: "/" + name, Number: at, Text: text})
			}
		}
	}
}
