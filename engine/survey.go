package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"operon/engine/body"
	"operon/meta"
	"operon/spec"
	"operon/spec/value"
	"operon/storage"
)

// survey is what a run, or the plan of one, finds before it starts: what is
// there, and what becomes of it.
type survey struct {
	newRun    bool
	decisions []decision                // file order
	orphans   []oldFlow                 // dataflows that no task has any more
	content   []value.Digest            // of each source task: of what it looks at now
	memo      map[value.Digest][]uint64 // by fingerprint: the dataflows that hold results
	released  map[uint64]bool           // dataflows whose values were deleted
	retired   []uint64                  // dataflows that no task had before either
	facts     facts                     // what the decisions rest on
	damage    *storage.Damage           // of a source's result, nil: none was met
}

// look surveys a state for a pipeline. last is the footprint of the run that was
// there last, found whether there was one.
func look(ctx context.Context, p *spec.Pipeline, bodies *body.Config, r *storage.Reader, last meta.Footprint, found bool) (*survey, error) {
	s, err := lookPast(ctx, p, bodies, r, last, found)
	if err == nil && s.damage != nil {
		return nil, s.damage
	}
	return s, err
}

// lookPast is look for those who mend or tell of damage: results of sources that
// can't be read are taken for those of what the sources look at now.
func lookPast(ctx context.Context, p *spec.Pipeline, bodies *body.Config, r *storage.Reader, last meta.Footprint, found bool) (*survey, error) {
	s := &survey{
		newRun: !found || RunState(last.State) == StateComplete,
		memo:   map[value.Digest][]uint64{}, released: map[uint64]bool{},
	}
	var err error
	if s.content, err = contents(ctx, p, bodies); err != nil {
		return nil, err
	}
	f := facts{old: map[string]oldFlow{}, content: map[string]bool{}, newRun: s.newRun, unfinished: unfinished(last), saves: decodeAsked(last.Asked).Saves}
	if err := s.lookAt(p, r, &f, decodeAsked(last.Asked)); err != nil {
		return nil, err
	}
	s.facts = f
	s.decisions, s.orphans = reconcile(p, f)
	return s, nil
}

// runAgain lets tasks be replaced although they could be kept, with all that
// hangs on them and what of released values they need.
func (s *survey) runAgain(p *spec.Pipeline, names []string, reason string) {
	runAgain(p, s.decisions, names, reason)
	recall(p, s.facts, s.decisions)
}

// retryHoles makes ready for holes that are tried again: the tasks that have
// some, and all that hangs on them, need what they take.
func (s *survey) retryHoles(p *spec.Pipeline, last meta.Footprint) {
	var sum Summary
	if json.Unmarshal(last.Summary, &sum) != nil {
		return
	}
	for _, t := range sum.Tasks {
		if t.Holes > 0 {
			s.facts.unfinished[t.Task] = true
		}
	}
	for _, t := range p.Topo {
		for _, up := range t.Upstream() {
			if s.facts.unfinished[up.Name] {
				s.facts.unfinished[t.Name] = true
			}
		}
	}
	recall(p, s.facts, s.decisions)
}

// unfinished are the tasks that the last run says it did not complete.
func unfinished(last meta.Footprint) map[string]bool {
	out := map[string]bool{}
	var s Summary
	if json.Unmarshal(last.Summary, &s) != nil {
		return out
	}
	for _, t := range s.Tasks {
		if t.DataflowState != DataflowComplete {
			out[t.Task] = true
		}
	}
	return out
}

// lookAt collects the dataflows that are there, and which sources look at what
// they did.
func (s *survey) lookAt(p *spec.Pipeline, r *storage.Reader, f *facts, last asked) error {
	headers, err := r.Headers()
	if err != nil {
		return err
	}
	for _, h := range headers {
		if h.State != storage.Released {
			s.memo[h.Fingerprint] = append(s.memo[h.Fingerprint], h.ID)
		}
		if h.State == storage.Retired {
			s.retired = append(s.retired, h.ID)
			continue
		}
		s.released[h.ID] = h.State == storage.Released
		f.old[h.Task] = oldFlow{
			ID: h.ID, Task: h.Task, Fingerprint: h.Fingerprint, Dims: h.Dims, Spawn: h.Spawn,
			Fields: last.Fields[h.Task], Released: h.State == storage.Released, Dropped: slices.Contains(last.Dropped, h.ID),
		}
	}
	for _, t := range p.Tasks {
		old, there := f.old[t.Name]
		if t.Body.Kind != spec.BodySource || !there {
			continue
		}
		same := true
		err := r.Records(old.ID, "", func(rec storage.Record) error {
			same = same && rec.Key == spec.JobKey(t, nil, rec.Coord, s.content[t.Index])
			return nil
		})
		if d, damaged := errors.AsType[*storage.Damage](err); damaged && s.damage == nil {
			s.damage = d
		}
		if ignoreDamage(err) != nil {
			return err
		}
		f.content[t.Name] = same
	}
	return nil
}

// contents are the digests of what a pipeline's sources look at now.
func contents(ctx context.Context, p *spec.Pipeline, bodies *body.Config) ([]value.Digest, error) {
	out := make([]value.Digest, len(p.Tasks))
	for _, t := range p.Tasks {
		if t.Body.Kind != spec.BodySource {
			continue
		}
		digest, err := body.SourceKey(ctx, bodies, t)
		if err != nil {
			if stopped := context.Cause(ctx); errors.Is(err, stopped) && stopped != nil {
				return nil, stopped
			}
			// A source that can't be read is the job's failure, not the run's.
			digest = value.Digest{1}
		}
		out[t.Index] = digest
	}
	return out, nil
}
