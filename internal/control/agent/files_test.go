package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/manager"
	"linerate/internal/host/persist"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// keepsFiles returns an agent of system with a root folder of the test.
func keepsFiles(t *testing.T, system string) (c agent.Config, root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{
		"sys/class/net/em0/ifindex": "2", "sys/class/net/em0/address": "02:00:00:00:00:01", "sys/class/net/em0/type": "1", "run/udev/data/n2": "E:ID_NET_NAME_MAC=enx020000000001",
	} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text+"\n"), 0o644))
	}
	state := filepath.Join(t.TempDir(), "state")
	c = agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values()))
	c.Files = &agent.Files{
		System: system, Keeper: func() (persist.Keeper, error) { return persist.Keeper{Root: root, State: state}, nil },
		Link: func() string { return "em0" },
		Texts: func(context.Context, string, []model.KnobID) map[string]string {
			return map[string]string{"net.ipv4.tcp_rmem": "4096 131072 6291456"}
		},
		Owner: func(context.Context, string) (model.FileFormat, string, error) {
			return model.FormatSystemdNetworkd, "networkd has it", nil
		},
		Origins: func(_ context.Context, _ string, _ []model.KnobID, _ []persist.Change) (map[model.KnobID]model.FileLine, error) {
			return map[model.KnobID]model.FileLine{"tcp.recv_buffer_max": {File: "/etc/other", Number: 2, Text: "4194304"}}, nil
		},
		Claims: func(_ context.Context, link string, ids []model.KnobID) ([]model.Claim, error) {
			return []model.Claim{{Knob: ids[0], Link: link, Manager: model.ManagerTuneD, When: "soon", File: "/x", Line: 3, Active: fact.Known(true, "test")}}, nil
		},
		Confirmed: func(context.Context) ([]session.Confirmation, error) {
			return []session.Confirmation{{Knob: "link.mtu", Native: "mtu of em0", Value: "9000", Holds: true, Link: "em0"}}, nil
		},
		Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) },
	}
	return c, root
}

func asked(settings ...model.Assignment) session.Keep {
	return session.Keep{Settings: settings, Comments: []string{"because"}, Source: "test"}
}

func TestFilesAreKept(t *testing.T) {
	c, root := keepsFiles(t, "linux")
	s, _, _ := far(t, c)
	ctx := t.Context()
	want := asked(model.Assignment{Knob: "tcp.recv_buffer_max", Value: "4194304"}, model.Assignment{Knob: "link.mtu", Value: "9000"}, model.Assignment{Knob: "route.initcwnd", Value: "40"})
	want.DryRun = true
	shown := must.Get(s.Keep(ctx, want))(t)
	must.True(t, shown.Format == model.FormatSystemdNetworkd && shown.Reason == "networkd has it" && shown.Record == "" && len(shown.Files) == 2 && len(shown.Omitted) == 1 && len(shown.Commands) != 0, "the dry run: %+v", shown)
	entries, _ := os.ReadDir(filepath.Join(root, "etc"))
	must.True(t, len(entries) == 0, "the dry run wrote %v", entries)
	want.DryRun, want.Plan = false, shown.Plan
	done, err := s.Keep(ctx, want)
	must.Need(t, err == nil && done.Record != "" && done.Plan == shown.Plan && done.Others["tcp.recv_buffer_max"].Number == 2, "%+v, %v", done, err)
	text, err := os.ReadFile(filepath.Join(root, "etc/sysctl.d/zz-linerate.conf"))
	must.True(t, err == nil && strings.Contains(string(text), "net.ipv4.tcp_rmem = 4096 131072 4194304\n") && strings.Contains(string(text), "# because\n"), "%s, %v", text, err)
	must.Is(t, must.Err(s.Keep(ctx, want)), session.ErrState, "the same plan again") // the files are there now
	records, err := s.Kept(ctx)
	must.True(t, err == nil && len(records) == 1 && records[0].Source == "test" && records[0].Time.Equal(c.Files.Now()) && len(records[0].Files) == 2 && len(records[0].Settings) == 2, "Kept = %+v, %v", records, err)
	must.Do(t, os.WriteFile(filepath.Join(root, "etc/sysctl.d/zz-linerate.conf"), []byte("mine"), 0o600))
	back, err := s.Restore(ctx, "")
	must.True(t, err == nil && len(back.Files) == 2 && back.Files[0].State == model.FileRestored && back.Files[1].State == model.FileChanged,
		"Restore = %+v, %v", back, err)
	claims := must.Get(s.Claims(ctx, []model.KnobID{"link.mtu"}))(t)
	must.True(t, len(claims) == 1 && claims[0].Link == "em0" && claims[0].Active.Or(false) && claims[0].Line == 3, "Claims = %+v", claims)
	all := must.Get(s.Confirmed(ctx))(t)
	must.True(t, len(all) == 1 && all[0].Holds && all[0].Link == "em0", "Confirmed = %+v", all)
}

