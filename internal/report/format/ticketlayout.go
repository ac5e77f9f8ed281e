package format

import (
	"slices"
	"strings"

	"linerate/internal/core/plain"
	"linerate/internal/regex"
)

// clean returns text in ASCII without characters that are markup somewhere. Underscores and at
// signs stay within words, where they are not markup.
func clean(text string) string {
	text = plain.ASCII(plain.Line(text))
	text = strings.NewReplacer("`", "'", "*", "x", "~", "-", "<", " below ", ">", " above ", "|", "/", `\`, "/", "[", "(", "]", ")",
		"{", "(", "}", ")", "^", "'", "#", "no. ", "!", ".", "$", "S", "->", "to").Replace(text)
	text = strings.Join(slices.DeleteFunc(strings.Fields(text), func(word string) bool { return strings.Trim(word, "-+=") == "" }), " ")
	return edges.ReplaceAllString(text, "$1-")
}

var edges = regex.New(`(^|[^A-Za-z0-9])[_@]+`)

// glued matches words that must not begin a line: those that look like the number of a list,
// and the unit of the number before.
var glued = regex.New(`^([0-9]+[.)]|%.*|[kMGTP]?(bit/s|B|iB)\W*|(ns|us|ms|s|min|times|blocks|runs)\W*)$`)

// long matches a word too long for any line, such as the target of a large lab: it has to be
// broken after its commas.
var long = regex.New(`\S{77,}`)

// wrap breaks text into at most most lines; a cut is marked.
func wrap(text string, most int) []string {
	var words []string
	for word := range strings.FieldsSeq(long.ReplaceAllStringFunc(text, func(word string) string { return strings.ReplaceAll(word, ",", ", ") })) {
		n := len(words)
		label := n > 0 && strings.HasSuffix(word, ":") // only the ticket's own labels begin a line
		if n > 0 && (label || glued.MatchString(word)) && len(words[n-1])+1+len(word) <= TicketWidth/2 {
			words[n-1] += " " + word
			continue
		}
		if label {
			word = strings.TrimRight(word, ":") + ","
		}
		for len(word) > TicketWidth { // an overlong name
			words, word = append(words, word[:TicketWidth]), word[TicketWidth:]
		}
		words = append(words, word)
	}
	var lines []string
	line := ""
	for _, word := range words {
		if line != "" && len(line)+1+len(word) > TicketWidth {
			lines, line = append(lines, line), word
			continue
		}
		line = strings.TrimSpace(line + " " + word)
	}
	lines = append(lines, line)
	if len(lines) <= most {
		return lines
	}
	lines = lines[:most]
	const mark = " ..."
	last := lines[most-1]
	for len(last)+len(mark) > TicketWidth {
		at := strings.LastIndexByte(last, ' ')
		if at < 0 {
			at = TicketWidth - len(mark)
		}
		last = last[:at]
	}
	lines[most-1] = last + mark
	return lines
}
