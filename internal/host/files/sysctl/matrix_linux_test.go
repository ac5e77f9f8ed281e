package sysctl_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"linerate/internal/host/files"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/sysctl"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// trees is how many to draw for each program.
var trees = must.Often(6, 60)

// keys are separate in each network namespace, so that a test may set them.
var keys = []string{
	"net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem", "net/ipv4/tcp_sack", "net/ipv4/tcp_ecn", "net/ipv4/tcp_congestion_control", "net/ipv4/tcp_mtu_probing",
	"net/ipv4/ip_local_port_range", "net/ipv4/conf/lo/rp_filter", "net/ipv4/conf/eno1.7/rp_filter",
}

// texts are values in the files; the kernel refuses some of them.
var texts = map[string][]string{
	"net/ipv4/tcp_rmem": {"4096 131072 6291456", "4096 87380 16777216 # 16 MiB", "4096 87380 16M", "0x1000 65536 1000000", "4096,87380,1000000", "8192 70000 2000000 7"},
	"net/ipv4/tcp_wmem": {"4096 16384 4194304", "4096\t65536\t1000000", "4096 65536 1000000;x", "\"4096 65536 1000000\""},
	"net/ipv4/tcp_sack": {"0", "1", "0 # off", "0# off", "yes"}, "net/ipv4/tcp_ecn": {"0", "1", "2 ; default", "02", "+1"},
	"net/ipv4/tcp_congestion_control": {"reno", "reno # plain", noWord},
	"net/ipv4/tcp_mtu_probing":        {"0", "1", "2"}, "net/ipv4/ip_local_port_range": {"10000 60000", "2000 3000 # few", "1 x"},
	"net/ipv4/conf/lo/rp_filter": {"0", "1", "2"}, "net/ipv4/conf/eno1.7/rp_filter": {"0", "1", "2"},
}

// draw returns a random tree of sysctl.d: one to seven files in all folders, in the ways in
// which users write a key.
func draw(random *rand.Rand) fstest.MapFS {
	root := fstest.MapFS{}
	names := []string{"10-mine.conf", "50-same.conf", "90-tune.conf", "99-sysctl.conf", "99-vendor-net.conf", "zzz-last.conf", "README", "60-old.conf.bak"}
	folders := []string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"}
	for range 1 + random.IntN(7) {
		root[folders[random.IntN(len(folders))]+"/"+names[random.IntN(len(names))]] = file(drawLines(random))
	}
	if random.IntN(3) > 0 {
		root["etc/sysctl.conf"] = file(drawLines(random))
		if random.IntN(2) == 0 {
			root["etc/sysctl.d/99-sysctl.conf"] = link("../sysctl.conf")
		}
	}
	if random.IntN(5) == 0 {
		root["etc/sysctl.d/50-same.conf"] = link("/dev/null")
	}
	return root
}

func drawLines(random *rand.Rand) string {
	b := strings.Builder{}
	for range random.IntN(5) {
		key := keys[random.IntN(len(keys))]
		text := texts[key][random.IntN(len(texts[key]))]
		switch random.IntN(8) {
		case 0: // as it is, with slashes
		case 1:
			key = "-" + strings.NewReplacer("/", ".", ".", "/").Replace(key)
		case 2:
			b.WriteString("  # net.ipv4.tcp_sack = 7\n; net.ipv4.tcp_ecn = 7\n")
		case 3:
			key, text = "net.ipv4.conf.[el]*.rp_filter", "2" // not "default", which the kernel copies to interfaces that were never set
		case 4:
			b.WriteString("-net.ipv4.conf.lo.rp_filter\n")
		case 5:
			b.WriteString("net.ipv4.tcp_sack : 0\nnet.ipv4.tcp_ecn\n")
		default:
			key = strings.NewReplacer("/", ".", ".", "/").Replace(key)
		}
		fmt.Fprintf(&b, "%s%s%s%s\n", key, []string{" = ", "=", "\t=  "}[random.IntN(3)], text, []string{"", "  "}[random.IntN(2)])
	}
	return b.String()
}

