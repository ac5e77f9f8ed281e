// Package irq reads and writes where a machine does its network work: the files that Linux
// has per interrupt, per queue of an interface, and per CPU.
package irq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/knob"
)

// Files is one setting, spread over one file or several. It is safe for
// concurrent use.
type Files struct {
	root   string // "" is /
	device string // "" for settings of the machine
	name   string
	spec   spec
}

// spec says where the files of a setting are and what they hold.
type spec struct {
	pattern string // below the root; {if} is the interface
	part    int    // which element of the path, from the end, names the part; 0 for a single file
	form    form
	fact    bool // not written
}

// form is what a file holds.
type form int

const (
	word   form = iota // a word or number as it is
	number             // a number
	cpus               // a list of CPUs: "0-1,4"
	mask               // a mask of CPUs, 32 bits in each group: "00000000,00000003"
	config             // the registers of a PCI device; the setting is one field
)

// specs returns the settings by name: Linux 6.1 Documentation/networking/scaling.rst,
// Documentation/core-api/irq/irq-affinity.rst, Documentation/ABI/testing/
// sysfs-class-net-queues, sysfs-bus-pci, and sysfs-devices-system-cpu.
func specs() map[string]spec {
	queue := "sys/class/net/{if}/queues/"
	governor := "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
	return map[string]spec{
		"smp_affinity_list":           {"proc/irq/*/smp_affinity_list", 2, cpus, false},
		"rps_cpus":                    {queue + "rx-*/rps_cpus", 2, mask, false},
		"rps_flow_cnt":                {queue + "rx-*/rps_flow_cnt", 2, number, false},
		"xps_cpus":                    {queue + "tx-*/xps_cpus", 2, mask, false},
		"scaling_governor":            {governor, 3, word, false},
		"scaling_available_governors": {"sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors", 0, word, true},
		"gro_flush_timeout":           {"sys/class/net/{if}/gro_flush_timeout", 0, number, false},
		"napi_defer_hard_irqs":        {"sys/class/net/{if}/napi_defer_hard_irqs", 0, number, false},
		"numa_node":                   {"sys/class/net/{if}/device/numa_node", 0, number, true},
		"max_read_request":            {"sys/class/net/{if}/device/config", 0, config, true},
		"current_link_speed":          {"sys/class/net/{if}/device/current_link_speed", 0, word, true},
		"current_link_width":          {"sys/class/net/{if}/device/current_link_width", 0, number, true},
		"max_link_speed":              {"sys/class/net/{if}/device/max_link_speed", 0, word, true},
		"max_link_width":              {"sys/class/net/{if}/device/max_link_width", 0, number, true},
	}
}

// Open returns the setting called name, of the interface called device if it belongs to one.
// root is the directory that holds proc and sys; "" is the system's own. It opens no file. It
// wraps errors.ErrUnsupported for other names.
func Open(root, device, name string) (*Files, error) {
	s, ok := specs()[name]
	if !ok {
		return nil, fmt.Errorf("setting %q of interrupts and queues: %w", name, errors.ErrUnsupported)
	}
	needs := strings.Contains(s.pattern, "{if}") || name == affinity
	if needs && (device == "" || len(device) > maxDevice || strings.ContainsAny(device, "/*?[]\\") || device == "." || device == "..") {
		return nil, fmt.Errorf("interface %q: not a name", device)
	}
	root = cmp.Or(root, "/")
	return &Files{root: root, device: device, name: name, spec: s}, nil
}

const (
	affinity  = "smp_affinity_list"
	maxDevice = 15       // IFNAMSIZ less the final zero
	maxText   = 64 << 10 // far larger than any of these files
	none      = "none"   // the text of an empty list of CPUs
)

// part is one file and its name in the text.
type part struct{ name, path string }

