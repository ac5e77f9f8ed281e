package model

import (
	"encoding/json"
	"strings"
	"testing"
)

// What was written when the ends were a and b is read, as a value, as the key of a map
// and in the names of metrics; what is written says near and far.
func TestFirstHour19DocumentsOfBefore(t *testing.T) {
	const before = `{"host":"b","of":{"a":1,"b":2},"value":{"metric":"cpu_per_gbit_b","value":1},"cpu":"cpu_a","none":""}`
	var d struct {
		Host  Host         `json:"host"`
		Of    map[Host]int `json:"of"`
		Value Value        `json:"value"`
		CPU   Metric       `json:"cpu"`
		None  Host         `json:"none"`
	}
	if err := json.Unmarshal([]byte(before), &d); err != nil {
		t.Fatal(err)
	}
	if d.Host != Far || d.Of[Near] != 1 || d.Of[Far] != 2 || d.Value.Metric != CPUPerGbitFar || d.CPU != CPU+"_near" || d.None != "" {
		t.Errorf("%+v", d)
	}
	text, err := json.Marshal(d)
	if want := strings.NewReplacer(`"b"`, `"far"`, `"a"`, `"near"`, "gbit_b", "gbit_far", "cpu_a", "cpu_near").Replace(before); err != nil || !equal(text, want) {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	if name := Far.Of("tcp.sack"); name != "far.tcp.sack" || Host("").Of("window") != "window" {
		t.Errorf("a knob of the far host is %s", name)
	}
}

// equal compares JSON whose maps may be in another order.
func equal(a []byte, b string) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
