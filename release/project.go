package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// project is project.yaml: the publisher of linerate, and its addresses.
type project struct {
	Name        string `yaml:"name"`
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
	Module      string `yaml:"module"`
	Homepage    string `yaml:"homepage"`
	Download    string `yaml:"download"` // VERSION is replaced
	Maintainer  string `yaml:"maintainer"`
	License     string `yaml:"license"` // SPDX identifier
	Section     string `yaml:"section"`
}

// readProject reads and checks it: otherwise users would be the first to notice a missing name
// or an incomplete address.
func readProject(path string) (project, error) {
	var p project
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	if err := yaml.UnmarshalWithOptions(text, &p, yaml.Strict()); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	for name, value := range map[string]string{"name": p.Name, "summary": p.Summary, "description": p.Description, "module": p.Module, "maintainer": p.Maintainer, "license": p.License} {
		if strings.TrimSpace(value) == "" {
			return p, fmt.Errorf("%s: %s is empty", path, name)
		}
	}
	for name, value := range map[string]string{"homepage": p.Homepage, "download": p.Download} {
		if u, err := url.Parse(value); err != nil || u.Scheme != "https" || u.Host == "" {
			return p, fmt.Errorf("%s: %s: want an address that begins with https://", path, name)
		}
	}
	if !strings.Contains(p.Download, "VERSION") {
		return p, fmt.Errorf("%s: download: want VERSION in it", path)
	}
	return p, nil
}

// address returns the download address of a file of a release.
func (p project) address(version, file string) string {
	return strings.ReplaceAll(p.Download, "VERSION", version) + "/" + file
}
