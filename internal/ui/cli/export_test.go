package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

// article returns the name of a profile with the settings of one seed article.
func article(name string) string { return filepath.Join("testdata", "articles", name+".yaml") }

// exported runs export and returns the files by path, and its messages.
func exported(t *testing.T, args ...string) (map[string]string, string) {
	t.Helper()
	w := newWorld(t)
	code := w.main(t, append([]string{"export", "--json"}, args...)...)
	must.Need(t, code == exitOK, "export %v: exit code %d\n%s", args, code, w.err.String())
	var doc exportDoc
	must.Do(t, json.Unmarshal(w.out.Bytes(), &doc))
	files := map[string]string{}
	for _, f := range doc.Files {
		files[f.Path] = f.Content
	}
	for _, o := range doc.Omitted {
		must.Contain(t, w.err.String(), "left out: "+string(o.Knob)+"="+o.Value+": "+o.Reason, "stderr does not say that %s is left out", o.Knob)
	}
	return files, w.err.String()
}

// want checks that a file has these lines.
func want(t *testing.T, files map[string]string, path string, lines ...string) {
	t.Helper()
	text, ok := files[path]
	if !ok {
		t.Errorf("no file %s in %d files", path, len(files))
		return
	}
	for _, l := range lines {
		must.Contain(t, strings.ReplaceAll(text, "\r\n", "\n"), l+"\n", "%s has no line %q: %s", path, l, text)
	}
}

// TestArticleGigabit: export writes the article's lines again, except for those that no current
// system has, which the catalogue translates.
func TestArticleGigabit(t *testing.T) {
	name := article("gigabit-freebsd-xp")
	files, _ := exported(t, "--for", "freebsd", "--role", "near", "--interface", "em0", name)
	want(t, files, "/etc/start_if.em0", "ifconfig em0 mtu 9000 || :", "ifconfig em0 polling || :")
	want(t, files, "/etc/sysctl.conf", "kern.ipc.maxsockbuf=1048576", "net.inet.tcp.sendspace=262144", "net.inet.tcp.recvspace=262144", "net.isr.dispatch=direct")
	want(t, files, "/boot/loader.conf", `kern.ipc.nmbclusters="30720"`)
	s := files["/etc/sysctl.conf"]
	must.True(t, strings.Index(s, "maxsockbuf=") <= strings.Index(s, "sendspace="), "a buffer is set before its limit")
	files, said := exported(t, "--for", "windows-powershell", "--role", "far", "--interface", "Ethernet", name)
	want(t, files, "linerate.ps1", "Set-NetAdapterAdvancedProperty -Name 'Ethernet' -RegistryKeyword '*JumboPacket' -RegistryValue '9014'",
		"Set-NetTCPSetting -SettingName Internet -AutoTuningLevelLocal 'Restricted'", "Set-NetTCPSetting -SettingName Internet -Timestamps 'Enabled'")
	must.Contain(t, said, "restarts the adapter", "stderr does not warn")
	w := newWorld(t)
	code := w.main(t, "export", "--for", "windows-reg", "--role", "far", "--interface", "Ethernet", "--adapter-key", "0007", "--output", t.TempDir(), name)
	must.True(t, code == exitOK, "exit code %d\n%s", code, w.err.String())
	for dead, instead := range map[string]model.KnobID{
		"kern.polling.enable": "polling", "net.isr.enable": "netisr.dispatch", "net.inet.tcp.inflight_enable": "tcp.congestion_control",
		"GlobalMaxTcpWindowSize": "tcp.autotune_level", "Tcp1323Opts": "tcp.timestamps", "SackOpts": "",
	} {
		e, ok := knob.NewIndex().Explain(dead)
		must.True(t, ok && len(e.Dead) != 0 && (instead == "" || slices.Contains(e.Replaced(), instead)), "%s is not known as dead, with %q instead", dead, instead)
	}
}

