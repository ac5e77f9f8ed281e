package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// requests returns one of each message that an agent decodes, by the name of its type.
func requests() []any {
	return []any{
		&Hello{}, &factsRequest{}, &knobNames{}, &applyRequest{}, &nothing{}, &extendRequest{}, &Preparation{}, &runNumber{}, &transaction{},
		&probeRequest{}, &Keep{}, &restoreRequest{},
	}
}

// answers returns one of each message that a controller decodes.
func answers() []any {
	return []any{
		&Welcome{}, &model.HostFacts{}, &knobValues{}, &changeList{}, &acceptedAt{}, &Event{}, &fileLines{}, &probeResults{}, &Keeping{}, &Restored{},
		&keptList{}, &confirmedList{}, &claimList{},
	}
}

func nameOf(message any) string { return reflect.TypeOf(message).Elem().Name() }

// TestMessagesAreListed: these tests know every message that a call decodes.
func TestMessagesAreListed(t *testing.T) {
	in := newIntake(nil, 0)
	(&adapter{}).calls(in, http.NewServeMux(), connect.WithCodec(newCodec("")))
	for path, kind := range in.requests {
		must.True(t, slices.ContainsFunc(requests(), func(m any) bool { return reflect.TypeOf(m).Elem() == kind }), "%s takes a %s", path, kind)
	}
}

// through sends a message to the other end, and returns what that end decodes.
func through(message any) ([]byte, any, error) {
	c := newCodec(model.Far)
	b, err := c.Marshal(message)
	if err != nil {
		return nil, nil, err
	}
	fresh := reflect.New(reflect.TypeOf(message).Elem()).Interface()
	return b, fresh, c.Unmarshal(b, fresh)
}

func difference(want, got any) string {
	return cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }))
}

// TestMessagesAreAsStored: the sample of every message in testdata is what this version sends,
// and decodes to the same message.
func TestMessagesAreAsStored(t *testing.T) {
	for _, m := range slices.Concat(requests(), answers()) {
		n := int64(0)
		f := &filler{
			number: func(most int64) int64 { n++; return n * 7919 % (most/2 + 1) },
			text: func(k textKind) string {
				if n++; k.lines {
					return fmt.Sprintf("-text %d\n+text", n)
				}
				return fmt.Sprintf("text %d", n)
			},
			some: func() int { return 2 },
		}
		m = f.fill(m)
		b, _, err := through(m)
		must.Dof(t, err, "%T", m)
		file := filepath.Join("testdata", "messages", nameOf(m)+".json")
		var shown bytes.Buffer
		must.Do(t, json.Indent(&shown, append(b, '\n'), "", "\t"))
		if must.Updating() {
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, os.WriteFile(file, shown.Bytes(), 0o644))
		}
		stored := must.Get(os.ReadFile(file))(t)
		again := reflect.New(reflect.TypeOf(m).Elem()).Interface()
		must.Dof(t, newCodec(model.Far).Unmarshal(stored, again), file)
		must.NoDiff(t, difference(m, again), file)
		// DEFLATE may compress the same samples differently.
		samples := regexp.MustCompile(`"samples": "[^"]+"`)
		want, sent := samples.ReplaceAllString(string(stored), ""), samples.ReplaceAllString(shown.String(), "")
		must.NoDiff(t, cmp.Diff(want, sent), "%s is another message than this version sends: a peer of the same protocol would not understand it", file)
	}
}

// TestMessagesRoundTrip: everything within the bounds arrives unchanged, including what an agent
// sends, and each message with the largest texts.
func TestMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &filler{
			number: func(most int64) int64 { return rapid.Int64Range(0, most).Draw(t, "number") },
			text: func(k textKind) string {
				s := clean(rapid.StringN(0, 12, k.most).Draw(t, "text"), k.most)
				if s == "" && !k.empty {
					return "x"
				}
				return s
			},
			some: func() int { return rapid.IntRange(1, 3).Draw(t, "elements") },
		}
		m := f.fill(rapid.SampledFrom(slices.Concat(requests(), answers())).Draw(t, "message"))
		_, got, err := through(m)
		must.Dof(t, err, "%T", m)
		must.NoDiff(t, difference(m, got), "%T", m)
		must.NoDiff(t, difference(m, new(shapes).fitted(m, model.Far)), "%T is changed although it fits", m)
	})
}

