package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"

	"github.com/klauspost/compress/zstd"
)

// rcScript starts the server on FreeBSD if rc.conf enables it (rc.subr(8)).
const rcScript = `#!/bin/sh
#
# PROVIDE: linerate
# REQUIRE: NETWORKING
# KEYWORD: shutdown
#
# linerate_enable="YES" in /etc/rc.conf starts linerate serve at boot;
# linerate_flags are its flags.

. /etc/rc.subr

name=linerate
rcvar=linerate_enable
load_rc_config $name
: ${linerate_enable:="NO"}
: ${linerate_flags:=""}
pidfile=/var/run/linerate.pid
command=/usr/sbin/daemon
command_args="-P ${pidfile} -r -o /var/log/linerate.log /usr/local/bin/linerate serve ${linerate_flags}"
# rc.subr would give them to daemon itself
linerate_flags=""
run_rc_command "$1"
`

// pkgManifest is +MANIFEST of a FreeBSD package (pkg-create(8), MANIFEST FILE DETAILS).
type pkgManifest struct {
	Name       string            `json:"name"`
	Origin     string            `json:"origin"`
	Version    string            `json:"version"`
	Comment    string            `json:"comment"`
	Maintainer string            `json:"maintainer"`
	WWW        string            `json:"www"`
	ABI        string            `json:"abi"`
	Arch       string            `json:"arch"`
	Prefix     string            `json:"prefix"`
	FlatSize   int               `json:"flatsize"`
	Licenses   []string          `json:"licenses"`
	Logic      string            `json:"licenselogic"`
	Desc       string            `json:"desc"`
	Categories []string          `json:"categories"`
	Files      map[string]string `json:"files,omitempty"` // path: 1$ and its SHA-256
}

// freebsdPackages writes packages for pkg add. The programs do not depend on a release of the
// system, so that one package fits all of them.
func (r *release) freebsdPackages(context.Context) error {
	for _, t := range r.targets {
		if t.os != "freebsd" {
			continue
		}
		files, err := r.freebsdFiles(t)
		if err != nil {
			return err
		}
		arch := map[string][2]string{"amd64": {"amd64", "x86:64"}, "arm64": {"aarch64", "aarch64:64"}}[t.arch]
		m := pkgManifest{
			Name: r.project.Name, Origin: "net/" + r.project.Name, Version: pkgVersion(r.version), Comment: r.project.Summary, Maintainer: r.project.Maintainer, WWW: r.project.Homepage,
			ABI: "FreeBSD:*:" + arch[0], Arch: "freebsd:*:" + arch[1], Prefix: "/usr/local", Licenses: []string{"APACHE20"}, Logic: "single", Desc: r.project.Description, Categories: []string{"net"},
		}
		full := m
		full.Files = map[string]string{}
		for _, f := range files {
			sum := sha256.Sum256(f.data)
			full.Files[f.name] = "1$" + hex.EncodeToString(sum[:])
			full.FlatSize += len(f.data)
		}
		m.FlatSize = full.FlatSize
		var heads []file
		for _, h := range []struct {
			name string
			m    pkgManifest
		}{{"+COMPACT_MANIFEST", m}, {"+MANIFEST", full}} {
			text, err := json.Marshal(h.m)
			if err != nil {
				return err
			}
			heads = append(heads, file{h.name, 0o644, text})
		}
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if err := writeTar(z, append(heads, files...), r.time); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s-freebsd-%s.pkg", r.project.Name, r.version, t.arch)
		if err := os.WriteFile(r.path(name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// freebsdFiles returns the installed files of a package.
func (r *release) freebsdFiles(t target) ([]file, error) {
	programs, err := r.programs(t)
	if err != nil {
		return nil, err
	}
	files := []file{{"/usr/local/etc/rc.d/linerate", 0o755, []byte(rcScript)}}
	for _, p := range programs {
		files = append(files, file{"/usr/local/bin/" + p.name, p.mode, p.data})
	}
	for _, f := range r.common {
		to, data, err := unixPlace(f, "/usr/local", "pkg")
		if err != nil {
			return nil, err
		}
		if to != "" {
			files = append(files, file{path.Clean(to), f.mode, data})
		}
	}
	sortFiles(files)
	return files, nil
}

// pkgVersion returns the version without a hyphen, which pkg takes for the end of the name:
// 1.2.3-rc.1 becomes 1.2.3.r1, which pkg-version(8) sorts before 1.2.3.
func pkgVersion(version string) string { return preRelease.ReplaceAllString(version, ".$1$2") }
