package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"linerate/internal/must"
)

// TestUnit checks the package's unit with systemd: it has no unknown line, and the server can
// do little to its host.
func TestUnit(t *testing.T) {
	analyze := need(t, "systemd-analyze")
	root := t.TempDir()
	unpack(t, root)
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--root="+root, "--man=no", "--recursive-errors=no", "linerate.service").CombinedOutput()
	must.True(t, err == nil && len(bytes.TrimSpace(out)) == 0, "verify: %v\n%s", err, out)
	out, err = exec.CommandContext(t.Context(), analyze, "security", "--offline=yes", "--no-pager", "--threshold=20", filepath.Join(root, service)).CombinedOutput()
	must.True(t, err == nil, "security: %v\n%s", err, out) // the threshold is an exposure of 2.0 of 10
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
}

// TestManPages checks the pages with mandoc, and with man(1) that a flag is in the right place.
func TestManPages(t *testing.T) {
	mandoc := need(t, "mandoc")
	root := t.TempDir()
	unpack(t, root)
	packed, err := filepath.Glob(filepath.Join(root, "usr/share/man/man1/*.gz"))
	must.Need(t, err == nil && len(packed) >= 30, "%d pages, %v", len(packed), err)
	succeed(t, need(t, "gzip"), append([]string{"-d"}, packed...)...)
	pages, _ := filepath.Glob(filepath.Join(root, "usr/share/man/man1/*.1"))
	out, err := exec.CommandContext(t.Context(), mandoc, append([]string{"-T", "lint", "-W", "error"}, pages...)...).CombinedOutput()
	must.True(t, err == nil, "%v\n%s", err, out)
	text := must.Get(exec.CommandContext(t.Context(), mandoc, "-T", "utf8", filepath.Join(root, "usr/share/man/man1/linerate.1")).Output())(t)
	plain := overstruck(string(text))
	for _, want := range []string{"ssh://user@nas:2222", "  lab:rate=1gbit,rtt=10ms", "find what limits your network", "--timeout"} {
		must.True(t, strings.Contains(plain, want), "linerate.1 does not say %q\n%s", want, plain)
	}
}

// overstruck removes letters that a terminal overstrikes.
func overstruck(text string) string {
	out := []rune{}
	for _, r := range text {
		if r == '\b' && len(out) > 0 {
			out = out[:len(out)-1]
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	must.SkipIf(t, err != nil, "no %s here (make release-test with LINERATE_INSTALL=all installs it)", program)
	return path
}

// unpack unpacks the deb for this architecture.
func unpack(t *testing.T, root string) {
	t.Helper()
	succeed(t, need(t, "dpkg-deb"), "-x", one(t, "linerate_*_"+runtime.GOARCH+".deb"), root)
}

func succeed(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	must.Need(t, err == nil, "%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	return string(out)
}

// debian returns a fresh Debian root, from a tar that is created once a month; see
// scripts/release-test.
func debian(t *testing.T) string {
	t.Helper()
	base := os.Getenv("LINERATE_DEBIAN_ROOT")
	must.SkipIf(t, base == "" || os.Getuid() != 0, "LINERATE_DEBIAN_ROOT names no tar of a Debian, or this is not root: make release-test makes one with mmdebstrap")
	root := filepath.Join(t.TempDir(), "debian")
	must.Do(t, os.Mkdir(root, 0o755))
	succeed(t, "tar", "-xpf", base, "--exclude=./dev/*", "-C", root)
	return root
}

// inside runs a command with root as its root, in namespaces of its own.
func inside(t *testing.T, root string, args ...string) string {
	t.Helper()
	return succeed(t, "./inroot", append([]string{root}, args...)...)
}

// tree returns the files of a root with their type, except a package manager's own, and those
// of the running kernel.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, root)
		if slices.Contains([]string{"/proc", "/dev", "/run", "/var/lib/dpkg", "/var/lib/rpm", "/var/log", "/var/cache", "/var/lib/apt", "/tmp", "/usr/lib/sysimage"}, name) {
			return filepath.SkipDir
		}
		out[name] = d.Type().String()
		return nil
	})
	must.Do(t, err)
	return out
}

// same checks that a root is unchanged, except for the user's results.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		_, was := before[name]
		must.True(t, was || strings.HasPrefix(name, "/root/"), "%s is left behind", name)
	}
	for name := range before {
		_, is := after[name]
		must.True(t, is, "%s is gone", name)
	}
}

