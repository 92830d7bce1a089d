package worker

import (
	"crypto/sha256"
	"fmt"

	"operon/engine/body"
	"operon/spec"
	"operon/spec/coord"
	"operon/spec/value"
	"operon/storage"
)

// input is one reference, compiled: where in the task's coordinate the indices
// of its entity come from.
type input struct {
	ref      *spec.Input
	producer uint64
	locate   Locate
	// from is, for each dimension of the entity, its position in the task's
	// context, or −1 if it is sliced.
	from  []int
	pins  []int // positions in the task's context of the free dimensions
	slice []level
}

// level is one dimension of a slice.
type level struct {
	pos     int    // of the dimension in the entity's dimensions
	spawner uint64 // the dataflow whose records tell its length
	prec    []int  // positions of its precedents in the entity's dimensions
}

// compile works out, once, where the inputs come from.
func (d *Dataflow) compile() { d.once.Do(d.compileInputs) }

func (d *Dataflow) compileInputs() {
	here := map[*spec.Dim]int{}
	for i, x := range d.Task.Context {
		here[x] = i
	}
	for n, ref := range d.Task.In {
		in := input{ref: ref, producer: d.Producers[n], locate: d.Locate}
		at := map[*spec.Dim]int{}
		for i, x := range ref.Entity.Dims {
			at[x] = i
			if ref.Sliced(x) {
				in.from = append(in.from, -1)
			} else {
				in.from = append(in.from, here[x])
				in.pins = append(in.pins, here[x])
			}
		}
		for _, x := range ref.Slice {
			l := level{pos: at[x], spawner: d.Spawners[x.Index]}
			for _, p := range x.Prec {
				l.prec = append(l.prec, at[p])
			}
			in.slice = append(in.slice, l)
		}
		d.inputs = append(d.inputs, in)
	}
}

// assembled is one argument with the digest of what it is.
type assembled struct {
	arg    body.Arg
	digest value.Digest
	files  bool // some value is a file
	size   int  // bytes of JSON held, roughly
}

// inputs are a job's arguments, in declared order.
type inputs struct {
	args    []body.Arg
	digests []value.Digest
	files   bool         // some value is a file
	key     value.Digest // of the job
	claimed bool         // in the memo
}

// assembler brings jobs their inputs.
type assembler struct {
	slices *sliceCache
	trust  *trust // nil: files are not looked at
}

// Caches are what the workers of one engine remember together: slices that many
// jobs take, and which stored files were found to be whole.
type Caches struct{ assembler }

// NewCaches makes empty ones.
func NewCaches() *Caches { return &Caches{assembler{slices: newSlices(), trust: newTrust()}} }

// Drop forgets what was kept for a dataflow.
func (c *Caches) Drop(dataflow uint64) { c.slices.drop(dataflow) }

// assemble brings together the arguments of the job at c.
func (w assembler) assemble(r *storage.Reader, d *Dataflow, c coord.Coord) (out inputs, err error) {
	if len(d.inputs) == 0 {
		return out, nil
	}
	out.args = make([]body.Arg, len(d.inputs))
	out.digests = make([]value.Digest, len(d.inputs))
	for n := range d.inputs {
		in := &d.inputs[n]
		var a assembled
		var err error
		if len(in.slice) == 0 {
			if a, err = in.single(r, c); err == nil {
				err = w.lookAt(a)
			}
		} else {
			key := sliceKey{d.ID, in.ref.Arg, c.Project(in.pins)}
			a, err = w.slices.get(key, func() (assembled, error) {
				a, err := in.sliced(r, c)
				if err == nil {
					err = w.lookAt(a)
				}
				return a, err
			})
		}
		if err != nil {
			return out, fmt.Errorf("read input %s of task %s: %w", in.ref, d.Task.Name, err)
		}
		out.args[n], out.digests[n] = a.arg, a.digest
		out.files = out.files || a.files
	}
	return out, nil
}

// lookAt sees to it that the stored files of an argument are what they should be.
func (w assembler) lookAt(a assembled) error {
	if w.trust == nil || !a.files {
		return nil
	}
	if a.arg.Slice == nil {
		return w.trust.stored(a.arg.Value.File)
	}
	for _, v := range a.arg.Slice.Items {
		if v.Kind == value.File {
			if err := w.trust.stored(v.File); err != nil {
				return err
			}
		}
	}
	return nil
}

// single is an argument that slices nothing: one value.
func (in *input) single(r *storage.Reader, c coord.Coord) (a assembled, err error) {
	v, err := in.at(r, c.Project(in.from))
	if err != nil {
		return a, err
	}
	if v.Kind == value.Hole {
		return a, &HoleError{in.ref.String(), v.Reason()}
	}
	return assembled{arg: body.Arg{Value: v}, digest: v.Digest(), files: v.Kind == value.File}, nil
}

// at is the entity's value at a coordinate of its dimensions.
func (in *input) at(r *storage.Reader, c coord.Coord) (v value.Value, err error) {
	dataflow, job, item, err := in.place(c)
	if err != nil {
		return v, err
	}
	found := false
	err = r.Values(dataflow, job, item, item+1, func(_ uint32, got value.Value) error {
		v, found = got, true
		return nil
	})
	if err == nil && !found {
		err = itemMissing(dataflow, job, item)
	}
	return v, err
}

// place is where the entity's value at a coordinate of its dimensions lies: in
// which dataflow, of which job, the how manieth of its items.
func (in *input) place(c coord.Coord) (dataflow uint64, job coord.Coord, item uint32, err error) {
	job = c
	if in.ref.Entity.Producer.Spawn != nil {
		last := c.Len() - 1
		job, item = c.Prefix(last), c.At(last)
	}
	dataflow, job, err = in.locate.find(in.producer, job)
	return dataflow, job, item, err
}

func itemMissing(dataflow uint64, job coord.Coord, item uint32) error {
	return &storage.Damage{Instance: dataflow, Coord: job, Detail: fmt.Sprintf("item %d is missing", item)}
}

// sliced is an argument that slices: a nested list.
func (in *input) sliced(r *storage.Reader, c coord.Coord) (a assembled, err error) {
	s := &value.Slice{Lens: make([][]uint32, len(in.slice))}
	walk := in.items(r, func(v value.Value) { s.Items = append(s.Items, v) })
	walk.list = func(level int, n uint32) { s.Lens[level] = append(s.Lens[level], n) }
	if err := in.walk(r, c, walk); err != nil {
		return a, err
	}
	h := sha256.New()
	s.WriteIdentity(h)
	a = assembled{arg: body.Arg{Slice: s}, digest: value.Digest(h.Sum(nil)), size: 64 * len(s.Items)}
	for _, v := range s.Items {
		a.size += len(v.JSON)
		a.files = a.files || v.Kind == value.File
	}
	return a, nil
}
