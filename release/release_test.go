package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/goccy/go-yaml"
	"github.com/klauspost/compress/zstd"

	"linerate/internal/must"
)

var (
	made = flag.String("release", "", "a release that make release has made; without it one is made for Linux on this processor")
	slow = flag.Bool("all", false, "all systems, twice: what make release-test does")
)

const (
	testVersion = "1.2.3-rc.1"
	testEpoch   = "1700000000"
)

// targets returns the targets that the tests build.
func targets() string {
	if *slow {
		return ""
	}
	return "linux/" + runtime.GOARCH
}

// folder is a release to inspect, created once.
var folder string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		folder = *made
		if folder == "" {
			dir, err := os.MkdirTemp("", "release")
			if err != nil {
				fmt.Println(err)
				return 1
			}
			defer func() { _ = os.RemoveAll(dir) }()
			folder = filepath.Join(dir, "out")
			if err := run(context.Background(), []string{"-version", "v" + testVersion, "-tree", "..", "-epoch", testEpoch, "-targets", targets(), "-out", folder}); err != nil {
				fmt.Println(err)
				return 1
			}
		}
		return m.Run()
	}())
}

// TestReproducible creates the same release again: from a copy of the source in another folder,
// with another name, time zone, umask and environment flags.
func TestReproducible(t *testing.T) {
	must.SkipIf(t, !*slow && *made == "" && testing.Short(), "-short")
	tree := filepath.Join(t.TempDir(), "another place", "tree")
	copyTree(t, "..", tree)
	again := filepath.Join(t.TempDir(), "again")
	t.Setenv("TZ", "Pacific/Auckland")
	t.Setenv("GOFLAGS", "-buildvcs=true")
	t.Setenv("LC_ALL", "C")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	t.Setenv("GOAMD64", "v3")
	must.Do(t, run(t.Context(), []string{"-version", testVersion, "-tree", tree, "-epoch", testEpoch, "-targets", targets(), "-out", again}))
	first, second := sums(t, folder), sums(t, again)
	for name, sum := range first {
		must.True(t, second[name] == sum, "%s: %s, and %s the second time", name, sum, second[name])
	}
	must.True(t, len(first) == len(second) && len(first) >= 6, "%d files, and %d the second time", len(first), len(second))
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	must.SkipIf(t, err != nil, "no checkout to copy: %v", err)
	for name := range strings.SplitSeq(strings.Trim(string(list), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			continue // removed and not committed yet
		}
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(to, name), b, 0o600))
	}
}

// sums returns the checksums of the files in a folder.
func sums(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries := must.Get(os.ReadDir(folder))(t)
	out := map[string]string{}
	for _, e := range entries {
		sum := sha256.Sum256(must.Get(os.ReadFile(filepath.Join(folder, e.Name())))(t))
		out[e.Name()] = hex.EncodeToString(sum[:])
	}
	return out
}

// TestChecksums checks the list with sha256sum(1), and that it has every file.
func TestChecksums(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	must.Need(t, err == nil, "%v\n%s", err, out)
	n, files := strings.Count(string(out), ": OK"), len(sums(t, folder))
	must.True(t, n == files-1, "%d of %d files have a sum", n, files-1)
}

// one returns the file of the release whose name matches the pattern; it skips the test if its
// system was not built.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found := must.Get(filepath.Glob(filepath.Join(folder, pattern)))(t)
	must.SkipIf(t, len(found) == 0 && !*slow && !strings.Contains(pattern, "linux"), "%s: make release-test builds it", pattern)
	must.Need(t, len(found) == 1, "%s: %v", pattern, found)
	return found[0]
}

// entries returns the files of a tar, with their headers.
func entries(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return out
		}
		must.Do(t, err)
		out[h.Name] = must.Get(io.ReadAll(tr))(t)
	}
}

