package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestFirstHour20Completion: what a shell offers after each command, asked as the shell
// asks. Nothing is made or connected to, and no error is among it.
func TestFirstHour20Completion(t *testing.T) {
	defer func(d time.Duration) { completionTime = d }(completionTime)
	completionTime = time.Minute // TestCompletionIsSoon measures it
	w := newWorld(t)
	home := t.TempDir()
	w.vars["HOME"], w.vars["LINERATE_CONFIG"] = home, filepath.Join(home, "linerate")
	for name, text := range map[string]string{
		".ssh/config":            "Host nas backup # of the office\n  HostName 192.0.2.1\nhost=attic\nHost *.example !no web?\n",
		".ssh/known_hosts":       "192.0.2.7,[tower]:2222 ssh-ed25519 AAAA\n|1|aGFzaA==|aGFzaA== ssh-ed25519 AAAA\n@cert-authority *.example ssh-rsa AAAA\nbroken\n",
		"linerate/known_servers": "den:5299 pin\n",
		"plans/plan.yaml":        "", "plans/notes.txt": "",
	} {
		path := filepath.Join(home, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	w.main(t, "__complete", "show", "")
	must.Fail(t, must.Err(os.Stat(w.vars["LINERATE_DB"])), "a tab made the store of results")
	st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
	now := time.Now()
	must.Do(t, st.CreateSession(t.Context(), model.Session{
		ID: "20261121T013209-x7k2", Kind: model.KindTest, Near: "this machine", Far: "nas", State: model.SessionInterrupted, Reason: "ctrl-c", Created: now.Add(-50 * time.Hour),
	}))
	_ = st.Close()
	plans := filepath.Join(home, "plans") + "/"
	session := "20261121T013209-x7k2\ttest, 2 d ago, nas: ctrl-c"
	for _, c := range []struct {
		args  []string // the last is what was typed
		has   []string // lines, with their descriptions where they have a tab
		lacks []string
	}{
		{[]string{"test", ""}, []string{"ssh://nas", "ssh://backup", "ssh://attic", "ssh://192.0.2.7", "ssh://tower:2222", "den:5299", "lab:", "iperf3://", "iperf2://", "netpipe://", "udpstp://"}, []string{"#", "|", "example", "web", "broken", "@cert"}},
		{[]string{"test", "root@n"}, []string{"root@nas\tover ssh"}, []string{"attic"}},
		{[]string{"test", "nas", ""}, nil, []string{"nas"}},
		{[]string{"test", "--from", "ssh://b"}, []string{"ssh://backup"}, []string{"lab"}},
		{[]string{"test", "lab:r"}, []string{"lab:rate=", "lab:rtt="}, []string{"lab:loss"}},
		{[]string{"test", "lab:rate=1gbit,"}, []string{"lab:rate=1gbit,rtt=", "lab:rate=1gbit,to.loss=", "lab:rate=1gbit,far."}, []string{"lab:rate=1gbit,lan"}},
		{[]string{"test", "lab:hops=3,hop"}, []string{"lab:hops=3,hop1.\trouter 1 and the link that leaves it"}, []string{"hopK"}},
		{[]string{"test", "lab:hops=3,hop2."}, []string{"lab:hops=3,hop2.rate=", "lab:hops=3,hop2.silent", "lab:hops=3,hop2.ecmp="}, []string{"seed", "hop2.KEY", "rtt", "hop2.hops"}},
		{[]string{"test", "lab:hops=3,from.hop2."}, []string{"lab:hops=3,from.hop2.rate=", "lab:hops=3,from.hop2.mtu="}, []string{"silent", "ecmp"}},
		{[]string{"test", "lab:lan,far.tcp.sa"}, []string{"lab:lan,far.tcp.sack="}, nil},
		{[]string{"test", "lab:lan,far.tcp.sack=o"}, []string{"lab:lan,far.tcp.sack=on", "lab:lan,far.tcp.sack=off"}, nil},
		{[]string{"lab", "w"}, []string{"wan"}, []string{"lan"}},
		{[]string{"set", "tcp.sa"}, []string{"tcp.sack="}, []string{"window"}},
		{[]string{"set", "tcp.sack="}, []string{"tcp.sack=on", "tcp.sack=off"}, nil},
		{[]string{"set", "near.tcp.sac"}, []string{"near.tcp.sack="}, nil},
		{[]string{"set", "near.tcp.sack=o"}, []string{"near.tcp.sack=off"}, nil},
		{[]string{"set", "tcp.sack=on", "ssh://n"}, []string{"ssh://nas"}, nil},
		{[]string{"run", "--factor", "wind"}, []string{"window="}, nil},
		{[]string{"run", "--factor", "re"}, []string{"requests=", "reply="}, nil},
		{[]string{"run", "--factor", "pa"}, []string{"pacing="}, nil},
		{[]string{"run", "--factor", "plain="}, []string{"plain=on", "plain=off"}, nil},
		{[]string{"set", "re"}, nil, []string{"reply", "requests"}},
		{[]string{"run", "--factor", "far.tcp.sack=on,"}, []string{"far.tcp.sack=on,off"}, nil},
		{[]string{"run", "--factor", "fa"}, []string{"far=\tseveral far ends", "far."}, nil},
		{[]string{"run", "--factor", "far="}, []string{"far=ssh://nas", "far=den:5299", "far=lab:"}, nil},
		{[]string{"run", "--factor", "far=den:5299,root@n"}, []string{"far=den:5299,root@nas\tover ssh"}, []string{"attic"}},
		{[]string{"run", "--factor", "far=nas,lab:rate=1gbit,rt"}, []string{"far=nas,lab:rate=1gbit,rtt="}, []string{"den"}},
		{[]string{"run", "--factor", "far=lab:rate=1gbit,"}, []string{"far=lab:rate=1gbit,den:5299", "far=lab:rate=1gbit,rtt="}, nil},
		{[]string{"run", "--factor", "far=lab:lan,den:5299,rt"}, nil, []string{"rtt"}},
		{[]string{"run", "--set", "jumbo:link.mtu=9000,far.tcp.sac"}, []string{"jumbo:link.mtu=9000,far.tcp.sack="}, nil},
		{[]string{"run", "--set", "jumbo:tcp.sack="}, []string{"jumbo:tcp.sack=on"}, nil},
		{[]string{"set", "fa"}, nil, []string{"far="}},
		{[]string{"run", plans}, []string{plans + "plan.yaml"}, []string{"notes"}},
		{[]string{"run", "--resume", ""}, []string{session, "last"}, nil},
		{[]string{"run", "--direction", ""}, []string{"to", "from", "each", "both"}, nil},
		{[]string{"tune", "--direction", ""}, []string{"each"}, []string{"both"}},
		{[]string{"tune", "--goal", ""}, []string{"throughput", "latency", "cpu"}, nil},
		{[]string{"tune", "--only", "tcp.sack,far.tcp.timest"}, []string{"tcp.sack,far.tcp.timestamps"}, nil},
		{[]string{"show", "2026"}, []string{session}, []string{"last"}},
		{[]string{"rm", ""}, []string{session}, nil},
		{[]string{"keep", ""}, []string{session}, nil},
		{[]string{"keep", "last", ""}, []string{"ssh://nas"}, []string{"2026"}},
		{[]string{"compare", "last", "2"}, []string{session}, nil},
		{[]string{"export", "--for", "net"}, []string{"netplan"}, []string{"ansible"}},
		{[]string{"profile", "show", plans}, []string{plans + "plan.yaml"}, []string{"notes"}},
		{[]string{"list", "--kind", ""}, []string{"test", "run", "sweep", "copy", "check", "tune", "served"}, nil},
		{[]string{"list", "--finding", ""}, []string{"B07", "loss"}, []string{"ceiling"}},
		{[]string{"list", "--state", ""}, []string{"running", "done", "interrupted", "failed"}, nil},
		{[]string{"test", "--engine", ""}, []string{"tcpbulk", "udpflow", "reqresp", "loaded"}, nil},
		{[]string{"knobs", "explain", "tcp.sa"}, []string{"tcp.sack"}, nil},
		{[]string{"set", "no.such=", ""}, []string{"ssh://nas"}, []string{"no.such"}},
	} {
		code := w.main(t, append([]string{"__complete"}, c.args...)...)
		must.True(t, code == 0, "%q: exit code %d: %s", c.args, code, w.err.String())
		must.True(t, !strings.Contains(w.err.String(), "linerate: "), "%q: %s", c.args, w.err.String())
		lines := strings.Split(strings.TrimSpace(w.out.String()), "\n")
		for _, want := range c.has {
			must.True(t, slices.ContainsFunc(lines, func(s string) bool { return s == want || strings.HasPrefix(s, want+"\t") }), "%q offers no %q:\n%s", c.args, want, w.out.String())
		}
		for _, line := range lines {
			text, _, _ := strings.Cut(line, "\t")
			for _, bad := range c.lacks {
				must.True(t, !strings.Contains(text, bad), "%q offers %q", c.args, line)
			}
		}
	}
}