// TestOverruledIsOmitted: what another program sets later, to another value, is not written, and
// the reason names its line.
func TestOverruledIsOmitted(t *testing.T) {
	c, root := keepsFiles(t, "linux")
	c.Files.Origins = func(_ context.Context, _ string, _ []model.KnobID, _ []persist.Change) (map[model.KnobID]model.FileLine, error) {
		return map[model.KnobID]model.FileLine{"tcp.sack": {File: "/etc/rc.local", Number: 7, Text: "1"}}, nil
	}
	s, _, _ := far(t, c)
	got := must.Get(s.Keep(t.Context(), asked(model.Assignment{Knob: "tcp.sack", Value: "0"})))(t)
	must.True(t, len(got.Omitted) == 1 && got.Record == "", "alone: %+v", got)
	got = must.Get(s.Keep(t.Context(), asked(model.Assignment{Knob: "tcp.sack", Value: "0"}, model.Assignment{Knob: "tcp.timestamps", Value: "0"})))(t)
	must.True(t, len(got.Omitted) == 1 && got.Omitted[0].Knob == "tcp.sack" && strings.Contains(got.Omitted[0].Reason, `/etc/rc.local:7 sets it to "1" at every start`), "%+v", got.Omitted)
	text := string(must.Get(os.ReadFile(filepath.Join(root, "etc/sysctl.d/zz-linerate.conf")))(t))
	must.True(t, strings.Contains(text, "tcp_timestamps = 0") && !strings.Contains(text, "tcp_sack"), "%s", text)
}

