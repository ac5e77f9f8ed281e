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
)

var (
	made = flag.String("release", "", "a release that make release has made; without it one is made for Linux on this processor")
	slow = flag.Bool("all", false, "all systems, twice: what make release-test does")
)

const (
	testVersion = "1.2.3-rc.1"
	testEpoch   = "1700000000"
)

// targets are those that the tests build.
func targets() string {
	if *slow {
		return ""
	}
	return "linux/" + runtime.GOARCH
}

// folder is a release to look at, made once.
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

// TestReproducible makes the same release again: from a copy of the source in another
// folder, with another name, clock zone, umask and flags in its environment.
func TestReproducible(t *testing.T) {
	if !*slow && *made == "" && testing.Short() {
		t.Skip("-short")
	}
	tree := filepath.Join(t.TempDir(), "another place", "tree")
	copyTree(t, "..", tree)
	again := filepath.Join(t.TempDir(), "again")
	t.Setenv("TZ", "Pacific/Auckland")
	t.Setenv("GOFLAGS", "-buildvcs=true")
	t.Setenv("LC_ALL", "C")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	t.Setenv("GOAMD64", "v3")
	if err := run(t.Context(), []string{"-version", testVersion, "-tree", tree, "-epoch", testEpoch, "-targets", targets(), "-out", again}); err != nil {
		t.Fatal(err)
	}
	first, second := sums(t, folder), sums(t, again)
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s: %s, and %s the second time", name, sum, second[name])
		}
	}
	if len(first) != len(second) || len(first) < 6 {
		t.Errorf("%d files, and %d the second time", len(first), len(second))
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("no checkout to copy: %v", err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(list), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			continue // removed and not committed yet
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// sums are those of the files of a folder.
func sums(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		out[e.Name()] = hex.EncodeToString(sum[:])
	}
	return out
}

// TestChecksums has sha256sum(1) read the list, and no file missing in it.
func TestChecksums(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n, files := strings.Count(string(out), ": OK"), len(sums(t, folder)); n != files-1 {
		t.Errorf("%d of %d files have a sum", n, files-1)
	}
}

// one is the file of the release whose name has the pattern; the test is skipped where
// its system was not built.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 && !*slow && !strings.Contains(pattern, "linux") {
		t.Skipf("%s: make release-test builds it", pattern)
	}
	if len(found) != 1 {
		t.Fatalf("%s: %v", pattern, found)
	}
	return found[0]
}

// entries are the files of a tar, with their headers.
func entries(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF { //nolint:errorlint // archive/tar says so
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = b
	}
}

// TestArchives runs the program of this system's archive, and looks into one of Windows.
func TestArchives(t *testing.T) {
	file := one(t, "linerate-*-linux-"+runtime.GOARCH+".tar.gz")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	files := entries(t, z)
	top := strings.TrimSuffix(filepath.Base(file), ".tar.gz")
	for _, name := range []string{"linerate", "linerate-agent", "LICENSE", "README.md", "CHANGELOG.md", "man/linerate.1", "man/linerate-test.1", "completions/linerate.bash", "completions/_linerate"} {
		if len(files[path.Join(top, name)]) == 0 {
			t.Errorf("%s is not in it", name)
		}
	}
	program := filepath.Join(t.TempDir(), "linerate")
	if err := os.WriteFile(program, files[path.Join(top, "linerate")], 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "version").Output()
	if err != nil || !strings.Contains(string(out), version(t)) {
		t.Errorf("%s, %v: want version %s", out, err, version(t))
	}
	for _, path := range []string{os.TempDir() + "/", cwd(t), os.Getenv("HOME") + "/go"} {
		if bytes.Contains(files[top+"/linerate"], []byte(path)) && path != "/tmp/" {
			t.Errorf("the program knows %s of the machine that built it", path)
		}
	}
	r, err := zip.OpenReader(one(t, "linerate-*-windows-amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if !slices.ContainsFunc(r.File, func(f *zip.File) bool {
		return strings.HasSuffix(f.Name, "/linerate.exe") && f.UncompressedSize64 > 1<<20
	}) {
		t.Error("linerate.exe is not in the archive for Windows")
	}
}

