package body

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"operon/engine/body/internal/proc"
)

// persistent serves jobs by processes that stay: as many as batches run at once,
// each started when a batch finds none idle.
type persistent struct {
	*common
	env     *environ
	workdir string

	mu      sync.Mutex
	idle    []*session
	closing sync.Mutex // of whoever ends them all
	crashes int        // in a row, with no answer in between
	rested  time.Time  // when the next process may be started

	numbers *numbers
}

// numbers are the numbers of a task's processes, which name their logs, over all
// runners that share the task.
type numbers struct {
	mu    sync.Mutex
	logs  []*workerLog
	taken []bool // which are in use
}

// The wait before a process is started again that died without an answer.
const (
	firstRest = 100 * time.Millisecond
	longRest  = 10 * time.Second
)

func newPersistent(c *common) (*persistent, error) {
	if len(c.task.Body.Argv) == 0 {
		return nil, errors.New("an empty argv can't be run")
	}
	env, err := newEnviron(c, nil)
	if err != nil {
		return nil, err
	}
	return &persistent{common: c, env: env, workdir: resolve(c.cfg.Dir, c.task.Workdir), numbers: &numbers{}}, nil
}

// Share implements Sharer.
func (p *persistent) Share() Runner {
	return &persistent{common: p.common, env: p.env, workdir: p.workdir, numbers: p.numbers}
}

// Run implements Runner.
func (p *persistent) Run(ctx context.Context, slot *Slot, job *Job) (*Result, error) {
	one := &oneJob{}
	p.RunBatch(ctx, slot, []*Job{job}, one)
	switch {
	case one.failure != nil:
		return nil, one.failure
	case one.result == nil:
		return nil, orInternal(cancelled(ctx), "the job was not run")
	}
	return one.result, nil
}

func orInternal(f *Failure, what string) *Failure {
	if f != nil {
		return f
	}
	return failf(KindInternal, "%s (this is a bug)", what)
}

// oneJob is a batch of one.
type oneJob struct {
	result  *Result
	failure *Failure
}

// Stopped implements Batch.
func (*oneJob) Stopped() bool { return false }

// Done implements Batch.
func (o *oneJob) Done(_ int, res *Result, f *Failure) { o.result, o.failure = res, f }

// More implements Batch.
func (*oneJob) More(int, func()) []*Job { return nil }

// Idle implements Batch.
func (*oneJob) Idle() {}

// session is one process, and what has been written to it and read from it.
type session struct {
	*proc.Server
	env      []string // Job.Env that it was started with
	number   int      // of the runner's processes, from 0: names the log
	log      *workerLog
	errs     interface{ Close() error } // what stands before the log
	dir      string                     // TMPDIR
	nextID   uint64
	answered bool
	dying    bool   // it was asked to end
	out      []byte // to be written
	in       []byte // read, and no whole line
	seen     int    // of in, where no line ends
}

// acquire takes an idle process that was started with env, or starts one on
// the slot's thread. One that was started with something else makes room.
func (p *persistent) acquire(slot *Slot, job *Job) (*session, *Failure) {
	for {
		s, fits := p.takeIdle(job.Env)
		if s == nil {
			return p.start(slot, job)
		}
		select {
		case <-s.Ended(): // while nobody needed it
		default:
			if fits {
				return s, nil
			}
		}
		p.end(s, p.task.Grace)
	}
}

// takeIdle takes the idle process used last of those that were started with env,
// else any, so that no more are kept than are used at once.
func (p *persistent) takeIdle(env []string) (s *session, fits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil, false
	}
	at := 0
	for i, s := range p.idle {
		if slices.Equal(s.env, env) {
			at, fits = i, true
		}
	}
	s = p.idle[at]
	p.idle = slices.Delete(p.idle, at, at+1)
	return s, fits
}

// rest is how long to wait before a process is started.
func (p *persistent) rest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.rested)
}

// ran takes note of how a process that died did: one that answers is worth
// starting again at once.
func (p *persistent) ran(answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered {
		p.crashes, p.rested = 0, time.Time{}
		return
	}
	wait := min(firstRest<<min(p.crashes, 10), longRest)
	p.crashes++
	p.rested = time.Now().Add(wait)
}

// start starts a process.
func (p *persistent) start(slot *Slot, job *Job) (*session, *Failure) {
	if job.Token == "" {
		return nil, failf(KindInternal, "a worker needs a token (this is a bug)")
	}
	dir, err := os.MkdirTemp(slot.proc.Dir(), "worker-")
	if err != nil {
		return nil, machine("make a worker's folder", err)
	}
	prog, f := p.program(job, dir)
	if f != nil {
		return nil, p.discard(dir, f)
	}
	s := &session{env: job.Env, dir: dir}
	s.number, s.log = p.numbers.take(filepath.Dir(job.Log), p.logLimit)
	errs := p.secrets.writer(overheard{s.log, p.tell})
	s.errs = errs
	if s.Server, err = slot.proc.Serve(prog, errs); err != nil {
		p.numbers.free(s.number)
		if start, ok := errors.AsType[*proc.StartError](err); ok {
			return nil, p.discard(dir, explainStart(start.Errno, prog.Path, prog.Dir))
		}
		return nil, p.discard(dir, machine("start a worker", err))
	}
	return s, nil
}

