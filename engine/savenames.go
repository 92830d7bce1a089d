package engine

import (
	"context"
	"fmt"
	"slices"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/coord"
	"operon/storage"
)

// labelled reports whether the items of the task's lists have labels.
func labelled(t *spec.TaskSpec) bool {
	names, err := body.NewLabels(t)
	return names != nil || err != nil
}

// namers are, of each task, the tasks whose `save` names files by the labels of
// the items that it makes. These follow from the values, which therefore stay
// until all of them have saved theirs.
func namers(p *spec.Pipeline) [][]*spec.TaskSpec {
	out := make([][]*spec.TaskSpec, len(p.Tasks))
	for _, t := range p.Tasks {
		for _, d := range t.Out.Dims {
			if i := d.Spawner.Index; slices.Contains(t.Save.Names(), d.Name) && labelled(d.Spawner) {
				out[i] = append(out[i], t)
			}
		}
	}
	return out
}

// savedAs is where a task's values go, and by which labels: a task that was saved
// so needs these no more.
func savedAs(p *spec.Pipeline, t *spec.TaskSpec) string {
	text, _ := t.Save.Expand(func(name string) (string, error) { // which never fails
		if param := p.Param(name); param != nil && !param.Secret {
			return param.Text(), nil
		}
		for _, d := range t.Out.Dims {
			if d.Name == name {
				name += " of " + d.Spawner.KeyFilter
			}
		}
		return "{" + name + "}", nil
	})
	return text
}

// saves are the tasks that are known to be saved, and how.
type saves map[string]string

// of reports whether t was saved as it is to be now.
func (s saves) of(p *spec.Pipeline, t *spec.TaskSpec) bool {
	how, saved := s[t.Name]
	return saved && how == savedAs(p, t)
}

// still are those of tasks whose dataflows are kept.
func (s saves) still(p *spec.Pipeline, decisions []decision) saves {
	out := saves{}
	for _, t := range p.Tasks {
		if decisions[t.Index].Action == actionKeep && t.Save != nil && s.of(p, t) {
			out[t.Name] = s[t.Name]
		}
	}
	return out
}

// note adds what was saved to a footprint's Asked.
func (s *saver) note(to asked) asked {
	if s == nil {
		return to
	}
	all := saves{}
	for name, how := range to.Saves {
		all[name] = how
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, saved := range s.saved {
		if delete(all, t.Name); saved {
			all[t.Name] = savedAs(s.p, t)
		}
	}
	to.Saves = all
	return to
}

// unnamed is the error that the name of a value's file takes a label that the item
// has not: another name would be a lie. It is nil where the labels went with the
// values that they follow from: whoever let these go saw to it that it was saved.
func (s *saver) unnamed(r *storage.Reader, t *spec.TaskSpec, at coord.Coord, d *spec.Dim) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	h, _, err := r.Header(s.flows[d.Spawner.Index])
	if err != nil || h.State == storage.Released {
		return err
	}
	return fmt.Errorf("save: task %s names the file of %q by the label of %s, and the item has none; see `key` of task %s", t.Name, at.Format(t.Out.DimNames()), d.Name, d.Spawner.Name)
}
