package manager

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/model"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// load has TuneD itself load the profile mine below folders: the place of its
// modules in Python, then the folders.
const load = `
import sys
sys.path.insert(0, sys.argv[1])
import tuned.profiles as p
from tuned.profiles.variables import Variables
class Config:
    def get(self, *a, **k): return None
    def get_bool(self, *a, **k): return False
for root in sys.argv[2:]:
    v = Variables()
    loader = p.Loader(p.Locator([root + "/usr/lib/tuned", root + "/etc/tuned"]), p.Factory(), p.Merger(), Config(), v)
    for unit in loader.load("mine").units.values():
        for key, value in unit.options.items():
            print("%s\t%s\t%s\t%s" % (root, unit.type, key, v.expand(value)))
`

// TestTuneDAgrees compares with what TuneD makes of profiles.
func TestTuneDAgrees(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	modules := filepath.Join(referee.Root(), "/usr/lib/python3/dist-packages")
	if _, err := os.Stat(filepath.Join(modules, "tuned")); err != nil {
		t.Skipf("tuned is not installed: %v", err)
	}
	trees := map[string]fstest.MapFS{} // by folder
	args := []string{"-c", load, modules}
	for name, mine := range map[string]string{
		"included":   "[main]\ninclude=base\n[sysctl]\nnet.core.somaxconn=>2048\n",
		"overridden": "[main]\ninclude=base\n[variables]\nsize=5\n[sysctl]\nnet.core.rmem_max=${size}\n[net]\nmtu=9000\n",
		"variables":  "[main]\ninclude=base\n[variables]\nsize=33554432\nwhole=4096 ${other} ${size}\n[sysctl]\nnet.ipv4.tcp_rmem=\"${whole}\"\n",
		"dropped":    "[main]\ninclude=base\n[sysctl]\ndrop=net.core.rmem_max\nnet.core.somaxconn=1\n",
		"replaced":   "[main]\ninclude=base\n[sysctl]\nreplace=1\nnet.core.somaxconn=1\n",
		"renamed":    "[main]\ninclude=base\n[sysctl.mine]\ntype=sysctl\nnet.core.somaxconn=1\n",
		"alone":      "[sysctl]\nnet.core.somaxconn = 12\n; comment\nnet.ipv4.tcp_sack=1 # too\n",
		"itself":     "[main]\ninclude=mine\n[sysctl]\nnet.core.somaxconn=9\n",
	} {
		root := filepath.Join(t.TempDir(), name)
		args, trees[root] = append(args, root), profileTree(t, root, mine)
	}
	cmd := exec.CommandContext(t.Context(), python, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Need(t, err == nil, "TuneD does not load: %v\n%s", err, stderr.String())
	for root, files := range trees {
		t.Run(filepath.Base(root), func(t *testing.T) {
			loaded := ""
			for l := range strings.Lines(string(out)) {
				if rest, ok := strings.CutPrefix(l, root+"\t"); ok {
					loaded += rest
				}
			}
			compareProfile(t, linux(files, "tuned"), loaded)
		})
	}
}

// profileTree writes profiles below root, and returns them.
func profileTree(t *testing.T, root, mine string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{
		"etc/tuned/active_profile": file("mine\n"), "etc/tuned/mine/tuned.conf": file(mine),
		"usr/lib/tuned/base/tuned.conf": file("[main]\nsummary=x\n[variables]\nsize=16777216\nother=7\n[sysctl]\nnet.core.rmem_max = ${size} # comment\nnet.ipv4.tcp_sack=0\n[net]\nmtu=1400\n"),
		"usr/lib/tuned/mine/tuned.conf": file("[main]\nsummary=x\n[sysctl]\nnet.ipv4.tcp_sack=1\n"),
	}
	for name, f := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, f.Data, 0o600))
	}
	return files
}

// compareProfile compares claims with lines of "type key value".
func compareProfile(t *testing.T, m Machine, loaded string) {
	t.Helper()
	knobs := map[string]model.KnobID{
		"sysctl net.core.rmem_max": "socket.recv_buffer_max", "sysctl net.core.somaxconn": "tcp.listen_queue", "sysctl net.ipv4.tcp_rmem": "tcp.recv_buffer_max",
		"sysctl net.ipv4.tcp_sack": "tcp.sack", "net mtu": "link.mtu",
	}
	want := map[model.KnobID]string{}
	for l := range strings.Lines(loaded) {
		words := strings.SplitN(strings.TrimSpace(l), "\t", 3)
		if id, ok := knobs[words[0]+" "+words[1]]; ok {
			want[id] = strings.TrimLeft(strings.Trim(words[2], `"`), "<>")
		}
	}
	must.Need(t, len(want) != 0, "TuneD says nothing:\n%s", loaded)
	claims := must.Get(m.Claims(t.Context(), "eth0", ids))(t)
	got := map[model.KnobID]string{}
	for _, c := range claims {
		got[c.Knob] = c.Sets
	}
	for id, v := range want {
		must.True(t, got[id] == v, "%s: %q, TuneD says %q\n%s", id, got[id], v, loaded)
	}
	must.Equal(t, len(got), len(want), "%v, TuneD says %v", got, want)
}
