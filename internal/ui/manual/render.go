package manual

import (
	"path"
	"strings"
	"unicode"

	"linerate/internal/regex"
	"linerate/internal/report/term"
)

// Options describe the terminal that a text is formatted for.
type Options struct {
	Width int  // columns, at least 40
	Color bool // bold, as SGR, for headings and text to type
}

const (
	boldOn  = "\x1b[1m" // SGR of ECMA-48 section 8.3.117, which package screen allows
	boldOff = "\x1b[0m"
)

// Render formats a text for a terminal: paragraphs and lists filled to its width, tables in
// columns, examples unchanged. It supports the Markdown that the texts use.
func (t Topic) Render(o Options) string {
	p := &page{Options: o, topic: t.Name, lines: strings.Split(strings.TrimRight(t.Text, "\n"), "\n")}
	p.Width = max(p.Width, 40)
	for p.at < len(p.lines) {
		p.block()
	}
	return strings.TrimRight(p.out.String(), "\n") + "\n"
}

// page is a text while it is formatted.
type page struct {
	Options
	topic string
	lines []string
	at    int // the next of lines
	out   strings.Builder
}

var (
	heading = regex.New(`^(#{1,6}) +(.*)$`)
	item    = regex.New(`^( *)([-*]|[0-9]+\.) +(.*)$`)
	quote   = regex.New(`^> ?(.*)$`)
	fence   = regex.New("^( *)```")
)

// block formats the block at the current line.
func (p *page) block() {
	line := p.lines[p.at]
	switch {
	case strings.TrimSpace(line) == "":
		p.at++
		p.out.WriteString("\n")
	case fence.MatchString(line):
		p.example(len(fence.FindStringSubmatch(line)[1]))
	case heading.MatchString(line):
		p.at++
		m := heading.FindStringSubmatch(line)
		p.heading(len(m[1]), p.inline(m[2]))
	case strings.HasPrefix(line, "|"):
		p.table()
	case item.MatchString(line):
		m := item.FindStringSubmatch(line)
		p.fill(m[1]+m[2]+" ", len(m[1])+len(m[2])+1, p.paragraph(m[3]))
	case quote.MatchString(line):
		var text []string
		for ; p.at < len(p.lines) && quote.MatchString(p.lines[p.at]); p.at++ {
			text = append(text, quote.FindStringSubmatch(p.lines[p.at])[1])
		}
		p.fill("  ", 2, strings.Join(text, " "))
	default:
		indent := len(line) - len(strings.TrimLeft(line, " "))
		p.fill(strings.Repeat(" ", indent), indent, p.paragraph(line))
	}
}

// paragraph joins the lines that belong to the first one, which begins with text.
func (p *page) paragraph(text string) string {
	for p.at++; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if strings.TrimSpace(line) == "" || fence.MatchString(line) || heading.MatchString(line) || strings.HasPrefix(line, "|") || item.MatchString(line) || quote.MatchString(line) {
			break
		}
		text += " " + strings.TrimSpace(line)
	}
	return text
}

// fill writes text after head and indents further lines to the same column.
func (p *page) fill(head string, indent int, text string) {
	for i, line := range term.Wrap(p.inline(text), p.Width-indent, p.Width-indent) {
		if i > 0 {
			head = strings.Repeat(" ", indent)
		}
		p.out.WriteString(head + line + "\n")
	}
}

func (p *page) heading(level int, text string) {
	if p.Color {
		p.out.WriteString(p.bold(strings.ReplaceAll(strings.ReplaceAll(text, boldOn, ""), boldOff, "")) + "\n")
		return
	}
	lines, width := term.Wrap(text, p.Width, p.Width), 0
	for _, line := range lines {
		width = max(width, term.Columns(line))
	}
	if level <= 2 {
		lines = append(lines, strings.Repeat(map[int]string{1: "=", 2: "-"}[level], width))
	}
	p.out.WriteString(strings.Join(lines, "\n") + "\n")
}

// example writes the lines between fences unchanged, indented by four columns.
func (p *page) example(indent int) {
	for p.at++; p.at < len(p.lines) && !fence.MatchString(p.lines[p.at]); p.at++ {
		line := p.lines[p.at]
		line = line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):]
		p.out.WriteString(strings.TrimRight("    "+strings.Repeat(" ", indent)+line, " ") + "\n")
	}
	p.at++
}

// bold makes each word of text bold, so that a line may break between any two.
func (p *page) bold(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		if w != "" {
			words[i] = boldOn + w + boldOff
		}
	}
	return strings.Join(words, " ")
}

