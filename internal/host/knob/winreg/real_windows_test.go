package winreg_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/winreg"
	"linerate/internal/must"
)

// scratch makes a registry key for this test and removes it at the end.
func scratch(t *testing.T) (string, registry.Key) {
	t.Helper()
	path := fmt.Sprintf(`SOFTWARE\linerate-test-%d`, os.Getpid())
	k, existed, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS|registry.WOW64_64KEY)
	must.SkipIf(t, errors.Is(err, windows.ERROR_ACCESS_DENIED), "only an administrator can make keys of the machine")
	must.Need(t, err == nil && !existed, "make %s: there already %v, %v", path, existed, err)
	t.Cleanup(func() { must.OK(t, errors.Join(k.Close(), registry.DeleteKey(registry.LOCAL_MACHINE, path))) })
	return path, k
}

// raw is a value as the registry stores it.
type raw struct {
	kind uint32
	data string
}

// put writes a type and bytes verbatim, which package registry cannot.
func put(t must.TB, k registry.Key, name string, v raw) {
	t.Helper()
	text := must.Get(windows.UTF16PtrFromString(name))(t)
	b := append([]byte(v.data), 0) // the last byte is not written
	code, _, _ := windows.NewLazySystemDLL("advapi32.dll").NewProc("RegSetValueExW").Call(
		uintptr(k), uintptr(unsafe.Pointer(text)), 0, uintptr(v.kind), uintptr(unsafe.Pointer(&b[0])), uintptr(len(v.data)))
	must.Need(t, code == 0, "%v", windows.Errno(code))
}

// dump returns every value in k.
func dump(t must.TB, k registry.Key) map[string]raw {
	t.Helper()
	names := must.Get(k.ReadValueNames(-1))(t)
	all := map[string]raw{}
	for _, name := range names {
		b := make([]byte, 4096)
		n, kind, err := k.GetValue(name, b)
		must.Do(t, err)
		all[name] = raw{kind, string(b[:n])}
	}
	return all
}

// wide returns a text as the registry stores it, without the terminating zero.
func wide(s string) string {
	var b strings.Builder
	for _, u := range windows.StringToUTF16(s) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return strings.TrimSuffix(b.String(), "\x00\x00")
}

