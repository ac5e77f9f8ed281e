// Package manager finds the programs that set a machine's settings: by themselves, or by
// applying lines of permanent files.
//
// A setting changed by hand lasts until such a program sets it again: when an interface comes
// up, a lease is renewed, a profile is switched or the machine boots. This package only reads
// files and the list of running programs; it starts, queries and changes nothing. The
// packages below files read the formats of Linux; formats without a package are not covered.
package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// Registry reads values of the Windows registry.
type Registry interface {
	// Values returns the values of a key below HKEY_LOCAL_MACHINE by name, as text. It wraps
	// fs.ErrNotExist if there is no such key.
	Values(ctx context.Context, key string) (map[string]string, error)
}

// Machine is a machine to search. It is safe for concurrent use if its functions are.
type Machine struct {
	Root      fs.FS                                              // root of its files, with /proc, /sys and /run on Linux
	System    string                                             // GOOS
	Running   func(ctx context.Context) (map[string]bool, error) // names of processes, on Linux as in /proc/PID/comm (at most 15 bytes); nil: unknown
	Catalogue *knob.Index                                        // of the settings
	Registry  Registry                                           // of Windows; nil: unknown
}

// Here returns the machine that this program runs on.
func Here(x *knob.Index) Machine {
	m := Machine{Root: os.DirFS("/"), System: runtime.GOOS, Catalogue: x, Registry: ownRegistry()}
	if m.System == "linux" {
		m.Running = func(ctx context.Context) (map[string]bool, error) { return processes(ctx, m.Root) }
	}
	return m
}

// processes reads /proc/PID/comm, proc(5), at most 15 bytes of a name. It omits programs that
// are visibly in another network namespace, since they manage other interfaces.
func processes(ctx context.Context, root fs.FS) (map[string]bool, error) {
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return nil, err
	}
	own, _ := fs.ReadLink(root, "proc/self/ns/net") // "" if there is none
	all := make(map[string]bool)
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		if its, err := fs.ReadLink(root, "proc/"+e.Name()+"/ns/net"); err == nil && own != "" && its != own {
			continue
		}
		name, err := fs.ReadFile(root, "proc/"+e.Name()+"/comm")
		if err == nil {
			all[strings.TrimSpace(string(name))] = true
		}
	}
	if len(all) == 0 {
		return nil, errors.New("read /proc: it shows no processes")
	}
	return all, nil
}

// containers adds claims on bridges of Docker or of a CNI plugin, which set their MTU.
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

// lineOf returns the line of the first occurrence of a word, 1….
func lineOf(text []byte, word string) int {
	before, _, ok := bytes.Cut(text, []byte(word))
	if !ok {
		return 0
	}
	return 1 + bytes.Count(before, []byte("\n"))
}