// TestWhatIsSentFits: whatever a kernel or a program reports, and however much, an agent sends
// messages that its controller accepts, and does not modify its own values.
func TestWhatIsSentFits(t *testing.T) {
	for _, m := range answers() {
		lists, texts := 0, 0
		dirty := func(k textKind) string {
			if texts++; texts%20 == 1 {
				return "a\x1b]0;x\ab\xffc\u202ed" + strings.Repeat("é", k.most/2)
			}
			return "\x1b"
		}
		f := &filler{number: func(most int64) int64 { return most }, text: dirty, some: func() int {
			if lists++; lists%9 == 1 {
				return 1100
			}
			return 1
		}}
		f.fill(m)
		if e, ok := m.(*Event); ok {
			e.Kind = Samples
		}
		before := fmt.Sprintf("%+v", m)
		_, _, err := through(new(shapes).fitted(m, model.Far))
		must.OK(t, err, "%T", m)
		must.Equal(t, fmt.Sprintf("%+v", m) == before, true, "%T is as it was", m)
	}
	must.Equal(t, clean("a\x1b[31mb\tc\xff"+strings.Repeat("é", 10), 12), "a [31mb\tc\uFFFD")
}

// TestMessagesRefused: messages beyond a bound are refused, before or after decoding.
func TestMessagesRefused(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	list := func(n int, one string) string { return strings.Repeat(one+",", n-1) + one }
	flow := func(fields string) string {
		return `{"run":1,"token":[` + list(TokenBytes, "1") + `],"flow":{"engine":"e","direction":"to",` + fields + `}}`
	}
	apply := func(fields string) string {
		return `{"terms":{"within_ns":1000000000},"assignments":[{"host":"far",` + fields + `}]}`
	}
	command := func(name, value, run, undo string, limit int64) string {
		return apply(fmt.Sprintf(`"knob":%q,"value":%q,"command":{"run":%q,"undo":%q,"limit_ns":%d}`, name, value, run, undo, limit))
	}
	report := func(fields string) string { return `{"kind":"result","report":{` + fields + `}}` }
	nic := func(fields string) string { return `{"nics":[{"name":"e",` + fields + `}]}` }
	sample := func(s model.Sample) string {
		return string(must.Get(json.Marshal(Event{Kind: Samples, Samples: Block{s}}))(t))
	}
	for name, c := range map[string]struct {
		into       any
		text, says string
	}{
		"nothing":                 {&nothing{}, "", "no JSON"},
		"half":                    {&nothing{}, "{", "no JSON"},
		"two":                     {&nothing{}, "{} {}", "no JSON"},
		"not UTF-8":               {&factsRequest{}, "{\"peer\":\"\xff\"}", "no JSON"},
		"another type":            {&nothing{}, "[]", "not of its type"},
		"text for a number":       {&extendRequest{}, `{"within_ns":"1"}`, "cannot unmarshal"},
		"broken number":           {&extendRequest{}, `{"within_ns":1000000000.5}`, "cannot unmarshal"},
		"too large for any":       {&runNumber{}, `{"run":18446744073709551616}`, "cannot unmarshal"},
		"unknown field":           {&nothing{}, `{"a":1}`, `no field "a"`},
		"field in other case":     {&runNumber{}, `{"Run":1}`, `no field "Run"`},
		"field twice":             {&runNumber{}, `{"run":1,"run":2}`, "occurs twice"},
		"field of a fact":         {&model.HostFacts{}, `{"kernel":{"valu":1}}`, "no field"},
		"fact of another kind":    {&model.HostFacts{}, `{"mtu":{"value":"many"}}`, "cannot unmarshal"},
		"negative fact":           {&model.HostFacts{}, `{"mtu":{"value":-1}}`, "mtu is -1"},
		"end":                     {&Hello{}, `{"host":"middle"}`, "host is"},
		"long version":            {&Hello{}, `{"version":"` + long(MaxName+1) + `"}`, "at most 128"},
		"long secret":             {&Hello{}, `{"secret":"` + list(MaxSecret+4, "")[:0] + strings.Repeat("AAAA", 43) + `"}`, "129 entries"},
		"no run":                  {&Preparation{}, strings.Replace(flow(`"mss":1`), `"run":1`, `"run":0`, 1), "no number"},
		"short token":             {&Preparation{}, `{"token":[` + list(TokenBytes-1, "1") + `]}`, "31 entries"},
		"long token":              {&Preparation{}, `{"token":[` + list(TokenBytes+1, "1") + `]}`, "more than 32"},
		"no direction":            {&Preparation{}, strings.Replace(flow(`"mss":1`), `"to"`, `""`, 1), "direction is"},
		"odd direction":           {&Preparation{}, strings.Replace(flow(`"mss":1`), `"to"`, `"up"`, 1), "direction is"},
		"no engine":               {&Preparation{}, strings.Replace(flow(`"mss":1`), `"e"`, `""`, 1), "engine is empty"},
		"escape sequence":         {&Preparation{}, strings.Replace(flow(`"mss":1`), `"e"`, `"\u001b]0;x"`, 1), "control characters"},
		"streams":                 {&Preparation{}, flow(`"streams":1001`), "streams is 1001"},
		"negative time":           {&Preparation{}, flow(`"duration_ns":-1`), "duration_ns is -1ns"},
		"eternity":                {&Preparation{}, flow(`"duration_ns":9223372036854775807`), "duration_ns is 2562047h"},
		"block":                   {&Preparation{}, flow(`"block":67108865`), "block is"},
		"window":                  {&Preparation{}, flow(`"window":2147483648`), "window is"},
		"interval":                {&Preparation{}, flow(`"interval_ns":1`), "interval is 1ns"},
		"many points":             {&Preparation{}, flow(`"points":4097`), "points is 4097"},
		"huge parameters":         {&Preparation{}, flow(`"params":{"a":"` + long(MaxParams) + `"}`), "at most 65536"},
		"parameters of many":      {&Preparation{}, flow(`"params":{"a":[` + list(maxOpaque, "1") + `]}`), "more than 16384 parts"},
		"parameters no object":    {&Preparation{}, flow(`"params":[1]`), "no JSON object"},
		"address":                 {&Preparation{}, `{"run":1,"connect":"host:0",` + flow(`"mss":1`)[len(`{"run":1,`):], "not a host with a port"},
		"ports":                   {&Preparation{}, `{"run":1,"ports":{"first":9,"last":1},` + flow(`"mss":1`)[len(`{"run":1,`):], "no ports"},
		"no assignments":          {&applyRequest{}, `{"assignments":[]}`, "at least 1"},
		"many assignments":        {&applyRequest{}, `{"assignments":[` + list(257, "{}") + `]}`, "more than 256"},
		"wrong host":              {&applyRequest{}, strings.Replace(apply(`"knob":"k"`), "far", "near", 1), "for the near host"},
		"knob of no host":         {&applyRequest{}, strings.Replace(apply(`"knob":"k"`), "far", "", 1), "for the  host"},
		"knob twice":              {&applyRequest{}, strings.Replace(apply(`"knob":"k"`), "[", `[{"host":"far","knob":"k"},`, 1), "k occurs twice"},
		"no time":                 {&applyRequest{}, `{"assignments":[{"host":"far","knob":"k"}]}`, "within_ns is 0s"},
		"name without a command":  {&applyRequest{}, apply(`"knob":"cmd:x","value":"on"`), "a command is called"},
		"command without a name":  {&applyRequest{}, command("tcp.sack", "on", "true", "true", 1e9), "a command is called"},
		"command with a level":    {&applyRequest{}, command("cmd:x", "1", "true", "true", 1e9), "not \"1\""},
		"command of two lines":    {&applyRequest{}, command("cmd:x", "on", "true\nfalse", "true", 1e9), "not shown"},
		"command hides itself":    {&applyRequest{}, command("cmd:x", "on", "true\u202efalse", "true", 1e9), "not shown"},
		"command without undo":    {&applyRequest{}, command("cmd:x", "on", "true", " ", 1e9), "nothing to run"},
		"command without a limit": {&applyRequest{}, command("cmd:x", "on", "true", "true", 0), "the least is"},
		"command for hours":       {&applyRequest{}, command("cmd:x", "on", "true", "true", 3600e9), "limit_ns is 1h"},
		"target":                  {&probeRequest{}, `{"within_ns":1000000000,"targets":["a b"]}`, "target"},
		"nothing to keep":         {&Keep{}, `{}`, "no settings"},
		"kept twice":              {&Keep{}, `{"settings":[{"knob":"k"},{"knob":"k"}]}`, "occurs twice"},
		"no event":                {&Event{}, `{}`, "event"},
		"unknown event":           {&Event{}, `{"kind":"x"}`, "no event is called"},
		"no samples":              {&Event{}, `{"kind":"samples"}`, "0 samples"},
		"samples beside":          {&Event{}, strings.Replace(sample(model.Sample{Metric: "m"}), `"samples"`, `"measured"`, 1), "1 samples"},
		"samples that are noise":  {&Event{}, `{"kind":"samples","samples":"AAAA"}`, "damaged"},
		"not a number":            {&Event{}, sample(model.Sample{Metric: "m", Value: math.NaN()}), "not a finite number"},
		"infinite":                {&Event{}, sample(model.Sample{Metric: "m", Value: math.Inf(1)}), "not a finite number"},
		"both in a sample":        {&Event{}, sample(model.Sample{Metric: "m", Direction: model.Both}), "direction is"},
		"no metric":               {&Event{}, sample(model.Sample{}), "metric is empty"},
		"escapes in a sample":     {&Event{}, sample(model.Sample{Metric: "m", Of: "\x1b[2J"}), "control characters"},
		"infinite value":          {&Event{}, report(`"values":[{"metric":"m","value":1e999}]`), "cannot unmarshal"},
		"many flows":              {&Event{}, report(`"flows":[{},{},{},{},{}]`), "more than 4"},
		"no role":                 {&Event{}, report(`"flows":[{"direction":"to"}]`), "role is"},
		"many streams":            {&Event{}, report(`"flows":[{"streams":[` + list(1001, "1") + `]}]`), "more than 1000"},
		"bad histogram":           {&Event{}, report(`"latencies":[{"name":"x","times":{"version":9}}]`), "histogram"},
		"huge histogram":          {&Event{}, report(`"latencies":[{"name":"x","times":{"buckets":[` + list(maxOpaque, "[]") + `]}}]`), "more than 16384 parts"},
		"more lost":               {&Event{}, report(`"latencies":[{"name":"x","sent":1,"lost":2}]`), "2 probes lost of 1"},
		"many trials":             {&Event{}, report(`"points":[{"trials_ns":[` + list(1025, "1") + `]}]`), "more than 1024"},
		"negative trial":          {&Event{}, report(`"points":[{"trials_ns":[-1]}]`), "trials_ns is -1ns"},
		"negative counter":        {&Event{}, report(`"counters":[{"name":"x","value":-1}]`), "value is -1"},
		"many counters":           {&Event{}, report(`"counters":[` + list(4097, "{}") + `]`), "more than 4096"},
		"no part of a list":       {&Event{}, report(`"values":[null]`), "metric is empty"},
		"state of a change":       {&changeList{}, `{"changes":[{"knob":"k"}]}`, "state is"},
		"knob read twice":         {&knobValues{}, `{"knobs":{"k":{},"k":{}}}`, "occurs twice"},
		"many interfaces":         {&model.HostFacts{}, `{"nics":[` + list(65, "{}") + `]}`, "more than 64"},
		"interface twice":         {&model.HostFacts{}, `{"nics":[{"name":"e"},{"name":"e"}]}`, "e occurs twice"},
		"no name":                 {&model.HostFacts{}, `{"nics":[{}]}`, "name is empty"},
		"many addresses":          {&model.HostFacts{}, nic(`"addresses":[` + list(65, `""`) + `]`), "more than 64"},
		"escapes in a name":       {&model.HostFacts{}, nic(`"below":["\u001b]0;x"]`), "control characters"},
		"many modes":              {&model.HostFacts{}, nic(`"media":{"partner":{"value":[` + list(257, `""`) + `]}}`), "more than 256"},
		"many offloads":           {&model.HostFacts{}, nic(`"offloads":{"value":[` + list(257, `{}`) + `]}`), "more than 256"},
		"nameless offload":        {&model.HostFacts{}, nic(`"offloads":{"value":[{}]}`), "name is empty"},
		"long peer":               {&model.HostFacts{}, `{"route":{"peer":"` + long(256) + `"}}`, "at most 255"},
		"metric of no name":       {&model.HostFacts{}, `{"route":{"metrics":{"":"1"}}}`, "is empty"},
		"many knobs":              {&knobValues{}, `{"knobs":{` + manyKeys(1025) + `}}`, "more than 1024"},
		"confirmed twice":         {&confirmedList{}, `{"settings":[{"knob":"k"},{"knob":"k"}]}`, "occurs twice"},
		"mode of a file":          {&Keeping{}, `{"files":[{"change":"new","mode":512}]}`, "mode is 512"},
	} {
		err := newCodec(model.Far).Unmarshal([]byte(c.text), c.into)
		must.Is(t, err, ErrInvalid, "%s", name)
		must.Say(t, err, c.says, name)
	}
}

func manyKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`"k%d":{}`, i))
	}
	return strings.Join(keys, ",")
}

// TestBoundsInTags: the bounds that code needs equal those of the tags.
func TestBoundsInTags(t *testing.T) {
	for _, c := range []struct {
		message any
		field   string
		high    int64
	}{
		{Terms{}, "within_ns", int64(MaxDuration)}, {Terms{}, "undo_ns", int64(knob.MaxUndoTime)}, {Preparation{}, "within_ns", int64(MaxPrepare)},
		{model.Flow{}, "streams", MaxStreams}, {model.Egress{}, "dscp", model.MaxDSCP}, {Keep{}, "comments", MaxComments}, {Keep{}, "settings", MaxAssignments}, {Hello{}, "secret", MaxSecret},
		{Event{}, "samples", MaxSamples}, {model.Command{}, "limit_ns", int64(model.MaxCommandTime)},
		{probeRequest{}, "targets", MaxTargets}, {probeRequest{}, "within_ns", int64(MaxWithin)}, {probeRequest{}, "settle_ns", int64(MaxSettle)},
	} {
		for _, f := range new(shapes).of(reflect.TypeOf(c.message)).fields {
			if f.name == c.field {
				must.Equal(t, f.rule.high, c.high, "%T %s", c.message, f.name)
				c.high = -1
			}
		}
		must.Equal(t, c.high, -1, "%T has no %s", c.message, c.field)
	}
}

