package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/apk"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// service is the path for units of packages (systemd.unit(5)).
const service = "/usr/lib/systemd/system/linerate.service"

// Scripts of a package. dpkg passes a word, rpm the number of remaining versions, apk a
// version: prerm(1) of deb-prerm, rpm-scriptlets(7).
const (
	afterInstall = `#!/bin/sh
# The server is installed and not started: who wants it says so, with
# systemctl enable --now linerate
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi
`
	beforeRemove = `#!/bin/sh
case "$1" in upgrade | failed-upgrade | deconfigure | 1) exit 0 ;; esac
if [ -d /run/systemd/system ]; then systemctl --no-reload disable --now linerate.service || :; fi
`
	afterRemove = `#!/bin/sh
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi
# The keys of a server go with dpkg --purge; results of users are theirs.
if [ "$1" = purge ]; then rm -rf /var/lib/linerate /var/lib/private/linerate /var/log/linerate /var/log/private/linerate; fi
`
)

// linuxPackages writes the packages of every Linux target.
func (r *release) linuxPackages(ctx context.Context) error {
	unit, err := r.unit(ctx)
	if err != nil {
		return err
	}
	packagers := []struct {
		format string
		make   nfpm.Packager
	}{{"deb", deb.Default}, {"rpm", rpm.DefaultRPM}, {"apk", apk.Default}}
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		for _, p := range packagers {
			info, err := r.linuxInfo(t, p.format, unit)
			if err != nil {
				return err
			}
			if err := nfpm.PrepareForPackager(info, p.format); err != nil {
				return fmt.Errorf("%s: %w", p.format, err)
			}
			var b bytes.Buffer
			if err := p.make.Package(info, &b); err != nil {
				return fmt.Errorf("%s: %w", p.format, err)
			}
			if err := os.WriteFile(r.path(p.make.ConventionalFileName(info)), b.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// unit returns the unit of serve, as the program prints it, for a program in /usr/bin.
func (r *release) unit(ctx context.Context) ([]byte, error) {
	text, err := r.prints(ctx, "serve", "--print-unit")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ExecStart=") {
			line = "ExecStart=/usr/bin/linerate serve\n"
		}
		b.WriteString(line)
	}
	return []byte(b.String()), nil
}

// linuxInfo returns a package of one format.
func (r *release) linuxInfo(t target, format string, unit []byte) (*nfpm.Info, error) {
	stage := filepath.Join(r.work, "stage-"+t.arch+"-"+format)
	contents, err := r.contents(t, format, unit, stage)
	if err != nil {
		return nil, err
	}
	info := &nfpm.Info{
		Name: r.project.Name, Arch: t.arch, Platform: "linux", Version: r.version, Release: "1",
		Section: r.project.Section, Priority: "optional", Maintainer: r.project.Maintainer, Vendor: r.project.Name,
		Description: r.project.Summary + "\n" + r.project.Description, Homepage: r.project.Homepage, License: r.project.License, MTime: r.time,
		DisableGlobbing: true,
	}
	info.Contents = contents
	info.RPM.BuildHost, info.RPM.Summary, info.RPM.Compression = "localhost", r.project.Summary, "zstd" // not this machine's name
	info.RPM.Group, info.Deb.Compression = "Applications/System", "gzip"
	if format == "rpm" {
		info.Description = r.project.Description
	}
	if format == "deb" {
		info.Recommends = []string{"openssh-client"}
	}
	if format != "apk" { // Alpine has no systemd
		scripts := map[string]string{"postinst": afterInstall, "prerm": beforeRemove, "postrm": afterRemove}
		for name, text := range scripts {
			if err := os.WriteFile(filepath.Join(stage, name), []byte(text), 0o755); err != nil {
				return nil, err
			}
		}
		info.Scripts.PostInstall, info.Scripts.PreRemove, info.Scripts.PostRemove = filepath.Join(stage, "postinst"), filepath.Join(stage, "prerm"), filepath.Join(stage, "postrm")
	}
	return nfpm.WithDefaults(info), nil
}

// contents returns the files of a package, written below stage for the packager.
func (r *release) contents(t target, format string, unit []byte, stage string) (files.Contents, error) {
	programs, err := r.programs(t)
	if err != nil {
		return nil, err
	}
	var installed []file
	for _, p := range programs {
		installed = append(installed, file{"/usr/bin/" + p.name, p.mode, p.data})
	}
	if format != "apk" {
		installed = append(installed, file{service, 0o644, unit})
	}
	for _, f := range r.common {
		to, data, err := unixPlace(f, "/usr", format)
		if err != nil {
			return nil, err
		}
		if to != "" {
			installed = append(installed, file{to, f.mode, data})
		}
	}
	var out files.Contents
	if format == "rpm" { // rpm removes only the folders that a package owns
		for _, name := range []string{"doc/linerate", "fish", "fish/completions", "zsh", "zsh/site-functions"} {
			out = append(out, &files.Content{Destination: "/usr/share/" + name, Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.time}})
		}
	}
	for _, f := range installed {
		source := filepath.Join(stage, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(source, f.data, f.mode); err != nil {
			return nil, err
		}
		out = append(out, &files.Content{Source: source, Destination: f.name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time}})
	}
	return out, nil
}

// unixPlace returns the path and content of a file of the archive when installed below prefix;
// "" for files that no package contains.
func unixPlace(f file, prefix, format string) (string, []byte, error) {
	folder, name := path.Split(f.name)
	zsh, fish := "site-functions", "completions"
	if format == "deb" {
		zsh, fish = "vendor-completions", "vendor_completions.d" // as in Debian's packages
	}
	switch {
	case folder == "man/":
		data, err := gzipped(f.data)
		return prefix + "/share/man/man1/" + name + ".gz", data, err
	case name == "linerate.bash":
		return prefix + "/share/bash-completion/completions/linerate", f.data, nil
	case name == "_linerate":
		return prefix + "/share/zsh/" + zsh + "/_linerate", f.data, nil
	case name == "linerate.fish":
		return prefix + "/share/fish/" + fish + "/linerate.fish", f.data, nil
	case name == "LICENSE" && format == "deb":
		return prefix + "/share/doc/linerate/copyright", f.data, nil
	case name == "CHANGELOG.md" && format == "deb":
		data, err := gzipped(f.data)
		return prefix + "/share/doc/linerate/changelog.gz", data, err
	case folder == "":
		return prefix + "/share/doc/linerate/" + name, f.data, nil
	}
	return "", nil, nil
}
