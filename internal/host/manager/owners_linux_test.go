package manager

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"linerate/internal/core/model"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// The tests in this file ask the program that owns a file what the file means. A test is
// skipped where its program is missing, see package referee.

// ask runs a referee and returns its output.
func ask(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := referee.Command(t, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Need(t, err == nil, "%s %s: %v\n%s", program, strings.Join(args, " "), err, stderr.String())
	return string(out)
}

// lay writes the regular files of a tree below a directory.
func lay(t *testing.T, files fstest.MapFS) string {
	t.Helper()
	root := t.TempDir()
	for name, f := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, f.Data, 0o600))
	}
	return root
}

// TestNetplanAgrees draws netplan files and compares with the networkd files that netplan
// generates.
func TestNetplanAgrees(t *testing.T) {
	generate := referee.Program(t, "/usr/libexec/netplan/generate", "/lib/netplan/generate")
	random := rand.New(rand.NewPCG(26, 11))
	set := 0
	for i := range 40 {
		files := fstest.MapFS{}
		for _, dir := range []string{"lib", "etc", "run"} {
			for _, name := range []string{"10-a", "20-b"} {
				if random.IntN(3) > 0 {
					files[dir+"/netplan/"+name+".yaml"] = file(drawNetplan(random))
				}
			}
		}
		root := lay(t, files)
		ask(t, generate, "--root-dir", root)
		want := ""
		if b, err := os.ReadFile(filepath.Join(root, "run/systemd/network/10-netplan-lan.network")); err == nil && strings.Contains(string(b), "00:11:22:33:44:55") {
			if _, rest, ok := strings.Cut(string(b), "MTUBytes="); ok {
				want, _, _ = strings.Cut(rest, "\n")
			}
		}
		card(files)
		files["run/udev/data/n2"] = file("E:ID_NET_NAME_MAC=enx001122334455\n")
		got := find(t, files, "linux", "eth0", "link.mtu")["link.mtu"].Text
		must.Need(t, got == want, "%d: MTU %q, netplan says %q\n%s", i, got, want, printTree(files, "netplan"))
		if want != "" {
			set++
		}
	}
	must.True(t, set >= 5, "only %d of the files set an MTU", set)
}

// drawNetplan draws a file about another interface, or about one matched by its address.
func drawNetplan(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("network:\n  version: 2\n  ethernets:\n")
	mtu := func() {
		if r.IntN(2) > 0 {
			fmt.Fprintf(&b, "      mtu: %d\n", 1280+r.IntN(8000))
		}
	}
	if r.IntN(4) == 0 {
		b.WriteString("    eth1:\n      dhcp4: true\n")
		mtu()
		return b.String()
	}
	b.WriteString("    lan:\n      match:\n")
	if r.IntN(3) > 0 {
		b.WriteString("        macaddress: \"00:11:22:33:44:55\"\n")
	} else {
		b.WriteString("        macaddress: 00:11:22:33:44:56\n")
	}
	mtu()
	if r.IntN(2) > 0 {
		b.WriteString("      receive-checksum-offload: false # comment\n")
	}
	return b.String()
}

func printTree(files fstest.MapFS, part string) string {
	var b strings.Builder
	for name, f := range files {
		if strings.Contains(name, part) {
			fmt.Fprintf(&b, "== %s\n%s", name, f.Data)
		}
	}
	return b.String()
}

