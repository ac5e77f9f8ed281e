// Package docs is the manual as it is built into the program: the texts of this folder
// that users read, as Markdown. The studies in reference stay in the source. The texts
// are not packed: that would make the program smaller by one part in two hundred, and
// put a file into the source that every change of a text changes.
package docs

import "embed"

// Texts are the pages, with the folders that they are in.
//
//go:embed *.md wire/*.md stories/*.md
var Texts embed.FS
