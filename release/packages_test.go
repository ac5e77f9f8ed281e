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
)

// TestUnit has systemd judge the unit of the package: no line that it does not know,
// and little that the server could do to its host.
func TestUnit(t *testing.T) {
	analyze := need(t, "systemd-analyze")
	root := t.TempDir()
	unpack(t, root)
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--root="+root, "--man=no", "--recursive-errors=no", "linerate.service").CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), analyze, "security", "--offline=yes", "--no-pager", "--threshold=20", filepath.Join(root, service)).CombinedOutput()
	if err != nil { // the threshold is an exposure of 2.0 of 10
		t.Errorf("security: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
}

// TestManPages has mandoc judge them, and man(1) find a flag where it belongs.
func TestManPages(t *testing.T) {
	mandoc := need(t, "mandoc")
	root := t.TempDir()
	unpack(t, root)
	packed, err := filepath.Glob(filepath.Join(root, "usr/share/man/man1/*.gz"))
	if err != nil || len(packed) < 30 {
		t.Fatalf("%d pages, %v", len(packed), err)
	}
	must(t, need(t, "gzip"), append([]string{"-d"}, packed...)...)
	pages, _ := filepath.Glob(filepath.Join(root, "usr/share/man/man1/*.1"))
	out, err := exec.CommandContext(t.Context(), mandoc, append([]string{"-T", "lint", "-W", "error"}, pages...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := exec.CommandContext(t.Context(), mandoc, "-T", "utf8", filepath.Join(root, "usr/share/man/man1/linerate.1")).Output()
	if err != nil {
		t.Fatal(err)
	}
	plain := overstruck(string(text))
	for _, want := range []string{"ssh://user@nas:2222", "  lab:rate=1gbit,rtt=10ms", "find what limits your network", "--timeout"} {
		if !strings.Contains(plain, want) {
			t.Errorf("linerate.1 does not say %q\n%s", want, plain)
		}
	}
}

// overstruck is text without the letters that a terminal prints twice.
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
	if err != nil {
		t.Skipf("no %s here (make release-test with LINERATE_INSTALL=all installs it)", program)
	}
	return path
}

// unpack unpacks the deb of this processor.
func unpack(t *testing.T, root string) {
	t.Helper()
	must(t, need(t, "dpkg-deb"), "-x", one(t, "linerate_*_"+runtime.GOARCH+".deb"), root)
}

func must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// debian is a fresh root with Debian, from a tar that is made once a month; see
// scripts/release-test.
func debian(t *testing.T) string {
	t.Helper()
	base := os.Getenv("LINERATE_DEBIAN_ROOT")
	if base == "" || os.Getuid() != 0 {
		t.Skip("LINERATE_DEBIAN_ROOT names no tar of a Debian, or this is not root: make release-test makes one with mmdebstrap")
	}
	root := filepath.Join(t.TempDir(), "debian")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	must(t, "tar", "-xpf", base, "--exclude=./dev/*", "-C", root)
	return root
}

// inside runs a command with root as its root, in namespaces of its own.
func inside(t *testing.T, root string, args ...string) string {
	t.Helper()
	return must(t, "./inroot", append([]string{root}, args...)...)
}

// tree are the files of a root with their kind, except what a package manager keeps
// for itself, and what belongs to the running kernel.
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
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same holds that a root has what it had, but for the results of the user.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[name]; !was && !strings.HasPrefix(name, "/root/") {
			t.Errorf("%s is left behind", name)
		}
	}
	for name := range before {
		if _, is := after[name]; !is {
			t.Errorf("%s is gone", name)
		}
	}
}

// used runs linerate as its user would: the demo in the lab, and its results.
func used(t *testing.T, root string) {
	t.Helper()
	if out := inside(t, root, "linerate", "version"); !strings.Contains(out, version(t)) {
		t.Errorf("linerate version says %s", out)
	}
	if out := inside(t, root, "linerate", "demo"); !strings.Contains(out, "undone") {
		t.Errorf("the demo ends otherwise:\n%s", out)
	}
	if out := inside(t, root, "linerate", "list"); !strings.Contains(out, "tune") {
		t.Errorf("its results are not there: %s", out)
	}
}

// TestDeb installs, uses and removes the package in a fresh Debian with its own tools.
func TestDeb(t *testing.T) {
	root := debian(t)
	deb := one(t, "linerate_*_"+runtime.GOARCH+".deb")
	must(t, "cp", deb, filepath.Join(root, "root/linerate.deb"))
	before := tree(t, root)
	inside(t, root, "apt-get", "install", "-q", "-y", "--no-install-recommends", "/root/linerate.deb")
	for _, name := range []string{"usr/bin/linerate", service, "usr/share/bash-completion/completions/linerate"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	if out := inside(t, root, "dpkg", "--verify", "linerate"); out != "" {
		t.Errorf("dpkg --verify: %s", out)
	}
	used(t, root)
	inside(t, root, "apt-get", "purge", "-q", "-y", "linerate")
	same(t, before, tree(t, root))
	if out := inside(t, root, "sh", "-c", "ls -A /root/.local/share/linerate"); strings.TrimSpace(out) == "" {
		t.Error("the results of the user went with the package")
	}
}

// TestRPM does the same with rpm, whose files need no Red Hat around them.
func TestRPM(t *testing.T) {
	rpm := need(t, "rpm")
	root := debian(t)
	before := tree(t, root)
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	file := one(t, "linerate-*."+arch+".rpm")
	must(t, rpm, "--root", root, "--initdb")
	must(t, rpm, "--root", root, "--nodeps", "--nosignature", "-i", file)
	if out := must(t, rpm, "--root", root, "-q", "linerate"); !strings.Contains(out, "linerate-1") && *made == "" {
		t.Error(out)
	}
	must(t, rpm, "--root", root, "--nodeps", "-V", "linerate")
	used(t, root)
	must(t, rpm, "--root", root, "-e", "linerate")
	after := tree(t, root)
	for name := range after {
		if strings.Contains(name, "/.rpmdb") { // Debian's rpm keeps its own database in the home of its user
			delete(after, name)
		}
	}
	same(t, before, after)
}

// TestAPK unpacks the package as apk does, one stream of gzip after the other
// (wiki.alpinelinux.org, Apk spec), and has apk itself install it where there is one:
// Debian has none.
func TestAPK(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	pack := one(t, "linerate_*_"+arch+".apk")
	b, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z) // one stream after the other, as apk reads them
	if err != nil {
		t.Fatal(err)
	}
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
		if !strings.Contains(info, want) {
			t.Errorf("%q is not in .PKGINFO:\n%s", want, info)
		}
	}
	file := filepath.Join(t.TempDir(), "linerate")
	if err := os.WriteFile(file, program, 0o700); err != nil {
		t.Fatal(err)
	}
	if out := must(t, file, "version"); !strings.Contains(out, version(t)) {
		t.Errorf("linerate version says %s", out)
	}
	t.Run("with apk", func(t *testing.T) {
		apk, err := exec.LookPath("apk")
		if err != nil {
			t.Skip("no apk here, and Debian has no package of it: the package was unpacked, and not installed")
		}
		root := t.TempDir()
		must(t, apk, "add", "--root", root, "--initdb", "--arch", arch, "--no-network", "--allow-untrusted", pack)
		if out := must(t, filepath.Join(root, "usr/bin/linerate"), "version"); !strings.Contains(out, version(t)) {
			t.Errorf("linerate version says %s", out)
		}
		must(t, apk, "del", "--root", root, "linerate")
		if _, err := os.Stat(filepath.Join(root, "usr/bin/linerate")); err == nil {
			t.Error("the program is left behind")
		}
	})
}

