package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
)

// Column describes a column of a table.
type Column struct {
	Role    string  // one of Roles
	Name    string  // as in the first line of the table
	Unit    float64 // of a value: factor to the unit of the metric
	UnitIn  string  // of a value: the column with its unit in each line; "" is Unit
	Setting string  // of a value: its setting; {COLUMN} stands for the value in that column
}

// roles are the possible roles of columns, with the metric of value columns.
var roles = map[string]model.Metric{
	"setting": "", "block": "", "direction": "", "near": "", "far": "", "runs": "", "min": "", "max": "",
	"goodput": model.Goodput, "rtt": model.RTT, "latency_p50": model.LatencyP50, "latency_p99": model.LatencyP99,
	"loss_ratio": model.LossRatio, "retransmits": model.Retransmits, "request_rate": model.RequestRate,
}

// Roles returns the names of the roles, sorted.
func Roles() []string {
	var out []string
	for r := range roles {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

// rateUnits and timeUnits convert units of values to bit/s and seconds.
var (
	rateUnits = map[string]float64{
		"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9,
		"B/s": 8, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9, "KiB/s": 8 << 10, "MiB/s": 8 << 20, "GiB/s": 8 << 30,
	}
	timeUnits = map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
)

// tableUnits returns the units of a column with this role. The smallest and the largest value
// have the units of the value that they belong to.
func tableUnits(role string) map[string]float64 {
	all := map[string]float64{}
	of := roles[role]
	if of == model.Goodput || of == "" {
		maps.Copy(all, rateUnits)
	}
	if of == model.RTT || of == model.LatencyP50 || of == model.LatencyP99 || of == "" {
		maps.Copy(all, timeUnits)
	}
	if of == model.LossRatio || of == "" {
		all["%"] = 1e-2
	}
	return all
}

// ParseColumn parses ROLE=NAME[:UNIT][@SETTING], for example goodput=avg:Mbit/s. A UNIT
// {COLUMN} is the value in that column.
func ParseColumn(text string) (Column, error) {
	role, rest, ok := strings.Cut(text, "=")
	metric, known := roles[role]
	if !ok || !known || rest == "" {
		return Column{}, fmt.Errorf("%q is not ROLE=COLUMN, with a ROLE of %s", text, strings.Join(Roles(), ", "))
	}
	c := Column{Role: role, Unit: 1}
	rest, c.Setting, _ = strings.Cut(rest, "@")
	name, unit, has := strings.Cut(rest, ":")
	c.Name = name
	value := metric != "" || role == "min" || role == "max"
	switch {
	case has && !value, c.Setting != "" && metric == "":
		return c, fmt.Errorf("%q: a column of %s has no unit and no setting", text, role)
	case metric == model.Goodput && !has:
		return c, fmt.Errorf("%q: a rate needs its unit, for example %s=%s:Mbit/s", text, role, name)
	}
	if in, ok := strings.CutPrefix(unit, "{"); has && ok && strings.HasSuffix(in, "}") && len(in) > 1 {
		c.UnitIn = strings.TrimSuffix(in, "}")
	} else if has {
		if c.Unit, ok = tableUnits(role)[unit]; !ok {
			return c, fmt.Errorf("%q: %w", text, noUnit(role, unit))
		}
	}
	return c, nil
}

// noUnit returns the error for an unknown unit, with the valid ones.
func noUnit(role, unit string) error {
	all := slices.Sorted(maps.Keys(tableUnits(role)))
	if len(all) == 0 {
		return fmt.Errorf("unit %q: a column of %s has none", unit, role)
	}
	return fmt.Errorf("unit %q is none of %s", unit, strings.Join(all, ", "))
}

// Where selects lines of a table: those with this text in this column.
type Where struct{ Column, Text string }

// ParseWhere parses COLUMN=TEXT.
func ParseWhere(text string) (Where, error) {
	column, want, ok := strings.Cut(text, "=")
	if !ok || column == "" {
		return Where{}, fmt.Errorf("%q is not COLUMN=TEXT", text)
	}
	return Where{column, want}, nil
}

// readTable reads comma-separated values (RFC 4180) whose first line names the columns.
func readTable(text string, o Options) (File, error) {
	if !slices.ContainsFunc(o.Columns, func(c Column) bool { return roles[c.Role] != "" }) {
		return File{}, faultf(0, "which columns hold values is not said: name one with --column, for example --column goodput=NAME:Mbit/s")
	}
	in := csv.NewReader(strings.NewReader(text))
	in.TrimLeadingSpace = true
	head, err := in.Read()
	if err != nil {
		return File{}, faultf(1, "no line of columns: %w", err)
	}
	if len(head) == 1 && strings.Contains(head[0], ";") {
		return File{}, faultf(1, "the columns are divided by semicolons: write the table with commas between columns and points in numbers")
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.TrimSpace(name)] = i
	}
	if name := unnamedColumn(at, o); name != "" {
		return File{}, faultf(1, "no column is called %q; there are %s", name, strings.Join(head, ", "))
	}
	out := File{Program: "table"}
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			if len(out.Tests) == 0 && len(o.Where) > 0 {
				return out, faultf(0, "no line has what is asked for: %s", words(o.Where))
			}
			return out, nil
		}
		var bad *csv.ParseError
		switch {
		case errors.As(err, &bad) && errors.Is(err, csv.ErrFieldCount):
			return out, faultf(bad.Line, "it has %d columns, and the first line names %d", len(fields), len(head))
		case err != nil:
			return out, &Fault{Err: err}
		}
		line, _ := in.FieldPos(0)
		field := func(name string) string { return strings.TrimSpace(fields[at[name]]) }
		if slices.ContainsFunc(o.Where, func(w Where) bool { return field(w.Column) != w.Text }) {
			continue
		}
		tests, err := tableRow(line, o.Columns, field, head)
		if err != nil {
			return out, err
		}
		out.Tests = append(out.Tests, tests...)
	}
}