// used runs linerate as a user would: the demo in the lab, and its results.
func used(t *testing.T, root string) {
	t.Helper()
	must.Contain(t, inside(t, root, "linerate", "version"), version(t), "linerate version says")
	must.Contain(t, inside(t, root, "linerate", "demo"), "undone", "the demo ends otherwise")
	must.Contain(t, inside(t, root, "linerate", "list"), "tune", "its results are not there")
}

// TestDeb installs, uses and removes the package in a fresh Debian with its own tools.
func TestDeb(t *testing.T) {
	root := debian(t)
	succeed(t, "cp", one(t, "linerate_*_"+runtime.GOARCH+".deb"), filepath.Join(root, "root/linerate.deb"))
	before := tree(t, root)
	inside(t, root, "apt-get", "install", "-q", "-y", "--no-install-recommends", "/root/linerate.deb")
	for _, name := range []string{"usr/bin/linerate", service, "usr/share/bash-completion/completions/linerate"} {
		must.OK(t, must.Err(os.Stat(filepath.Join(root, name))))
	}
	must.Equal(t, inside(t, root, "dpkg", "--verify", "linerate"), "", "dpkg --verify")
	used(t, root)
	inside(t, root, "apt-get", "purge", "-q", "-y", "linerate")
	same(t, before, tree(t, root))
	must.True(t, strings.TrimSpace(inside(t, root, "sh", "-c", "ls -A /root/.local/share/linerate")) != "", "the results of the user went with the package")
}

// TestRPM does the same with rpm, whose files need no Red Hat system.
func TestRPM(t *testing.T) {
	rpm := need(t, "rpm")
	root := debian(t)
	before := tree(t, root)
	file := one(t, "linerate-*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")
	succeed(t, rpm, "--root", root, "--initdb")
	succeed(t, rpm, "--root", root, "--nodeps", "--nosignature", "-i", file)
	out := succeed(t, rpm, "--root", root, "-q", "linerate")
	must.True(t, strings.Contains(out, "linerate-1") || *made != "", "%v", out)
	succeed(t, rpm, "--root", root, "--nodeps", "-V", "linerate")
	used(t, root)
	succeed(t, rpm, "--root", root, "-e", "linerate")
	after := tree(t, root)
	for name := range after {
		if strings.Contains(name, "/.rpmdb") { // Debian's rpm keeps its own database in the user's home
			delete(after, name)
		}
	}
	same(t, before, after)
}

// TestAPK unpacks the package as apk does, one gzip stream after the other
// (wiki.alpinelinux.org, Apk spec), and installs it with apk if available: Debian has none.
func TestAPK(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	pack := one(t, "linerate_*_"+arch+".apk")
	z := must.Get(gzip.NewReader(bytes.NewReader(must.Get(os.ReadFile(pack))(t))))(t)
	all := must.Get(io.ReadAll(z))(t) // one stream after the other, as apk reads them
	info, program := "", []byte(nil)
	for tr := tar.NewReader(bytes.NewReader(all)); ; {
		h, err := tr.Next()
		if err != nil {
			break
		}
		switch h.Name {
		case ".PKGINFO":
			text, _ := io.ReadAll(tr)
			info = string(text)
		case "usr/bin/linerate":
			program, _ = io.ReadAll(tr)
		}
	}
	for _, want := range []string{"pkgname = linerate", "arch = " + arch, "license = Apache-2.0", "datahash = "} {
		must.True(t, strings.Contains(info, want), "%q is not in .PKGINFO:\n%s", want, info)
	}
	file := filepath.Join(t.TempDir(), "linerate")
	must.Do(t, os.WriteFile(file, program, 0o700))
	must.Contain(t, succeed(t, file, "version"), version(t), "linerate version says")
	t.Run("with apk", func(t *testing.T) {
		apk, err := exec.LookPath("apk")
		must.SkipIf(t, err != nil, "no apk here, and Debian has no package of it: the package was unpacked, and not installed")
		root := t.TempDir()
		succeed(t, apk, "add", "--root", root, "--initdb", "--arch", arch, "--no-network", "--allow-untrusted", pack)
		must.Contain(t, succeed(t, filepath.Join(root, "usr/bin/linerate"), "version"), version(t), "linerate version says")
		succeed(t, apk, "del", "--root", root, "linerate")
		must.Fail(t, must.Err(os.Stat(filepath.Join(root, "usr/bin/linerate"))), "the program is left behind")
	})
}