func onMachine(t *testing.T, path string) *winreg.Value {
	t.Helper()
	return must.Get(winreg.Open(`HKLM\` + path))(t)
}

func TestRealConformance(t *testing.T) {
	path, k := scratch(t)
	put(t, k, "number", raw{registry.DWORD, "\x01\x00\x00\x00"})
	put(t, k, "long", raw{registry.QWORD, "\x01\x00\x00\x00\x01\x00\x00\x00"})
	put(t, k, "keyword", raw{registry.SZ, wide("1514") + "\x00\x00"})
	put(t, k, "path", raw{registry.EXPAND_SZ, wide(`%SystemRoot%\x`) + "\x00\x00"})
	before := dump(t, k)
	bad := []string{"", "1", "dword:x", "dword:-1", "dword:4294967296", "binary:00", "sz"}
	for name, c := range map[string]knobtest.Case{
		"number":  {Other: "dword:4294967295", Bad: append(bad, "sz:1", "qword:1")},
		"long":    {Other: "qword:18446744073709551615", Bad: append(bad, "dword:1")},
		"keyword": {Other: "sz:9014", Bad: append(bad, "dword:9014", "expand:x")},
		"path":    {Other: `expand:C:\ä€𝄞`, Bad: append(bad, "sz:x")},
		"absent":  {Other: "dword:1", Bad: bad},
	} {
		t.Run(name, func(t *testing.T) {
			c.Backend, c.Absent = onMachine(t, path+`\`+name), onMachine(t, `SOFTWARE\linerate-nothing\`+name)
			knobtest.Run(t, c)
		})
	}
	t.Run("removed", func(t *testing.T) {
		knobtest.Run(t, knobtest.Case{
			Backend: onMachine(t, path+`\keyword`), Other: winreg.Absent, Bad: bad, Absent: onMachine(t, `SOFTWARE\linerate-nothing\keyword`),
		})
	})
	now := dump(t, k)
	must.True(t, maps.Equal(now, before), "was %v, is %v", before, now)
}

// TestRealTypes: a value that linerate could not restore byte for byte is neither read nor
// written.
func TestRealTypes(t *testing.T) {
	path, k := scratch(t)
	for name, c := range map[string]struct {
		raw  raw
		want string // "" is refused
	}{
		"dword":            {raw{registry.DWORD, "\x10\x27\x00\x00"}, "dword:10000"},
		"most":             {raw{registry.DWORD, "\xff\xff\xff\xff"}, "dword:4294967295"},
		"qword":            {raw{registry.QWORD, "\x00\x00\x00\x00\x00\x00\x00\x80"}, "qword:9223372036854775808"},
		"text":             {raw{registry.SZ, wide("9014") + "\x00\x00"}, "sz:9014"},
		"empty text":       {raw{registry.SZ, "\x00\x00"}, "sz:"},
		"text with colons": {raw{registry.SZ, wide("dword:1 absent") + "\x00\x00"}, "sz:dword:1 absent"},
		"long text":        {raw{registry.SZ, wide(strings.Repeat("é𝄞", 500)) + "\x00\x00"}, "sz:" + strings.Repeat("é𝄞", 500)},
		"variables":        {raw{registry.EXPAND_SZ, wide(`%SystemRoot%\x`) + "\x00\x00"}, `expand:%SystemRoot%\x`},
		"no zero":          {raw{registry.SZ, wide("9014")}, ""},
		"two zeros":        {raw{registry.SZ, wide("9014") + "\x00\x00\x00\x00"}, ""},
		"zero inside":      {raw{registry.SZ, wide("90") + "\x00\x00" + wide("14") + "\x00\x00"}, ""},
		"half a unit":      {raw{registry.SZ, wide("9014") + "\x00\x00\x00"}, ""},
		"nothing":          {raw{registry.SZ, ""}, ""},
		"lone surrogate":   {raw{registry.SZ, "\x00\xd8\x00\x00"}, ""},
		"short number":     {raw{registry.DWORD, "\x01\x00"}, ""},
		"big endian":       {raw{registry.DWORD_BIG_ENDIAN, "\x00\x00\x00\x01"}, ""},
		"bytes":            {raw{registry.BINARY, "\x01\x02\x03"}, ""},
		"texts":            {raw{registry.MULTI_SZ, wide("a") + "\x00\x00\x00\x00"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, k, name, c.raw)
			before := dump(t, k)
			must.SkipIf(t, before[name] != c.raw, "this registry keeps %v of %v", before[name], c.raw)
			v := onMachine(t, path+`\`+name)
			got, err := v.Read(t.Context())
			switch {
			case c.want != "" && (got != c.want || err != nil):
				t.Fatalf("read %q, %v, want %q", got, err, c.want)
			case c.want == "" && !errors.Is(err, errors.ErrUnsupported):
				t.Fatalf("read %q, %v, want it refused", got, err)
			case c.want == "":
				must.Is(t, v.Write(t.Context(), "dword:1"), errors.ErrUnsupported, "write")
			default:
				must.OK(t, errors.Join(v.Write(t.Context(), winreg.Absent), v.Write(t.Context(), got)))
			}
			now := dump(t, k)
			must.True(t, maps.Equal(now, before), "was %v, is %v", before, now)
		})
	}
}

// TestRealUndo: after any writes, writing back what was read restores the type and bytes of
// every value, and removes those that were absent.
func TestRealUndo(t *testing.T) {
	path, k := scratch(t)
	names := []string{"a", "b", "*JumboPacket", "ä 𝄞"}
	text := rapid.OneOf(rapid.SampledFrom([]string{"9014", "", "dword:1", `%x%\y`, "ü€𝄞"}), rapid.StringMatching(`[^\x00]{0,40}`))
	value := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return fmt.Sprintf("dword:%d", rapid.Uint32().Draw(t, "n"))
		case 1:
			return fmt.Sprintf("qword:%d", rapid.Uint64().Draw(t, "n"))
		case 2:
			return "sz:" + text.Draw(t, "text")
		case 3:
			return "expand:" + text.Draw(t, "text")
		}
		return winreg.Absent
	})
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.WithoutCancel(t.Context())
		values := map[string]*winreg.Value{}
		for _, name := range names {
			values[name] = onMachine(t, path+`\`+name)
			must.Do(rt, errors.Join(values[name].Write(ctx, winreg.Absent), values[name].Write(ctx, value.Draw(rt, "before"))))
		}
		before := dump(rt, k)
		var undo []func() error
		for range rapid.IntRange(1, 6).Draw(rt, "changes") {
			v := values[rapid.SampledFrom(names).Draw(rt, "name")]
			old := must.Get(v.Read(ctx))(rt)
			next := value.Draw(rt, "next")
			if err := v.Write(ctx, next); err != nil { // another type
				now, _ := v.Read(ctx)
				must.Need(rt, now == old, "write %q was refused (%v) and changed %q to %q", next, err, old, now)
				continue
			}
			now, err := v.Read(ctx)
			must.Need(rt, now == next && err == nil, "wrote %q, read %q, %v", next, now, err)
			undo = append(undo, func() error { return v.Write(ctx, old) })
		}
		for _, back := range slices.Backward(undo) {
			must.Do(rt, back())
		}
		now := dump(rt, k)
		must.Need(rt, maps.Equal(now, before), "was %v, is %v", before, now)
	})
	for _, name := range names {
		err := k.DeleteValue(name)
		must.True(t, err == nil || errors.Is(err, registry.ErrNotExist), "%v", err)
	}
}

// TestRealCatalogue: every registry value of the catalogue can be read here, or its key is
// missing.
func TestRealCatalogue(t *testing.T) {
	n := 0
	for _, k := range knob.Catalogue() {
		native, ok := k.Native["windows"]
		if !ok || native.Mechanism != knob.WinReg {
			continue
		}
		n++
		text, err := must.Get(winreg.Open(native.Name))(t).Read(t.Context())
		if errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s: %v", k.ID, err)
			continue
		}
		must.OK(t, err, "%s", k.ID)
		value, err := k.Decode("windows", text)
		must.True(t, err == nil && value != "", "%s: %q is %q, %v", k.ID, text, value, err)
	}
	must.True(t, n >= 3, "only %d of the catalogue in the registry", n)
}
