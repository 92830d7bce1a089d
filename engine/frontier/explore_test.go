package frontier

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
)

func startView(workers int) func() observer {
	return func() observer { return viewObserver{v: NewView(workers)} }
}

// startJoined is the view of one that joins at an id: everyone is there.
func startJoined(workers int, at uint8) func() observer {
	return func() observer { return viewObserver{v: NewViewAt(workers+1, uint64(at))} }
}

func startCounts(workers int) func() observer {
	return func() observer { return newCounts(int64(workers), 0, nil) }
}

// byID is the order that F11 warns of: one long-lived dataflow keeps all later
// ones beyond the frontier.
func byID(a, b Time) bool {
	if a.installed {
		return b.installed && a.id <= b.id
	}
	return a.id <= b.id
}

// TestExplore visits every state of small clusters, under every network that
// the view or the counts promise to stand.
func TestExplore(t *testing.T) {
	type row struct {
		name string
		model
		long bool
	}
	rows := []row{
		{name: "F05 in order", model: model{workers: 1, ids: 3, start: startView(1)}},
		{name: "F05 in order", model: model{workers: 2, ids: 2, start: startView(2)}},
		{name: "F05 in order", model: model{workers: 2, ids: 3, start: startView(2)}},
		{name: "F05 in order", model: model{workers: 3, ids: 2, start: startView(3)}},
		{name: "F05 in order, reduced", model: model{workers: 3, ids: 2, reduce: true, start: startView(3)}},
		{name: "F05 in order, reduced", model: model{workers: 3, ids: 3, reduce: true, start: startView(3)}, long: true},
		{name: "F05 merged", model: model{workers: 2, ids: 2, coalesce: true, start: startView(2)}},
		{name: "F06 any order", model: model{workers: 2, ids: 2, reorder: true, start: startView(2)}},
		{name: "F06 any order", model: model{workers: 3, ids: 2, reorder: true, start: startView(3)}, long: true},
		{name: "F07 twice", model: model{workers: 2, ids: 2, duplicate: 2, start: startView(2)}},
		{name: "F07 twice, any order", model: model{workers: 2, ids: 2, duplicate: 1, reorder: true, start: startView(2)}},
		{name: "F08 lost", model: model{workers: 2, ids: 2, lose: true, start: startView(2)}},
		{name: "F33 outcomes", model: model{workers: 2, ids: 2, labels: true, start: startView(2)}},
		{name: "F33 outcomes, merged", model: model{workers: 2, ids: 2, labels: true, coalesce: true, start: startView(2)}, long: true},
		{name: "counts, in order", model: model{workers: 2, ids: 2, start: startCounts(2)}},
		{name: "counts, any order", model: model{workers: 2, ids: 2, reorder: true, start: startCounts(2)}},
		{name: "counts, any order", model: model{workers: 2, ids: 3, reorder: true, start: startCounts(2)}, long: true},
		{name: "F26 leave", model: model{workers: 2, ids: 2, member: memberLeave, start: startView(2)}},
		{name: "F26 leave", model: model{workers: 2, ids: 3, member: memberLeave, start: startView(2)}, long: true},
		{name: "F27 crash", model: model{workers: 2, ids: 2, member: memberCrash, start: startView(2)}},
		{name: "F27 crash, twice", model: model{workers: 2, ids: 1, member: memberCrash, duplicate: 2, start: startView(2)}},
		{name: "F27 crash, twice", model: model{workers: 2, ids: 2, member: memberCrash, duplicate: 1, start: startView(2)}, long: true},
		{name: "F27 crash", model: model{workers: 2, ids: 3, member: memberCrash, start: startView(2)}, long: true},
	}
	rows = append(rows,
		row{name: "replace", model: model{workers: 2, ids: 1, member: memberReplace, start: startView(2)}},
		row{name: "replace", model: model{workers: 2, ids: 2, member: memberReplace, start: startView(2)}},
		row{name: "replace, twice", model: model{workers: 2, ids: 1, member: memberReplace, duplicate: 2, start: startView(2)}},
		row{name: "replace, twice", model: model{workers: 2, ids: 2, member: memberReplace, duplicate: 1, start: startView(2)}, long: true})
	for ids := 1; ids <= 2; ids++ {
		for at := range uint8(ids + 1) {
			rows = append(rows,
				row{name: fmt.Sprintf("F24 join at %d, seen by an old worker", at), long: ids > 1,
					model: model{workers: 2, ids: ids, member: memberJoin, at: at, start: startView(2)}},
				row{name: fmt.Sprintf("F24 join at %d, seen by the new one", at), long: ids > 1,
					model: model{workers: 2, ids: ids, at: at, since: at, member: memberJoined, start: startJoined(2, at)}})
		}
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmodel\tworkers\tids\tstates\tsteps\tviolations")
	for _, r := range rows {
		if r.long && !long() {
			continue
		}
		got := r.explore()
		violations := 0
		if got.violation != "" {
			violations = 1
			t.Errorf("%s, %d workers, %d ids: %v", r.name, r.workers, r.ids, got)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", r.name, r.workers, r.ids, got.states, got.edges, violations)
	}
	w.Flush()
	caught, all := catchMutations(t, func(string, ...any) {})
	t.Logf("%smutations caught: %d of %d", table.String(), caught, all)
}
