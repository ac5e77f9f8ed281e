package sysctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxText bounds what is read, far above the size of any setting: the kernel shows at most a
// page for most files.
const maxText = 64 << 10

// file is a setting that is a file on Linux.
type file struct {
	name string
	path string
	held *os.File // nil for none
}

func openFile(root, name string) (Key, error) {
	swap := strings.NewReplacer(".", "/", "/", ".")
	path := swap.Replace(name)
	if !fs.ValidPath(path) || path == "." {
		return nil, fmt.Errorf("sysctl %q: not a name", name)
	}
	return &file{name: name, path: filepath.Join(root, filepath.FromSlash(path))}, nil
}

// Read implements Key.
func (k *file) Read(context.Context) (string, error) {
	f, err := k.open(os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer k.done(f) // nothing was written
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxText))
	if err != nil {
		return "", k.classify(err)
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

// Check opens the file for writing, and requires one line.
func (k *file) Check(_ context.Context, raw string) error {
	if strings.TrimSpace(raw) == "" || strings.ContainsAny(raw, "\n\x00") {
		return fmt.Errorf("value %q: want one line of text", raw)
	}
	f, err := k.open(os.O_WRONLY)
	if err != nil {
		return err
	}
	return k.done(f)
}

// Write sets the setting in one write, as the kernel requires: it looks only at the first
// (Linux Documentation/admin-guide/sysctl/kernel.rst, sysctl_writes_strict). For a word that
// the kernel does not know it wraps errors.ErrUnsupported.
func (k *file) Write(_ context.Context, raw string) error {
	f, err := k.open(os.O_WRONLY | os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(raw), 0)
	if closeErr := k.done(f); err == nil {
		err = closeErr
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // for a congestion control or queueing discipline, not for the file
		return fmt.Errorf("the kernel has no %q: %w", raw, errors.ErrUnsupported)
	case errors.Is(err, fs.ErrPermission) && k.name == congestion:
		return k.restricted(raw)
	case err != nil:
		return k.classify(err)
	}
	return nil
}

const congestion = "net.ipv4.tcp_congestion_control"

// restricted returns why a write was refused although the file could be opened: a network
// namespace other than the machine's own may use as its default only what the machine allows
// to all (tcp_set_default_congestion_control, net/ipv4/tcp_cong.c). It wraps
// fs.ErrPermission.
func (k *file) restricted(raw string) error {
	const allowed = "tcp_allowed_congestion_control"
	text, err := os.ReadFile(filepath.Join(filepath.Dir(k.path), allowed))
	now := strings.Fields(string(text))
	if err != nil || slices.Contains(now, raw) {
		return fs.ErrPermission
	}
	return fmt.Errorf("a network namespace takes only what its machine lets everybody use, which is %s; root of the machine allows it with: sysctl -w net.ipv4.%s='%s %s': %w",
		strings.Join(now, ", "), allowed, strings.Join(now, " "), raw, fs.ErrPermission)
}

// Hold keeps the file open until Release, for when this process can get no descriptor.
func (k *file) Hold() (err error) {
	k.held, err = k.open(os.O_RDWR)
	return err
}

// Release ends what Hold started.
func (k *file) Release() error {
	f := k.held
	k.held = nil
	return f.Close()
}

// done closes a file that open returned.
func (k *file) done(f *os.File) error {
	if f == k.held {
		return nil
	}
	return f.Close()
}

func (k *file) open(flag int) (*os.File, error) {
	f, err := os.OpenFile(k.path, flag, 0)
	if k.held != nil && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) {
		if f, err = k.held, nil; flag&os.O_TRUNC != 0 {
			err = f.Truncate(0)
		}
	}
	if errors.Is(err, fs.ErrPermission) && flag != os.O_RDONLY {
		// Files of network namespaces show shared settings of the machine as read-only
		// (net/core/sysctl_net_core.c sysctl_core_net_init).
		if info, statErr := os.Stat(k.path); statErr == nil && info.Mode()&0o222 == 0 {
			return nil, fmt.Errorf("it cannot be written here; where this is a container, the machine itself may: %w", fs.ErrPermission)
		}
	}
	if err != nil {
		return nil, k.classify(err)
	}
	return f, nil
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number.
func (k *file) classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing(k.name)
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return errors.New(err.Error())
}
