package knob

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// peeked is the output of the program peek in the machine (internal/lab/machine/userland): it
// shares no code with linerate.
type peeked struct {
	Type     string
	Writable bool
	Number   *int64
	Text     string
	Raw      string
	Error    string
}

func peek(t *testing.T, name string) peeked {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "peek", "sysctl", name).Output()
	must.Dof(t, err, "peek %s", name)
	var all map[string]peeked
	must.Do(t, json.Unmarshal(out, &all))
	return all[name]
}

func (p peeked) text() string {
	if p.Number != nil {
		return strconv.FormatInt(*p.Number, 10)
	}
	return p.Text
}

func peekDevice(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "peek", "interface", name).Output()
	must.Dof(t, err, "peek %s", name)
	return string(out)
}

// TestEverySetting sets every setting of the catalogue that this kernel has to another value,
// by the native text alone, and restores it. The kernel's own tree, read by another program,
// shows each time which value is in force. It changes this machine, so it runs only in a
// machine of package lab/machine.
func TestEverySetting(t *testing.T) {
	device := os.Getenv("LINERATE_MACHINE")
	must.SkipIf(t, device == "", "only in a machine made for it: LINERATE_MACHINE names its interface")
	h := Host{Interface: device, Index: knob.NewIndex()}
	for _, k := range h.Index.All() {
		if _, ok := k.Native["freebsd"]; !ok {
			continue
		}
		t.Run(string(k.ID), func(t *testing.T) { everySetting(t, h, k) })
	}
}

// TestPauseIsTheDrivers: a card whose driver keeps flow control in a setting of its own is
// not reported as having it off just because its media word lacks it.
func TestPauseIsTheDrivers(t *testing.T) {
	device := os.Getenv("LINERATE_MACHINE")
	must.SkipIf(t, device == "", "only in a machine made for it: LINERATE_MACHINE names its interface")
	h := Host{Interface: device, Index: knob.NewIndex()}
	name := h.Expand("dev.{dev}.fc")
	there := peek(t, name)
	must.SkipIf(t, there.Error != "", "%s: %s", name, there.Error)
	for _, id := range []model.KnobID{"nic.pause.rx", "nic.pause.tx"} {
		if text, known := h.Read(t.Context(), id)[id].Get(); known {
			t.Errorf("%s reads %q, where %s is %s", id, text, name, peek(t, name).text())
		}
		_, p, err := h.Place(id)
		must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), name), "%s: place %v, error %v, which does not name %s", id, p, err, name)
	}
}

func everySetting(t *testing.T, h Host, k knob.Knob) {
	_, p, err := h.Place(k.ID)
	must.SkipIf(t, errors.Is(err, errors.ErrUnsupported), "%v", err)
	must.Do(t, err)
	was, err := h.ReadRaw(t.Context(), k.ID, p)
	if p.Mechanism == knob.Sysctl {
		if there := peek(t, p.Native); (err == nil) != (there.Error == "") {
			t.Fatalf("%s: linerate says %v, the kernel's tree %q", p, err, there.Error)
		} else if text, _, chosen := strings.Cut(was, " (driver: "); err == nil && text != there.text() && !chosen {
			t.Fatalf("%s: linerate reads %q, the kernel's tree has %q", p, was, there.text())
		}
	}
	if err != nil {
		t.Skip(err) // this kernel or card has none, and reports that
	}
	if err := k.Writable("freebsd"); err != nil {
		t.Skipf("%s is %q: %v", p, was, err)
	}
	before, value := peekPlace(t, p), ""
	for _, one := range others(t, h, k, was) {
		raw, err := k.Encode("freebsd", was, one)
		if err == nil {
			err = h.CheckChanges(t.Context(), []model.Assignment{{Knob: k.ID, Value: one}})
		}
		if err == nil {
			err = h.Check(t.Context(), k.ID, p, raw)
		}
		if err == nil {
			err = h.WriteRaw(t.Context(), k.ID, p, raw)
		}
		if err != nil {
			t.Logf("%s=%s: %v", k.ID, one, err)
			continue
		}
		value = one
		break
	}
	if value == "" {
		must.Equal(t, peekPlace(t, p), before, "refused, and yet changed")
		t.Skipf("%s is %q, and takes no other value here", p, was)
	}
	got := must.Get(h.ReadRaw(t.Context(), k.ID, p))(t)
	must.Equal(t, must.Get(k.Decode("freebsd", got))(t), value, "set to %s, reads %q", value, got)
	if during := peekPlace(t, p); during == before {
		t.Errorf("set to %s, and the kernel still says %s", value, before)
	} else if p.Mechanism == knob.Sysctl && during != got {
		t.Errorf("linerate reads %q, the kernel's tree has %q", got, during)
	}
	err = h.WriteRaw(t.Context(), k.ID, p, was)
	after := peekPlace(t, p)
	for i := 0; i < 40 && p.Mechanism != knob.Sysctl && after != before; i++ {
		time.Sleep(250 * time.Millisecond) // a driver that was reconfigured has no link at first
		after = peekPlace(t, p)
	}
	must.True(t, err == nil && after == before, "undo: %v; was\n%s is\n%s", err, before, after)
	t.Logf("%s: %s -> %s -> %s", p, k.Format(was), value, after)
}

// peekPlace returns another program's view of a place.
func peekPlace(t *testing.T, p Place) string {
	if p.Mechanism == knob.Sysctl {
		return peek(t, p.Native).text()
	}
	return peekDevice(t, p.Target)
}

// others returns values worth trying, other than the present one.
func others(t *testing.T, h Host, k knob.Knob, raw string) []string {
	now, err := k.Decode("freebsd", raw)
	must.SkipIf(t, err != nil, "%v", err)
	switch k.Type {
	case knob.TypeBool:
		if now == "1" {
			return []string{"0"}
		}
		return []string{"1"}
	case knob.TypeEnum:
		var all []string
		for _, c := range k.Choices {
			if c.Value != now {
				all = append(all, c.Value)
			}
		}
		return all
	case knob.TypeInt, knob.TypeBytes:
		n, err := strconv.ParseInt(now, 10, 64)
		must.Dof(t, err, "%q is no number", now)
		low, high := k.Bounds("freebsd")
		var all []string
		for _, v := range []int64{n / 2, n + 64, n - 100, n + 1, n * 2, 100} {
			if v >= low && v <= high && v != n {
				all = append(all, fmt.Sprint(v))
			}
		}
		return all
	case knob.TypeName:
		all, _ := h.Choices(t.Context(), k.ID)
		var out []string
		for _, c := range append(all, "hybrid", "deferred") {
			if c != now {
				out = append(out, c)
			}
		}
		return out
	case knob.TypeRate, knob.TypeWords:
	}
	return []string{"none", "magic"}
}