// dear returns, for each message, the one that takes the most memory for its size on the wire.
func dear() map[string]struct {
	into any
	text func(n int) string
} {
	list := func(begin, one, end string) func(int) string {
		return func(n int) string { return begin + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + end }
	}
	return map[string]struct {
		into any
		text func(n int) string
	}{
		"assignments": {&applyRequest{}, list(`{"assignments":[`, `{}`, `]}`)},
		"commands":    {&applyRequest{}, list(`{"assignments":[`, `{"command":{}}`, `]}`)},
		"names":       {&knobNames{}, list(`{"ids":[`, `""`, `]}`)},
		"long names":  {&knobNames{}, list(`{"ids":[`, `"`+strings.Repeat("a", 29)+`"`, `]}`)},
		"escapes":     {&knobNames{}, list(`{"ids":[`, `"`+strings.Repeat(`\n`, 60)+`"`, `]}`)},
		"targets":     {&probeRequest{}, list(`{"targets":[`, `""`, `]}`)},
		"settings":    {&Keep{}, list(`{"settings":[`, `{}`, `]}`)},
		"comments":    {&Keep{}, list(`{"comments":[`, `"x"`, `]}`)},
		"parameters":  {&Preparation{}, list(`{"flow":{"params":{"a":[`, `1`, `]}}}`)},
		"interfaces":  {&model.HostFacts{}, list(`{"nics":[`, `{}`, `]}`)},
		"knobs":       {&model.HostFacts{}, func(n int) string { return `{"knobs":{` + manyKeys(n) + `}}` }},
		"counters":    {&Event{}, list(`{"kind":"result","report":{"counters":[`, `{}`, `]}}`)},
		"points":      {&Event{}, list(`{"kind":"result","report":{"points":[`, `{}`, `]}}`)},
	}
}

