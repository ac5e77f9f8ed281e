// Package sysctl reads and writes kernel settings that Linux shows as files
// below /proc/sys.
package sysctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// defaultRoot is where Linux shows its settings, proc_sys(5). What is below
// net belongs to the network namespace of the thread that opens the file.
const defaultRoot = "/proc/sys"

// maxText is far above any setting of ours and bounds what is read: the kernel
// itself shows at most a page for most files.
const maxText = 64 << 10

// Key is one setting. It is safe for concurrent use.
type Key struct {
	name string
	path string
}

// Open returns the setting name below root, where "" is /proc/sys. The name is
// in the notation of sysctl(8): dots between the parts, and a slash for a dot
// inside a part ("net.ipv4.conf.eth0/1.mtu"). A name that would leave the root
// is an error. The file is not touched.
func Open(root, name string) (*Key, error) {
	if root == "" {
		root = defaultRoot
	}
	swap := strings.NewReplacer(".", "/", "/", ".")
	path := swap.Replace(name)
	if !fs.ValidPath(path) || path == "." {
		return nil, fmt.Errorf("sysctl %q: not a name", name)
	}
	return &Key{name: name, path: filepath.Join(root, filepath.FromSlash(path))}, nil
}

// Read returns the text of the setting without its final newline. It wraps
// errors.ErrUnsupported and fs.ErrNotExist where the kernel or this network
// namespace has no such setting, and fs.ErrPermission.
func (k *Key) Read(ctx context.Context) (string, error) {
	f, err := k.open(ctx, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close() // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		return "", k.classify(err)
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

// Check reports whether the setting may be opened for writing and raw is one
// line. Whether the kernel likes the value shows only when it is written.
func (k *Key) Check(ctx context.Context, raw string) error {
	if strings.TrimSpace(raw) == "" || strings.ContainsAny(raw, "\n\x00") {
		return fmt.Errorf("value %q: want one line of text", raw)
	}
	f, err := k.open(ctx, os.O_WRONLY)
	if err != nil {
		return err
	}
	return f.Close()
}

// Write sets the setting in one write, as the kernel requires: it looks only at
// the first (Linux Documentation/admin-guide/sysctl/kernel.rst,
// sysctl_writes_strict). A word that the kernel does not know wraps
// errors.ErrUnsupported.
func (k *Key) Write(ctx context.Context, raw string) error {
	f, err := k.open(ctx, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(raw)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // of a congestion control or queueing discipline, not of the file
		return fmt.Errorf("the kernel has no %q: %w", raw, errors.ErrUnsupported)
	case err != nil:
		return k.classify(err)
	}
	return nil
}

func (k *Key) open(ctx context.Context, flag int) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(k.path, flag, 0)
	if err != nil {
		return nil, k.classify(err)
	}
	return f, nil
}

// classify keeps the sentinels and the text of an error of the system, and
// leaves its number behind.
func (k *Key) classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("this kernel or network namespace has no %s: %w (%w)", k.name, errors.ErrUnsupported, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return errors.New(err.Error())
}