// TestOtherNumbers: in a line of several numbers those that are not kept stay as in the owner's
// file, with a note if the running ones differ.
func TestOtherNumbers(t *testing.T) {
	c, root := keepsFiles(t, "linux")
	must.Do(t, os.MkdirAll(filepath.Join(root, "etc/sysctl.d"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, "etc/sysctl.d/50-x.conf"), []byte("net.ipv4.tcp_rmem = 5000 87380 33554432 # ours\nnet.ipv4.tcp_wmem = 5000 87380 33554432\n"), 0o644))
	c.Files.Texts = func(context.Context, string, []model.KnobID) map[string]string {
		return map[string]string{"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}
	}
	s, _, _ := far(t, c)
	for range 2 { // the second time the note names linerate's own file
		got := must.Get(s.Keep(t.Context(), asked(model.Assignment{Knob: "tcp.recv_buffer_max", Value: "4194304"})))(t)
		must.Contain(t, string(must.Get(os.ReadFile(filepath.Join(root, "etc/sysctl.d/zz-linerate.conf")))(t)), "net.ipv4.tcp_rmem = 5000 87380 4194304\n")
		notes := strings.Join(got.Notes, "\n")
		must.True(t, strings.Contains(notes, "tcp_rmem: the other numbers") && !strings.Contains(notes, "tcp_wmem"), "%s", notes)
	}
}

// TestOwnersLink: netplan writes a .link file for an MTU, which disables Wake-on-LAN and hides
// the owner's file. Keep adds the contents of both, or writes a drop-in of the owner's file. A
// name that the owner sets stays.
func TestOwnersLink(t *testing.T) {
	const card = "[Match]\nPermanentMACAddress=02:00:00:00:00:01\n[Link]\nName=em0\nRxBufferSize=512\nTransmitQueueLength=700\n"
	generator := referee.Program(t, "/usr/libexec/netplan/generate", "/lib/netplan/generate")
	libraries, _ := filepath.Glob(filepath.Join(referee.Root(), "usr/lib/*-linux-gnu"))
	for name, c := range map[string]struct {
		format     model.FileFormat
		knob, link string // of the request, and the owner's .link file
		path, want string
	}{
		"netplan, by the driver": {model.FormatNetplan, "link.mtu=9000", "", "10-netplan-em0.link.d/50-linerate.conf", "WakeOnLan=magic\n"},
		"netplan, by the owner":  {model.FormatNetplan, "link.mtu=9000", card + "WakeOnLan=unicast\n", "10-netplan-em0.link.d/50-linerate.conf", "Name=em0\nRxBufferSize=512\nTransmitQueueLength=700\nWakeOnLan=unicast\n"},
		"networkd, its drop-in":  {model.FormatSystemdNetworkd, "nic.ring.tx=2048", card + "WakeOnLan=unicast\n", "20-card.link.d/50-linerate.conf", "TxBufferSize=2048\n"},
		"networkd, as by udev":   {model.FormatSystemdNetworkd, "nic.ring.tx=2048", "", "10-linerate-em0.link", "NamePolicy=keep\nMACAddressPolicy=persistent\n"},
	} {
		config, root := keepsFiles(t, "linux")
		config.Files.Ask = files.Programs(strings.TrimSuffix(strings.TrimSuffix(generator, "/usr/libexec/netplan/generate"), "/lib/netplan/generate"), "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
		config.Files.Texts = func(_ context.Context, _ string, _ []model.KnobID) map[string]string {
			return map[string]string{"wol.modes": "magic"}
		}
		must.Do(t, os.MkdirAll(filepath.Join(root, "sys/class/net/em0/device"), 0o755))
		must.Do(t, os.Symlink("../../../bus/pci/drivers/e1000e", filepath.Join(root, "sys/class/net/em0/device/driver")))
		for file, text := range map[string]string{
			"etc/netplan/01.yaml": "network: {version: 2, ethernets: {em0: {addresses: [192.0.2.5/24]}}}\n", "etc/systemd/network/20-card.link": c.link,
			"usr/lib/systemd/network/99-default.link": "[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep\nMACAddressPolicy=persistent\n",
		} {
			if text != "" {
				must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
				must.Do(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o600))
			}
		}
		s, _, _ := far(t, config)
		id, value, _ := strings.Cut(c.knob, "=")
		k := asked(model.Assignment{Knob: model.KnobID(id), Value: value})
		k.Format = c.format
		config.Files.Owner = func(context.Context, string) (model.FileFormat, string, error) { return c.format, "", nil }
		done := must.Get(s.Keep(t.Context(), k))(t)
		text, err := os.ReadFile(filepath.Join(root, "etc/systemd/network", c.path))
		must.OK(t, err, "%s: %+v", name, done)
		must.Contain(t, string(text), c.want, name)
	}
}

// TestOwnersValueIsReplaced: the owner's own line with another value does not stand in the way, as
// the lines of other programs do. Origins reads the whole tree, as on a host.
func TestOwnersValueIsReplaced(t *testing.T) {
	for name, c := range map[string]struct{ format, knob, path, text string }{
		"sysctl.d":            {"linux-sysctl", "tcp.sack=0", "etc/sysctl.d/99-x.conf", "net.ipv4.tcp_sack = 1\n"},
		"a vendor's sysctl.d": {"linux-sysctl", "tcp.recv_buffer_max=4194304", "usr/lib/sysctl.d/99-v.conf", "net.ipv4.tcp_rmem = 4096 131072 6291456\n"},
		"link":                {"systemd-networkd", "nic.ring.rx=2048", "etc/systemd/network/20-card.link", "[Match]\nPermanentMACAddress=02:00:00:00:00:01\n[Link]\nName=em0\nRxBufferSize=512\n"},
		"network":             {"systemd-networkd", "link.mtu=9000", "etc/systemd/network/20-card.network", "[Match]\nName=em0\n[Link]\nMTUBytes=1400\n"},
		"networkmanager":      {"networkmanager", "link.mtu=9000", "etc/NetworkManager/system-connections/em0.nmconnection", "[connection]\nid=em0\nuuid=3d6f5d3e-9d9a-4d6a-8a0c-8f7c6f0a1b2c\ntype=ethernet\ninterface-name=em0\n[ethernet]\nmtu=1400\n[ipv4]\nmethod=auto\n"},
		"ifupdown":            {"ifupdown", "link.mtu=9000", "etc/network/interfaces", "source interfaces.d/*\nauto em0\niface em0 inet static\n\taddress 192.0.2.5/24\n\tmtu 1400\n"},
	} {
		config, root := keepsFiles(t, "linux")
		config.Files.Origins = func(ctx context.Context, link string, ids []model.KnobID, changes []persist.Change) (map[model.KnobID]model.FileLine, error) {
			return manager.Machine{Root: files.Overlay(os.DirFS(root), persist.Written(changes)), System: "linux", Catalogue: knob.NewIndex()}.Lines(ctx, link, ids)
		}
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, c.path)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, c.path), []byte(c.text), 0o600))
		s, _, _ := far(t, config)
		id, value, _ := strings.Cut(c.knob, "=")
		k := asked(model.Assignment{Knob: model.KnobID(id), Value: value})
		k.Format = model.FileFormat(c.format)
		config.Files.Owner = func(context.Context, string) (model.FileFormat, string, error) { return k.Format, "", nil }
		got, err := s.Keep(t.Context(), k)
		must.True(t, err == nil && got.Record != "" && len(got.Omitted) == 0 && len(got.Others) == 0, "%s: %+v, %v", name, got, err)
	}
}

