package native_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/knob/winreg"
	"linerate/internal/host/persist/native"
	"linerate/internal/must"
)

const (
	adapterKey = `SYSTEM\CurrentControlSet\Control\Class\{4d36e972-e325-11ce-bfc1-08002be10318}\0007`
	stackKey   = `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`
	mediaKey   = `SOFTWARE\Microsoft\Windows NT\CurrentVersion\Multimedia\SystemProfile`
)

// needWine skips on real Windows: the files change settings that the machine itself uses.
// Only Wine's ntdll exports this function.
func needWine(t *testing.T) {
	t.Helper()
	must.SkipIf(t, windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil, "would change the settings of this machine: runs under Wine only")
}

// everything returns every value of the three keys, with type and bytes.
func everything(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range []string{adapterKey, stackKey, mediaKey} {
		k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS|registry.WOW64_64KEY)
		must.Do(t, err)
		names := must.Get(k.ReadValueNames(-1))(t)
		for _, name := range names {
			b := make([]byte, 4096)
			n, kind, err := k.GetValue(name, b)
			must.Do(t, err)
			all[path+`\`+name] = fmt.Sprintf("%d %x", kind, b[:n])
		}
		must.Do(t, k.Close())
	}
	return all
}

// value opens a registry value of the machine.
func value(t *testing.T, path string) *winreg.Value {
	t.Helper()
	return must.Get(winreg.Open(`HKLM\` + path))(t)
}

// merge has the system's own program read a file.
func merge(t *testing.T, dir string, f files.File, argv ...string) {
	t.Helper()
	path := filepath.Join(dir, f.Path)
	must.Do(t, os.WriteFile(path, f.Content, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], append(argv[1:], path)...).CombinedOutput()
	must.Need(t, err == nil, "%q: %v\n%s", argv, err, out)
}

// TestRegImported: importing an exported file sets exactly its values, and importing the undo
// file restores every value and removes those that were absent.
func TestRegImported(t *testing.T) {
	needWine(t)
	everything(t)                       // makes the keys
	dir, err := os.MkdirTemp("", "reg") //nolint:usetesting // Wine 8 cannot remove a folder in the way of TempDir
	must.Do(t, err)
	defer os.RemoveAll(dir)
	names := []string{
		stackKey + `\EnablePMTUDiscovery`, stackKey + `\EnablePMTUBHDetect`, mediaKey + `\NetworkThrottlingIndex`,
		adapterKey + `\*JumboPacket`, adapterKey + `\*SpeedDuplex`, adapterKey + `\*FlowControl`, adapterKey + `\*ReceiveBuffers`,
	}
	in := native.Input{
		Settings: settings("tcp.pmtud=1", "tcp.mtu_probing=1", "cpu.network_throttling=4294967295", "link.frame_mtu=9000", "nic.media.speed=100",
			"nic.media.duplex=half", "nic.pause.rx=1", "nic.pause.tx=0", "nic.ring.rx=4096"),
		Comments:  []string{"a title with\r\n[HKEY_LOCAL_MACHINE\\" + stackKey + "]\r\n\"Evil\"=dword:00000001", "ä€𝄞 \\"},
		Interface: "LAN", AdapterKey: "0007",
	}
	set := []string{"dword:1", "dword:1", "dword:4294967295", "sz:9014", "sz:3", "sz:2", "sz:4096"}
	for i, before := range [][]string{
		{winreg.Absent, "dword:0", "dword:10", "sz:1514", "sz:0", "sz:3", "sz:512"},
		{"dword:0", winreg.Absent, winreg.Absent, "sz:4088", "sz:6", "sz:0", "sz:256"},
		{"dword:4294967295", "dword:7", "dword:0", "sz:9014", "sz:1000", "sz:4", "sz:4096"},
	} {
		in.Before = map[string]string{}
		for j, name := range names {
			v := value(t, name)
			must.Do(t, errors.Join(v.Write(t.Context(), winreg.Absent), v.Write(t.Context(), before[j])))
			native, isKeyword := strings.CutPrefix(name, adapterKey+`\`) // keyword texts have no type
			if !isKeyword {
				native = `HKLM\` + name
			}
			in.Before[native] = strings.TrimPrefix(before[j], "sz:")
		}
		was := everything(t)
		out, err := native.Render(model.FormatWindowsReg, in)
		must.Need(t, err == nil && len(out.Files) == 2, "%v\n%s", err, print(out))
		program := [][]string{{"reg", "import"}, {"regedit", "/S"}}[i%2]
		merge(t, dir, out.Files[0], program...)
		for j, name := range names {
			got, err := value(t, name).Read(t.Context())
			must.True(t, got == set[j] && err == nil, "%s: read %q, %v, want %q", name, got, err, set[j])
		}
		now := everything(t)
		for _, name := range names {
			delete(now, name)
		}
		for name, v := range now {
			must.True(t, was[name] == v, "%s: was %q, is %q: nobody asked for it", name, was[name], v)
		}
		merge(t, dir, out.Files[1], program...)
		now = everything(t)
		must.True(t, maps.Equal(now, was), "was %v, is %v", was, now)
	}
	for _, name := range names {
		must.OK(t, value(t, name).Write(t.Context(), winreg.Absent))
	}
}
