package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// asPair runs in the near host of a lab. It turns the two hosts into a pair that
// linerate does not recognise as a lab, so that the test sees what stays on them: $near and $far are their
// targets, and show prints what both hold.
const asPair = `
for p in /proc/[0-9]*; do
	[ "$(readlink $p/ns/net)" = "$(readlink /proc/self/ns/net)" ] && continue
	tr '\0' ' ' <$p/cmdline | grep -q 'lab-init host' && there="nsenter --net=$p/ns/net --uts=$p/ns/uts"
done
agent="$LR agent --interface eth0 --link-rate=50000000"
near="exec:10.99.0.1 $agent --state $DIR/a"
far="exec:10.99.0.2 $there $agent --state $DIR/b"
show() { echo "$1: near $(cut -f3 /proc/sys/net/ipv4/tcp_wmem) far $($there cut -f3 /proc/sys/net/ipv4/tcp_rmem)"; }
gone() { i=0; while grep -aqs "state.$DIR/" /proc/[0-9]*/cmdline; do i=$((i+1)); [ $i -gt 200 ] && { echo "an agent is still there"; return; }; sleep 0.1; done; }
brisk="--db $DIR/r.db -t 1s --omit 0.5s --settle 0s --direction to --seed 5"
`

// pairInLab prepares a script in the near host of a lab.
func pairInLab(t testing.TB, spec, script string) *exec.Cmd {
	t.Helper()
	needLab(t)
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter is not installed")
	}
	dir := t.TempDir()
	// In a mount namespace of its own, with folders of its own for permanent files.
	cmd := exec.CommandContext(t.Context(), binary, "lab", spec, "--", "unshare", "-m", "sh", "-ec", ownEtc(dir+"/etc")+"set +e\n"+asPair+script)
	cmd.Env = append(os.Environ(), "LR="+binary, "DIR="+dir, "LINERATE_CONFIG="+filepath.Join(dir, "config"), "NO_COLOR=1")
	cmd.Dir = dir
	return cmd
}