// TestChargeCoversDecoding decodes the messages that take the most memory for their size: it is
// no more than charged, and no more than a bound allows.
func TestChargeCoversDecoding(t *testing.T) {
	for name, c := range dear() {
		b, cost := []byte(nil), units.Bytes(0)
		for n := 1; n <= 1<<14; n *= 2 { // the largest within the bounds
			text := []byte(c.text(n))
			if now, err := new(shapes).scan(text, reflect.TypeOf(c.into).Elem()); err == nil {
				b, cost = text, now
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := json.Unmarshal(b, c.into)
		runtime.ReadMemStats(&after)
		must.Dof(t, err, name)
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(cost)+freeMemory {
			t.Errorf("%s: %d bytes take %d bytes, %d are charged", name, len(b), used, cost)
		} else {
			t.Logf("%s: %d bytes take %d bytes, %d are charged", name, len(b), used, cost)
		}
		huge := []byte(c.text(maxResponse / 3))
		runtime.ReadMemStats(&before)
		err = newCodec("").Unmarshal(huge, c.into)
		runtime.ReadMemStats(&after)
		must.Is(t, err, ErrInvalid, "%s", name)
		used := after.TotalAlloc - before.TotalAlloc
		must.True(t, used <= 4<<20, "%s: %d bytes that are refused take %d bytes", name, len(huge), used)
	}
}

// freeMemory is what decoding itself takes, whatever it decodes.
const freeMemory = 4 << 10

func FuzzMessages(f *testing.F) {
	files := must.Get(filepath.Glob("testdata/messages/*.json"))(f)
	for _, file := range files {
		f.Add(must.Get(os.ReadFile(file))(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range slices.Concat(requests(), answers()) {
			c := newCodec(model.Far)
			if c.Unmarshal(b, m) != nil {
				continue
			}
			_, again, err := through(m)
			must.Dof(t, err, "%T from %q", m, b)
			must.NoDiff(t, difference(m, again), "%T", m)
		}
	})
}
