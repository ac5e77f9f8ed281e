package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"linerate/internal/confined"
	"linerate/internal/core/lists"
	"linerate/internal/must"
)

func TestTenMistakesAreTenProblems(t *testing.T) {
	const text = `title: ten mistakes
far: nas
flow:
  direction: sideways
  duration: -10s
  mss: 10
  windw: 64KiB
factors:
  - knob: far.tcp.recv_bufer_max
    levels: [64KiB, 1MiB]
  - knob: window
    levels: [64KiB, 1MiB, 64K]
baseline: nowhere
blocks: 0
confidence: 95
margin: 3 apples
`
	_, err := Parse("plan.yaml", []byte(text), knobs{}, kinds())
	want := `plan.yaml:4:14: flow.direction: unknown direction "sideways"; write to (near sends), from (far sends), both (at the same time), or each (one after the other)
plan.yaml:5:13: flow.duration: duration "-10s" is negative; write it like 10s, 250ms or 1m30s
plan.yaml:6:8: flow.mss: value "10" of mss: want at least 88
plan.yaml:7:3: flow: unknown key "windw"; did you mean window?
plan.yaml:9:11: factors[0].knob: unknown knob "tcp.recv_bufer_max"; did you mean tcp.recv_buffer_max?
plan.yaml:12:27: factors[1].levels[2]: level "64K" has the same value as "64KiB"; leave one of them out
plan.yaml:13:11: baseline: "nowhere" is not a setting of this plan; known are current, far.tcp.recv_bufer_max=64KiB window=64KiB, far.tcp.recv_bufer_max=64KiB window=1MiB, far.tcp.recv_bufer_max=64KiB window=64K, far.tcp.recv_bufer_max=1MiB window=64KiB, far.tcp.recv_bufer_max=1MiB window=1MiB, far.tcp.recv_bufer_max=1MiB window=64K
plan.yaml:14:9: blocks: "0" is not a number of blocks; write 1 to 10000
plan.yaml:15:13: confidence: "95" is not a confidence between 0.5 and 1; write it like 0.95
plan.yaml:16:9: margin: percentage "3 apples" has the unknown unit "apples"; write it like 3% or 0.01%`
	var problems Errors
	must.True(t, errors.As(err, &problems) && len(problems) == 10, "%d problems, want 10", len(problems))
	must.True(t, err != nil && err.Error() == want, "got\n%v\nwant\n%s", err, want)
}