// TestImage checks the image with the library, and starts its program as the image's user, with
// only the files of the image.
func TestImage(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(folder, "linerate-*-oci.tar"))
	must.Need(t, err == nil && len(found) == 1, "%v, %v", found, err)
	dir := t.TempDir()
	succeed(t, "tar", "-xf", found[0], "-C", dir)
	outer := must.Get(layout.ImageIndexFromPath(dir))(t)
	must.Do(t, validate.Index(outer))
	index := must.Get(outer.ImageIndex(must.Get(outer.IndexManifest())(t).Manifests[0].Digest))(t)
	m := must.Get(index.IndexManifest())(t)
	if skopeo, err := exec.LookPath("skopeo"); err == nil {
		t.Log(succeed(t, skopeo, "inspect", "--override-arch", runtime.GOARCH, "--override-os", "linux", "oci-archive:"+found[0]))
	}
	for _, d := range m.Manifests {
		if d.Platform.Architecture != runtime.GOARCH {
			continue
		}
		img := must.Get(index.Image(d.Digest))(t)
		c, err := img.ConfigFile()
		must.Need(t, err == nil && c.Config.User == "65532:65532" && c.Config.Entrypoint[0] == "/usr/bin/linerate", "%+v, %v", c, err)
		root := t.TempDir()
		layers := mutate.Extract(img)
		tarred := must.Get(os.Create(filepath.Join(t.TempDir(), "root.tar")))(t)
		must.Do(t, must.Err(io.Copy(tarred, layers)))
		must.Do(t, tarred.Close())
		succeed(t, "tar", "-xpf", tarred.Name(), "-C", root)
		must.SkipIf(t, os.Getuid() != 0, "the image is whole; starting its program in it needs root")
		must.Do(t, os.Chmod(root, 0o755)) //nolint:gosec // the root of a container is read by its user
		must.Contain(t, succeed(t, need(t, "chroot"), "--userspec=65532:65532", root, "/usr/bin/linerate", "version"), version(t), "linerate version says")
		succeed(t, need(t, "chroot"), "--userspec=65532:65532", root, "/usr/bin/linerate", "list", "--db", "/data/results.db")
		return
	}
	t.Errorf("no image for %s in %v", runtime.GOARCH, m.Manifests)
}

// TestBadInputs: bad inputs are refused before anything is built.
func TestBadInputs(t *testing.T) {
	full := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(full, "a"), nil, 0o600))
	for want, args := range map[string][]string{
		`-version "": want`:         {"-out", "x", "-epoch", "1"},
		`-version "1.2": want`:      {"-version", "1.2", "-out", "x", "-epoch", "1"},
		`-version "1.2.3; rm": `:    {"-version", "1.2.3; rm", "-out", "x", "-epoch", "1"},
		`-epoch "": want`:           {"-version", "1.2.3", "-out", "x", "-epoch", ""},
		`-epoch "soon": want`:       {"-version", "1.2.3", "-out", "x", "-epoch", "soon"},
		`-out: want`:                {"-version", "1.2.3", "-epoch", "1"},
		`has files already`:         {"-version", "1.2.3", "-epoch", "1", "-out", full},
		`"plan9/amd64" is none of `: {"-version", "1.2.3", "-epoch", "1", "-out", "x", "-targets", "plan9/amd64"},
		`project.yaml`:              {"-version", "1.2.3", "-epoch", "1", "-out", t.TempDir(), "-tree", full},
	} {
		must.Say(t, run(t.Context(), args), want, "%v", args)
	}
	for want, text := range map[string]string{
		"homepage": "name: a\nsummary: a\ndescription: a\nmodule: a\nmaintainer: a\nlicense: a\nhomepage: a\ndownload: https://a/VERSION\n",
		"VERSION":  "name: a\nsummary: a\ndescription: a\nmodule: a\nmaintainer: a\nlicense: a\nhomepage: https://a\ndownload: https://a\n",
		"unknown":  "nam: a\n",
		"is empty": "homepage: https://a\ndownload: https://a/VERSION\n",
	} {
		file := filepath.Join(t.TempDir(), "project.yaml")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		must.Say(t, must.Err(readProject(file)), want)
	}
}
