package engine

import (
	"context"
	"os"

	"operon/meta"
	"operon/storage"
)

// PlanQuery is a plan asked of an engine that runs.
type PlanQuery struct {
	File       string            // the pipeline file, absolute
	Params     map[string]string // as LoadOptions has them
	ParamsFile string
	Redo       []string
}

// Plan says what a run of a pipeline file would do with what is durable here
// now, without a look at what still runs. What is wrong with the file is a
// spec.Errors.
func (e *Engine) Plan(ctx context.Context, q PlanQuery) (*Plan, error) {
	if err := e.begun(ctx); err != nil {
		return nil, err
	}
	last := func(string) map[string]string { return givenParams(e.pipeline()) }
	p, err := LoadFile(q.File, LoadOptions{Params: q.Params, ParamsFile: q.ParamsFile, LookupEnv: os.LookupEnv, Remember: true, Last: last})
	if err != nil {
		return nil, err
	}
	o := e.options()
	other, err := prepare(p, Options{Dir: o.Dir, State: e.dir, Redo: q.Redo, Environ: o.Environ})
	if err != nil {
		return nil, err
	}
	var foot meta.Footprint
	err = e.stores.meta.View(func(r *meta.Reader) (err error) {
		foot, _, err = r.Footprint()
		return err
	})
	if err != nil {
		return nil, stateError(e.dir, "read the footprint", err)
	}
	var plan *Plan
	err = e.stores.data.ViewDurable(func(r *storage.Reader) error {
		plan, err = other.planFrom(ctx, r, foot)
		return err
	})
	return plan, stateError(e.dir, "read what is there", err)
}
