package irq_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/host/knob/irq"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// tree makes a fake machine: an interface with two queues and three vectors on a virtio
// device below its bus device, and four processors.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	bus := "sys/devices/pci0000:00/0000:00:03.0"
	for path, text := range map[string]string{
		"sys/devices/system/cpu/possible":                                 "0-3\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "powersave\n",
		"sys/devices/system/cpu/cpu10/cpufreq/scaling_governor":           "powersave\n",
		"sys/devices/system/cpu/cpu2/cpufreq/scaling_governor":            "performance\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors": "performance powersave\n",
		bus + "/numa_node":                                 "1\n",
		bus + "/msi_irqs/37":                               "msix\n",
		bus + "/msi_irqs/38":                               "msix\n",
		bus + "/msi_irqs/39":                               "msix\n",
		bus + "/virtio2/net/eth0/queues/rx-0/rps_cpus":     "00000000,00000003\n",
		bus + "/virtio2/net/eth0/queues/rx-1/rps_cpus":     "0\n",
		bus + "/virtio2/net/eth0/queues/rx-0/rps_flow_cnt": "0\n",
		bus + "/virtio2/net/eth0/queues/rx-1/rps_flow_cnt": "0\n",
		bus + "/virtio2/net/eth0/gro_flush_timeout":        "0\n",
		"proc/irq/38/smp_affinity_list":                    "0-3\n",
		"proc/irq/39/smp_affinity_list":                    "2\n",
		"proc/irq/9/smp_affinity_list":                     "0\n",
	} {
		path = filepath.Join(root, filepath.FromSlash(path))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	must.Do(t, os.MkdirAll(filepath.Join(root, "sys/class/net"), 0o755))
	for from, to := range map[string]string{
		"sys/class/net/eth0":             filepath.Join(root, bus, "virtio2/net/eth0"),
		bus + "/virtio2/net/eth0/device": filepath.Join(root, bus, "virtio2"),
	} {
		err := os.Symlink(to, filepath.Join(root, filepath.FromSlash(from)))
		must.SkipIf(t, err != nil, "no symbolic links here: %v", err)
	}
	return root
}

func open(t *testing.T, root, device, name string) *irq.Files {
	t.Helper()
	return must.Get(irq.Open(root, device, name))(t)
}

func TestConformanceOnFakeTree(t *testing.T) {
	root := tree(t)
	for name, c := range map[string]knobtest.Case{
		"rps_cpus":          {Other: "rx-0=none rx-1=0,2-3", Bad: []string{"", "rx-0=1", "rx-0=1 rx-2=1", "rx-0=4 rx-1=0", "rx-0=x rx-1=0"}},
		"rps_flow_cnt":      {Other: "rx-0=4096 rx-1=4096", Bad: []string{"rx-0=x rx-1=0", "4096"}},
		"smp_affinity_list": {Other: "38=1 39=1", Bad: []string{"38=none 39=1", "38=1", "37=0 38=1 39=1", "38=9 39=1"}},
		"gro_flush_timeout": {Other: "20000", Bad: []string{"", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Backend, c.Absent = open(t, root, "eth0", name), open(t, root, "eth9", name)
			knobtest.Run(t, c)
		})
	}
	t.Run("scaling_governor", func(t *testing.T) {
		knobtest.Run(t, knobtest.Case{
			Backend: open(t, root, "", "scaling_governor"), Other: "cpu0=performance cpu2=performance cpu10=powersave",
			Bad: []string{"", "cpu0=performance"}, Absent: open(t, t.TempDir(), "", "scaling_governor"),
		})
	})
}

func TestReads(t *testing.T) {
	root := tree(t)
	for name, want := range map[string]string{
		"rps_cpus": "rx-0=0-1 rx-1=none", "smp_affinity_list": "38=0-3 39=2", "numa_node": "1",
		"scaling_governor": "cpu0=powersave cpu2=performance cpu10=powersave", "scaling_available_governors": "performance powersave",
	} {
		must.Equal(t, must.Get(open(t, root, "eth0", name).Read(t.Context()))(t), want, "%s", name)
	}
	must.Is(t, open(t, root, "eth0", "numa_node").Check(t.Context(), "0"), errors.ErrUnsupported, "Check of a fact")
	must.Is(t, must.Err(open(t, root, "eth0", "xps_cpus").Read(t.Context())), errors.ErrUnsupported, "a setting that the interface has not")
	for _, bad := range []string{"", "..", "a/b", "*", "a-name-that-is-too-long"} {
		must.Fail(t, must.Err(irq.Open(root, bad, "rps_cpus")), "interface %q was accepted", bad)
	}
	must.Is(t, must.Err(irq.Open(root, "eth0", "colour")), errors.ErrUnsupported, "an unknown setting")
}

// TestRefusedPartTakesTheRestBack: if the kernel refuses one of several files, Write restores
// the others.
func TestRefusedPartTakesTheRestBack(t *testing.T) {
	root := tree(t)
	f := open(t, root, "eth0", "smp_affinity_list")
	path := filepath.Join(root, "proc/irq/39/smp_affinity_list")
	must.Do(t, os.Remove(path))
	if err := os.Symlink("/dev/full", path); err != nil { // opens, and refuses every write
		t.Skip("no symbolic links here")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skip("this system has no /dev/full")
	}
	must.Fail(t, f.Write(t.Context(), "38=1 39=1"), "the write succeeded")
	got, err := os.ReadFile(filepath.Join(root, "proc/irq/38/smp_affinity_list"))
	must.True(t, string(got) == "0-3\n" && err == nil, "the part before the refused one holds %q, %v", got, err)
}

// TestTheOneInterruptOfAnOldCard: a card without message signalled interrupts has one
// interrupt, whose number is in its device's irq file; 0 means that it has none.
func TestTheOneInterruptOfAnOldCard(t *testing.T) {
	for irqFile, want := range map[string]string{"9\n": "9=0", "0\n": "", "77\n": ""} {
		root := tree(t)
		device := filepath.Join(root, "sys/devices/pci0000:00/0000:00:03.0")
		must.Do(t, os.RemoveAll(filepath.Join(device, "msi_irqs")))
		must.Do(t, os.WriteFile(filepath.Join(device, "irq"), []byte(irqFile), 0o644))
		f := open(t, root, "eth0", "smp_affinity_list")
		got, err := f.Read(t.Context())
		must.True(t, got == want && (want == "") == errors.Is(err, errors.ErrUnsupported), "irq %q: %q, %v, want %q", irqFile, got, err, want)
		if want == "" {
			continue
		}
		must.OK(t, f.Write(t.Context(), "9=1-2"))
		must.Equal(t, must.Get(f.Read(t.Context()))(t), "9=1-2", "after it was set")
	}
}
