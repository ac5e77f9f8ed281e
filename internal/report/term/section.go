package term

import "linerate/internal/core/traffic"

// section prints the report's section on one kind of traffic.
func (p *printer) section(blocks []traffic.Block) {
	for _, b := range blocks {
		indent := 2
		if b.Inner {
			indent = 4
		}
		switch {
		case len(b.Columns) > 0:
			p.cells(b)
		case b.Text != "":
			p.paragraph(toneStyle(b.Tone), b.Text, indent)
		default:
			p.gap()
		}
	}
}

// cells prints the rows of b under its columns.
func (p *printer) cells(b traffic.Block) {
	aligned := func(i int, c traffic.Cell) cell {
		out := left(c.Text)
		if b.Columns[i].Right {
			out = right(c.Text)
		}
		out.style = toneStyle(c.Tone)
		return out
	}
	var header []cell
	for i, c := range b.Columns {
		header = append(header, aligned(i, traffic.Cell{Text: c.Title}))
	}
	var rows [][]cell
	for _, r := range b.Rows {
		var row []cell
		for i, c := range r {
			row = append(row, aligned(i, c))
		}
		rows = append(rows, row)
	}
	p.grid(rows, header)
}

func toneStyle(t traffic.Tone) style {
	switch t {
	case traffic.Heading:
		return bold
	case traffic.Aside:
		return dim
	case traffic.Caution:
		return yellow
	case traffic.Alarm:
		return red
	case traffic.Plain:
	}
	return normal
}
