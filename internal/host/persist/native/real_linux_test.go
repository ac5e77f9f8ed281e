package native_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/persist/native"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// The tests in this file have each file read by the program it is meant for. A test is
// skipped where its program is missing, see package referee.

// file returns the file of an output whose path ends in end.
func file(t *testing.T, out native.Output, end string) files.File {
	t.Helper()
	for _, f := range out.Files {
		if strings.HasSuffix(f.Path, end) {
			return f
		}
	}
	t.Fatalf("no %s:\n%s", end, print(out))
	return files.File{}
}

func render(t *testing.T, f model.FileFormat, in native.Input) native.Output {
	t.Helper()
	return must.Get(native.Render(f, in))(t)
}

// put writes a file below root at the path it has below /.
func put(t *testing.T, root string, f files.File) string {
	t.Helper()
	path := filepath.Join(root, f.Path)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, f.Content, f.Mode))
	return path
}

func start(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := referee.Command(t, argv[0], argv[1:]...).CombinedOutput()
	must.Need(t, err == nil, "%s: %v\n%s", strings.Join(argv, " "), err, out)
	return string(out)
}

// TestSysctlReads applies the sysctl file with procps in a network namespace and reads the
// values from the kernel.
func TestSysctlReads(t *testing.T) {
	sysctl := referee.Program(t, "sysctl")
	knobtest.InNamespace(t, func(t *testing.T) {
		in := native.Input{
			Comments: []string{"net.ipv4.ip_forward = 1", "x\nnet.ipv4.ip_forward = 1", `\`},
			Settings: settings("tcp.recv_buffer_max=8388608", "tcp.send_buffer_max=7340032", "tcp.sack=0", "tcp.mtu_probing=1", "tcp.ecn=1",
				"tcp.congestion_control=reno", "tcp.slow_start_after_idle=0", "tcp.metrics_cache=0", "tcp.window_scaling=1", "tcp.timestamps=2"),
		}
		start(t, sysctl, "-p", put(t, t.TempDir(), file(t, render(t, model.FormatLinuxSysctl, in), "zz-linerate.conf")))
		for name, want := range map[string]string{
			"tcp_rmem": "4096 131072 8388608", "tcp_wmem": "4096 16384 7340032", "tcp_sack": "0", "tcp_mtu_probing": "1", "tcp_ecn": "1",
			"tcp_congestion_control": "reno", "tcp_slow_start_after_idle": "0", "tcp_no_metrics_save": "1", "tcp_timestamps": "2", "ip_forward": "0",
		} {
			got, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
			must.True(t, err == nil && strings.Join(strings.Fields(string(got)), " ") == want, "%s is %q, want %q (%v)", name, got, want, err)
		}
	})
}

// TestUdevReads has udev read the .link file, mounted over an empty directory in a mount
// namespace. udev warns about unknown keys and values with the file's name.
func TestUdevReads(t *testing.T) {
	udevadm := referee.Program(t, "udevadm")
	knobtest.InNamespace(t, func(t *testing.T) {
		knobtest.PrivateMounts(t)
		dir := t.TempDir()
		err := syscall.Mount(dir, "/etc/systemd/network", "", syscall.MS_BIND, "")
		must.SkipIf(t, err != nil, "no mount here: %v", err)
		in := sample()
		in.Settings = append(in.Settings, settings("nic.queues.rx=2", "nic.queues.tx=2", "nic.queues.combined=4", "nic.ring.tx=512", "nic.coalesce.tx_usecs=20", "nic.coalesce.rx_frames=8",
			"nic.coalesce.tx_frames=8", "nic.coalesce.adaptive_tx=0", "nic.offload.rx_csum=1", "nic.offload.tx_csum=1", "nic.offload.gso=1", "nic.offload.gro=0", "nic.offload.gro_hw=0",
			"nic.offload.vlan_rx=1", "nic.offload.vlan_tx=0", "nic.gso_max_size=65536", "nic.pause.autoneg=0")...)
		f := file(t, render(t, model.FormatSystemdNetworkd, in), ".link")
		advertise := file(t, render(t, model.FormatSystemdNetworkd, native.Input{Interface: "e1", Settings: settings("nic.media.advertise=100baseT/Full,1000baseT/Full,2500baseT/Full", "nic.wol=none")}), ".link")
		wrong := files.File{Path: "99-wrong.link", Mode: 0o644, Content: []byte("[Match]\nOriginalName=e2\n[Link]\nMTUByte=9000\n")}
		for _, one := range []files.File{f, advertise, wrong} {
			must.Do(t, os.WriteFile(filepath.Join(dir, filepath.Base(one.Path)), one.Content, one.Mode))
		}
		cmd := referee.Command(t, udevadm, "test-builtin", "net_setup_link", "/sys/class/net/lo")
		cmd.Env = append(cmd.Environ(), "SYSTEMD_LOG_LEVEL=debug", "SYSTEMD_LOG_TARGET=console")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // no file matches lo, which udevadm reports as a failure
		must.SkipIf(t, !strings.Contains(out.String(), "99-wrong.link:4:"), "udev does not say what it does not understand:\n%s", out.String())
		for _, one := range []files.File{f, advertise} {
			name := filepath.Base(one.Path)
			if !strings.Contains(out.String(), "Parsed configuration file \"/etc/systemd/network/"+name) && !strings.Contains(out.String(), "Parsed configuration file /etc/systemd/network/"+name) {
				t.Skipf("udev did not say that it read the file:\n%s", out.String())
			}
			m := regexp.MustCompile(`(?m)^.*`+regexp.QuoteMeta(name)+`:\d+: .*$`).FindAllString(out.String(), -1)
			must.True(t, len(m) == 0, "udev does not understand %s:\n%s", strings.Join(m, "\n"), one.Content)
		}
	})
}

// TestNetplanReads has netplan generate networkd's files from an export next to the user's
// own definition: unedited, the export changes nothing; with its settings uncommented, they
// apply.
func TestNetplanReads(t *testing.T) {
	generate := referee.Program(t, "/usr/libexec/netplan/generate", "/lib/netplan/generate")
	in := sample()
	in.Settings = settings("link.mtu=9000", "nic.offload.tso=0", "nic.offload.gro=1", "nic.offload.gso=1", "nic.offload.lro=0", "nic.offload.rx_csum=1", "nic.offload.tx_csum=1", "nic.wol=magic")
	made := func(uncommented bool) string {
		root := t.TempDir()
		put(t, root, files.File{Path: "/etc/netplan/50-own.yaml", Mode: 0o600, Content: []byte("network:\n  version: 2\n  ethernets:\n    eth0:\n      dhcp4: true\n")})
		f := file(t, render(t, model.FormatNetplan, in), ".yaml")
		if uncommented {
			f.Content = bytes.ReplaceAll(f.Content, []byte("\n#  "), []byte("\n  "))
		}
		put(t, root, f)
		must.Equal(t, start(t, generate, "--root-dir", root), "", "netplan says")
		link, _ := os.ReadFile(filepath.Join(root, "run/systemd/network/10-netplan-eth0.link")) // may not exist
		network := must.Get(os.ReadFile(filepath.Join(root, "run/systemd/network/10-netplan-eth0.network")))(t)
		must.True(t, strings.Contains(string(network), "DHCP=ipv4"), "the user's own definition is gone: %s", network)
		return string(link) + string(network)
	}
	if text := made(false); strings.Contains(text, "MTUBytes") || strings.Contains(text, "Offload") {
		t.Errorf("what is not proven holds:\n%s", text)
	}
	text := made(true)
	for _, want := range []string{"MTUBytes=9000", "TCPSegmentationOffload=false", "TCP6SegmentationOffload=false", "LargeReceiveOffload=false", "GenericReceiveOffload=true", "WakeOnLan=magic"} {
		must.Contain(t, text, want+"\n", "no %s in", want)
	}
}

// TestIfupdownReads has ifup print what it would do, with the user's own stanza first.
func TestIfupdownReads(t *testing.T) {
	ifup := referee.Program(t, "ifup")
	in := native.Input{Interface: "eth7", Comments: sample().Comments, Settings: settings("link.mtu=9000", "nic.ring.rx=4096", "qdisc=fq", "nic.offload.tso=0", "nic.coalesce.adaptive_rx=0", "txqueuelen=2000")}
	f := file(t, render(t, model.FormatIfupdown, in), "interfaces.d/linerate")
	root := t.TempDir()
	put(t, root, f)
	own := filepath.Join(root, "interfaces")
	text := "iface eth7 inet static\n    address 10.9.8.7/24\n\nsource " + filepath.Join(root, "etc/network/interfaces.d") + "/*\n"
	must.Do(t, os.WriteFile(own, []byte(text), 0o600))
	out := start(t, ifup, "--no-act", "--force", "--state-dir="+root, "-v", "-i", own, "eth7")
	for _, want := range []string{"10.9.8.7", "ip link set dev eth7 mtu 9000", "ethtool -G eth7 rx 4096", "tc qdisc replace dev eth7 root fq", "ethtool -K eth7 tso off", "ethtool -C eth7 adaptive-rx off", "ip link set dev eth7 txqueuelen 2000"} {
		must.Contain(t, out, want, "ifup would not run")
	}
}

// TestShellReads has a shell run the script for a FreeBSD interface with an ifconfig that
// always fails: no line ends the script.
func TestShellReads(t *testing.T) {
	sh := referee.Program(t, "sh")
	in := sample()
	in.Interface = "em0"
	out := render(t, model.FormatFreeBSD, in)
	script := "ifconfig() { echo \"$*\"; false; }\n" + decode(file(t, out, "start_if.em0")) + "echo end\n"
	got := start(t, sh, "-euc", script)
	must.Equal(t, got, "em0 mtu 9000\nem0 tso\nem0 -lro\nem0 wol_magic\nem0 polling\nem0 media 100baseTX mediaopt full-duplex,rxpause\nend\n")
}

// TestArticleApplies brings an interface up with the settings of the article on two Linux
// machines and a cable (seed 002), in a network namespace. The socket sysctls belong to the
// whole machine there, so the test only checks that the kernel has them.
func TestArticleApplies(t *testing.T) {
	ip := referee.Program(t, "ip")
	knobtest.InNamespace(t, func(t *testing.T) {
		start(t, ip, "link", "add", "eth7", "type", "veth", "peer", "name", "eth8")
		in := native.Input{Interface: "eth7", Settings: settings("link.mtu=9000", "socket.recv_buffer_max=262144", "socket.send_buffer_max=262144",
			"socket.recv_buffer_default=262144", "socket.send_buffer_default=262144")}
		out := render(t, model.FormatIfupdown, in)
		n := 0
		for l := range strings.SplitSeq(stripped(decode(file(t, out, "zz-linerate.conf"))), "\n") {
			name, value, _ := strings.Cut(l, " = ")
			n++
			_, err := os.Stat("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
			must.True(t, err == nil && value == "262144", "%s: the kernel has no such setting: %v", l, err)
		}
		must.Equal(t, n, 4, "sysctls")
		ifup := referee.Program(t, "ifup")
		root := t.TempDir()
		path := put(t, root, file(t, out, "interfaces.d/linerate"))
		start(t, ifup, "--force", "--ignore-errors", "--state-dir="+root, "-v", "-i", path, "eth7")
		must.Contain(t, start(t, ip, "-o", "link", "show", "eth7"), " mtu 9000 ")
	})
}

// TestAnsibleReads has Ansible run the tasks on the test's own tree. It writes the same as
// the other formats, with hostile comments too.
func TestAnsibleReads(t *testing.T) {
	playbook := referee.Program(t, "ansible-playbook")
	must.SkipIf(t, os.Geteuid() != 0, "not root: the tasks give files to root")
	for system, format := range map[string]model.FileFormat{"linux": model.FormatSystemdNetworkd, "freebsd": model.FormatFreeBSD} {
		in := sample()
		in.System = system
		in.Comments = []string{"{{ lookup('pipe', 'touch pwned') }}", "a: b # 'c' \"d\" %e", "- x"}
		root := t.TempDir()
		tasks := decode(file(t, render(t, model.FormatAnsible, in), "linerate.yml"))
		tasks = strings.NewReplacer(`dest: "/`, `dest: "`+root+`/`, `path: "/`, `path: "`+root+`/`, "group: wheel", "group: root").Replace(tasks)
		want := render(t, format, in).Files
		for _, f := range want {
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, f.Path)), 0o755))
		}
		put(t, root, files.File{Path: "/linerate.yml", Mode: 0o600, Content: []byte(tasks)})
		put(t, root, files.File{Path: "/play.yml", Mode: 0o600, Content: []byte("- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n    - ansible.builtin.import_tasks: linerate.yml\n")})
		cmd := exec.CommandContext(t.Context(), playbook, "-i", "localhost,", filepath.Join(root, "play.yml"))
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "HOME="+root, "ANSIBLE_LOCAL_TEMP="+root+"/tmp", "ANSIBLE_REMOTE_TEMP="+root+"/tmp", "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		must.Need(t, err == nil, "%v\n%s", err, out)
		for _, f := range want {
			got := must.Get(os.ReadFile(filepath.Join(root, f.Path)))(t)
			must.True(t, bytes.Equal(got, f.Content), "%s: Ansible wrote %s\nwant\n%s", f.Path, got, f.Content)
		}
		must.Fail(t, must.Err(os.Stat(filepath.Join(root, "pwned"))), "Ansible ran a template in a comment")
	}
}
