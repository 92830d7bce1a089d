package engine

import (
	"slices"
	"strings"
	"time"

	"operon/engine/worker"
)

// A job that is tried again has the environment of its first try, so the same
// GPUs. It waits for just these, although others may be free.
//
// Nobody waits for ever for that. A job has all its GPUs or none: who waits holds
// nothing that another waits for. Of all retries that wait, the one that has
// waited longest is in front, and its GPUs are handed to nobody else; neither are
// the memory, CPUs and places in pools that it needs (see pick). Those who have
// them are running, and end. Then it starts, and the next is in front. The others
// may start meanwhile on GPUs that are free and not kept.

// pinned are jobs of one task that are to have the same GPUs.
type pinned struct {
	env  []string // as worker.Job has it
	gpus []string
	jobs []pin // first come, first served
}

type pin struct {
	job    worker.Job
	serial uint64
}

// pin puts a retry where it waits for the GPUs that its first try had.
func (l *loop) pin(f *flow, job worker.Job) {
	l.pinSerial++
	w := pin{job, l.pinSerial}
	for _, p := range f.pins {
		if slices.Equal(p.env, job.Env) {
			p.jobs = append(p.jobs, w)
			return
		}
	}
	f.pins = append(f.pins, &pinned{env: job.Env, gpus: gpusOf(job.Env), jobs: []pin{w}})
}

// gpusOf are the GPUs that an attempt's variables name.
func gpusOf(env []string) []string {
	for _, v := range env {
		if list, ok := strings.CutPrefix(v, cudaDevices+"="); ok {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// takePinned takes up to n of the jobs of p. One at which a worker died goes alone.
func (f *flow) takePinned(p *pinned, n int) []worker.Job {
	var out []worker.Job
	for _, w := range p.jobs[:min(n, len(p.jobs))] {
		out = append(out, w.job)
	}
	n, _ = f.together(out)
	out = out[:n]
	if p.jobs = p.jobs[n:]; len(p.jobs) == 0 {
		f.pins = slices.DeleteFunc(f.pins, func(o *pinned) bool { return o == p })
	}
	return out
}

// entries are what pick chooses from: each active task, and apart from that its
// retries that wait for their GPUs.
type entries struct {
	limits []limits
	pins   []*pinned // of each: nil where the jobs may have any GPUs
	kept   []string  // GPUs that are kept for the retry in front
}

func (l *loop) entries() entries {
	e := entries{limits: make([]limits, 0, len(l.active)), pins: make([]*pinned, 0, len(l.active))}
	some := false
	for _, f := range l.active {
		lim := f.limits()
		for _, p := range f.pins {
			some = true
			retry := lim
			retry.ready, retry.retry, retry.turn = len(p.jobs), p.jobs[0].serial, 0
			e.limits, e.pins = append(e.limits, retry), append(e.pins, p)
		}
		e.limits, e.pins = append(e.limits, lim), append(e.pins, nil)
	}
	if some {
		e.bar(l.gpus)
	}
	return e
}

// bar works out which of the free GPUs each entry may have.
func (e *entries) bar(free []string) {
	first := frontOf(e.limits).retry
	if first >= 0 {
		e.kept = e.pins[first].gpus
	}
	keeps := func(gpu string) bool { return slices.Contains(e.kept, gpu) }
	barred := 0
	for _, gpu := range free {
		if keeps(gpu) {
			barred++
		}
	}
	for n := range e.limits {
		p := e.pins[n]
		switch {
		case p == nil:
			e.limits[n].barred = barred
		case slices.ContainsFunc(p.gpus, func(gpu string) bool { return !slices.Contains(free, gpu) || n != first && keeps(gpu) }):
			e.limits[n].barred = len(free) // its own are not there
		}
	}
}

// handOut gives a command the GPUs that its jobs have for themselves: those that
// it has already, else of the free ones those that are not kept.
func (l *loop) handOut(o *order, jobs []worker.Job, kept []string) {
	var env []string
	if o.needs.gpus > 0 {
		if o.gpus == nil {
			slices.SortFunc(l.gpus, l.byStay(o.flow))
			for _, gpu := range l.gpus {
				if len(o.gpus) < o.needs.gpus && !slices.Contains(kept, gpu) {
					o.gpus = append(o.gpus, gpu)
				}
			}
			slices.SortFunc(o.gpus, compareGPUs)
		}
		l.gpus = slices.DeleteFunc(l.gpus, func(gpu string) bool { return slices.Contains(o.gpus, gpu) })
		env = []string{cudaDevices + "=" + strings.Join(o.gpus, ",")}
	}
	o.env = env
	for i := range jobs {
		jobs[i].Env = env
	}
}

// pinnedJobs are the jobs that wait for the GPUs of their first try.
func (f *flow) pinnedJobs() (jobs []worker.Job) {
	for _, p := range f.pins {
		for _, w := range p.jobs {
			jobs = append(jobs, w.job)
		}
	}
	return jobs
}

// compareGPUs orders numbers as numbers.
func compareGPUs(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// passOver takes note of who was passed over by a start that was made.
func (l *loop) passOver(e entries, started int, now time.Time) {
	s := e.limits[started]
	for n, t := range e.limits {
		f := l.flows[t.flow]
		switch {
		case n == started && t.retry == 0:
			f.passed, f.turn = 0, 0
		case n != started && f.turn == 0 && t.passedBy(s.needs, l.room, now):
			if f.passed++; f.passed >= patience {
				l.turns++
				f.turn = l.turns
			}
		}
	}
}