func TestArticleMac(t *testing.T) {
	name := article("mtu-and-buffers-mac")
	files, said := exported(t, "--for", "macos", "--interface", "en0", name)
	want(t, files, "/Library/LaunchDaemons/linerate.plist", "    <string>net.inet.tcp.sendspace=524288</string>", "    <string>net.inet.tcp.recvspace=524288</string>")
	must.Contain(t, said, "then run: networksetup -setMTU en0 1500", "the MTU is dropped")
	files, _ = exported(t, "--for", "freebsd", "--interface", "em0", name)
	want(t, files, "/etc/sysctl.conf", "net.inet.tcp.sendspace=524288", "net.inet.tcp.recvspace=524288")
	want(t, files, "/etc/start_if.em0", "ifconfig em0 mtu 1500 || :")
	e, ok := knob.NewIndex().Explain("/etc/sysctl.conf")
	must.True(t, ok && strings.Contains(e.Dead[0].Now, "not read any more"), "that macOS does not read the article's file is not known")
}

func TestArticleLinux(t *testing.T) {
	name := article("crossed-cable-linux")
	for format, own := range map[string]struct{ path, line string }{
		"systemd-networkd": {"/etc/systemd/network/10-linerate-eth0.link", "MTUBytes=9000"},
		"netplan":          {"/etc/netplan/zz-linerate.yaml", "#      mtu: 9000"},
		"networkmanager":   {"/etc/NetworkManager/conf.d/zz-linerate-eth0.conf", "ethernet.mtu=9000"},
		"ifupdown":         {"/etc/network/interfaces.d/linerate", "    pre-up ip link set dev eth0 mtu 9000 || true"},
	} {
		files, _ := exported(t, "--for", format, "--interface", "eth0", name)
		want(t, files, own.path, own.line)
		want(t, files, "/etc/sysctl.d/zz-linerate.conf", "net.core.rmem_max = 262144", "net.core.wmem_max = 262144", "net.core.rmem_default = 262144", "net.core.wmem_default = 262144")
	}
	files, said := exported(t, "--for", "linux-sysctl", "--interface", "eth0", name)
	must.True(t, len(files) == 1 && strings.Contains(said, "left out: link.mtu=9000: not a sysctl"), "%v\n%s", files, said)
	files, _ = exported(t, "--for", "ansible", "--interface", "eth0", name)
	want(t, files, "linerate.yml", "      net.core.rmem_max = 262144", "      MTUBytes=9000")
}

// TestArticleVirtio: the settings of test 3 conflict, which the article could not know; on
// request they are written anyway.
func TestArticleVirtio(t *testing.T) {
	files, _ := exported(t, "--for", "freebsd", article("virtio-test2"))
	want(t, files, "/etc/sysctl.conf", "kern.ipc.maxsockbuf=4000000", "net.inet.tcp.sendbuf_max=2097152", "net.inet.tcp.recvbuf_max=2097152")
	w := newWorld(t)
	code := w.main(t, "export", "--for", "freebsd", article("virtio-test3"))
	must.True(t, code == exitUsage && strings.Contains(w.err.String(), "C-02") && w.out.Len() == 0, "exit code %d\n%s%s", code, w.out.String(), w.err.String())
	files, said := exported(t, "--for", "freebsd", "--anyway", article("virtio-test3"))
	want(t, files, "/etc/sysctl.conf", "kern.ipc.maxsockbuf=4000000", "net.inet.tcp.sendbuf_max=16777216", "net.inet.tcp.recvbuf_max=16777216")
	must.True(t, strings.Contains(said, "C-02") && strings.Contains(files["/etc/sysctl.conf"], "C-02"), "neither stderr nor the file says what is wrong:\n%s", said)
}

func TestArticleSlowPC(t *testing.T) {
	files, _ := exported(t, "--for", "freebsd", "--interface", "xl0", article("slow-pc-fast-nic"))
	want(t, files, "/etc/start_if.xl0", "ifconfig xl0 polling || :", "ifconfig xl0 media 10baseT/UTP || :", "# title: 遅いPCで速いNIC")
	files, said := exported(t, "--for", "systemd-networkd", "--interface", "eth0", article("slow-pc-fast-nic"))
	want(t, files, "/etc/systemd/network/10-linerate-eth0.link", "BitsPerSecond=10M", "Duplex=half")
	must.True(t, strings.Contains(said, "left out: polling=1: linux has no such setting") && strings.Contains(said, "note: the settings were tried on freebsd, and these files are for linux"), "%s", said)
}

