package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// parts writes the modules in the programs, in CycloneDX: read from the programs themselves, so
// that it lists what they contain and not what go.mod would allow.
func (r *release) parts(context.Context) error {
	modules, goVersion := map[string]*part{}, ""
	for _, t := range r.targets {
		info, err := buildinfo.ReadFile(r.binary(t))
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		goVersion = strings.TrimPrefix(info.GoVersion, "go")
		for _, d := range info.Deps {
			for d.Replace != nil {
				d = d.Replace
			}
			m := modules[d.Path]
			if m == nil {
				m = &part{path: d.Path, version: d.Version, sum: d.Sum}
				modules[d.Path] = m
			}
			m.in = append(m.in, t.String())
		}
	}
	b := cyclonedx.NewBOM()
	b.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(r.project.address(r.version, "linerate-"+r.time.Format(time.RFC3339)))).String()
	own := r.component()
	b.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &own}
	components := []cyclonedx.Component{{BOMRef: "pkg:golang/std@" + goVersion, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: goVersion, PackageURL: "pkg:golang/std@" + goVersion, Description: "the standard library of Go"}}
	for _, m := range modules {
		components = append(components, m.component(len(r.targets)))
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	b.Components = &components
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	b.Dependencies = &[]cyclonedx.Dependency{{Ref: own.BOMRef, Dependencies: &refs}}
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(r.path(fmt.Sprintf("%s-%s.cdx.json", r.project.Name, r.version)), text.Bytes(), 0o644)
}

// component returns linerate itself.
func (r *release) component() cyclonedx.Component {
	purl := "pkg:golang/" + r.project.Module + "@v" + r.version
	return cyclonedx.Component{
		BOMRef: purl, Type: cyclonedx.ComponentTypeApplication, Name: r.project.Name, Version: r.version, Description: r.project.Summary, PackageURL: purl,
		Licenses:           &cyclonedx.Licenses{{License: &cyclonedx.License{ID: r.project.License}}},
		ExternalReferences: &[]cyclonedx.ExternalReference{{Type: cyclonedx.ERTypeWebsite, URL: r.project.Homepage}},
	}
}

// part is a module in a program, and the systems whose programs contain it.
type part struct {
	path, version, sum string
	in                 []string
}

func (m part) component(all int) cyclonedx.Component {
	purl := "pkg:golang/" + m.path + "@" + m.version
	c := cyclonedx.Component{BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: purl}
	properties := []cyclonedx.Property{}
	if m.sum != "" {
		properties = append(properties, cyclonedx.Property{Name: "go:sum", Value: m.sum})
	}
	if len(m.in) < all {
		properties = append(properties, cyclonedx.Property{Name: "linerate:systems", Value: strings.Join(m.in, " ")})
	}
	if len(properties) > 0 {
		c.Properties = &properties
	}
	return c
}
