package meta

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

// FuzzMetaDecode decodes anything; what decodes must survive another turn.
func FuzzMetaDecode(f *testing.F) {
	p := Footprint{Format: 1, RunID: "r", Asked: []byte("{}"), Started: time.Unix(1, 2).UTC()}
	d := Dataflow{ID: 7, Task: "t", Dims: []string{"i", "j"}, Topo: 3}
	f.Add(appendFootprint(nil, &p))
	f.Add(appendDataflow(nil, &d))
	f.Add(appendCommand(nil, &Command{Kind: CommandCompact, Dataflow: 7, Outcome: 3, Text: "t"}))
	f.Add(appendShare(nil, 1, 1<<60))
	f.Add(appendRun(nil, "run", []byte("data")))
	f.Fuzz(func(t *testing.T, body []byte) {
		if p, ok := decodeFootprint(body); ok {
			if again, ok := decodeFootprint(appendFootprint(nil, &p)); !ok || !reflect.DeepEqual(again, p) {
				t.Errorf("footprint %+v became %+v", p, again)
			}
		}
		if d, ok := decodeDataflow(body); ok {
			if again, ok := decodeDataflow(appendDataflow(nil, &d)); !ok || !reflect.DeepEqual(again, d) {
				t.Errorf("dataflow %+v became %+v", d, again)
			}
		}
		if c, ok := decodeCommand(9, body); ok {
			if again, ok := decodeCommand(9, appendCommand(nil, &c)); !ok || again != c {
				t.Errorf("command %+v became %+v", c, again)
			}
		}
		if a, b, ok := decodePair(body); ok {
			if c, d, ok := decodePair(appendShare(nil, a, b)); !ok || a != c || b != d {
				t.Errorf("pair %d, %d became %d, %d", a, b, c, d)
			}
		}
		if run, data, ok := decodeRun(body); ok && !bytes.HasSuffix(appendRun(nil, run, data), data) {
			t.Error("run lost its data")
		}
		pageOf(body)
		shareOf(body)
	})
}
