package manager

import (
	"bytes"
	"encoding/json"
	"strconv"

	"linerate/internal/core/model"
)

// containers says which bridge is Docker's or a CNI plugin's, which give it an
// MTU.
func (s *search) containers() {
	c := model.Claim{Knob: "link.mtu", When: "whenever it makes its bridge, and for the links of new containers"}
	var docker struct {
		MTU    int    `json:"mtu"`
		Bridge string `json:"bridge"`
	}
	const daemon = "etc/docker/daemon.json" // dockerd(8) --mtu, --bridge
	text := s.tree.Read(daemon)
	if json.Unmarshal(text, &docker) == nil && docker.MTU > 0 && s.link != "" && (s.link == docker.Bridge || docker.Bridge == "" && s.link == "docker0") {
		c.Manager, c.Sets, c.File, c.Line, c.Active = model.ManagerDocker, strconv.Itoa(docker.MTU), "/"+daemon, lineOf(text, `"mtu"`), s.runs("dockerd")
		s.add(turnAlways, c)
	}
	type plugin struct { // CNI specification 1.0, section 1; the plugin bridge
		Bridge string `json:"bridge"`
		MTU    int    `json:"mtu"`
	}
	for _, ending := range []string{".conf", ".conflist", ".json"} {
		for _, name := range s.tree.ByName(ending, "etc/cni/net.d") {
			var list struct {
				plugin
				Plugins []plugin `json:"plugins"`
			}
			text := s.tree.Read(name)
			if json.Unmarshal(text, &list) != nil {
				continue
			}
			for _, p := range append(list.Plugins, list.plugin) {
				if p.MTU > 0 && p.Bridge == s.link && s.link != "" {
					c.Manager, c.Sets, c.File, c.Line = model.ManagerCNI, strconv.Itoa(p.MTU), "/"+name, lineOf(text, `"mtu"`)
					c.Active = s.runs("containerd", "crio", "kubelet", "podman")
					s.add(turnAlways, c)
				}
			}
		}
	}
}

// lineOf returns the line of the first place of a word, 1….
func lineOf(text []byte, word string) int {
	before, _, ok := bytes.Cut(text, []byte(word))
	if !ok {
		return 0
	}
	return 1 + bytes.Count(before, []byte("\n"))
}
