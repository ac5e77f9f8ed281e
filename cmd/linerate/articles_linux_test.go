package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/must"
)

// articles are profiles with what old articles set, see the README there.
const articles = "../../internal/host/persist/native/testdata/articles"

// TestArticlesExported reads every article's profile as a user does, and holds
// the files against those written by hand.
func TestArticlesExported(t *testing.T) {
	t.Parallel()
	wants := must.Get(filepath.Glob(filepath.Join(articles, "*.want")))(t)
	must.Need(t, len(wants) >= 12, "%d expectations", len(wants))
	for _, want := range wants {
		parts := strings.Split(filepath.Base(want), ".") // NAME.ROLE.FORMAT.want
		name, role, format := parts[0], parts[1], parts[2]
		t.Run(strings.Join(parts[:3], " "), func(t *testing.T) {
			link := map[string]string{"gigabit": "em0", "fileshare": "en0", "crossed": "eth0", "virtio2": "vtnet0", "virtio3": "vtnet0", "oldpc": "xl0"}[name]
			if strings.HasPrefix(format, "windows") {
				link = "LAN"
			}
			profile := filepath.Join(articles, name+".yaml")
			args := []string{"export", "--json", "--quiet", "--for", format, "--role", role, "--interface", link, profile}
			if format == "windows-reg" {
				args = append(args, "--adapter-key", "0007")
			}
			r := run(t, exec.CommandContext(t.Context(), binary, args...))
			if name == "virtio3" {
				must.Need(t, r.code == 2 && strings.Contains(r.err, "is above 8/9 of socket.buffer_max 4000000, which is 3555555 (C-02: ") && strings.Contains(r.err, "--anyway"), "exit code %d\n%s%s", r.code, r.out, r.err)
				r = run(t, exec.CommandContext(t.Context(), binary, append(args, "--anyway")...))
			}
			var doc struct {
				Files []struct{ Path, Encoding, Content string }
			}
			err := json.Unmarshal([]byte(r.out), &doc)
			must.Need(t, err == nil && r.code == 0 && len(doc.Files) != 0, "exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
			b := must.Get(os.ReadFile(want))(t)
			files := map[string]string{}
			for _, f := range doc.Files {
				files[f.Path] = f.Content
			}
			if doc.Files[0].Encoding != "utf-8" { // what the package's own test decodes
				return
			}
			path := ""
			for l := range strings.Lines(string(b)) {
				text, isLine := strings.CutPrefix(strings.TrimSuffix(l, "\n"), "\t")
				if !isLine {
					path = text
					continue
				}
				content, ok := files[path]
				must.True(t, !ok || strings.Contains(strings.ReplaceAll(content, "\r\n", "\n"), text+"\n"), "%s has no line %q\n%s", path, text, content)
			}
			paths := slices.Sorted(maps.Keys(files))
			must.True(t, strings.Contains(string(b), paths[0]), "nobody expected %q", paths)
		})
	}
}

// TestArticlesSet sets for real what articles set, on two hosts at once, where
// Linux has it, and takes it back.
func TestArticlesSet(t *testing.T) {
	t.Parallel()
	needRoot(t)
	type state struct{ rmem, wmem, mtu string }
	words := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	read := func(t *testing.T, n *netns, host string) state {
		t.Helper()
		file := func(name string) string {
			return words(ip(t, "netns", "exec", n.name(host), "cat", "/proc/sys/net/ipv4/"+name))
		}
		return state{file("tcp_rmem"), file("tcp_wmem"), n.mtu(t, host)}
	}
	// with puts a number of a triple in place.
	with := func(triple string, i int, number string) string {
		all := strings.Fields(triple)
		all[i] = number
		return strings.Join(all, " ")
	}
	cases := map[string]func(*testing.T){}
	for name, c := range map[string]struct {
		set   string
		holds func(state) state
	}{
		"crossed":   {"link.mtu=9000", func(s state) state { return state{s.rmem, s.wmem, "9000"} }},
		"gigabit":   {"link.mtu=9014 tcp.recv_buffer_initial=262144 tcp.send_buffer_initial=262144", func(s state) state { return state{with(s.rmem, 1, "262144"), with(s.wmem, 1, "262144"), "9014"} }},
		"fileshare": {"tcp.recv_buffer_initial=524288 tcp.send_buffer_initial=524288", func(s state) state { return state{with(s.rmem, 1, "524288"), with(s.wmem, 1, "524288"), "1500"} }},
		"virtio":    {"tcp.recv_buffer_max=16777216 tcp.send_buffer_max=16777216", func(s state) state { return state{with(s.rmem, 2, "16777216"), with(s.wmem, 2, "16777216"), "1500"} }},
	} {
		cases[name] = func(t *testing.T) {
			n := newNetns(t)
			was := [2]state{read(t, n, "near"), read(t, n, "far")}
			held(t, n.inside(t, "near", append(append([]string{"set"}, strings.Fields(c.set)...), "--both", "--for", "10m", n.agent("far"))...), func() bool {
				return read(t, n, "near") == c.holds(was[0]) && read(t, n, "far") == c.holds(was[1])
			})
			must.Equal(t, [2]state{read(t, n, "near"), read(t, n, "far")}, was, "was %v,", was)
		}
	}
	// The sysctls belong to the whole machine: two hosts of a test cannot have
	// them, and nothing of the change may be left.
	cases["crossed, with what is the machine's"] = func(t *testing.T) {
		n := newNetns(t)
		was := [2]state{read(t, n, "near"), read(t, n, "far")}
		args := []string{"set", "link.mtu=9000"}
		for _, way := range []string{"recv", "send"} {
			args = append(args, fmt.Sprintf("socket.%s_buffer_max=262144", way), fmt.Sprintf("socket.%s_buffer_default=262144", way))
		}
		run(t, n.inside(t, "near", append(args, "--both", "--for", "3s", n.agent("far"))...)).ends(t, 4, "net.core.")
		must.Equal(t, [2]state{read(t, n, "near"), read(t, n, "far")}, was, "was %v,", was)
	}
	beside(t, cases)
}