// stored adds a session with a decided setting to a new store.
func stored(t *testing.T, w *world) model.Session {
	t.Helper()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	s := model.Session{
		ID: "20261121T130000-abcd", Kind: model.KindRun, Title: "tall buffers", Near: "this machine", Far: "nas", Created: at, Ended: at.Add(time.Hour), State: model.SessionDone,
		Plan: model.Plan{
			Baseline: "current", Directions: []model.Direction{model.To},
			Settings: []model.Setting{{Name: "current"}, {Name: "4MiB", Assignments: []model.Assignment{
				{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "4194304"}, {Knob: "nodelay", Value: "1"},
			}}, {Name: "worse", Assignments: []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}}}},
		},
		Hosts: []model.HostFacts{{Host: model.Near, OS: "linux"}, {
			Host: model.Far, OS: "linux", Kernel: fact.Known("6.18", "uname"), LinkRate: fact.Known(units.BitRate(1e9), "sysfs"), MTU: fact.Known(1500, "sysfs"),
		}},
		Changes:  []model.Change{{Run: 1, Host: model.Far, Knob: "tcp.recv_buffer_max", Native: "net.ipv4.tcp_rmem", Old: "8192\t262144\t65536", New: "8192 262144 4194304", State: model.ChangeUndone}},
		Verdicts: []model.Verdict{{Setting: "4MiB", Baseline: "current", Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 6, Estimate: 0.113, Interval: model.Interval{Low: 0.1, High: 0.13, Confidence: 0.95}}},
	}
	st := must.Get(sqlite.Open(t.Context(), w.vars["LINERATE_DB"]))(t)
	defer st.Close()
	must.Do(t, st.CreateSession(t.Context(), s))
	must.Do(t, st.SetChanges(t.Context(), s.ID, s.Changes))
	must.Do(t, st.UpdateSession(t.Context(), s))
	return s
}

func TestProfileOfSession(t *testing.T) {
	w := newWorld(t)
	stored(t, w)
	name := filepath.Join(t.TempDir(), "tall.yaml")
	if code := w.main(t, "profile", "save", "last", name); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, w.err.String())
	}
	must.True(t, strings.Contains(w.err.String(), "left out: nodelay=1 belongs to the test traffic") && !strings.Contains(w.err.String(), "warning"), "%s", w.err.String())
	must.True(t, w.main(t, "profile", "save", "last", name) != exitOK, "a file is written over")
	if code := w.main(t, "profile", "show", name); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, w.err.String())
	}
	for _, s := range []string{"tall buffers", "receiver, tried on linux, 6.18, 1 Gbit/s, MTU 1500", "tcp.recv_buffer_max  4 MiB", "goodput to: better, 12.0 % higher (+10.5 % to +13.9 % at 95 %), 6 blocks",
		`session 20261121T130000-abcd, setting "4MiB" against "current", 2026-11-21`} {
		must.Contain(t, w.out.String(), s)
	}
	// A session and its profile give the same files, with the other numbers of the line as they
	// were on the host.
	code := w.main(t, "export", "--for", "linux-sysctl", "last")
	direct := w.out.String()
	must.True(t, code == exitOK && strings.Contains(direct, "net.ipv4.tcp_rmem = 8192 262144 4194304\n"), "exit code %d\n%s", code, direct)
	w.main(t, "export", "--for", "linux-sysctl", name)
	must.True(t, w.out.String() == direct, "the session gives\n%s\nand the profile\n%s", direct, w.out.String())
	if code := w.main(t, "profile", "save", "last", filepath.Join(t.TempDir(), "x"), "--setting", "worse"); code != exitOK || !strings.Contains(w.err.String(), `warning: no verdict of the session says that "worse" is better`) {
		t.Errorf("exit code %d\n%s", code, w.err.String())
	}
	for _, one := range []string{"current", "no such"} {
		code := w.main(t, "profile", "save", "last", "-", "--setting", one)
		must.True(t, code == exitUsage && w.out.Len() == 0, "%s: exit code %d\n%s", one, code, w.err.String())
	}
}

func TestExportWritesTree(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t)
	args := []string{"export", "--for", "netplan", "--interface", "eth0", "--output", dir, article("crossed-cable-linux")}
	if code := w.main(t, args...); code != exitOK || w.out.Len() > 0 {
		t.Fatalf("exit code %d\n%s%s", code, w.out.String(), w.err.String())
	}
	info := must.Get(os.Stat(filepath.Join(dir, "etc/netplan/zz-linerate.yaml")))(t)
	must.True(t, info.Mode().Perm()&^0o600 == 0 || info.Mode().Perm() == fs.FileMode(0o666), "%v", info)
	code := w.main(t, args...)
	must.True(t, code == exitFailed && strings.Contains(w.err.String(), "nothing was written"), "exit code %d\n%s", code, w.err.String())
}

