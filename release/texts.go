package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"linerate/internal/ui/cli"
)

// file is a file of a package or an archive.
type file struct {
	name string // within an archive; slashes
	mode os.FileMode
	data []byte
}

// texts collects the files beside the program: licence, notes, man pages, completions.
func (r *release) texts(ctx context.Context) error {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		b, err := os.ReadFile(filepath.Join(r.tree, name))
		if err != nil {
			return err
		}
		r.common = append(r.common, file{name, 0o644, b})
	}
	pages, err := r.manPages()
	if err != nil {
		return err
	}
	r.common = append(r.common, pages...)
	for shell, name := range map[string]string{"bash": "linerate.bash", "zsh": "_linerate", "fish": "linerate.fish", "powershell": "linerate.ps1"} {
		b, err := r.prints(ctx, "completion", shell)
		if err != nil {
			return err
		}
		r.common = append(r.common, file{path.Join("completions", name), 0o644, b})
	}
	sortFiles(r.common)
	return nil
}

// manPages creates one page for each command that a user calls.
func (r *release) manPages() ([]file, error) {
	root := cli.Commands()
	root.DisableAutoGenTag = true
	var out []file
	var add func(c *cobra.Command) error
	add = func(c *cobra.Command) error {
		if c.Hidden || (c != root && !c.Runnable() && !c.HasSubCommands() && c.Long == "") {
			return nil
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		c.Long = manText(c.Long)
		c.DisableAutoGenTag = true
		var b bytes.Buffer
		header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &r.time, Source: "linerate " + r.version, Manual: "linerate"}
		if err := doc.GenMan(c, header, &b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, file{path.Join("man", name+".1"), 0o644, b.Bytes()})
		for _, sub := range c.Commands() {
			if err := add(sub); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(root); err != nil {
		return nil, err
	}
	return out, nil
}

// markup matches what Markdown, from which cobra makes man pages, would interpret.
var markup = regexp.MustCompile("[\\\\`*_<>\\[\\]#]")

// manText converts help text to Markdown that renders the same: indented lines are verbatim,
// and no character has a meaning.
func manText(text string) string {
	var b strings.Builder
	indented := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		block := strings.HasPrefix(line, "  ") || indented && line == ""
		if block != indented {
			b.WriteString("\n")
		}
		indented = block
		if block {
			b.WriteString("    " + strings.TrimPrefix(line, "  ") + "\n")
			continue
		}
		b.WriteString(markup.ReplaceAllString(line, `\$0`) + "\n")
	}
	return b.String()
}
