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
	// errors.ErrUnsupported and fs.ErrNotExist if the kernel or this network namespace has no
	// such setting, and fs.ErrPermission.
	Read(context.Context) (string, error)
	// Check reports whether raw could be written, as far as that shows without writing: its
	// form, and that the setting is writable at all. Only a write shows whether the kernel
	// accepts the value.
	Check(ctx context.Context, raw string) error
	// Write sets the setting. For a word that the kernel does not know it wraps
	// errors.ErrUnsupported.
	Write(ctx context.Context, raw string) error
}

// Open returns the setting name. root, unless "", is the directory of a tree of files as on
// Linux; else Open uses the system. The name is in the notation of sysctl(8): dots between
// the parts, and on Linux a slash for a dot inside a part ("net.ipv4.conf.eth0/1.mtu"). A
// name that would leave the root is an error. Open does not access the setting.
func Open(root, name string) (Key, error) {
	if root != "" {
		return openFile(root, name)
	}
	return openSystem(name)
}

// missing returns the error for a setting that does not exist.
func missing(name string) error {
	return fmt.Errorf("this kernel or network namespace has no %s: %w (%w)", name, errors.ErrUnsupported, fs.ErrNotExist)
}
