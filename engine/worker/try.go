package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"operon/engine/body"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// HoleError is an input of a job that makes it a hole.
type HoleError struct{ Input, Reason string }

// Error says which input, and why it is a hole.
func (e *HoleError) Error() string {
	return fmt.Sprintf("its input %s is a hole, so it does not run: %s", e.Input, e.Reason)
}

// Arguments are what the job of d at c takes, as they lie in the store. One that
// is a hole, or has one that its input does not want as null, is a *HoleError;
// what else can't be read a *storage.Damage.
func (k *Keys) Arguments(r *storage.Reader, d *Dataflow, c coord.Coord) ([]body.Arg, error) {
	d.compile()
	in, err := k.assemble(r, d, c)
	if err != nil {
		return nil, err
	}
	for n, ref := range d.Task.In {
		s := in.args[n].Slice
		if s == nil || ref.HolesNull && s.Lens[0][0] != value.NoList {
			continue
		}
		for _, v := range s.Items {
			if v.Kind == value.Hole {
				return nil, &HoleError{ref.String(), v.Reason()}
			}
		}
	}
	return in.args, nil
}

// Try runs one job on a slot of its own, below the folder dir, and hands what
// came of it to show before its folder goes: exactly one of res and f. Nothing
// is stored. j.Dir is set here.
func Try(ctx context.Context, runner body.Runner, dir string, j *body.Job, show func(res *body.Result, f *body.Failure) error) error {
	done := make(chan error, 1)
	go func() { done <- try(ctx, runner, dir, j, show) }()
	return <-done
}

func try(ctx context.Context, runner body.Runner, dir string, j *body.Job, show func(*body.Result, *body.Failure) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// As Worker.serve: not on the main thread, which this goroutine holds.
		return Try(ctx, runner, dir, j, show)
	}
	slot, err := body.NewSlot(body.SlotOptions{Dir: dir})
	if err != nil {
		return err
	}
	j.Dir = filepath.Join(dir, "job")
	res, err := runner.Run(ctx, slot, j)
	var f *body.Failure
	if err != nil && !errors.As(err, &f) {
		f = &body.Failure{Kind: body.KindInternal, Message: "this is a bug: " + err.Error(), Err: err}
	}
	err = show(res, f)
	if res != nil {
		err = errors.Join(err, res.Close())
	}
	if b, ok := runner.(body.BatchRunner); ok {
		b.Close(ctx)
	}
	return errors.Join(err, slot.Close())
}
