package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"linerate/internal/control/wire"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
)

// passwords is how many attempts the user has, as with sudo itself (passwd_tries of
// sudoers(5)).
const passwords = 3

// rootPlaces are directories that only root may write, on systems that have them.
const rootPlaces = "/var/lib /var/db /usr/local/libexec /root /var/root /opt /run"

// rootScript is run by sudo. It makes sure that the file that was checked is the file that
// runs: any other process of the user can replace a file in the user's directory after its
// checksum was taken. So root makes a copy below directories that only root may write, takes
// the checksum of the copy, and runs that.
//
// The file is read with the user's own rights: root opens no path that another user controls.
// The arguments are the two halves of the marker, the checksum, the size, the file, a directory
// to remove with the user's rights ("" for none), then the flags of the agent. On an error it
// prints the reason, and 1 after the marker.
const rootScript = `a=$1; b=$2; sum=$3; size=$4; from=$5; gone=$6; shift 6; umask 077; d=; ` +
	`trap '[ -z "$d" ] || rm -rf "$d"' 0; trap 'exit 1' HUP INT TERM PIPE; ` +
	`fail() { echo "$1"; printf '%s%s 1\n' "$a" "$b"; exit 1; }; ` +
	`as() { sudo -n -u "#$SUDO_UID" -- "$@" </dev/null; }; ` +
	// Columns 6 and 9 of the mode are "w" where the group or others may write.
	`own() { p=$(cd -P "$1" && pwd -P) || return 1; while :; do set -- $(ls -ldn "$p"); [ "$3" = 0 ] || return 1; ` +
	`case $1 in ?????w*|????????w*) return 1;; esac; [ "$p" = / ] && return 0; p=$(dirname "$p"); done; }; ` +
	`for p in ` + rootPlaces + `; do own "$p" 2>/dev/null || continue; d=$(mktemp -d "$p/linerate-XXXXXXXXXX" 2>/dev/null) || { d=; continue; }; ` +
	`printf '#!/bin/sh\nexit 0\n' >"$d/linerate" && chmod 700 "$d/linerate" && "$d/linerate" 2>/dev/null && break; rm -rf "$d"; d=; done; ` +
	`[ -n "$d" ] || fail 'no directory that only root may write, and from which programs start'; ` +
	`as head -c "$size" "$from" >"$d/linerate" || fail 'the program cannot be read'; ` +
	`case "$(HASH "$d/linerate")" in *"$sum"*) ;; *) fail 'the program is not the one that was sent: it was changed';; esac; ` +
	`[ -z "$gone" ] || as rm -rf "$gone"; ` +
	`printf '%s%s 0\n' "$a" "$b"; "$d/linerate" agent "$@" --remove "$d"`

// trustedScript runs a program of the far host that the user trusts unverified.
const trustedScript = `printf "%s%s 0\n" "$1" "$2"; p=$5; shift 6; exec "$p" agent "$@"`

// startBySudo starts the agent as root.
//
// -k makes sudo forget cached credentials, so that we know whether it reads a password: one
// that sudo does not read would reach the agent. The password goes over the encrypted
// connection into sudo's standard input; it is on no command line and in no file. sudo reads
// the line byte by byte, and a shell prints the marker before it starts the agent, so that
// nothing is sent to the agent before sudo has accepted.
func (d *deployment) startBySudo(ctx context.Context, file remote) (wire.Peer, error) {
	script, err := d.rootScript(file)
	if err != nil {
		return wire.Peer{}, err
	}
	sudo := "sudo -k -n"
	r, err := d.shell.Run(ctx, sudo+" -- sh -c :", nil)
	if err != nil {
		return wire.Peer{}, fmt.Errorf("run sudo on %s: %w", d.host, err)
	}
	var line []byte
	if r.Status != 0 {
		sudo = "sudo -k -S -p ''"
		password, err := d.password(ctx, sudo)
		if errors.Is(err, ErrNoTerminal) {
			return wire.Peer{}, fault.New(fault.Unreachable, fmt.Errorf("sudo on %s wants a password, and there is no terminal to ask for it: %s", d.host, firstLine(r.Output)),
				"log in there as root, or allow sudo without a password (NOPASSWD in sudoers)")
		}
		if err != nil {
			return wire.Peer{}, err
		}
		line = append(password, '\n')
	}
	a, b := d.shell.Mark()
	agent := fmt.Sprintf(`%s -- sh -c %s sh %s %s %s %d %s %s %s; exit $?`,
		sudo, plain.ShellWord(script), a, b, plain.ShellWord(file.want.sum), len(file.want.program), plain.ShellWord(file.path), plain.ShellWord(file.dir), strings.Join(d.o.Flags, " "))
	peer, err := d.shell.Start(ctx, agent, line)
	clear(line)
	return peer, err
}

// rootScript returns the script that root runs to start file.
func (d *deployment) rootScript(file remote) (string, error) {
	if file.want.sum == "" {
		return trustedScript, nil // mayRunUnknown has checked it
	}
	tool, strong := d.hashTool()
	if !strong || !d.far.tools["head"] {
		return "", fault.New(fault.Unreachable, fmt.Errorf("--sudo: %s has nothing to take a SHA-256 with, and root runs no program that was not checked", d.host),
			"install sha256sum (coreutils) or openssl there, or log in as root")
	}
	return strings.Replace(rootScript, "HASH", tool, 1), nil
}

// mayRunUnknown returns an error if an unverified program would run as root without permission.
func (d *deployment) mayRunUnknown(path string) error {
	if d.o.TrustFar || !d.o.Sudo && !d.far.root {
		return nil
	}
	return fault.New(fault.Unreachable, fmt.Errorf("there is no linerate for %s here, and the one that %s has, %s, would run as root unchecked", d.far.system, d.host, path),
		"if you trust that program, add --trust-far-binary; or put a linerate for that system beside this one (make dist)")
}

// password prompts until sudo accepts the password.
func (d *deployment) password(ctx context.Context, sudo string) ([]byte, error) {
	var said string
	if d.o.Password == nil {
		return nil, ErrNoTerminal
	}
	for range passwords {
		password, err := d.o.Password(d.host)
		if err != nil {
			return nil, fmt.Errorf("ask for the password of sudo on %s: %w", d.host, err)
		}
		// head reads the line even if sudo does not.
		r, err := d.shell.Ask(ctx, "head -n 1 | "+sudo+" -- sh -c :", password)
		if err != nil {
			return nil, fmt.Errorf("run sudo on %s: %w", d.host, err)
		}
		if r.Status == 0 {
			return password, nil
		}
		clear(password)
		said = firstLine(r.Output)
	}
	return nil, fault.New(fault.Unreachable, fmt.Errorf("sudo on %s: %s", d.host, said), "try there: sudo true")
}
