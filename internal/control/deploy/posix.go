package deploy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/control/wire/ssh"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/regex"
)

// wanted are the programs whose presence decides how this package works on the far host.
const wanted = "gzip head sha256sum shasum sha256 openssl sudo"

// look asks a POSIX shell about its system.
func (d *deployment) look(ctx context.Context) (far, error) {
	// Stop ssh in a script from asking for input here: there is nothing to read.
	r, err := d.shell.Run(ctx, `echo "system=$(uname -s)"; echo "machine=$(uname -m)"; echo "uid=$(id -u)"; `+
		`echo "order=$(head -c 6 /proc/self/exe 2>/dev/null | tail -c 1 | tr '\001\002' lb)"; `+ // EI_DATA of elf(5)
		`echo "installed=$(command -v linerate)"; for t in `+wanted+`; do command -v $t >/dev/null 2>&1 && echo "tool=$t"; done; :`, nil)
	if err != nil {
		return far{}, fmt.Errorf("look at %s: %w", d.host, err)
	}
	f := far{tools: map[string]bool{}}
	var name, machine string
	var little bool
	for line := range strings.Lines(r.Output) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "system":
			name = value
		case "machine":
			machine = value
		case "order":
			little = value == "l"
		case "uid":
			f.root = value == "0"
		case "installed":
			if strings.HasPrefix(value, "/") { // neither alias nor function
				f.installed = value
			}
		case "tool":
			f.tools[value] = true
		}
	}
	if f.system = parseSystem(name, machine, little); f.system.os == "" {
		return far{}, d.refused("find out what system is on", r)
	}
	return f, nil
}

// makeDir makes a directory that only its owner may use and that allows programs to start. The
// shell removes it when it ends, however it ends.
//
// mkdir fails if the name exists, and the name cannot be guessed: mktemp could do no more. The
// error is a fault with a hint if none of the places allows programs to start. What root runs
// by sudo is a copy of it elsewhere.
func (d *deployment) makeDir(ctx context.Context, cached bool) (string, error) {
	places, try := `"${TMPDIR:-/tmp}" /tmp /var/tmp "$HOME"`, `"$d/try"`
	if cached {
		places = `"` + cacheDir + `"`
	} else if d.o.Sudo && !d.far.root {
		try = ":"
	}
	r, err := d.shell.Run(ctx, `umask 077; d=; trap 'rm -rf "$d"' 0; trap 'exit 1' HUP INT TERM PIPE; `+
		`for p in `+places+`; do d="$p/linerate-`+strings.ToLower(rand.Text())+`"; `+
		`if { mkdir -p "$p" && mkdir -m 700 "$d" && printf '#!/bin/sh\nexit 0\n' >"$d/try" && chmod 700 "$d/try" && { `+try+` || { echo "noexec=$p"; false; }; }; } `+
		`then rm "$d/try"; break; fi; rm -rf "$d"; d=; done; [ -n "$d" ] && echo "dir=$d"`, nil)
	if err != nil {
		return "", fmt.Errorf("make a directory on %s: %w", d.host, err)
	}
	if r.Status != 0 {
		return "", d.noPlace(r)
	}
	for line := range strings.Lines(r.Output) {
		if dir, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "dir="); ok && strings.HasPrefix(dir, "/") {
			return dir, nil
		}
	}
	return "", d.refused("make a directory on", r)
}

// noPlace says why no directory was made. If the system starts no programs from a place, that
// is the reason.
func (d *deployment) noPlace(r ssh.Result) error {
	var places []string
	for line := range strings.Lines(r.Output) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "noexec="); ok && !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return d.refused("make a directory for programs on", r)
	}
	return fault.New(fault.Unreachable, fmt.Errorf("%s starts no programs from %s (%w)", d.host, strings.Join(places, ", "), errNoExec),
		"put linerate there where programs start from, as /usr/local/bin: the one in PATH needs no copy; or name such a folder in TMPDIR there; or start linerate serve there")
}

// errNoExec reports a host that starts no programs from the possible places.
var errNoExec = errors.New("mounted noexec")

// cacheDir is the folder of kept programs, in the far shell's syntax.
const cacheDir = `${XDG_CACHE_HOME:-$HOME/.cache}/linerate`

// keptName is the prefix of a kept program's name; its SHA-256 follows.
const keptName = "agent-"