func TestMistakes(t *testing.T) {
	const window = "factors: [{knob: window, levels: [64KiB, 1MiB]}]\n"
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprint(i + 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing compared":         {"far: nas\n", `1:1: the plan compares nothing; add factors: or settings:`},
		"empty":                    {"", `1:1: the file is empty; start with far: and factors:`},
		"only comments":            {"# later\n", `1:1: the file is empty; start with far: and factors:`},
		"a list":                   {"- far: nas\n", `1:1: is a list, not a map; write keys and values`},
		"a word":                   {"nas\n", `1:1: is a single value, not a map; write keys and values`},
		"two documents":            {window + "---\nfar: nas\n", `3:1: a second document begins here; put it into a file of its own`},
		"broken YAML":              {"far: 'nas\n", `1:6: not YAML: could not find end character of single-quoted text`},
		"tab":                      {"flow:\n\tduration: 1s\n", "2:1: not YAML: found character '\t' that cannot start any token"},
		"not UTF-8, lines by CR":   {"far: nas\r\nnear: x\rtitle: \xff\n", `3:8: the file is not UTF-8 text`},
		"not UTF-8":                {"far: nas\ntitle: \xff\n", `2:8: the file is not UTF-8 text`},
		"too large":                {strings.Repeat("# xx\n", 20000), `1:1: the file has 100000 bytes, which is more than 65536`},
		"too deep":                 {"far: " + strings.Repeat("[", 40000), `1:38: more than 32 brackets are open`},
		"key twice":                {window + "seed: 1\nseed: 2\n", `3:1: seed: is given twice; leave one of them out`},
		"alias":                    {window + "near: &x nas\nfar: *x\n", "2:7: near: is a YAML anchor, alias or tag, which plan files do not have, not a single value\n3:6: far: is a YAML anchor, alias or tag, which plan files do not have, not a single value"},
		"merge":                    {"<<: {seed: 1}\n" + window, `1:1: a key is a YAML anchor, alias or tag, which plan files do not have, not a word`},
		"no value":                 {window + "far:\n", `2:1: far: has no value; give it one or leave it out`},
		"wrong shape":              {window + "seed: [1]\n", `2:7: seed: is a list, not a single value`},
		"flow is a word":           {window + "flow: fast\n", `2:7: flow: is a single value, not a map; write keys and values`},
		"line break":               {window + "title: |\n  one\n  two\n", `2:8: title: "one\ntwo" has a line break or another control character; write it on one line`},
		"empty text":               {window + "far: ''\n", `2:6: far: is empty; give it a value or leave it out`},
		"long text":                {window + "far: " + strings.Repeat("x", 401) + "\n", `2:6: far: has more than 400 characters`},
		"zero duration":            {window + "flow: {duration: 0s}\n", `2:18: flow.duration: must be longer than 0; write it like 10s, 250ms or 1m30s`},
		"endless":                  {window + "settle: 1000h\n", `2:9: settle: "1000h" is longer than 24 h; write it like 10s, 250ms or 1m30s`},
		"zero bytes":               {window + "flow: {bytes: 0}\n", `2:15: flow.bytes: must be more than 0; write it like 1GiB`},
		"two ends of a run":        {window + "flow: {bytes: 1M, duration: 1s}\n", `2:15: flow.bytes: a run ends after a duration or after bytes, not both; leave one of them out`},
		"interval":                 {window + "flow: {duration: 1s, interval: 2s}\n", `2:32: flow.interval: 2 s is longer than the duration 1 s; write it like 1s`},
		"unknown engine":           {window + "flow: {engine: udpflwo, rate: 1M}\n", `2:16: flow.engine: unknown engine "udpflwo"; did you mean udpflow?`},
		"a sweep":                  {window + "flow: {engine: pingpong}\n", `2:16: flow.engine: message sizes are not compared by plans; use linerate sweep`},
		"a copy":                   {window + "flow: {engine: filecopy}\n", `2:16: flow.engine: copies are not compared by plans; use linerate copy`},
		"UDP without UDP":          {window + "flow: {rate: 1M, plain: on}\n", "2:14: flow.rate: rate belongs to UDP, not to engine tcpbulk; write engine: udpflow\n2:25: flow.plain: plain belongs to UDP, not to engine tcpbulk; write engine: udpflow"},
		"load without probes":      {window + "flow: {engine: udpflow, load: udpflow, idle: 1s}\n", "2:31: flow.load: load belongs to engine loaded, not to engine udpflow; write engine: loaded\n2:46: flow.idle: idle belongs to engine loaded, not to engine udpflow; write engine: loaded"},
		"requests without them":    {window + "flow: {engine: loaded, requests: 10, reply: 1K, connect: on, spin: off}\n", "2:34: flow.requests: requests belongs to engine reqresp, not to engine loaded; write engine: reqresp\n2:45: flow.reply: reply belongs to engine reqresp, not to engine loaded; write engine: reqresp\n2:58: flow.connect: connect belongs to engine reqresp, not to engine loaded; write engine: reqresp\n2:68: flow.spin: spin belongs to engine reqresp, not to engine loaded; write engine: reqresp"},
		"bytes of requests":        {window + "flow: {engine: reqresp, bytes: 1M}\n", `2:32: flow.bytes: requests end after a time, not after bytes; give a duration`},
		"TCP's knobs of UDP":       {window + "flow: {engine: loaded, load: udpflow, mss: 1400, nodelay: off, congestion: bbr}\n", "2:44: flow.mss: mss belongs to TCP, not to UDP; leave it out\n2:59: flow.nodelay: nodelay belongs to TCP, not to UDP; leave it out\n2:76: flow.congestion: congestion belongs to TCP, not to UDP; leave it out"},
		"TCP's factor of UDP":      {"factors: [{knob: mss, levels: [1000, 1400]}]\nflow: {engine: udpflow}\n", `1:11: factors[0]: mss belongs to TCP, not to UDP; leave it out`},
		"UDP's factor of TCP":      {"factors: [{knob: rate, levels: [1M, 2M]}]\n", `1:11: factors[0]: rate belongs to UDP, not to engine tcpbulk; write engine: udpflow`},
		"UDP's knob in a set":      {"settings: [{name: x, set: {rate: 1M}}]\n", `1:34: settings[0].set[rate]: rate belongs to UDP, not to engine tcpbulk; write engine: udpflow`},
		"rate":                     {window + "flow: {engine: udpflow, rate: 1MB}\n", `2:31: flow.rate: value "1MB" of rate: want a rate from 1 kbit/s to 1 Tbit/s, such as 100M, or unlimited: bit rate "1MB" names an amount, not a rate; write it like 100mbit, 2.5 Gbit/s or 12 MB/s`},
		"words of an engine":       {window + "flow: {engine: udpflow, pacing: fq, plain: perhaps}\n", "2:33: flow.pacing: unknown pacing \"fq\"; write kernel or clock\n2:44: flow.plain: \"perhaps\" is neither on nor off; write on or off"},
		"number of requests":       {window + "flow: {engine: reqresp, requests: -1, reply: 0}\n", "2:35: flow.requests: \"-1\" is not a number of requests per second; write it like 1000, or 0 for one after the other\n2:46: flow.reply: must be more than 0; write it like 1GiB"},
		"budget with idle time":    {window + "flow: {engine: loaded, idle: 3s, duration: 1s}\nbudget: 2s\n", `3:9: budget: 2 s is less than one run, which takes 6 s; raise it or shorten the runs`},
		"direction twice":          {window + "flow: {direction: [to, to]}\n", `2:24: flow.direction[1]: direction to is given twice; leave one of them out`},
		"no direction":             {window + "flow: {direction: []}\n", `2:19: flow.direction: is an empty list`},
		"both kinds of blocks":     {window + "blocks: 8\nmax_blocks: 20\n", `3:13: max_blocks: blocks fixes their number, max_blocks is for plans that end when decided; leave one of them out`},
		"small budget":             {window + "flow: {duration: 10s}\nbudget: 5s\n", `3:9: budget: 5 s is less than one run, which takes 12 s; raise it or shorten the runs`},
		"whole margin":             {window + "margin: 100%\n", `2:9: margin: "100%" is not between 0 % and 100 %; write it like 3%`},
		"zero tolerance":           {window + "tolerance: 0\n", `2:12: tolerance: "0" is not between 0 % and 100 %; write it like 3%`},
		"certainty":                {window + "confidence: 1\n", `2:13: confidence: "1" is not a confidence between 0.5 and 1; write it like 0.95`},
		"not a number":             {window + "confidence: .nan\n", `2:13: confidence: ".nan" is not a confidence between 0.5 and 1; write it like 0.95`},
		"seed":                     {window + "seed: -1\n", `2:7: seed: "-1" is not a seed; write a whole number from 0 to 18446744073709551615`},
		"twin":                     {window + "twin: maybe\n", `2:7: twin: "maybe" is neither true nor false; leave it out for the default`},
		"streams":                  {window + "flow: {streams: 0}\n", `2:17: flow.streams: value "0" of streams: want at least 1`},
		"a set of a factor":        {window + "settings: [{name: x, set: {window: 1M}}]\n", `2:12: settings[0]: window is a factor of this plan, and "x" sets it too; leave it out of one of them`},
		"no factors":               {"factors: []\n", `1:10: factors: is an empty list`},
		"factors as map":           {"factors: {knob: window, levels: [1K]}\n", `1:10: factors: is a map, not a list; write [ ] around it, or a dash before each item`},
		"no levels":                {"factors: [{knob: window}]\n", `1:11: factors[0]: the factor has no levels; add some, such as levels: [64KiB, 1MiB]`},
		"empty levels":             {"factors: [{knob: window, levels: []}]\n", `1:34: factors[0].levels: is an empty list`},
		"no knob":                  {"factors: [{levels: [1K]}]\n", `1:11: factors[0]: the factor has no knob; add one, such as knob: tcp.recv_buffer_max`},
		"level is a list":          {"factors: [{knob: window, levels: [1K, [2K]]}]\n", `1:39: factors[0].levels[1]: is a list, not a single value`},
		"bad level as baseline":    {"factors: [{knob: mss, levels: [10, 1400]}]\nbaseline: 10\n", `1:32: factors[0].levels[0]: value "10" of mss: want at least 88`},
		"no level, so no baseline": {"factors: [{knob: mss, level: [1400]}]\nbaseline: 1400\n", `1:23: factors[0]: unknown key "level"; did you mean levels?`},
		"no name, so no baseline":  {"settings: [{nam: x, set: {window: 1M}}]\nbaseline: x\n", `1:13: settings[0]: unknown key "nam"; did you mean name?`},
		"unknown host":             {"factors: [{knob: link.mtu, host: c, levels: [9000]}]\n", `1:18: factors[0].knob: unknown host "c"; write near or far, or leave it out for both`},
		"contradicting hosts":      {"factors: [{knob: near.link.mtu, host: far, levels: [9000]}]\n", `1:18: factors[0].knob: "near.link.mtu" contradicts host far; leave one of them out`},
		"host of the flow":         {"factors: [{knob: window, host: far, levels: [1M]}]\n", `1:18: factors[0].knob: window belongs to the flow, not to the far host; write window without a host`},
		"overlapping factors":      {"factors:\n- {knob: link.mtu, levels: [9000]}\n- {knob: far.link.mtu, levels: [1500]}\n", `3:3: factors[1]: far.link.mtu is already a factor; leave one of them out`},
		"too many settings":        {"factors:\n- {knob: window, levels: [" + strings.Join(many, ",") + "]}\n- {knob: block, levels: [1,2]}\n", `2:1: factors: the levels make 66 settings, and a plan may have 64; use fewer factors or levels, or one plan for each factor`},
		"twin name":                {"settings: [{name: current (twin), set: {window: 1M}}]\n", `1:19: settings[0].name: "current (twin)" is what a null twin is called; give it another name`},
		"name twice":               {"settings: [{name: x, set: {window: 1M}}, {name: x, set: {window: 2M}}]\n", `1:49: settings[1].name: a setting named "x" is already there; give it another name`},
		"current that changes":     {"settings: [{name: current, set: {window: 1M}}]\n", `1:19: settings[0].name: "current" is the name of the hosts as they are; give it another name`},
		"no name":                  {"settings: [{set: {window: 1M}}]\n", `1:12: settings[0]: the setting has no name; add one, such as name: jumbo`},
		"set is a list":            {"settings: [{name: x, set: [window]}]\n", `1:27: settings[0].set: is a list, not a map; write keys and values`},
		"set twice":                {"settings: [{name: x, set: {link.mtu: 9000, near.link.mtu: 1500}}]\n", `1:44: settings[0].set[near.link.mtu]: near.link.mtu is already set; leave one of them out`},
		"unknown host in a set":    {"settings: [{name: x, set: {c.link.mtu: 9000}}]\n", `1:40: settings[0].set[c.link.mtu]: unknown host "c"; write near. or far. before the knob, or nothing for both`},
		"native name in a set":     {"settings: [{name: x, set: {tcp_rmem: 1M}}]\n", `1:38: settings[0].set[tcp_rmem]: unknown knob "tcp_rmem"; did you mean tcp.recv_buffer_max?`},
		"nothing set to nothing":   {"settings: [{name: x, set: {window: }}]\n", `1:28: settings[0].set[window]: has no value; give it one or leave it out`},
	} {
		_, err := Parse("", []byte(c.text), knobs{}, kinds())
		var problems Errors
		if !errors.As(err, &problems) {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		got := lists.Each(problems, func(p Problem) string { return fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p) })
		must.Equal(t, strings.Join(got, "\n"), c.want, "%s", name)
	}
}

