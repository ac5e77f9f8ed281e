// Package sandbox permanently gives up rights of this process: its user, rights that it could
// gain by starting programs, and most of the file system.
//
// A server calls it after it has opened what it needs. Nothing can be undone, and threads and
// processes started later have no more rights either.
package sandbox

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// User is an unprivileged user.
type User struct {
	UID, GID int
	Name     string // "" for a number without an account
}

// String names u.
func (u User) String() string {
	if u.Name != "" {
		return u.Name
	}
	return fmt.Sprintf("user %d", u.UID)
}

// The numbers that systemd gives to services with DynamicUser= (systemd, docs/UIDS-GIDS.md):
// by convention no account has one of them.
const (
	dynamicLow  = 61184
	dynamicHigh = 65519
)

// leased is where systemd records the numbers that are in use (systemd,
// src/core/dynamic-user.c).
const leased = "/run/systemd/dynamic-uid"

// ErrNoOtherUser reports that there is no other user to become: the user namespace of this process
// has none.
var ErrNoOtherUser = errors.New("this user namespace has no other user")

// IsRoot reports whether this process may become another user.
func IsRoot() bool { return os.Geteuid() == 0 }

// Choose returns the account called name, or with that number. Without a name it returns a
// number without an account, the same one for the same seed as long as that is free. The
// error wraps ErrNoOtherUser if there is no such number here.
func Choose(name, seed string) (User, error) {
	if name != "" {
		return account(name)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(seed))
	const span = dynamicHigh - dynamicLow + 1
	for i := range 64 {
		id := dynamicLow + (int(h.Sum32()%span)+i)%span
		text := strconv.Itoa(id)
		if !mapped(id) {
			return User{}, fmt.Errorf("become user %d: %w", id, ErrNoOtherUser)
		}
		_, byID := user.LookupId(text)
		_, byGroup := user.LookupGroupId(text)
		_, lease := os.Lstat(filepath.Join(leased, text))
		if byID != nil && byGroup != nil && lease != nil {
			return User{UID: id, GID: id}, nil
		}
	}
	return User{}, fmt.Errorf("no number from %d to %d is free", dynamicLow, dynamicHigh)
}

func account(name string) (User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return User{}, fmt.Errorf("there is no user %.40q", name)
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return User{}, fmt.Errorf("user %s: %w", u.Username, errors.ErrUnsupported)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return User{}, fmt.Errorf("user %s: %w", u.Username, errors.ErrUnsupported)
	}
	switch {
	case uid == 0 || gid == 0:
		return User{}, fmt.Errorf("user %s has the rights of root", u.Username)
	case !mapped(uid) || !mapped(gid):
		return User{}, fmt.Errorf("become %s: %w", u.Username, ErrNoOtherUser)
	}
	return User{UID: uid, GID: gid, Name: u.Username}, nil
}

// OwnerOf returns the owner of a file or directory, and false if that is root or unknown.
func OwnerOf(path string) (User, bool) { return ownerOf(path) }

// Drop becomes u in all threads, with only the groups of u and no capabilities. It needs
// root. The error wraps errors.ErrUnsupported if the system does not support that; after
// another error the process may have part of its rights, and should exit.
func Drop(u User) error {
	if u.UID <= 0 || u.GID <= 0 {
		return fmt.Errorf("become %s: it has the rights of root", u)
	}
	if err := drop(u); err != nil {
		return fmt.Errorf("become %s: %w", u, err)
	}
	return nil
}

// NoNewPrivileges keeps this process, and its children, from gaining rights through a program
// with a set-user-ID bit or capabilities (Linux,
// Documentation/userspace-api/no_new_privs.rst). The error wraps errors.ErrUnsupported on
// other systems.
func NoNewPrivileges() error { return noNewPrivileges() }

// Files are the parts of the file system that stay accessible, as paths of files or folders;
// a folder includes all that is below it. Missing paths are ignored.
type Files struct {
	Read  []string // may be read
	Write []string // may be read, written, created and removed
}

// Confine removes access to everything but f, and the right to start programs, if the kernel
// has Landlock (Linux 5.13, Documentation/userspace-api/landlock.rst). Open files stay open.
// It returns the version of Landlock's interface. The error wraps errors.ErrUnsupported if
// there is no Landlock.
func Confine(f Files) (abi int, err error) { return confine(f) }