// TestImage holds the image against the library's own check, and starts its program as
// the user that it names, with nothing around it but what is in the image.
func TestImage(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(folder, "linerate-*-oci.tar"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	dir := t.TempDir()
	must(t, "tar", "-xf", found[0], "-C", dir)
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Fatal(err)
	}
	m, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	if skopeo, err := exec.LookPath("skopeo"); err == nil {
		t.Log(must(t, skopeo, "inspect", "--override-arch", runtime.GOARCH, "--override-os", "linux", "oci-archive:"+found[0]))
	}
	for _, d := range m.Manifests {
		if d.Platform.Architecture != runtime.GOARCH {
			continue
		}
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := img.ConfigFile()
		if err != nil || c.Config.User != "65532:65532" || c.Config.Entrypoint[0] != "/usr/bin/linerate" {
			t.Fatalf("%+v, %v", c, err)
		}
		root := t.TempDir()
		layers := mutate.Extract(img)
		tarred, err := os.Create(filepath.Join(t.TempDir(), "root.tar"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(tarred, layers); err != nil {
			t.Fatal(err)
		}
		if err := tarred.Close(); err != nil {
			t.Fatal(err)
		}
		must(t, "tar", "-xpf", tarred.Name(), "-C", root)
		if os.Getuid() != 0 {
			t.Skip("the image is whole; starting its program in it needs root")
		}
		if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // the root of a container is read by its user
			t.Fatal(err)
		}
		out := must(t, need(t, "chroot"), "--userspec=65532:65532", root, "/usr/bin/linerate", "version")
		if !strings.Contains(out, version(t)) {
			t.Errorf("linerate version says %s", out)
		}
		must(t, need(t, "chroot"), "--userspec=65532:65532", root, "/usr/bin/linerate", "list", "--db", "/data/results.db")
		return
	}
	t.Errorf("no image for %s in %v", runtime.GOARCH, m.Manifests)
}