// TestIfupdownAgrees compares with the options that ifquery reads, of which the last one
// applies.
func TestIfupdownAgrees(t *testing.T) {
	ifup := referee.Program(t, "ifup")
	for name, text := range map[string]string{
		"one":       "auto eth0\niface eth0 inet manual\n\tmtu 9000\n",
		"two":       "iface eth0 inet manual\n mtu 9000\niface eth0 inet static\n address 192.0.2.5/24\n mtu 1400\niface eth1 inet manual\n mtu 1\n",
		"included":  "iface eth0 inet manual\n mtu 9000\nsource more/*\nsource-directory dir\n",
		"continued": "iface eth0 inet manual\n mtu \\\n 1300\n",
		"comments":  "# iface eth0 inet manual\niface eth0 inet manual\n # mtu 9000\n mtu 1200\n",
		"ended":     "iface eth0 inet manual\nauto eth1\n",
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{
				"etc/network/interfaces": file(text),
				"etc/network/more/a":     file("iface eth0 inet manual\n mtu 4000\n"),
				"etc/network/dir/b":      file("iface eth0 inet manual\n mtu 5000\n"),
				"etc/network/dir/b.old":  file("iface eth0 inet manual\n mtu 6000\n"),
			}
			root := lay(t, files)
			ifquery := filepath.Join(root, "ifquery") // the program's name selects its mode
			must.Do(t, os.Symlink(ifup, ifquery))
			want := ""
			for l := range strings.Lines(ask(t, ifquery, "-i", filepath.Join(root, "etc/network/interfaces"), "eth0")) {
				if mtu, ok := strings.CutPrefix(l, "mtu: "); ok {
					want = strings.TrimSpace(mtu)
				}
			}
			must.Equal(t, find(t, card(files), "linux", "eth0", "link.mtu")["link.mtu"].Text, want, "MTU")
		})
	}
}

// TestKeyfileAgrees reads the keyfile that nmcli makes from properties.
func TestKeyfileAgrees(t *testing.T) {
	nmcli := referee.Program(t, "nmcli")
	text := ask(t, nmcli, "--offline", "connection", "add", "type", "ethernet", "ifname", "eth0", "con-name", "a",
		"802-3-ethernet.mtu", "9000", "802-3-ethernet.mac-address", "00:11:22:33:44:55", "802-3-ethernet.auto-negotiate", "no",
		"802-3-ethernet.speed", "100", "802-3-ethernet.duplex", "full", "ethtool.ring-rx", "4096", "ethtool.feature-tso", "off",
		"ethtool.coalesce-adaptive-rx", "1", "ethtool.coalesce-rx-usecs", "20", "ethtool.pause-rx", "on", "ethtool.pause-autoneg", "off")
	want := map[model.KnobID]string{
		"link.mtu": "9000", "nic.media.autoneg": "0", "nic.media.speed": "100", "nic.media.duplex": "full", "nic.ring.rx": "4096",
		"nic.offload.tso": "0", "nic.coalesce.adaptive_rx": "1", "nic.coalesce.rx_usecs": "20", "nic.pause.rx": "1", "nic.pause.autoneg": "0",
	}
	var ids []model.KnobID
	for id := range want {
		ids = append(ids, id)
	}
	got := find(t, card(fstest.MapFS{"etc/NetworkManager/system-connections/a.nmconnection": file(text)}), "linux", "eth0", ids...)
	for id, v := range want {
		must.True(t, got[id].Text == v, "%s: %q, want %q\n%s", id, got[id].Text, v, text)
	}
}

// TestSysctlOrderAgrees compares the order of files with systemd's.
func TestSysctlOrderAgrees(t *testing.T) {
	analyze := referee.Program(t, "systemd-analyze")
	files := fstest.MapFS{}
	for i, dir := range []string{"usr/lib", "etc", "run", "usr/local/lib"} {
		for j, name := range []string{"50-a", "60-b", "99-c", "10-d"} {
			if (i+j)%3 != 0 {
				files[dir+"/sysctl.d/"+name+".conf"] = file(fmt.Sprintf("net.ipv4.tcp_sack = %d%d\n", i, j))
			}
		}
	}
	last := ""
	for l := range strings.Lines(ask(t, analyze, "--root="+lay(t, files), "cat-config", "sysctl.d")) {
		if value, ok := strings.CutPrefix(l, "net.ipv4.tcp_sack = "); ok {
			last = strings.TrimSpace(value)
		}
	}
	got := find(t, files, "linux", "", "tcp.sack")["tcp.sack"].Text
	must.True(t, got == last && last != "", "%q, systemd says %q", got, last)
}