// TestTakenBack: files that turn out to do something else than shown are restored. Here another
// program writes a file while linerate writes its own.
func TestTakenBack(t *testing.T) {
	c, root := keepsFiles(t, "linux")
	keeper := must.Get(c.Files.Keeper())(t)
	keeper.After = func(string) {
		must.Do(t, os.MkdirAll(filepath.Join(root, "etc/systemd/network"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, "etc/systemd/network/05-other.link"), []byte("[Match]\nPermanentMACAddress=02:00:00:00:00:01\n[Link]\nMTUBytes=1300\n"), 0o644))
	}
	c.Files.Keeper = func() (persist.Keeper, error) { return keeper, nil }
	s, _, _ := far(t, c)
	got, err := s.Keep(t.Context(), asked(model.Assignment{Knob: "link.mtu", Value: "9000"}))
	must.Is(t, err, session.ErrState)
	must.Contain(t, err.Error(), "would not do what was shown")
	must.Equal(t, got.Record, "")
	must.Equal(t, strings.Join(must.Get(filepath.Glob(filepath.Join(root, "etc/systemd/network/*linerate*")))(t), " "), "", "files of ours that stayed")
}

// TestFilesOfSystems checks the format of each system, and that unknown ones are refused.
func TestFilesOfSystems(t *testing.T) {
	sack := model.Assignment{Knob: "tcp.sack", Value: "0"}
	for system, want := range map[string]model.FileFormat{"linux": model.FormatLinuxSysctl, "freebsd": model.FormatFreeBSD} {
		c, _ := keepsFiles(t, system)
		s, _, _ := far(t, c)
		k := asked(sack)
		k.DryRun = true
		got, err := s.Keep(t.Context(), k)
		must.True(t, err == nil && got.Format == want && len(got.Files) != 0, "%s: %+v, %v", system, got, err)
		c.Files.Owner = func(context.Context, string) (model.FileFormat, string, error) {
			return model.FormatIfupdown, "ifupdown has it", nil
		}
		for _, format := range []model.FileFormat{model.FormatNetplan, model.FormatNetworkManager} {
			k.Format = format
			must.Fail(t, must.Err(s.Keep(t.Context(), k)), "%s: a format of another owner", system)
		}
		k.Format = model.FormatAnsible
		must.Is(t, must.Err(s.Keep(t.Context(), k)), session.ErrInvalid, "%s: tasks", system)
	}
	for _, system := range []string{"windows", "darwin"} { // whose files are not proven
		c, _ := keepsFiles(t, system)
		s, _, _ := far(t, c)
		must.Is(t, must.Err(s.Keep(t.Context(), asked(sack))), errors.ErrUnsupported, "%s", system)
	}
}

// TestFilesBounds sends what linerate's own controller never does.
func TestFilesBounds(t *testing.T) {
	c, _ := keepsFiles(t, "linux")
	s, _, _ := far(t, c)
	sack := model.Assignment{Knob: "tcp.sack", Value: "0"}
	for name, k := range map[string]session.Keep{
		"no settings": {}, "twice": asked(sack, sack), "unknown": asked(model.Assignment{Knob: "no.such", Value: "1"}),
		"out of range": asked(model.Assignment{Knob: "tcp.recv_buffer_max", Value: "-1"}),
		"control":      {Settings: []model.Assignment{sack}, Link: "a\x00b"}, "long": {Settings: []model.Assignment{sack}, Plan: strings.Repeat("x", 200)},
		"path in a link": {Settings: []model.Assignment{{Knob: "link.mtu", Value: "9000"}}, Link: "../x"},
	} {
		must.Fail(t, must.Err(s.Keep(t.Context(), k)), "%s is kept", name)
	}
	measures := agenttest.Config(nil)
	measures.Files = c.Files
	m, _, _ := far(t, measures)
	must.Is(t, must.Err(m.Keep(t.Context(), asked(sack))), session.ErrRefused, "an agent that only measures")
	must.Is(t, must.Err(m.Restore(t.Context(), "")), session.ErrRefused, "an agent that only measures")
	c.Files = nil
	none, _, _ := far(t, c)
	must.Is(t, must.Err(none.Kept(t.Context())), errors.ErrUnsupported, "an agent without files")
}