// Read returns the text: the value of a single file, or "rx-0=0-1 rx-1=none" with one pair
// for each part. It wraps fs.ErrNotExist if the interface is gone, and errors.ErrUnsupported
// if the machine has no such file.
func (f *Files) Read(context.Context) (string, error) {
	all, err := f.parts()
	if err != nil {
		return "", err
	}
	var words []string
	for _, p := range all {
		text, err := f.readOne(p)
		if err != nil {
			return "", err
		}
		if f.spec.part == 0 {
			return text, nil
		}
		words = append(words, p.name+"="+text)
	}
	return strings.Join(words, " "), nil
}

// Check reports whether raw could be written: the same parts, each with a value
// of its form, in files that may be opened for writing.
func (f *Files) Check(_ context.Context, raw string) error {
	all, err := f.parts()
	if err != nil {
		return err
	}
	if f.spec.fact {
		return fmt.Errorf("%s is a fact and no setting: %w", f.name, errors.ErrUnsupported)
	}
	values, err := f.parse(all, raw)
	if err != nil {
		return err
	}
	for i, p := range all {
		if _, err := f.encode(values[i]); err != nil {
			return err
		}
		file, err := os.OpenFile(p.path, os.O_WRONLY, 0)
		if err != nil {
			return f.classify(err)
		}
		if err := file.Close(); err != nil {
			return f.classify(err)
		}
	}
	return nil
}

// Write sets every part. If one is refused, it restores those before it, and returns an error
// that names the part.
func (f *Files) Write(ctx context.Context, raw string) error {
	if err := f.Check(ctx, raw); err != nil {
		return err
	}
	all, err := f.parts()
	if err != nil {
		return err
	}
	values, err := f.parse(all, raw)
	if err != nil {
		return err
	}
	var old []string
	for i, p := range all {
		was, err := f.readOne(p)
		if err == nil && was != values[i] {
			err = f.writeOne(p, values[i])
		}
		if err != nil {
			errs := []error{fmt.Errorf("%s: %w", p.path, err)}
			for j := range old {
				errs = append(errs, f.writeOne(all[j], old[j]))
			}
			return errors.Join(errs...)
		}
		old = append(old, was)
	}
	return nil
}

// parts returns the files, in the order of their numbers.
func (f *Files) parts() ([]part, error) {
	if f.device != "" {
		if _, err := os.Stat(filepath.Join(f.root, "sys/class/net", f.device)); err != nil {
			return nil, fmt.Errorf("interface %s: %w", f.device, fs.ErrNotExist)
		}
	}
	paths, err := f.paths()
	if err != nil {
		return nil, err
	}
	var all []part
	for _, p := range paths {
		one := part{path: p}
		if n := f.spec.part; n > 0 {
			elements := strings.Split(filepath.ToSlash(p), "/")
			one.name = elements[len(elements)-n]
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("this machine has no %s here: %w (%w)", f.name, errors.ErrUnsupported, fs.ErrNotExist)
	}
	slices.SortFunc(all, func(a, b part) int {
		return numberIn(a.name) - numberIn(b.name)
	})
	return all, nil
}

func (f *Files) paths() ([]string, error) {
	pattern := filepath.Join(f.root, filepath.FromSlash(strings.ReplaceAll(f.spec.pattern, "{if}", f.device)))
	if f.name == affinity {
		return f.vectors(pattern)
	}
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) > 0 || !strings.Contains(f.spec.pattern, "/device/") {
		return paths, err
	}
	// a virtio interface is on a device of its own below the bus device
	device, err := filepath.EvalSymlinks(filepath.Dir(pattern))
	if err != nil {
		return nil, nil //nolint:nilerr // a virtual interface has no device
	}
	return filepath.Glob(filepath.Join(filepath.Dir(device), filepath.Base(pattern)))
}

// vectors returns the interrupts of the interface's device.
func (f *Files) vectors(pattern string) ([]string, error) {
	device, err := filepath.EvalSymlinks(filepath.Join(f.root, "sys/class/net", f.device, "device"))
	if err != nil {
		return nil, nil //nolint:nilerr // a virtual interface has no device and no interrupts
	}
	var paths []string
	for _, dir := range []string{device, filepath.Dir(device)} {
		entries, err := os.ReadDir(filepath.Join(dir, "msi_irqs"))
		if err != nil {
			continue
		}
		for _, e := range entries {
			path := strings.Replace(pattern, "*", e.Name(), 1)
			if _, err := os.Stat(path); err == nil { // an unused vector has none
				paths = append(paths, path)
			}
		}
		break
	}
	if len(paths) == 0 {
		paths = legacyVector(pattern, device, filepath.Dir(device))
	}
	return paths, nil
}

