// Package sysctl reads and writes kernel settings: the files that Linux shows
// below /proc/sys, and the typed tree of FreeBSD and macOS.
package sysctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Key is one setting. It is safe for concurrent use.
type Key interface {
	// Read returns the text of the setting without its final newline. It wraps
	// errors.ErrUnsupported and fs.ErrNotExist where the kernel or this network
	// namespace has no such setting, and fs.ErrPermission.
	Read(context.Context) (string, error)
	// Check reports whether raw could be written, as far as that shows without
	// writing: its form, and that the setting may be written at all. Whether the
	// kernel likes the value shows only when it is written.
	Check(ctx context.Context, raw string) error
	// Write sets the setting. A word that the kernel does not know wraps
	// errors.ErrUnsupported.
	Write(ctx context.Context, raw string) error
}

// Open returns the setting name. Where root is not "" it is the directory of a
// tree of files as Linux has it; else the system is asked. The name is in the
// notation of sysctl(8): dots between the parts, and on Linux a slash for a dot
// inside a part ("net.ipv4.conf.eth0/1.mtu"). A name that would leave the root
// is an error. The setting is not touched.
func Open(root, name string) (Key, error) {
	if root != "" {
		return openFile(root, name)
	}
	return openSystem(name)
}

// missing is the error of a setting that is not there.
func missing(name string) error {
	return fmt.Errorf("this kernel or network namespace has no %s: %w (%w)", name, errors.ErrUnsupported, fs.ErrNotExist)
}