// TestUdevAgrees makes an interface in its own namespaces and compares with the .link file
// that udev applies to it.
func TestUdevAgrees(t *testing.T) {
	udevadm := referee.Program(t, "udevadm")
	must.SkipIf(t, os.Geteuid() != 0, "needs root for a mount namespace")
	const script = `set -e
ip link add eth0 address 02:11:22:33:44:55 type veth peer name peer0
mount -t tmpfs none "$3"
mount -t sysfs none /sys
printf "$2" > "$3/10-a.link"
"$1" test-builtin net_setup_link /sys/class/net/eth0
mkdir -p "$4/net" && for f in address ifindex type uevent name_assign_type; do cat "/sys/class/net/eth0/$f" > "$4/net/$f"; done`
	for _, match := range []string{
		"OriginalName=eth*", "OriginalName=*", "MACAddress=02-11-22-33-44-55", "MACAddress=02:11:22:33:44:56", "Driver=veth", "Driver=!veth",
		"Type=ether", "Type=!ether", "MACAddress=02:11:22:33:44:55\\nType=wlan", "OriginalName=", "OriginalName=!eth0 eth1", "OriginalName=lo et?0",
	} {
		t.Run(match, func(t *testing.T) {
			text := "[Match]\\n" + match + "\\n[Link]\\nMTUBytes=1400\\n"
			dir, out := "/etc/systemd/network", t.TempDir()
			if _, err := os.Stat(dir); err != nil {
				t.Skipf("no %s to mount over", dir)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", udevadm, text, dir, out)
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
			said, err := cmd.CombinedOutput()
			must.SkipIf(t, err != nil, "no namespace for it: %v\n%s", err, said)
			want := strings.Contains(string(said), "ID_NET_LINK_FILE="+dir+"/10-a.link")
			files := fstest.MapFS{
				"etc/systemd/network/10-a.link":                               file(strings.ReplaceAll(text, "\\n", "\n")),
				"run/udev/data/n" + readWord(t, os.DirFS(out), "net/ifindex"): file("E:ID_NET_DRIVER=veth\n"),
			}
			for _, f := range []string{"address", "ifindex", "type", "uevent", "name_assign_type"} {
				files["sys/class/net/eth0/"+f] = file(readWord(t, os.DirFS(out), "net/"+f) + "\n")
			}
			if readWord(t, os.DirFS(out), "net/name_assign_type") == "3" { // named by ip, equivalent to a kernel name
				files["sys/class/net/eth0/name_assign_type"] = file("1\n")
			}
			_, got := find(t, files, "linux", "eth0", "link.mtu")["link.mtu"]
			must.True(t, got == want, "matches: %t, udev says %t\n%s", got, want, said)
		})
	}
}

func readWord(t *testing.T, root fs.FS, name string) string {
	t.Helper()
	return strings.TrimSpace(string(must.Get(fs.ReadFile(root, name))(t)))
}

// load has TuneD load the profile mine. Its arguments are the directory of TuneD's Python
// modules and the profile directories.
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

// TestTuneDAgrees compares with what TuneD loads from profiles.
func TestTuneDAgrees(t *testing.T) {
	python, err := exec.LookPath("python3")
	must.SkipIf(t, err != nil, "no python3")
	modules := filepath.Join(referee.Root(), "/usr/lib/python3/dist-packages")
	if _, err := os.Stat(filepath.Join(modules, "tuned")); err != nil {
		t.Skipf("tuned is not installed: %v", err)
	}
	trees := map[string]fstest.MapFS{} // by directory
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

// profileTree writes profiles below root and returns them.
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

// compareProfile compares claims with lines of the form "type key value".
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
