package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// preRelease matches the end of a version such as 1.2.3-rc.1: its letter and its number.
var preRelease = regexp.MustCompile(`-([a-z])[a-z]*\.?([0-9]*)$`)

// manifest is the data of the templates.
type manifest struct {
	project
	Version, Date string
	Pages         []string
	archive       func(system, arch string) string
	sum           func(name string) (string, error)
}

// URL returns the download address of a target's archive.
func (m manifest) URL(system, arch string) string {
	return m.address(m.Version, m.archive(system, arch))
}

// URLOf is URL with placeholders for architecture and version, for formats that fill them in
// themselves.
func (m manifest) URLOf(system, arch, version string) string {
	return strings.ReplaceAll(m.address(version, m.archive(system, arch)), m.Version, version)
}

// Sum returns the SHA-256 of a target's archive, in hexadecimal.
func (m manifest) Sum(system, arch string) (string, error) { return m.sum(m.archive(system, arch)) }

// Folder returns the folder within a target's archive.
func (m manifest) Folder(system, arch string) string {
	return fmt.Sprintf("%s-%s-%s-%s", m.Name, m.Version, system, arch)
}

// manifests writes the files for Homebrew, winget and Scoop: one for each template, if all of
// its archives exist.
func (r *release) manifests(context.Context) error {
	m := manifest{project: r.project, Version: r.version, Date: r.time.Format("2006-01-02"), sum: r.sum}
	m.archive = func(system, arch string) string {
		name, _ := r.archiveName(target{system, arch})
		return name
	}
	for _, f := range r.common {
		if strings.HasPrefix(f.name, "man/") {
			m.Pages = append(m.Pages, f.name)
		}
	}
	funcs := template.FuncMap{"quoted": quoted, "upper": strings.ToUpper, "indent": indent}
	for system, names := range map[string][]string{
		"darwin":  {"linerate.rb"},
		"windows": {"linerate.scoop.json", "linerate.winget.yaml", "linerate.winget.installer.yaml", "linerate.winget.locale.en-US.yaml"},
	} {
		if !slices.Contains(r.targets, target{system, "amd64"}) || !slices.Contains(r.targets, target{system, "arm64"}) {
			continue
		}
		for _, name := range names {
			t, err := template.New(name).Funcs(funcs).Option("missingkey=error").ParseFS(templates, path.Join("templates", name))
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := t.Execute(&b, m); err != nil {
				return err
			}
			if err := os.WriteFile(r.path(name), b.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// quoted returns text as a JSON string, which is also valid YAML and, without #{, Ruby.
func quoted(text string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(strings.TrimSpace(text)); err != nil {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}

// indent puts n blanks before each line of text.
func indent(n int, text string) string {
	head := strings.Repeat(" ", n)
	return head + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+head)
}