var (
	code   = regex.New("`([^`]+)`")
	strong = regex.New(`\*\*([^*]+)\*\*`)
	weak   = regex.New(`\*([a-zA-Z][^*]*)\*`)
	link   = regex.New(`!?\[([^][]*)\]\(([^() ]+)\)`)
)

// links replaces every link of a text with the result of with.
func links(text string, with func(text, to string) string) string {
	return link.ReplaceAllStringFunc(text, func(all string) string {
		m := link.FindStringSubmatch(all)
		return with(m[1], m[2])
	})
}

// inline formats the markup within a text. Without bold, code keeps its backquotes, which show
// where it begins and ends.
func (p *page) inline(text string) string {
	var out strings.Builder
	rest := text
	for {
		at := code.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		out.WriteString(p.prose(rest[:at[0]]))
		if inside := rest[at[2]:at[3]]; p.Color {
			out.WriteString(p.bold(inside))
		} else {
			out.WriteString("`" + inside + "`")
		}
		rest = rest[at[1]:]
	}
	out.WriteString(p.prose(rest))
	return strings.ReplaceAll(out.String(), `\|`, "|")
}

// prose formats text without code.
func (p *page) prose(text string) string {
	text = links(text, func(text, to string) string {
		file, _, _ := strings.Cut(to, "#")
		switch other, ok := Find(path.Join(path.Dir(p.topic), file)); {
		case strings.Contains(to, "://"):
			return text + " (" + to + ")"
		case file != "" && ok && other.Name != p.topic && strings.HasSuffix(text, ".md"):
			return "linerate docs " + other.Name
		case file != "" && ok && other.Name != p.topic:
			return text + " (linerate docs " + other.Name + ")"
		}
		return text
	})
	text = strong.ReplaceAllStringFunc(text, func(s string) string {
		if s = strings.Trim(s, "*"); p.Color {
			return p.bold(s)
		}
		return s
	})
	return weak.ReplaceAllString(text, "$1")
}

// cells returns the cells of a table row; a bar within code or after \ is text.
func cells(row string) []string {
	var out []string
	cell, inCode, escaped := strings.Builder{}, false, false
	for _, r := range strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(row), "|"), "|") {
		switch {
		case r == '|' && !escaped && !inCode:
			out = append(out, strings.TrimSpace(cell.String()))
			cell.Reset()
		default:
			inCode = inCode != (r == '`')
			cell.WriteRune(r)
		}
		escaped = r == '\\'
	}
	return append(out, strings.TrimSpace(cell.String()))
}

// table formats rows in columns that fit the terminal: the widest ones shrink first.
func (p *page) table() {
	var rows [][]string
	for ; p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], "|"); p.at++ {
		if strings.Trim(p.lines[p.at], "|-: ") == "" {
			continue // between the head and the rest
		}
		row := cells(p.lines[p.at])
		for i := range row {
			row[i] = p.inline(row[i])
		}
		rows = append(rows, row)
	}
	widths := p.fit(rows)
	for n, row := range rows {
		var parts [][]string
		height := 1
		for i, width := range widths {
			text := ""
			if i < len(row) {
				text = row[i]
			}
			parts = append(parts, term.Wrap(text, width, width))
			height = max(height, len(parts[i]))
		}
		for y := range height {
			var line strings.Builder
			for i, lines := range parts {
				text := ""
				if y < len(lines) {
					text = lines[y]
				}
				line.WriteString(text + strings.Repeat(" ", max(widths[i]-term.Columns(text), 0)+2))
			}
			p.out.WriteString(strings.TrimRightFunc(line.String(), unicode.IsSpace) + "\n")
		}
		if n == 0 {
			for i, width := range widths {
				if i > 0 {
					p.out.WriteString("  ")
				}
				p.out.WriteString(strings.Repeat("-", width))
			}
			p.out.WriteString("\n")
		}
	}
}

// fit returns the column widths for rows.
func (p *page) fit(rows [][]string) []int {
	var widths, least []int // as wide as its widest cell; as its widest word
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, least = append(widths, 1), append(least, 1)
			}
			widths[i] = max(widths[i], term.Columns(cell))
			for w := range strings.FieldsSeq(cell) {
				least[i] = max(least[i], min(term.Columns(w), p.Width/3))
			}
		}
	}
	for {
		sum, widest := 2*(len(widths)-1), -1
		for i, w := range widths {
			sum += w
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if sum <= p.Width || widest < 0 {
			return widths
		}
		widths[widest]--
	}
}
