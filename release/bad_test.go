package main

import (
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/must"
)

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
