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

// preRelease is the end of a version such as 1.2.3-rc.1: its letter and its number.
var preRelease = regexp.MustCompile(`-([a-z])[a-z]*\.?([0-9]*)$`)

// manifest is what the templates read.
type manifest struct {
	project
	Version, Date string
	Pages         []string
	archive       func(system, arch string) string
	sum           func(name string) (string, error)
}

// URL is where the archive of a target can be had.
func (m manifest) URL(system, arch string) string {
	return m.address(m.Version, m.archive(system, arch))
}

// URLOf is the same with other texts in place of the processor and the version, for
// formats that put them in themselves.
func (m manifest) URLOf(system, arch, version string) string {
	return strings.ReplaceAll(m.address(version, m.archive(system, arch)), m.Version, version)
}

// Sum is the SHA-256 of the archive of a target, in hexadecimal.
func (m manifest) Sum(system, arch string) (string, error) { return m.sum(m.archive(system, arch)) }

// Folder is the one within the archive of a target.
func (m manifest) Folder(system, arch string) string {
	return fmt.Sprintf("%s-%s-%s-%s", m.Name, m.Version, system, arch)
}

// manifests writes what Homebrew, winget and Scoop want to know: one file for each
// template, where all of its archives are there.
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

// quoted is text as a string of JSON, which YAML and, without #{, Ruby read as well.
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