// judge has the real program read a tree in network and mount namespaces of its own, and
// returns the kernel's value of each key.
func judge(t *testing.T, root fstest.MapFS, program ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	if _, given := root["etc/sysctl.conf"]; !given {
		root = maps.Clone(root)
		root["etc/sysctl.conf"] = file("")
	}
	for name, f := range root {
		to := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
		err := os.WriteFile(to, f.Data, 0o644)
		if f.Mode&fs.ModeSymlink != 0 {
			err = errors.Join(os.Remove(to), os.Symlink(string(f.Data), to))
		}
		must.Do(t, err)
	}
	const script = `set -e
dir=$1; shift
mount -t tmpfs none /run && mkdir /run/sysctl.d && mount --bind "$dir/run/sysctl.d" /run/sysctl.d
mount -t tmpfs none /usr/local/lib && mkdir /usr/local/lib/sysctl.d && mount --bind "$dir/usr/local/lib/sysctl.d" /usr/local/lib/sysctl.d
mount --bind "$dir/etc/sysctl.d" /etc/sysctl.d
mount --bind "$dir/usr/lib/sysctl.d" /usr/lib/sysctl.d
mount --bind "$dir/etc/sysctl.conf" /etc/sysctl.conf
ip link add eno1.7 type veth peer name peer
"$@" >"$dir/said" 2>&1 || true
cd /proc/sys
grep . `
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script + strings.Join(keys, " "), "sh", dir}, program...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		must.SkipIf(t, !errors.As(err, &exit), "no namespaces for it: %v", err)
		t.Fatalf("%v\n%s", err, exit.Stderr)
	}
	got := make(map[string]string)
	for l := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), ":")
		got[key] = strings.Join(strings.Fields(value), " ")
	}
	must.Need(t, len(got) == len(keys), "%d keys of %d:\n%s", len(got), len(keys), out)
	return got
}

// TestMatrix draws trees, has the real programs read them without and with the proposed file,
// and compares the kernel's values: they differ by exactly the settings, or the proposal is
// refused with a file and a line. It also compares the kernel with Holds and Kernel for each
// key.
func TestMatrix(t *testing.T) {
	must.SkipIf(t, os.Geteuid() != 0, "needs root for a mount namespace")
	programs := map[string][]string{
		"systemd-sysctl": {referee.Program(t, "/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl")},
		"procps":         {referee.Program(t, "sysctl"), "--system"},
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(26, 11))
			plain := judge(t, fstest.MapFS{}, program...)
			proven, refused := 0, 0
			for i := range trees {
				root := draw(random)
				seen := maps.Clone(root)
				if name == "systemd-sysctl" {
					seen[bySystemd] = file("")
				}
				before := judge(t, root, program...)
				boot := sysctl.Read(seen)
				for _, key := range keys {
					want := plain[key]
					if l, ok := boot.Holds(key); ok {
						text, err := sysctl.Kernel(key, l.Text)
						if err != nil || text == noWord {
							continue // an earlier line, or a part of this one
						}
						want = text
					}
					must.True(t, before[key] == want, "tree %d: %s is %q, want %q\n%s", i, key, before[key], want, filestest.TreeText(root))
				}
				r := files.Request{Settings: []files.Setting{
					{Name: "net.ipv4.tcp_rmem", Text: "4096 131072 7340032"}, {Name: "net.ipv4.tcp_congestion_control", Text: "reno"}, {Name: "net.ipv4.tcp_mtu_probing", Text: "1"},
				}}
				p, err := files.Propose(t.Context(), sysctl.Format{}, files.Host{Root: seen, System: "linux"}, r)
				var refusal *files.Refusal
				if errors.As(err, &refusal) && refusal.File != "" && refusal.Line > 0 {
					refused++
					continue
				}
				if err != nil {
					t.Errorf("tree %d: %v", i, err)
					continue
				}
				proven++
				with := maps.Clone(root)
				for _, f := range p.Files {
					with[strings.TrimPrefix(f.Path, "/")] = &fstest.MapFile{Data: f.Content}
				}
				after := judge(t, with, program...)
				for _, key := range keys {
					want, ours := p.Want[files.SysctlKey(sysctl.Name(key))]
					if !ours {
						want = before[key]
					}
					must.True(t, after[key] == want, "tree %d: %s is %q with the file, want %q\n%s", i, key, after[key], want, filestest.TreeText(with))
				}
			}
			row := filestest.Row{Format: "sysctl.d", Program: "systemd-sysctl " + referee.Version(t, program[0]), Proven: proven, Refused: refused}
			if name == "procps" {
				row.Format, row.Program = "sysctl.d, sysctl.conf", "procps "+referee.Version(t, program[0])
			}
			filestest.Record(t, row)
			must.True(t, trees < 20 || proven >= trees/4 && refused >= trees/20,
				"%d trees: proven %d, refused %d: too few of one kind to show something", trees, proven, refused)
		})
	}
}

// noWord is a congestion control that does not exist.
const noWord = "no-such-control"