// TestArchives runs the program from this system's archive, and inspects one for Windows.
func TestArchives(t *testing.T) {
	file := one(t, "linerate-*-linux-"+runtime.GOARCH+".tar.gz")
	z := must.Get(gzip.NewReader(bytes.NewReader(must.Get(os.ReadFile(file))(t))))(t)
	files := entries(t, z)
	top := strings.TrimSuffix(filepath.Base(file), ".tar.gz")
	for _, name := range []string{"linerate", "linerate-agent", "LICENSE", "README.md", "CHANGELOG.md", "man/linerate.1", "man/linerate-test.1", "completions/linerate.bash", "completions/_linerate"} {
		must.True(t, len(files[path.Join(top, name)]) != 0, "%s is not in it", name)
	}
	program := filepath.Join(t.TempDir(), "linerate")
	must.Do(t, os.WriteFile(program, files[path.Join(top, "linerate")], 0o700))
	out, err := exec.CommandContext(t.Context(), program, "version").Output()
	must.True(t, err == nil && strings.Contains(string(out), version(t)), "%s, %v: want version %s", out, err, version(t))
	for _, path := range []string{os.TempDir() + "/", cwd(t), os.Getenv("HOME") + "/go"} {
		must.True(t, !bytes.Contains(files[top+"/linerate"], []byte(path)) || path == "/tmp/", "the program knows %s of the machine that built it", path)
	}
	r := must.Get(zip.OpenReader(one(t, "linerate-*-windows-amd64.zip")))(t)
	defer func() { _ = r.Close() }()
	must.True(t, slices.ContainsFunc(r.File, func(f *zip.File) bool {
		return strings.HasSuffix(f.Name, "/linerate.exe") && f.UncompressedSize64 > 1<<20
	}), "linerate.exe is not in the archive for Windows")
}

func cwd(t *testing.T) string {
	t.Helper()
	return must.Get(filepath.Abs(".."))(t)
}

// version returns the version of the release, from its list of parts.
func version(t *testing.T) string {
	t.Helper()
	bom, _ := parts(t)
	return bom.Metadata.Component.Version
}

func parts(t *testing.T) (*cyclonedx.BOM, string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.cdx.json"))
	must.Need(t, err == nil && len(found) == 1, "%v, %v", found, err)
	b := must.Get(os.ReadFile(found[0]))(t)
	bom := cyclonedx.NewBOM()
	must.Do(t, cyclonedx.NewBOMDecoder(bytes.NewReader(b), cyclonedx.BOMFileFormatJSON).Decode(bom))
	return bom, string(b)
}

// TestParts compares the list with go.mod: every module in a program is in the list with the
// version of go.mod, and no module that only tests or this tool use.
func TestParts(t *testing.T) {
	bom, text := parts(t)
	b := must.Get(os.ReadFile("../go.mod"))(t)
	for _, c := range *bom.Components {
		if c.Name == "std" {
			continue
		}
		must.True(t, strings.Contains(string(b), c.Name+" "+c.Version), "%s %s is not in go.mod", c.Name, c.Version)
	}
	for _, name := range []string{"github.com/spf13/cobra", "github.com/ncruces/go-sqlite3", "connectrpc.com/connect"} {
		must.True(t, strings.Contains(text, `"pkg:golang/`+name+"@"), "%s is not in the list", name)
	}
	for _, name := range []string{"nfpm", "chromedp", "rapid", "go-containerregistry"} {
		must.True(t, !strings.Contains(text, name), "%s is in the list, and in no program", name)
	}
}

