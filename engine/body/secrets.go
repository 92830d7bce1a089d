package body

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"operon/spec"
	"operon/spec/value"
)

// secrets are the texts that no log and no message may show.
type secrets struct {
	texts   [][]byte // longest first
	longest int
}

// hidden stands where a secret stood.
const hidden = "***"

// newSecrets are a pipeline's secrets, or nil if it has none.
func newSecrets(p *spec.Pipeline) *secrets {
	if p == nil {
		return nil
	}
	s := &secrets{}
	for _, text := range p.Secrets() {
		s.add(text)
		for line := range strings.SplitSeq(text, "\n") {
			if len(line) >= leastPart {
				s.add(line)
			}
		}
	}
	if s.texts == nil {
		return nil
	}
	slices.SortStableFunc(s.texts, func(a, b []byte) int { return len(b) - len(a) })
	return s
}

// leastPart is how much of a secret must be there for it to be told, in bytes.
const leastPart = 4

// add adds a text in all the ways that messages write it.
func (s *secrets) add(text string) {
	inQuotes := strconv.Quote(text)
	inJSON := value.AppendString(nil, text)
	for _, form := range []string{text, inQuotes[1 : len(inQuotes)-1], string(inJSON[1 : len(inJSON)-1]), quoteAll(text)} {
		if !slices.ContainsFunc(s.texts, func(t []byte) bool { return string(t) == form }) {
			s.texts = append(s.texts, []byte(form))
			s.longest = max(s.longest, len(form))
		}
	}
}

// quoteAll is the whole of text as quote writes it.
func quoteAll(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		b.WriteString(quote([]byte(text[:n])))
		text = text[n:]
	}
	return b.String()
}

// hide takes the secrets out of text.
func (s *secrets) hide(text []byte) []byte {
	if s == nil {
		return text
	}
	for _, secret := range s.texts {
		text = bytes.ReplaceAll(text, secret, []byte(hidden))
	}
	return text
}

// hideIn takes the secrets out of what a failure shows.
func (s *secrets) hideIn(f *Failure) *Failure {
	if s == nil || f == nil {
		return f
	}
	f.Message = s.hideCut(string(s.hide([]byte(f.Message))))
	f.Stderr = s.hideRest(s.hide(f.Stderr))
	return f
}

// hideCut takes out the beginning of a secret that a message cut short.
func (s *secrets) hideCut(message string) string {
	for _, secret := range s.texts {
		for n := len(secret) - 1; n >= leastPart; n-- {
			message = strings.ReplaceAll(message, string(secret[:n])+"…", hidden+"…")
		}
	}
	return message
}

// hideRest takes out the rest of a secret that the last lines begin with.
func (s *secrets) hideRest(tail []byte) []byte {
	for _, secret := range s.texts {
		for n := len(secret) - 1; n >= leastPart; n-- {
			if rest, cut := bytes.CutPrefix(tail, secret[len(secret)-n:]); cut {
				return append([]byte(hidden), rest...)
			}
		}
	}
	return tail
}

// guard makes a runner's failures show no secret.
func (s *secrets) guard(r Runner) Runner {
	if s == nil {
		return r
	}
	g := guarded{r, s}
	if b, ok := r.(BatchRunner); ok {
		return guardedBatches{g, b}
	}
	return g
}

type guarded struct {
	Runner
	secrets *secrets
}

// Run implements Runner.
func (g guarded) Run(ctx context.Context, slot *Slot, job *Job) (*Result, error) {
	res, err := g.Runner.Run(ctx, slot, job)
	if err != nil {
		return nil, g.secrets.hideIn(asFailure(err))
	}
	return res, nil
}

type guardedBatches struct {
	guarded
	batches BatchRunner
}

// RunBatch implements BatchRunner.
func (g guardedBatches) RunBatch(ctx context.Context, slot *Slot, jobs []*Job, b Batch) {
	g.batches.RunBatch(ctx, slot, jobs, guardedBatch{b, g.secrets})
}

// Share implements Sharer.
func (g guardedBatches) Share() Runner {
	if s, ok := g.batches.(Sharer); ok {
		return g.secrets.guard(s.Share())
	}
	return g
}

// Close implements BatchRunner.
func (g guardedBatches) Close(ctx context.Context) { g.batches.Close(ctx) }

type guardedBatch struct {
	Batch
	secrets *secrets
}

// Done implements Batch.
func (g guardedBatch) Done(i int, res *Result, f *Failure) {
	g.Batch.Done(i, res, g.secrets.hideIn(f))
}

// writer is w for texts that may hold secrets. It keeps back what may be the
// beginning of one until more is written, or it is closed. w is not closed.
func (s *secrets) writer(w io.Writer) io.WriteCloser {
	if s == nil {
		return open{w}
	}
	return &hider{w: w, secrets: s}
}

// open hides nothing.
type open struct{ io.Writer }

// Close implements io.Closer.
func (open) Close() error { return nil }

type hider struct {
	w       io.Writer
	secrets *secrets
	kept    []byte
}

// Write implements io.Writer.
func (h *hider) Write(p []byte) (int, error) {
	text := h.secrets.hide(append(h.kept, p...))
	keep := h.secrets.begun(text)
	h.kept = append([]byte(nil), text[len(text)-keep:]...)
	if _, err := h.w.Write(text[:len(text)-keep]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements io.Closer.
func (h *hider) Close() error {
	_, err := h.w.Write(h.kept)
	h.kept = nil
	return err
}

// begun is how many bytes at the end of text may be the beginning of a secret.
func (s *secrets) begun(text []byte) int {
	for n := min(s.longest-1, len(text)); n > 0; n-- {
		for _, secret := range s.texts {
			if n < len(secret) && bytes.Equal(text[len(text)-n:], secret[:n]) {
				return n
			}
		}
	}
	return 0
}
