// Command release creates the files of a release: archives for eight systems, packages for
// Debian, Red Hat, Alpine and FreeBSD, manifests for Homebrew, winget and Scoop, a container
// image, the list of parts, and the checksums of all of them.
//
// The same commit, version and Go give the same bytes, wherever and whenever it runs: every
// time in every file is that of the commit. It is a module of its own, so that its dependencies
// are not linerate's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// release describes what to create, and where.
type release struct {
	project project
	version string    // 1.2.3 or 1.2.3-rc.1
	time    time.Time // time stamp of every file
	tree    string    // the source
	out     string    // the files of the release
	work    string    // intermediate files, removed at the end
	targets []target
	common  []file // files of every target: texts, man pages, completions
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run parses the flags and creates the release.
func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	version := fs.String("version", "", "the version: 1.2.3, or 1.2.3-rc.1 (v1.2.3 is the same)")
	tree := fs.String("tree", "..", "the source")
	out := fs.String("out", "", "folder of the files; it must be new or empty")
	epoch := fs.String("epoch", os.Getenv("SOURCE_DATE_EPOCH"), "seconds since 1970 of the commit, the time of every file (default $SOURCE_DATE_EPOCH)")
	only := fs.String("targets", "", "some systems only: linux/amd64,windows/arm64 (default all eight)")
	if err := fs.Parse(args); err != nil {
		return err
	}
	r, err := newRelease(*version, *tree, *out, *epoch, *only)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	return r.make(ctx)
}

// newRelease checks all arguments before anything is built.
func newRelease(version, tree, out, epoch, only string) (*release, error) {
	version = strings.TrimPrefix(version, "v")
	if !versionForm.MatchString(version) {
		return nil, fmt.Errorf("-version %q: want 1.2.3 or 1.2.3-rc.1", version)
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds <= 0 {
		return nil, fmt.Errorf("-epoch %q: want seconds since 1970, as git log -1 --format=%%ct prints", epoch)
	}
	targets, err := targetsOf(only)
	if err != nil {
		return nil, err
	}
	if out == "" {
		return nil, errors.New("-out: want the folder of the files")
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("-out %s: has files already; a release is made into an empty folder", out)
	}
	tree, err = filepath.Abs(tree)
	if err != nil {
		return nil, err
	}
	p, err := readProject(filepath.Join(tree, "project.yaml"))
	if err != nil {
		return nil, err
	}
	if out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "linerate-release-")
	if err != nil {
		return nil, err
	}
	return &release{project: p, version: version, time: time.Unix(seconds, 0).UTC(), tree: tree, out: out, work: work, targets: targets}, nil
}

// versionForm is the version syntax that all package formats support (semver.org, without build
// metadata).
var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){2}(-[a-z]+(\.[0-9]{1,5})?)?$`)

// make creates every file, in an order that finds cheap mistakes first.
func (r *release) make(ctx context.Context) error {
	begun := time.Now()
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"programs", r.build},
		{"man pages, completions, texts", r.texts},
		{"archives", r.archives},
		{"agents of all systems", r.allAgents},
		{"deb, rpm, apk", r.linuxPackages},
		{"FreeBSD packages", r.freebsdPackages},
		{"container image", r.image},
		{"list of parts", r.parts},
		{"manifests", r.manifests},
		{"checksums", r.checksums},
	}
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("release: %s (%.0f s)\n", s.name, time.Since(begun).Seconds())
	}
	fmt.Printf("release: %s %s in %s, by %s\n", r.project.Name, r.version, r.out, runtime.Version())
	return nil
}

// path returns the path of a file of the release.
func (r *release) path(name string) string { return filepath.Join(r.out, name) }