// unnamedColumn returns a requested column that is missing, "" if there is none.
func unnamedColumn(at map[string]int, o Options) string {
	var asked []string
	for _, c := range o.Columns {
		asked = append(asked, c.Name)
		if c.UnitIn != "" {
			asked = append(asked, c.UnitIn)
		}
	}
	for _, w := range o.Where {
		asked = append(asked, w.Column)
	}
	for _, name := range asked {
		if _, ok := at[name]; !ok {
			return name
		}
	}
	return ""
}

func words(all []Where) string {
	out := lists.Each(all, func(w Where) string { return w.Column + "=" + w.Text })
	return strings.Join(out, " and ")
}

// ways maps the words for directions in tables.
var ways = map[string]model.Direction{"to": model.To, "write": model.To, "upload": model.To, "up": model.To, "from": model.From, "read": model.From, "download": model.From, "down": model.From}

// tableRow returns the tests of one row: one for each setting that it has values of.
func tableRow(line int, columns []Column, field func(string) string, head []string) ([]Test, error) {
	base := Test{Flow: model.Flow{Engine: bulk.Name, Direction: model.To}}
	var parts []string
	var spread Spread
	for _, c := range columns {
		text := field(c.Name)
		var err error
		switch c.Role {
		case "setting":
			parts = append(parts, tableSetting(c.Name, text, columns))
			base.Parts = append(base.Parts, model.Assignment{Knob: model.KnobID(c.Name), Value: text})
		case "near":
			base.Near = text
		case "far":
			base.Far = text
		case "direction":
			var ok bool
			if base.Flow.Direction, ok = ways[strings.ToLower(text)]; !ok {
				err = faultf(line, "direction %q is none of to, from, write, read, upload, download", text)
			}
		case "block":
			if base.Block, err = strconv.Atoi(text); err != nil || base.Block < 1 {
				err = faultf(line, "block %q is no number from 1 on", text)
			}
		case "runs":
			if spread.Runs, err = strconv.Atoi(text); err != nil || spread.Runs < 1 {
				err = faultf(line, "runs %q is no number from 1 on", text)
			}
		case "min":
			spread.Min, err = tableValue(line, c, field)
		case "max":
			spread.Max, err = tableValue(line, c, field)
		}
		if err != nil {
			return nil, err
		}
	}
	if spread != (Spread{}) {
		if spread.Max < spread.Min {
			return nil, faultf(line, "the largest value is below the smallest")
		}
		base.Spread = &spread
	}
	base.Setting = strings.Join(parts, ", ")
	return tableValues(line, base, columns, field, head)
}

// tableSetting names a setting by the text in a column; if several columns make it, with the
// column's name.
func tableSetting(name, text string, columns []Column) string {
	n := lists.Count(columns, func(c Column) bool { return c.Role == "setting" })
	if n < 2 {
		return text
	}
	return name + " " + text
}

// tableValues adds the values of a row to one test per setting.
func tableValues(line int, base Test, columns []Column, field func(string) string, head []string) ([]Test, error) {
	var out []Test
	for _, c := range columns {
		metric := roles[c.Role]
		if metric == "" {
			continue
		}
		v, err := tableValue(line, c, field)
		if err != nil {
			return nil, err
		}
		if metric == model.Goodput && v <= 0 {
			return nil, faultf(line, "a rate of %s", units.BitRate(v))
		}
		setting := base.Setting
		if c.Setting != "" {
			setting = c.Setting
			for _, name := range head {
				setting = strings.ReplaceAll(setting, "{"+name+"}", field(name))
			}
			setting = strings.TrimPrefix(base.Setting+", "+setting, ", ")
		}
		i := slices.IndexFunc(out, func(t Test) bool { return t.Setting == setting })
		if i < 0 {
			t := base
			t.Setting, t.Values = setting, nil
			if c.Setting != "" {
				t.Parts = nil // part of it comes from no column
			}
			out, i = append(out, t), len(out)
		}
		out[i].add(base.Flow.Direction, metric, v)
	}
	return out, nil
}

func tableValue(line int, c Column, field func(string) string) (float64, error) {
	text, unit := field(c.Name), c.Unit
	if text == "" {
		return 0, faultf(line, "column %s is empty", c.Name)
	}
	if c.UnitIn != "" {
		var ok bool
		if unit, ok = tableUnits(c.Role)[field(c.UnitIn)]; !ok {
			return 0, faultf(line, "%s %s as %s: %w", text, field(c.UnitIn), c.Role, noUnit(c.Role, field(c.UnitIn)))
		}
	}
	v, err := number(line, text)
	return v * unit, err
}
