package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// archiveName returns the archive file of a target's program, and the folder within.
func (r *release) archiveName(t target) (name, folder string) {
	folder = fmt.Sprintf("%s-%s-%s-%s", r.project.Name, r.version, t.os, t.arch)
	if t.os == "windows" {
		return folder + ".zip", folder
	}
	return folder + ".tar.gz", folder
}

// allAgents writes one archive with the agents of every system, under the names that linerate
// looks for. A release of only some systems has none.
func (r *release) allAgents(context.Context) error {
	if len(r.agents()) == len(r.targets) {
		return nil
	}
	name := fmt.Sprintf("%s-agents-%s", r.project.Name, r.version)
	var files []file
	for _, t := range r.agents() {
		data, err := os.ReadFile(r.programFile(t, "linerate-agent"))
		if err != nil {
			return err
		}
		files = append(files, file{path.Join(name, fmt.Sprintf("linerate-agent-%s-%s%s", t.os, t.arch, t.suffix())), 0o755, data})
	}
	sortFiles(files)
	var b bytes.Buffer
	if err := writeTarGz(&b, files, r.time); err != nil {
		return err
	}
	return os.WriteFile(r.path(name+".tar.gz"), b.Bytes(), 0o644)
}

// archives writes an archive for each target: the programs, licence, pages and completions.
func (r *release) archives(context.Context) error {
	for _, t := range r.targets {
		programs, err := r.programs(t)
		if err != nil {
			return err
		}
		files := append(slices.Clone(r.common), programs...)
		sortFiles(files)
		name, folder := r.archiveName(t)
		for i := range files {
			files[i].name = path.Join(folder, files[i].name)
		}
		var b bytes.Buffer
		if t.os == "windows" {
			err = writeZip(&b, files, r.time)
		} else {
			err = writeTarGz(&b, files, r.time)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(r.path(name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeTar writes files owned by root, all with the time at.
func writeTar(w io.Writer, files []file, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
			if f.mode&os.ModeSticky != 0 {
				h.Mode |= 0o1000 // POSIX ustar, S_ISVTX
			}
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeTarGz(w io.Writer, files []file, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(z, files, at); err != nil {
		return err
	}
	return z.Close()
}

func writeZip(w io.Writer, files []file, at time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		entry, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// gzipped returns data as compressed by gzip -9n: without a name and a time.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// sum returns the SHA-256 of a file of the release.
func (r *release) sum(name string) (string, error) {
	f, err := os.Open(r.path(name))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// checksums writes SHA256SUMS for sha256sum --check.
func (r *release) checksums(context.Context) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("%s is a folder: a release is files", e.Name())
		}
		sum, err := r.sum(e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(r.path("SHA256SUMS"), []byte(b.String()), 0o644)
}