func TestDidYouMean(t *testing.T) {
	words := []string{"duration", "direction", "omit", "link.mtu"}
	for in, want := range map[string]string{
		"duratoin": "did you mean duration?", "dur": "did you mean duration?", "Omit": "did you mean omit?",
		"mtu": "did you mean link.mtu?", "xyzzy-plugh": "known are duration, direction, omit, link.mtu",
		strings.Repeat("x", 5000): "known are duration, direction, omit, link.mtu",
	} {
		must.Equal(t, didYouMean(in, words), want, "didYouMean(%.20q)", in)
	}
}

// FuzzParse: for any file, Parse returns a File that plan.New can use, or Errors with positions
// in the file, and does not panic.
func FuzzParse(f *testing.F) {
	for _, e := range examples(f) {
		f.Add(e)
	}
	for _, s := range []string{"", "a: [1,", "? a\n: 1\n", "- - -", "%YAML 1.2\n---\nfar: x\n", "a: &x 1\nb: *x\n", "settings: [{name: x, set: {window: }}]", "flow: {", "a:\n- b\n -c", "\xef\xbb\xbffar: x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("f", []byte(text), knobs{}, kinds())
		if err != nil {
			var problems Errors
			must.Need(t, errors.As(err, &problems) && len(problems) != 0, "error %v", err)
			for _, p := range problems {
				must.Need(t, p.Line >= 1 && p.Line <= strings.Count(text, "\n")+strings.Count(text, "\r")+1 && p.Message != "", "problem %+v of %q", p, text)
			}
			return
		}
		settings, baseline := file.Settings()
		must.Need(t, len(settings) != 0 && len(settings) <= MaxSettings+1 && baseline != "", "%d settings, baseline %q", len(settings), baseline)
		names := map[string]bool{}
		for _, s := range settings {
			must.Need(t, s.Name != "" && !names[s.Name], "setting %q without a name of its own", s.Name)
			names[s.Name] = true
		}
		must.Need(t, names[baseline], "baseline %q is no setting", baseline)
	})
}