// removeKept removes all kept programs except the one named but.
func (d *deployment) removeKept(ctx context.Context, but string) error {
	// A running program does not need its file any more.
	r, err := d.shell.Run(ctx, fmt.Sprintf(`for f in "%s"/%s*; do [ "${f##*/}" = %s ] || rm -f "$f"; done`, cacheDir, keptName, plain.ShellWord(but)), nil)
	if err != nil {
		return fmt.Errorf("remove kept programs on %s: %w", d.host, err)
	}
	if r.Status != 0 {
		return d.refused("remove kept programs on", r)
	}
	return nil
}

// keptPath returns the path of a kept program on the far host.
func (d *deployment) keptPath(ctx context.Context, kept string) (string, error) {
	r, err := d.shell.Run(ctx, `echo "dir=`+cacheDir+`"`, nil)
	if err != nil {
		return "", fmt.Errorf("look for a kept linerate on %s: %w", d.host, err)
	}
	_, dir, _ := strings.Cut(strings.TrimSpace(r.Output), "dir=")
	if !strings.HasPrefix(dir, "/") {
		return "", d.refused("find the cache folder of", r)
	}
	return dir + "/" + kept, nil
}

// keep moves a copied program to where the next start looks for it.
func (d *deployment) keep(ctx context.Context, r remote, kept string) (remote, error) {
	result, err := d.shell.Run(ctx, fmt.Sprintf(`k="%s/%s" && mv -f %s "$k" && echo "dir=$k"`, cacheDir, kept, plain.ShellWord(r.path)), nil)
	if err != nil {
		return remote{}, fmt.Errorf("keep linerate on %s: %w", d.host, err)
	}
	_, path, ok := strings.Cut(strings.TrimSpace(result.Output), "dir=")
	if result.Status != 0 || !ok {
		return remote{}, d.refused("keep linerate on", result)
	}
	return remote{path: path, want: r.want}, d.removeKept(ctx, kept) // earlier versions
}

// fingerprint identifies a program.
type fingerprint struct {
	program []byte
	sum     string // SHA-256, lower-case hexadecimal
}

var sha256Words = regex.New(`\b[0-9a-fA-F]{64}\b`)

// verify returns an error unless a file on the far host is the program of want. On a host
// without a SHA-256 tool it compares CRC and length (cksum, which POSIX requires).
func (d *deployment) verify(ctx context.Context, path string, want fingerprint) error {
	tool, strong := d.hashTool()
	r, err := d.shell.Run(ctx, tool+" "+plain.ShellWord(path), nil)
	if err != nil {
		return fmt.Errorf("check what arrived: %w", err)
	}
	if r.Status != 0 {
		return d.refused("check the copy on", r)
	}
	if strong {
		if got := sha256Words.FindString(r.Output); !strings.EqualFold(got, want.sum) {
			return fmt.Errorf("what arrived is not what was sent: SHA-256 is %q instead of %q", got, want.sum)
		}
		return nil
	}
	words := strings.Fields(r.Output)
	if len(words) < 2 || words[0] != strconv.FormatUint(uint64(cksum(want.program)), 10) || words[1] != strconv.Itoa(len(want.program)) {
		return errors.New("what arrived is not what was sent: " + firstLine(r.Output))
	}
	return nil
}

// hashTool returns the command that prints the SHA-256 of a file; strong is false if it is only
// cksum.
func (d *deployment) hashTool() (command string, strong bool) {
	for _, t := range []struct{ program, command string }{
		{"sha256sum", "sha256sum"}, {"shasum", "shasum -a 256"}, {"sha256", "sha256 -q"}, {"openssl", "openssl dgst -sha256"},
	} {
		if d.far.tools[t.program] {
			return t.command, true
		}
	}
	return "cksum", false
}

// cksum returns the checksum of POSIX cksum: CRC-32 of ISO/IEC 8802-3, most significant bit
// first, over the data and then their length.
func cksum(data []byte) uint32 {
	var table [256]uint32
	for i := range table {
		c := uint32(i) << 24
		for range 8 {
			if c&(1<<31) != 0 {
				c = c<<1 ^ 0x04C11DB7
			} else {
				c <<= 1
			}
		}
		table[i] = c
	}
	var crc uint32
	for _, b := range data {
		crc = crc<<8 ^ table[byte(crc>>24)^b]
	}
	for n := len(data); n > 0; n >>= 8 {
		crc = crc<<8 ^ table[byte(crc>>24)^byte(n)]
	}
	return ^crc
}

// firstLine returns the first line of s, cut to fit into an error.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return plain.Brief(line, 300)
}
