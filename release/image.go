package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user of the program in a container: a number, so that runtimes can verify that
// it is not root without reading /etc/passwd.
const nobody = 65532

// image writes one file in OCI layout, for both architectures: the program, a user, a folder
// for results, and nothing else. It needs no daemon.
func (r *release) image(context.Context) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	some := false
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		img, err := r.imageOf(t)
		if err != nil {
			return err
		}
		some = true
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: t.os, Architecture: t.arch},
			Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version + "-" + t.arch},
		}})
	}
	if !some {
		return nil
	}
	folder := filepath.Join(r.work, "oci")
	if _, err := layout.Write(folder, mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version}},
	})); err != nil {
		return err
	}
	files, err := below(folder)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTar(&b, files, r.time); err != nil {
		return err
	}
	return os.WriteFile(r.path(fmt.Sprintf("%s-%s-oci.tar", r.project.Name, r.version)), b.Bytes(), 0o644)
}

// imageOf returns the image for one architecture.
func (r *release) imageOf(t target) (v1.Image, error) {
	program, err := os.ReadFile(r.binary(t))
	if err != nil {
		return nil, err
	}
	files := []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\nlinerate:x:%d:\n", nobody)},
		{"etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0:root:/:/nologin\nlinerate:x:%d:%d:linerate:/data:/nologin\n", nobody, nobody)},
		{"tmp/", 0o777 | os.ModeSticky, nil},
		{"data/", 0o777 | os.ModeSticky, nil}, // results and keys; a volume is mounted over it
		{"usr/", 0o755, nil},
		{"usr/bin/", 0o755, nil},
		{"usr/bin/linerate", 0o755, program},
	}
	for _, f := range r.common {
		if f.name == "LICENSE" {
			files = append(files, file{"LICENSE", f.mode, f.data})
		}
	}
	sortFiles(files)
	var layer bytes.Buffer
	if err := writeTar(&layer, files, r.time); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
		tarball.WithCompressionLevel(9), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	at := v1.Time{Time: r.time}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{Created: at, CreatedBy: "make release", Comment: r.project.Name + " " + r.version}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, r.imageConfig(img, t, at))
}

// imageConfig returns the runtime configuration of an image, in addition to that of img's
// layers.
func (r *release) imageConfig(img v1.Image, t target, at v1.Time) *v1.ConfigFile {
	old, err := img.ConfigFile()
	if err != nil {
		old = &v1.ConfigFile{}
	}
	c := old.DeepCopy()
	c.OS, c.Architecture, c.Created = t.os, t.arch, at
	c.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", nobody, nobody), Entrypoint: []string{"/usr/bin/linerate"}, Cmd: []string{"--help"}, WorkingDir: "/data",
		Env:          []string{"HOME=/data", "PATH=/usr/bin"},
		ExposedPorts: map[string]struct{}{"5299/tcp": {}, "5299/udp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": r.project.Name, "org.opencontainers.image.description": r.project.Summary, "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.url": r.project.Homepage, "org.opencontainers.image.licenses": r.project.License, "org.opencontainers.image.created": at.UTC().Format("2006-01-02T15:04:05Z"),
		},
	}
	return c
}

// below returns the files and folders in a folder, with slashes.
func below(folder string) ([]file, error) {
	var out []file
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, folder+string(filepath.Separator)))
		if d.IsDir() {
			out = append(out, file{name + "/", 0o755, nil})
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out = append(out, file{name, 0o644, data})
		return nil
	})
	sortFiles(out)
	return out, err
}
