package term

import (
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"linerate/internal/regex"
)

// style is an SGR sequence (ECMA-48, section 8.3.117) without its frame.
type style string

const (
	normal style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// minWidth is the least supported width of tables.
const minWidth = 40

// printer collects text and writes it at once.
type printer struct {
	out     strings.Builder
	width   int
	color   bool
	oneLine bool // commands are not broken into lines
	details bool // include the statistics
	zone    *time.Location
	blank   bool // the last line is empty, or there is none
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
	return &printer{width: max(width, minWidth), color: o.Color, oneLine: o.OneLine, details: o.Details, zone: zone, blank: true}
}

// flush writes the collected text.
func (p *printer) flush(w io.Writer) error {
	text := strings.TrimRight(p.out.String(), "\n") + "\n"
	write := w.Write
	if s, ok := w.(styled); ok && p.color {
		write = s.WriteStyled
	}
	_, err := write([]byte(text))
	return err
}

// styled is a writer that passes control sequences to a terminal only if they are marked as
// linerate's own.
type styled interface {
	WriteStyled(p []byte) (int, error)
}

// clean replaces everything that is not printable: the name of a foreign host must not move the
// reader's cursor.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsGraphic(r) {
			return '?'
		}
		return r
	}, s)
}

// paint returns text in style s if colour is enabled.
func (p *printer) paint(s style, text string) string {
	if !p.color || s == normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// line writes text, which must be clean, as one line.
func (p *printer) line(text string) {
	p.out.WriteString(strings.TrimRight(text, " "))
	p.out.WriteByte('\n')
	p.blank = false
}

// gap writes an empty line unless the last line is empty.
func (p *printer) gap() {
	if !p.blank {
		p.out.WriteByte('\n')
		p.blank = true
	}
}

// paragraph writes text in lines that fit, indented, with later lines indented by two more.
func (p *printer) paragraph(s style, text string, indent int) {
	for i, l := range Wrap(clean(text), p.width-indent, p.width-indent-2) {
		pad := indent
		if i > 0 {
			pad += 2
		}
		p.line(strings.Repeat(" ", pad) + p.paint(s, l))
	}
}

// hanging writes text after head, which is indent columns wide, and aligns further lines with
// the beginning of text.
func (p *printer) hanging(head string, indent int, text string) { p.below(head, indent, normal, text) }

// below is hanging with the text in style s.
func (p *printer) below(head string, indent int, s style, text string) {
	for i, l := range Wrap(clean(text), p.width-indent, p.width-indent) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		p.line(head + p.paint(s, l))
	}
}

// Wrap breaks text at spaces into lines of at most first columns, then rest. A word longer than
// a line stays whole: it may be a command to copy. A number stays with the word after it.
func Wrap(text string, first, rest int) []string {
	return join(glue(strings.Fields(text)), first, rest)
}

