package control

import (
	"encoding/json"
	"reflect"
	"testing"

	"operon/engine"
	"operon/spec/coord"
)

// A summary arrives with what its own JSON leaves out.
func TestASummaryArrives(t *testing.T) {
	sent := engine.Summary{
		Pipeline: "p", Run: "r", State: engine.StateFailed, Executed: 1, Failed: 2, MaxFailures: 2,
		Tasks:     []engine.TaskSummary{{TaskStatus: engine.TaskStatus{Task: "t", Waiting: 5}, Executed: 1, Undone: 4}, {TaskStatus: engine.TaskStatus{Task: "u"}}},
		Dataflows: engine.Reconciles{Kept: 1, Replaced: map[string]int64{"asked": 1}},
		Failures: []engine.FailureGroup{{Task: "t", Kind: "exit", Cause: "no", Jobs: 2, Sample: engine.Failed{
			Task: "t", Coord: coord.Of(3), Dims: []string{"i"}, Labels: []string{"c"}, Kind: "exit", Message: "no", Attempts: 2, Exit: 1, Stderr: []byte("no\n"), Log: "/l",
		}}},
		LeftOut: []string{"u"}, Asked: true,
	}
	text, err := json.Marshal(summaryOf(&sent))
	if err != nil {
		t.Fatal(err)
	}
	var told summary
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatal(err)
	}
	if got := told.decode(); !reflect.DeepEqual(*got, sent) {
		t.Errorf("%+v\narrives as %+v", sent, *got)
	}
}