// discard removes the folder of a process that did not start.
func (p *persistent) discard(dir string, f *Failure) *Failure {
	p.removed(os.RemoveAll(dir))
	return f
}

func (p *persistent) removed(err error) {
	if err != nil && p.cfg.Logger != nil {
		p.cfg.Logger.Warn("a worker's folder stays", "task", p.task.Name, "error", err)
	}
}

// program is the process that serves the task's jobs.
func (p *persistent) program(job *Job, tempDir string) (*proc.Program, *Failure) {
	argv := make([]string, len(p.task.Body.Argv))
	for i, t := range p.task.Body.Argv {
		text, err := t.Expand(p.paramText)
		if err != nil {
			return nil, asFailure(err)
		}
		argv[i] = text
	}
	if argv[0] == "" {
		return nil, failf(KindInput, "the command to run is empty: the first entry of worker has no value")
	}
	env, err := p.env.ofProcess(p.common, job, tempDir)
	if err != nil {
		return nil, asFailure(err)
	}
	if f := checkExec(argv, env); f != nil {
		return nil, f
	}
	path, f := lookPath(argv[0], p.env.path, p.workdir)
	if f != nil {
		return nil, f
	}
	return &proc.Program{Path: path, Argv: argv, Env: env, Dir: p.workdir, Token: job.Token, MaxMemory: p.task.Mem}, nil
}

// paramText is the text of what a worker's argv and environment may mention.
func (c *common) paramText(name string) (string, error) {
	n, ok := c.names[name]
	if !ok || n.param == nil {
		return "", failf(KindInternal, "a worker mentions %q, which is no param (this is a bug)", name)
	}
	text := n.param.Text()
	return text, checkText(name, text)
}

// ofProcess is the environment of a process that serves many jobs.
func (e *environ) ofProcess(c *common, job *Job, tempDir string) ([]string, error) {
	env := append([]string{
		"OPERON_JOB=" + job.Token,
		"OPERON_TASK=" + c.task.Name,
		"OPERON_RUN_ID=" + job.RunID,
		"TMPDIR=" + tempDir,
	}, job.Env...)
	env = append(env, without(e.fixed, job.Env)...)
	for _, v := range e.own {
		text, err := v.Value.Expand(c.paramText)
		if err != nil {
			return nil, err
		}
		if err := checkText(v.Name, text); err != nil {
			return nil, err
		}
		env = append(env, v.Name+"="+text)
	}
	return env, nil
}

// take takes the lowest free number, with the log that goes with it.
func (n *numbers) take(logs string, limit int64) (int, *workerLog) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := slices.Index(n.taken, false)
	if at < 0 {
		at = len(n.taken)
		n.taken = append(n.taken, false)
		n.logs = append(n.logs, &workerLog{path: filepath.Join(logs, "worker-"+strconv.Itoa(at)+".log"), limit: limit})
	}
	n.taken[at] = true
	return at, n.logs[at]
}

func (n *numbers) free(number int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taken[number] = false
}

// close closes the logs of numbers that nobody has.
func (n *numbers) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, log := range n.logs {
		if !n.taken[i] {
			log.close()
		}
	}
}

// put gives a process back. What a large text took is not kept for the next.
func (p *persistent) put(s *session) {
	if len(s.in) == 0 && cap(s.in) > smallOutput {
		s.in = nil
	}
	if len(s.out) == 0 && cap(s.out) > smallOutput {
		s.out = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, s)
}

// end ends a process: it is asked to finish, and killed after the grace period.
func (p *persistent) end(s *session, grace time.Duration) (*proc.Exit, error) {
	x, err := s.End(grace)
	err = errors.Join(err, s.errs.Close())
	p.removed(proc.RemoveTree(s.dir))
	p.numbers.free(s.number)
	return x, err
}

// Close implements BatchRunner. A second call waits for the first: what a process
// prints at its end belongs into its log.
func (p *persistent) Close(ctx context.Context) {
	p.closing.Lock()
	defer p.closing.Unlock()
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var ends sync.WaitGroup
	for _, s := range idle {
		ends.Go(func() {
			defer s.WatchContext(ctx, 0, nil)()
			p.end(s, p.task.Grace)
		})
	}
	ends.Wait()
	p.numbers.close()
}