// join fills lines of at most first columns, then rest, with words.
func join(words []string, first, rest int) []string {
	var lines []string
	width, line := first, ""
	for _, word := range words {
		if line != "" && Columns(line)+1+Columns(word) > width {
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

// glue joins each word that ends in a digit with the next one, unless that is a
// number too.
func glue(words []string) []string {
	var out []string
	for i, word := range words {
		if i > 0 && unicode.IsDigit(rune(words[i-1][len(words[i-1])-1])) && !unicode.IsDigit(rune(word[0])) {
			out[len(out)-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

// shellWords splits a command at the spaces outside quotes, except those between a flag and its
// value if both fit in most columns.
func shellWords(command string, most int) []string {
	var words []string
	open := false
	for part := range strings.SplitSeq(command, " ") {
		last := len(words) - 1
		flag := last >= 0 && strings.HasPrefix(words[last], "-") && !strings.Contains(words[last], " ") && !strings.HasPrefix(part, "-")
		if open || flag && columns(words[last])+1+columns(part) <= most {
			words[last] += " " + part
		} else {
			words = append(words, part)
		}
		if strings.Count(strings.ReplaceAll(part, `\'`, ""), "'")%2 == 1 {
			open = !open
		}
	}
	return words
}

// columns returns the display width of s, for text without wide characters.
func columns(s string) int { return utf8.RuneCountInString(s) }

// sgr matches the colour sequences of a text (ECMA-48, section 8.3.117).
var sgr = regex.New("\x1b\\[[0-9]*m")

// Columns returns the display width of s, ignoring colour sequences.
func Columns(s string) int { return columns(sgr.ReplaceAllString(s, "")) }

// cell is one entry of a table.
type cell struct {
	text  string
	right bool // aligned right
	whole bool // stays in one line
	style style
}

func left(text string) cell  { return cell{text: text} }
func right(text string) cell { return cell{text: text, right: true, whole: true} }
func whole(text string) cell { return cell{text: text, whole: true} }

// name is a cell for the subject of a row. It stays in one line, even if other cells have to be
// broken, unless it takes more than a third of the width.
func (p *printer) name(text string) cell {
	return cell{text: text, whole: 3*columns(text) <= p.width}
}

// lines breaks the text of c into lines of width columns, with its indentation, at spaces and,
// if that is not enough, after commas.
func (c cell) lines(width int) []string {
	if columns(c.text) <= width {
		return []string{c.text}
	}
	text := strings.TrimLeft(c.text, " ")
	indent := c.text[:len(c.text)-len(text)]
	width = max(0, width-len(indent))
	var lines []string
	for _, l := range Wrap(text, width, width) {
		for columns(l) > width {
			at := strings.LastIndex(l[:min(len(l)-1, max(width, strings.Index(l, ",")+1))], ",") + 1
			if at == 0 {
				break
			}
			lines, l = append(lines, indent+l[:at]), l[at:]
		}
		lines = append(lines, indent+l)
	}
	return lines
}

// least returns the least width of c without breaking a word.
func (c cell) least() int {
	most := 0
	for _, l := range c.lines(0) {
		most = max(most, columns(l))
	}
	return most
}

// separator is the space between columns.
const separator = 2

// tableIndent is the space before the first column.
const tableIndent = 2

// layout is how a table fits the width: in columns of these widths, or with each row as a text
// below its first cell, including the column names.
type layout struct {
	widths  []int
	stacked bool
	names   []cell
}

// used returns how many terminal columns the table takes, with a separator.
func (l layout) used() int {
	sum := tableIndent
	for _, w := range l.widths {
		sum += w + separator
	}
	return sum
}

// grid writes rows in aligned columns below header (nil for none).
func (p *printer) grid(rows [][]cell, header []cell) {
	if len(rows) == 0 {
		return
	}
	l := p.fit(rows, header)
	p.heading(l)
	for _, row := range rows {
		p.row(row, l)
	}
}

// heading writes the names of the columns, if there are any.
func (p *printer) heading(l layout) {
	if !l.stacked && l.names != nil {
		p.row(l.names, l)
	}
}

// fit lays out rows below header. If they are too wide, it breaks the widest column that has
// spaces; if that is not enough, it stacks the rows.
func (p *printer) fit(rows [][]cell, header []cell) layout {
	all := rows
	if header != nil {
		for i := range header {
			header[i].style = dim
		}
		all = append([][]cell{header}, rows...)
	}
	l := layout{widths: make([]int, len(rows[0])), names: header}
	least := make([]int, len(rows[0]))
	for _, row := range all {
		for i := range row {
			row[i].text = clean(row[i].text)
			l.widths[i] = max(l.widths[i], columns(row[i].text))
			if row[i].whole {
				least[i] = max(least[i], columns(row[i].text))
			} else {
				least[i] = max(least[i], row[i].least())
			}
		}
	}
	for l.used()-separator > p.width && !l.stacked {
		widest := -1
		for i, w := range l.widths {
			if w > least[i] && (widest < 0 || w > l.widths[widest]) {
				widest = i
			}
		}
		if l.stacked = widest < 0; !l.stacked {
			l.widths[widest]--
		}
	}
	return l
}

func (p *printer) row(row []cell, l layout) {
	if l.stacked {
		p.stack(row, l.names)
		return
	}
	for n, more := 0, true; more; n++ {
		var line strings.Builder
		line.WriteString(strings.Repeat(" ", tableIndent))
		more = false
		for i, c := range row {
			lines, text := c.lines(l.widths[i]), ""
			if n < len(lines) {
				text = lines[n]
			}
			more = more || n+1 < len(lines)
			pad := strings.Repeat(" ", l.widths[i]-columns(text))
			if text = p.paint(c.style, text); c.right {
				line.WriteString(pad + text)
			} else {
				line.WriteString(text + pad)
			}
			line.WriteString(strings.Repeat(" ", separator))
		}
		p.line(line.String())
	}
}

// stack writes a row as a text: its first cell, and the others below it.
func (p *printer) stack(row, names []cell) {
	var parts []string
	for i, c := range row {
		if names != nil && c.text != "" {
			c.text = strings.TrimSpace(names[i].text + " " + c.text)
		}
		if i > 0 && c.text != "" {
			parts = append(parts, c.text)
		} else if i == 0 {
			p.paragraph(c.style, c.text, tableIndent)
		}
	}
	p.paragraph(normal, strings.Join(parts, ", "), 2*tableIndent)
}
