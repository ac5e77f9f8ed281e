//go:build truth && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/truth"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// TestTruthOfCheckForCron: a check with demands near to what a path carries ends as its
// numbers say, and one without demands names what it found.
func TestTruthOfCheckForCron(t *testing.T) {
	needLab(t)
	const path = "lab:rate=50mbit,rtt=20ms"
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		checkForCron(try, 0, "30M,loss<20%,p99<2s")
		checkForCron(try, 9, "900M,loss<20%,p99<2s", "linerate: not met: 900M (", "Mbit/s, from ")
		r := run(try, command(try, "check", "--quick", "--quiet", path+",far.tcp.recv_buffer_max=16KiB"))
		if r.code != 8 || strings.Count(r.err, "\n") != 1 {
			try.Errorf("exit code %d; stderr %q\n%s", r.code, r.err, r.out)
		}
		has(try, "stderr", r.err, "linerate: found: ", "speed to ")
	})
}

// slowDisk makes a control group whose processes read and write at most so many bytes a
// second of the disk that dir is on, and returns its folder.
func slowDisk(t testing.TB, dir string, bytesPerSecond int) string {
	t.Helper()
	var s unix.Stat_t
	must.Do(t, unix.Stat(dir, &s))
	group, err := os.MkdirTemp("/sys/fs/cgroup/blkio", "linerate-test-") //nolint:usetesting // a control group, not a folder
	if err != nil {
		t.Skipf("needs the blkio controller of control groups: %v", err)
	}
	t.Cleanup(func() {
		eventually(t, patience, "the end of who is in the control group", func() bool { return os.Remove(group) == nil })
	})
	for _, what := range []string{"read", "write"} {
		limit := fmt.Sprintf("%d:%d %d", unix.Major(s.Dev), unix.Minor(s.Dev), bytesPerSecond)
		if err := os.WriteFile(filepath.Join(group, "blkio.throttle."+what+"_bps_device"), []byte(limit), 0o644); err != nil {
			t.Skipf("this kernel or this disk cannot be slowed down: %v", err)
		}
	}
	return group
}

// TestTruthOfADisk: a far host whose disk moves 20 MB/s holds files back in both
// directions, and the network does not.
func TestTruthOfADisk(t *testing.T) {
	needRoot(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		n := newNetns(t)
		group := slowDisk(t, n.dir, 20e6)
		script := filepath.Join(n.dir, "slow.sh")
		text := fmt.Sprintf("#!/bin/sh\nmkdir -p %s/.cache\nexport HOME=%[1]s\necho $$ > %s/cgroup.procs && exec \"$@\"\n", filepath.Join(n.dir, "home"), group)
		must.Do(try, os.WriteFile(script, []byte(text), 0o755))
		far := fmt.Sprintf("exec:%s %s ip netns exec %s %s agent --state %s", farAddr, script, n.far, binary, n.state("far"))
		r := run(try, n.command(try, "check", far, "--from", n.agent("near"), "--quick", "--disk", "--why", "--quiet"))
		must.True(try, r.code == 8, "exit code %d\n%s%s", r.code, r.out, r.err)
		for _, d := range []model.Direction{model.To, model.From} {
			what := map[model.Direction]string{model.To: "writes", model.From: "reads"}[d]
			line := regexp.MustCompile(`POOR disk ` + string(d) + ` \S+( \(far\))? ([\d.]+) Mbit/s is what \S+( \(far\))? ` + what + `, and the network carries [^:]+: files are held back by the disk`)
			found := line.FindStringSubmatch(words(r.out))
			if found == nil {
				try.Errorf("%s: the disk is not named:\n%s%s", d, r.out, r.err)
				continue
			}
			rate, err := strconv.ParseFloat(found[2], 64)
			must.OK(try, err)
			try.Claim("disk "+what, rate, 110, 200, "Mbit/s of a disk that moves 160")
		}
	})
}
