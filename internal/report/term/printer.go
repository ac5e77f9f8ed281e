package term

import (
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// style is an SGR sequence (ECMA-48, section 8.3.117) without its frame.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// minWidth is the least width that tables are made for.
const minWidth = 40

// printer collects text and writes it at once.
type printer struct {
	out          strings.Builder
	width        int
	color, ascii bool
	zone         *time.Location
	blank        bool // the last line was empty, or there is none
}

func newPrinter(o Options) *printer {
	width := o.Width
	if width == 0 {
		width = DefaultWidth
	}
	zone := o.Zone
	if zone == nil {
		zone = time.UTC
	}
	return &printer{width: max(width, minWidth), color: o.Color, ascii: o.ASCII, zone: zone, blank: true}
}

// flush writes what was collected.
func (p *printer) flush(w io.Writer) error {
	text := strings.TrimRight(p.out.String(), "\n") + "\n"
	if p.ascii {
		text = toASCII(text)
	}
	write := w.Write
	if s, ok := w.(styled); ok && p.color {
		write = s.WriteStyled
	}
	_, err := write([]byte(text))
	return err
}

// styled is a writer that lets commands to a terminal pass only where it is told
// that they are linerate's own.
type styled interface {
	WriteStyled(p []byte) (int, error)
}

// toASCII replaces what we print beyond ASCII by what looks like it, and
// everything else by question marks.
func toASCII(text string) string {
	text = strings.NewReplacer("µ", "u", "∞", "inf", "…", "~").Replace(text)
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, text)
}

// clean replaces everything that is not printable: a name that a foreign host
// gave itself must not move the reader's cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsGraphic(r) {
			return '?'
		}
		return r
	}, s)
}

// paint returns text in style s where colour is welcome.
func (p *printer) paint(s style, text string) string {
	if !p.color || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// line writes text, which is clean, as one line.
func (p *printer) line(text string) {
	p.out.WriteString(strings.TrimRight(text, " "))
	p.out.WriteByte('\n')
	p.blank = false
}

// gap writes an empty line unless there is one.
func (p *printer) gap() {
	if !p.blank {
		p.out.WriteByte('\n')
		p.blank = true
	}
}

// paragraph writes text in lines that fit, all indented, later ones two more.
func (p *printer) paragraph(s style, text string, indent int) {
	for i, l := range wrap(clean(text), p.width-indent, p.width-indent-2) {
		pad := indent
		if i > 0 {
			pad += 2
		}
		p.line(strings.Repeat(" ", pad) + p.paint(s, l))
	}
}

// hanging writes text after head, which is indent columns wide, and further
// lines below the beginning of text.
func (p *printer) hanging(head string, indent int, text string) {
	for i, l := range wrap(clean(text), p.width-indent, p.width-indent) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		p.line(head + l)
	}
}

func wrap(text string, first, rest int) []string { return Wrap(text, first, rest) }

// Wrap breaks text at spaces into lines of at most first columns, then rest.
// A word that is longer than a line stays whole: it may be a command to copy.
// A number stays with what it counts.
func Wrap(text string, first, rest int) []string {
	var lines []string
	width, line := first, ""
	for _, word := range glue(strings.Fields(text)) {
		if line != "" && columns(line)+1+columns(word) > width {
			lines = append(lines, line)
			width, line = rest, ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// glue joins each word that ends in a digit with the next one.
func glue(words []string) []string {
	var out []string
	for i, word := range words {
		if i > 0 && unicode.IsDigit(rune(words[i-1][len(words[i-1])-1])) {
			out[len(out)-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// columns returns how wide s is shown, for text without wide characters.
func columns(s string) int { return utf8.RuneCountInString(s) }

// cell is one entry of a table.
type cell struct {
	text  string
	right bool // aligned right
	whole bool // never cut
	style style
}

func left(text string) cell  { return cell{text: text} }
func right(text string) cell { return cell{text: text, right: true, whole: true} }
func whole(text string) cell { return cell{text: text, whole: true} }

// separator is between the columns of a table.
const separator = 2

// tableIndent is before the first column.
const tableIndent = 2

// grid writes rows in aligned columns below header (nil for none). Where they
// are too wide, the widest column that may be is cut, and what is still too
// wide goes on in a second line.
func (p *printer) grid(rows [][]cell, header []cell) {
	if len(rows) == 0 {
		return
	}
	all := rows
	if header != nil {
		for i := range header {
			header[i].style = dim
		}
		all = append([][]cell{header}, rows...)
	}
	widths := p.fit(all)
	for _, row := range all {
		p.row(row, widths)
	}
}

// leastCut is the least width that a column is cut to.
const leastCut = 8

// fit returns the widths of the columns of rows, cut to fit where possible.
func (p *printer) fit(rows [][]cell) []int {
	widths := make([]int, len(rows[0]))
	cuttable := make([]bool, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i].text = clean(row[i].text)
			widths[i] = max(widths[i], columns(row[i].text))
			cuttable[i] = !row[i].whole
		}
	}
	over := tableIndent - separator - p.width
	for _, w := range widths {
		over += w + separator
	}
	for ; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if cuttable[i] && w > leastCut && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

func (p *printer) row(row []cell, widths []int) {
	line, used := strings.Repeat(" ", tableIndent), tableIndent
	for i, c := range row {
		text := cut(c.text, widths[i])
		pad := strings.Repeat(" ", widths[i]-columns(text))
		if used > tableIndent && used+widths[i] > p.width {
			p.line(line)
			line, used = strings.Repeat(" ", 2*tableIndent), 2*tableIndent
		}
		if c.right {
			line += pad + p.paint(c.style, text)
		} else {
			line += p.paint(c.style, text) + pad
		}
		line += strings.Repeat(" ", separator)
		used += widths[i] + separator
	}
	p.line(line)
}

// cut shortens s to width columns, with a mark where something is missing.
func cut(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(0, width-1)]) + "…"
}