func cwd(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// version is that of the release, as its list of parts has it.
func version(t *testing.T) string {
	t.Helper()
	bom, _ := parts(t)
	return bom.Metadata.Component.Version
}

func parts(t *testing.T) (*cyclonedx.BOM, string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.cdx.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	bom := cyclonedx.NewBOM()
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(b), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	return bom, string(b)
}

// TestParts holds the list against go.mod: all that is in a program is in the list with
// the version that go.mod says, and nothing that only tests or this tool use.
func TestParts(t *testing.T) {
	bom, text := parts(t)
	b, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range *bom.Components {
		if c.Name == "std" {
			continue
		}
		if !strings.Contains(string(b), c.Name+" "+c.Version) {
			t.Errorf("%s %s is not in go.mod", c.Name, c.Version)
		}
	}
	for _, name := range []string{"github.com/spf13/cobra", "github.com/ncruces/go-sqlite3", "connectrpc.com/connect"} {
		if !strings.Contains(text, `"pkg:golang/`+name+"@") {
			t.Errorf("%s is not in the list", name)
		}
	}
	for _, name := range []string{"nfpm", "chromedp", "rapid", "go-containerregistry"} {
		if strings.Contains(text, name) {
			t.Errorf("%s is in the list, and in no program", name)
		}
	}
}

// TestFreeBSDPackage holds what pkg(8) demands: the manifests first, the sum of each file.
// Where there is a pkg (it can be built on Linux, too) it installs and removes the package.
func TestFreeBSDPackage(t *testing.T) {
	pack := one(t, "linerate-*-freebsd-amd64.pkg")
	f, err := os.Open(pack)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := entries(t, z)
	var m pkgManifest
	if err := json.Unmarshal(files["+MANIFEST"], &m); err != nil {
		t.Fatal(err)
	}
	for name, want := range m.Files {
		sum := sha256.Sum256(files[name])
		if want != "1$"+hex.EncodeToString(sum[:]) || !strings.HasPrefix(name, "/usr/local/") {
			t.Errorf("%s: %s", name, want)
		}
	}
	if len(m.Files) != len(files)-2 || m.Version == "" || strings.Contains(m.Version, "-") || m.ABI != "FreeBSD:*:amd64" {
		t.Errorf("%+v", m)
	}
	t.Run("with pkg", func(t *testing.T) {
		pkg, err := exec.LookPath("pkg")
		if err != nil {
			t.Skip("no pkg here, and Debian has no package of it: the package was read, and not installed")
		}
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "var/db/pkg"), 0o755); err != nil {
			t.Fatal(err)
		}
		in := func(args ...string) string {
			return must(t, pkg, append([]string{"-o", "ABI=FreeBSD:12:amd64", "-o", "OSVERSION=1201000", "-r", root}, args...)...)
		}
		in("add", pack)
		listed := in("info", "-l", "linerate")
		for name := range m.Files {
			b, err := os.ReadFile(filepath.Join(root, name))
			if err != nil || !bytes.Equal(b, files[name]) || !strings.Contains(listed, name) {
				t.Errorf("%s is not there, or differs: %v", name, err)
			}
		}
		in("delete", "-y", "linerate")
		for name := range m.Files {
			if _, err := os.Stat(filepath.Join(root, name)); err == nil {
				t.Errorf("%s is left behind", name)
			}
		}
	})
}

// TestManifests reads them as what they are, and follows each sum to its archive.
func TestManifests(t *testing.T) {
	all := sums(t, folder)
	var scoop struct {
		Architecture map[string]struct{ URL, Hash, Extract_dir string } //nolint:revive // Scoop's name
	}
	b, err := os.ReadFile(one(t, "linerate.scoop.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &scoop); err != nil {
		t.Fatal(err)
	}
	for arch, a := range scoop.Architecture {
		if all[path.Base(a.URL)] != a.Hash {
			t.Errorf("scoop %s: %s has the sum %s", arch, a.URL, all[path.Base(a.URL)])
		}
	}
	for _, name := range []string{"linerate.winget.yaml", "linerate.winget.installer.yaml", "linerate.winget.locale.en-US.yaml"} {
		b, err := os.ReadFile(one(t, name))
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			PackageVersion string
			Installers     []struct{ InstallerUrl, InstallerSha256 string } //nolint:revive // winget's name
		}
		if err := yaml.UnmarshalWithOptions(b, &m, yaml.CustomUnmarshaler[string](func(s *string, b []byte) error { *s = strings.Trim(string(b), `" `); return nil })); err != nil {
			t.Fatal(err)
		}
		for _, sum := range regexp.MustCompile(`(?m)InstallerUrl: (\S+)\n +InstallerSha256: ([0-9A-F]{64})$`).FindAllStringSubmatch(string(b), -1) {
			if all[path.Base(sum[1])] != strings.ToLower(sum[2]) {
				t.Errorf("%s: %s", name, sum[1])
			}
		}
	}
	cask, err := os.ReadFile(one(t, "linerate.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if !strings.Contains(string(cask), all["linerate-"+version(t)+"-darwin-"+arch+".tar.gz"]) {
			t.Errorf("the cask has no sum for %s", arch)
		}
		url := regexp.MustCompile(`(?m)^  url "(.*)"$`).FindSubmatch(cask)
		if url == nil {
			t.Fatalf("the cask has no address:\n%s", cask)
		}
		filled := strings.NewReplacer("#{arch}", arch, "#{version}", version(t)).Replace(string(url[1]))
		if all[path.Base(filled)] == "" {
			t.Errorf("the cask leads to %s, which is not in the release", filled)
		}
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		if out, err := exec.CommandContext(t.Context(), ruby, "-c", one(t, "linerate.rb")).CombinedOutput(); err != nil {
			t.Errorf("%s", out)
		}
	}
}
