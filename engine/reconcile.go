package engine

import (
	"cmp"
	"slices"
	"strings"

	"operon/spec"
	"operon/spec/value"
)

// oldFlow is a dataflow that an earlier run left, as far as reconcile looks.
type oldFlow struct {
	ID          uint64
	Task        string
	Fingerprint value.Digest
	Dims        []string
	Spawn       string
	Fields      []spec.Field // of its fingerprint, as far as they were noted
	Released    bool         // its values were deleted: keep: false
	Dropped     bool         // it was ended before it was done: its id is never run again
}

// action is what becomes of a task's dataflow.
type action string

const (
	actionKeep    action = "keep"
	actionReplace action = "replace"
	actionCreate  action = "create"
)

// rule names what a dataflow has to satisfy to be kept.
type rule string

const (
	ruleShape       rule = "shape"       // the same dimensions
	ruleFingerprint rule = "fingerprint" // the same body, inputs, params, deps
	ruleDropped     rule = "dropped"     // nobody ended it before it was done
	ruleCache       rule = "cache"       // not cache: false in a new run
	ruleSource      rule = "source"      // the source looks at what it did
	ruleUpstream    rule = "upstream"    // everything it takes is kept
	ruleReleased    rule = "released"    // its values are there, or nobody needs them
	ruleAsked       rule = "asked"       // nobody asked for it to run again
)

// decision is reconcile's word on one task.
type decision struct {
	Action action
	Rule   rule           // the first one that failed, for replace
	Old    uint64         // keep and replace: the dataflow that is there
	Reason string         // what it found, for a person
	Cause  *spec.TaskSpec // the upstream task that is the reason, or nil
}

// facts are what reconcile knows beyond the pipeline and what is there.
type facts struct {
	old     map[string]oldFlow // by task
	content map[string]bool    // of a source task: whether it looks at what it did
	newRun  bool               // the last run is complete, so what is never reused runs again
	// unfinished are the tasks that the last run did not complete.
	unfinished map[string]bool
	saves      saves // tasks that were saved, and how
}

// reconcile decides for every task, upstream first, whether its dataflow is
// kept. It returns the decisions in file order, and the dataflows that no task
// has any more.
func reconcile(p *spec.Pipeline, f facts) (decisions []decision, orphans []oldFlow) {
	decisions = make([]decision, len(p.Tasks))
	used := map[uint64]bool{}
	for _, t := range p.Topo {
		d := decide(t, f, decisions)
		decisions[t.Index] = d
		used[d.Old] = true
	}
	recall(p, f, decisions)
	for _, o := range f.old {
		if !used[o.ID] {
			orphans = append(orphans, o)
		}
	}
	slices.SortFunc(orphans, func(a, b oldFlow) int { return cmp.Compare(a.ID, b.ID) })
	return decisions, orphans
}

func decide(t *spec.TaskSpec, f facts, above []decision) decision {
	old, there := f.old[t.Name]
	if !there {
		return decision{Action: actionCreate, Reason: "never ran"}
	}
	replace := func(failed rule, reason string) decision {
		return decision{Action: actionReplace, Rule: failed, Old: old.ID, Reason: reason}
	}
	spawn := ""
	if t.Spawn != nil {
		spawn = t.Spawn.Name
	}
	switch {
	case !slices.Equal(old.Dims, t.ContextNames()) || old.Spawn != spawn:
		return replace(ruleShape, "its dimensions changed")
	case old.Fingerprint != t.Fingerprint:
		return replace(ruleFingerprint, explainFields(old.Fields, t.Fields))
	case old.Dropped:
		return replace(ruleDropped, "it was dropped")
	case f.newRun && !t.Cache:
		return replace(ruleCache, "cache: false runs again in every new run")
	}
	if same, isSource := f.content[t.Name]; isSource && !same {
		return replace(ruleSource, "its source changed"+sourceName(t))
	}
	for _, up := range t.Upstream() {
		if above[up.Index].Action != actionKeep {
			return decision{Action: actionReplace, Rule: ruleUpstream, Old: old.ID, Reason: "it needs " + up.Name, Cause: up}
		}
	}
	return decision{Action: actionKeep, Old: old.ID}
}

// sourceName says where a source looks.
func sourceName(t *spec.TaskSpec) string {
	switch src := t.Body.Source; {
	case src == nil:
		return ""
	case src.Path != "":
		return ": " + src.Path
	case len(src.Globs) > 0:
		return ": " + strings.Join(src.Globs, ", ")
	}
	return ""
}

// rootCause is the chain from a task to the reason at its end, such as
// "count ← lines: its source changed: data.txt".
func rootCause(t *spec.TaskSpec, decisions []decision) string {
	var chain []string
	for t != nil {
		d := decisions[t.Index]
		if d.Cause == nil {
			return strings.Join(append(chain, t.Name+": "+d.Reason), " ← ")
		}
		chain = append(chain, t.Name)
		t = d.Cause
	}
	return strings.Join(chain, " ← ")
}