// TestArchiveAndNotes copies sessions from one machine to another: unchanged, with notes and
// samples, and only once. Existing sessions stay; a damaged file imports nothing.
func TestArchiveAndNotes(t *testing.T) {
	here, there := newWorld(t), newWorld(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	there.Now = func() time.Time { return now }
	st := must.Get(openStoreAt(t.Context(), here.vars["LINERATE_DB"]))(t)
	for i := range 3 {
		s := model.Session{ID: fmt.Sprintf("s%d", i), Kind: model.KindTest, Near: "desk", Far: "nas", State: model.SessionDone, Created: now.Add(-time.Duration(i) * time.Hour)}
		must.Do(t, st.CreateSession(t.Context(), s))
		run := model.Run{Number: 1, State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9e8}}}
		must.Do(t, st.AddRun(t.Context(), s.ID, run, []model.Sample{{Host: model.Far, Metric: model.Goodput, Value: 0.1 + float64(i)}}, nil))
	}
	must.Do(t, st.Close())
	dir := t.TempDir()
	all, one, damaged := filepath.Join(dir, "all.linerate"), filepath.Join(dir, "one.linerate"), filepath.Join(dir, "damaged.linerate")
	do := func(w *world, code int, says string, args ...string) {
		t.Helper()
		must.Equal(t, w.main(t, args...), code, "%q: exit code", args)
		must.Contain(t, w.out.String()+w.err.String(), says, "%q", args)
	}
	do(here, 0, "note: after the new cable", "annotate", "s1", "after the new cable")
	do(here, 0, "  note: after the new cable", "show", "s1")
	do(here, 0, `"note": "after the new cable"`, "show", "s1", "--json")
	do(here, 0, "| after the new cable", "report", "s1", "--format", "markdown")
	do(here, 0, "s1 ", "list", "--text", "NEW cable")
	do(here, 0, "no such sessions", "list", "--text", "no such text")
	do(here, 2, "at most 4096 bytes", "annotate", "s1", strings.Repeat("x", 4097))
	do(here, 0, "wrote 3 sessions to ", "export", "--archive", all)
	do(here, 0, `"sessions":`, "export", "--archive", one, "s2", "--json")
	do(here, 1, "move that file away", "export", "--archive", all)
	do(here, 1, "take a session of linerate test", "report", "s1", "--format", "flent", "--force", "--output", all) // which replaces nothing
	do(here, 6, "not found", "export", "--archive", filepath.Join(dir, "none"), "nosuch")
	do(there, 0, "1 session of 1 from ", "import", one)
	changed := bytes.Clone(must.Get(os.ReadFile(all))(t))
	changed[len(changed)-20] ^= 1
	must.Do(t, os.WriteFile(damaged, changed, 0o600))
	do(there, 2, "the archive is damaged", "import", damaged)
	do(there, 0, "s2 ", "list")
	must.True(t, !strings.Contains(there.out.String(), "s0 "), "of a damaged archive is kept:\n%s", there.out.String())
	do(there, 2, "import it alone", "import", all, "--title", "x")
	do(there, 0, "s2 is here already, and was left as it is\n2 sessions of 3 from ", "import", all)
	do(there, 0, "0 sessions of 3 from ", "import", all)
	for _, id := range []string{"s0", "s1", "s2"} {
		for _, more := range [][]string{{"--json=full", "--samples"}, nil} {
			args := append([]string{"show", id}, more...)
			do(here, 0, "", args...)
			do(there, 0, "", args...)
			must.True(t, here.out.String() == there.out.String() && here.out.Len() != 0, "%q is here\n%s\nand there\n%s", args, here.out.String(), there.out.String())
		}
	}
	do(here, 0, "removed 1 session", "delete", "s1", "--yes")
	do(here, 0, "1 session of 3", "import", all) // as from a backup
	do(here, 0, "  note: after the new cable", "show", "s1")
	do(here, 0, "s1 ", "annotate", "s1", "")
	do(here, 0, "no such sessions", "list", "--text", "new cable")
}