// hostilePlan returns a plan file with levels to the power of factors combinations.
func hostilePlan(factors, levels int) string {
	var b strings.Builder
	b.WriteString("far: nas\nfactors:\n")
	for n := range factors {
		fmt.Fprintf(&b, "- {knob: %s.tcp.%s_buffer_max, levels: [", []string{"near", "far"}[n%2], []string{"recv", "send"}[n/2%2])
		for i := range levels {
			fmt.Fprintf(&b, "%dK,", 64+i)
		}
		b.WriteString("]}\n")
	}
	return b.String()
}

// TestHostileCombinations: a small plan file with billions of combinations, and one whose number
// of combinations overflows a machine word, are refused with that number before any combination
// is made.
func TestHostileCombinations(t *testing.T) {
	confined.Run(t, 256<<20, 20, func(t *testing.T) {
		for _, c := range []struct {
			factors, levels int
			says            string
		}{
			{13, 5, "the levels make 1220703125 settings, and a plan may have 64"},
			{4, 64, "the levels make 16777216 settings, and a plan may have 64"},
			{70, 5, "the levels make more than 9223372036854775807 settings, and a plan may have 64"},
		} {
			text := hostilePlan(c.factors, c.levels)
			must.Say(t, must.Err(Parse("plan.yaml", []byte(text), knobs{}, kinds())), c.says, "%d factors of %d levels in %d bytes", c.factors, c.levels, len(text))
		}
		// The same from flags, from which a caller builds a File.
		var f File
		for range 13 {
			factor := must.Get(ParseFactor("far.tcp.recv_buffer_max=64K,65K,66K,67K,68K", knobs{}))(t)
			f.Factors = append(f.Factors, factor)
		}
		f.Baseline = "far.tcp.recv_buffer_max=64K"
		must.Say(t, f.Validate(), "1220703125 settings", "flags")
		must.OK(t, f.Hold("far.tcp.recv_buffer_max"))
		o := f.Complete()
		must.True(t, len(o.Settings) <= MaxSettings, "%d settings", len(o.Settings))
	})
}