// TestFreeBSDPackage checks the rules of pkg(8): the manifests first, the sum of each file. If
// pkg is available (it can be built on Linux, too) it installs and removes the package.
func TestFreeBSDPackage(t *testing.T) {
	pack := one(t, "linerate-*-freebsd-amd64.pkg")
	f := must.Get(os.Open(pack))(t)
	defer func() { _ = f.Close() }()
	z := must.Get(zstd.NewReader(f))(t)
	defer z.Close()
	files := entries(t, z)
	var m pkgManifest
	must.Do(t, json.Unmarshal(files["+MANIFEST"], &m))
	for name, want := range m.Files {
		sum := sha256.Sum256(files[name])
		must.True(t, want == "1$"+hex.EncodeToString(sum[:]) && strings.HasPrefix(name, "/usr/local/"), "%s: %s", name, want)
	}
	must.True(t, len(m.Files) == len(files)-2 && m.Version != "" && !strings.Contains(m.Version, "-") && m.ABI == "FreeBSD:*:amd64", "%+v", m)
	t.Run("with pkg", func(t *testing.T) {
		pkg, err := exec.LookPath("pkg")
		must.SkipIf(t, err != nil, "no pkg here, and Debian has no package of it: the package was read, and not installed")
		root := t.TempDir()
		must.Do(t, os.MkdirAll(filepath.Join(root, "var/db/pkg"), 0o755))
		in := func(args ...string) string {
			return succeed(t, pkg, append([]string{"-o", "ABI=FreeBSD:12:amd64", "-o", "OSVERSION=1201000", "-r", root}, args...)...)
		}
		in("add", pack)
		listed := in("info", "-l", "linerate")
		for name := range m.Files {
			b, err := os.ReadFile(filepath.Join(root, name))
			must.True(t, err == nil && bytes.Equal(b, files[name]) && strings.Contains(listed, name), "%s is not there, or differs: %v", name, err)
		}
		in("delete", "-y", "linerate")
		for name := range m.Files {
			must.Fail(t, must.Err(os.Stat(filepath.Join(root, name))), "%s is left behind", name)
		}
	})
}

// TestManifests parses each manifest in its format, and compares each sum with its archive.
func TestManifests(t *testing.T) {
	all := sums(t, folder)
	var scoop struct {
		Architecture map[string]struct{ URL, Hash, Extract_dir string } //nolint:revive // Scoop's name
	}
	b := must.Get(os.ReadFile(one(t, "linerate.scoop.json")))(t)
	must.Do(t, json.Unmarshal(b, &scoop))
	for arch, a := range scoop.Architecture {
		must.True(t, all[path.Base(a.URL)] == a.Hash, "scoop %s: %s has the sum %s", arch, a.URL, all[path.Base(a.URL)])
	}
	for _, name := range []string{"linerate.winget.yaml", "linerate.winget.installer.yaml", "linerate.winget.locale.en-US.yaml"} {
		b := must.Get(os.ReadFile(one(t, name)))(t)
		var m struct {
			PackageVersion string
			Installers     []struct{ InstallerUrl, InstallerSha256 string } //nolint:revive // winget's name
		}
		if err := yaml.UnmarshalWithOptions(b, &m, yaml.CustomUnmarshaler[string](func(s *string, b []byte) error { *s = strings.Trim(string(b), `" `); return nil })); err != nil {
			t.Fatal(err)
		}
		for _, sum := range regexp.MustCompile(`(?m)InstallerUrl: (\S+)\n +InstallerSha256: ([0-9A-F]{64})$`).FindAllStringSubmatch(string(b), -1) {
			must.True(t, all[path.Base(sum[1])] == strings.ToLower(sum[2]), "%s: %s", name, sum[1])
		}
	}
	cask := must.Get(os.ReadFile(one(t, "linerate.rb")))(t)
	for _, arch := range []string{"amd64", "arm64"} {
		must.True(t, strings.Contains(string(cask), all["linerate-"+version(t)+"-darwin-"+arch+".tar.gz"]), "the cask has no sum for %s", arch)
		url := regexp.MustCompile(`(?m)^  url "(.*)"$`).FindSubmatch(cask)
		must.Need(t, url != nil, "the cask has no address:\n%s", cask)
		filled := strings.NewReplacer("#{arch}", arch, "#{version}", version(t)).Replace(string(url[1]))
		must.True(t, all[path.Base(filled)] != "", "the cask leads to %s, which is not in the release", filled)
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		out, err := exec.CommandContext(t.Context(), ruby, "-c", one(t, "linerate.rb")).CombinedOutput()
		must.True(t, err == nil, "%s", out)
	}
}
