package plot

import (
	"strconv"
	"strings"
)

// Look is the appearance of a class of shapes in light mode.
type Look struct {
	Fill   string // "#0072b2"; "" for none
	Stroke string // "" for none
	Width  float64
	Dashes []float64 // lengths of strokes and gaps, alternating
	Bold   bool
	Clear  float64 // opacity, 0…1; 0 is 1
}

// Looks returns the look of each class, and under "text" that of a text whose class has no
// fill. It parses the style sheet, so that colours are defined in one place.
func Looks() map[string]Look {
	colours, looks := map[string]string{}, map[string]Look{}
	for line := range strings.Lines(Style()) {
		if strings.HasPrefix(line, "@media") { // dark mode and print
			continue
		}
		for rule := range strings.SplitSeq(line, "}") {
			selector, declarations, ok := strings.Cut(rule, "{")
			if !ok {
				continue
			}
			name := strings.TrimLeft(strings.TrimPrefix(strings.TrimSpace(selector), ".p"), " .")
			look := looks[name]
			for declaration := range strings.SplitSeq(declarations, ";") {
				property, value, _ := strings.Cut(declaration, ":")
				if variable, ok := strings.CutPrefix(property, "--"); ok {
					colours[variable] = value
					continue
				}
				if variable, ok := strings.CutPrefix(value, "var(--"); ok {
					value = colours[strings.TrimSuffix(variable, ")")]
				}
				look.declare(property, value)
			}
			looks[name] = look
		}
	}
	return looks
}

// declare applies one declaration of the style sheet.
func (l *Look) declare(property, value string) {
	length := func(text string) float64 {
		v, _ := strconv.ParseFloat(text, 64) // the sheet is a constant, and tests parse it
		return v
	}
	if value == "none" {
		value = ""
	}
	switch property {
	case "fill":
		l.Fill = value
	case "stroke":
		l.Stroke = value
	case "stroke-width":
		l.Width = length(value)
	case "opacity":
		l.Clear = length(value)
	case "font-weight":
		l.Bold = value == "bold"
	case "stroke-dasharray":
		for part := range strings.FieldsSeq(value) {
			l.Dashes = append(l.Dashes, length(part))
		}
	}
}