// legacyVector returns the one interrupt of a device without message signalled interrupts,
// which may be shared (Linux Documentation/ABI/testing/sysfs-bus-pci, file irq).
func legacyVector(pattern string, folders ...string) []string {
	for _, dir := range folders {
		text, err := os.ReadFile(filepath.Join(dir, "irq"))
		if err != nil {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || n <= 0 {
			return nil
		}
		path := strings.Replace(pattern, "*", strconv.Itoa(n), 1)
		if _, err := os.Stat(path); err != nil {
			return nil
		}
		return []string{path}
	}
	return nil
}

// numberIn returns the number at the end of a name, -1 for none.
func numberIn(name string) int {
	n, err := strconv.Atoi(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz-"))
	if err != nil {
		return -1
	}
	return n
}

// parse splits the text into one value per part.
func (f *Files) parse(all []part, raw string) ([]string, error) {
	if f.spec.part == 0 {
		return []string{strings.TrimSpace(raw)}, nil
	}
	words := strings.Fields(raw)
	if len(words) != len(all) {
		return nil, fmt.Errorf("%s %q: want %d pairs, one for each of its parts", f.name, raw, len(all))
	}
	values := make([]string, len(all))
	for i, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name != all[i].name || value == "" {
			return nil, fmt.Errorf("%s %q: want %s=VALUE in place %d", f.name, raw, all[i].name, i+1)
		}
		values[i] = value
	}
	return values, nil
}

func (f *Files) readOne(p part) (string, error) {
	file, err := os.Open(p.path)
	if err != nil {
		return "", f.classify(err)
	}
	defer file.Close() // nothing was written
	b, err := io.ReadAll(io.LimitReader(file, maxText))
	if err != nil {
		return "", f.classify(err)
	}
	if f.spec.form == config {
		return maxReadRequest(b)
	}
	text := strings.TrimSpace(string(b))
	switch {
	case f.spec.form == mask:
		return knob.CPUsOfMask(text)
	case f.spec.form == cpus && text == "":
		return none, nil
	}
	return text, nil
}

func (f *Files) writeOne(p part, value string) error {
	text, err := f.encode(value)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(p.path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return f.classify(err)
	}
	_, err = file.WriteString(text + "\n")
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return f.classify(err)
	}
	return nil
}

// encode returns the text to write for a value.
func (f *Files) encode(value string) (string, error) {
	switch f.spec.form {
	case number:
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return "", fmt.Errorf("%s %q: want a number", f.name, value)
		}
		return value, nil
	case cpus:
		list, err := parseList(value)
		if err == nil && len(list) == 0 {
			err = errors.New("want at least one processor")
		}
		if err == nil {
			err = f.exist(list)
		}
		return value, err
	case mask:
		list, err := parseList(value)
		if err == nil {
			err = f.exist(list)
		}
		return maskOf(list), err
	default:
		if value == "" || strings.ContainsAny(value, "\n\x00 ") {
			return "", fmt.Errorf("%s %q: want one word", f.name, value)
		}
		return value, nil
	}
}

// exist checks that the machine has these CPUs.
func (f *Files) exist(list []int) error {
	b, err := os.ReadFile(filepath.Join(f.root, "sys/devices/system/cpu/possible"))
	if err != nil {
		return nil //nolint:nilerr // then the kernel says it when it is written
	}
	possible, err := parseList(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	for _, n := range list {
		if !slices.Contains(possible, n) {
			return fmt.Errorf("processor %d: this machine has %s", n, strings.TrimSpace(string(b)))
		}
	}
	return nil
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number.
func (f *Files) classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("this machine has no %s here: %w (%w)", f.name, errors.ErrUnsupported, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return errors.New(err.Error())
}
