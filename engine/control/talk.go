package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"operon/engine/serve"
)

// MaxCommand is how many bytes one command of a submission may have: it holds
// the text of a pipeline file.
const MaxCommand = 80 << 20

// talk carries one session: commands come in and answers go out, a line each;
// then events, until the run ends.
type talk struct {
	in  *lineReader
	out io.Writer // waits for a slow client no longer than WriteTimeout
	// until sets how long a read may take; the zero time is for ever.
	until func(time.Time) error
	// half says that a client may end its commands and go on listening.
	half bool

	mu        sync.Mutex
	installed bool
}

// talkOn carries a session over a socket, until either side or ctx ends it.
func talkOn(ctx context.Context, host *serve.Host, conn net.Conn, in *lineReader) {
	in.limit = MaxCommand
	t := &talk{in: in, out: patient{conn}, until: conn.SetReadDeadline}
	t.run(ctx, host)
}

// said is a line from a client, or the end of them.
type said struct {
	line []byte
	err  error
}

func (t *talk) run(ctx context.Context, host *serve.Host) {
	s := host.Session()
	defer s.Close()
	t.in.hold = s.Hold
	ctx, cancel := context.WithCancel(ctx)
	lines := make(chan said)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer t.until(time.Now()) // ends a read that waits
	defer cancel()
	reading.Go(func() { t.read(ctx, lines) })
	for {
		select {
		case l := <-lines:
			if errors.Is(l.err, io.EOF) && t.half && s.Installed() {
				lines = nil
				continue
			}
			if !t.command(ctx, s, l) {
				return
			}
		case <-s.Superseded():
			t.end(s.Over())
			return
		case <-s.Ready():
			if !t.news(s.Take()) {
				return
			}
		case <-ctx.Done():
			t.news(s.Take()) // how the run ended, if it has
			return
		}
	}
}

// read hands over lines, one at a time: the next is read when the last was
// taken, whose bytes are copied.
func (t *talk) read(ctx context.Context, lines chan<- said) {
	for ctx.Err() == nil {
		t.patience(ctx)
		line, err := t.in.next()
		select {
		case lines <- said{append([]byte(nil), line...), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// patience says how long the next command may take: a client that is heard has
// all the time there is.
func (t *talk) patience(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var until time.Time
	if !t.installed {
		until = time.Now().Add(IdleTimeout)
	}
	t.until(until)
	if ctx.Err() != nil {
		t.until(time.Now()) // the deadline just set may have undone the one that ends us
	}
}

// command takes one line. It reports whether the session goes on.
func (t *talk) command(ctx context.Context, s *serve.Session, l said) bool {
	var c serve.Command
	switch {
	case errors.Is(l.err, errLineTooLong):
		return t.end(&RequestError{Message: fmt.Sprintf("a command may have %d bytes", MaxCommand)})
	case errors.Is(l.err, serve.ErrCrowded):
		return t.end(l.err)
	case t.half && (errors.Is(l.err, io.EOF) || errors.Is(l.err, io.ErrUnexpectedEOF)):
		return t.end(&RequestError{Message: "the submission ends before it is complete; nothing was changed"})
	case l.err != nil:
		return false // the client is gone
	}
	if err := json.Unmarshal(l.line, &c); err != nil {
		return t.end(&RequestError{Message: "a command is one JSON object a line"}) // not more: it may hold secrets
	}
	a, err := s.Do(ctx, c)
	if err != nil {
		return t.end(err)
	}
	if s.Installed() {
		t.mu.Lock()
		t.installed = true
		t.mu.Unlock()
		t.patience(ctx)
	}
	return t.tell(reply{Answer: a})
}

// news tells what was heard. It reports whether the session goes on.
func (t *talk) news(n serve.News) bool {
	for _, e := range n.Events {
		if !t.tell(reply{Event: eventOf(e)}) {
			return false
		}
	}
	if n.Lost > 0 && !t.tell(reply{Gap: n.Lost}) {
		return false
	}
	if n.End == nil {
		return true
	}
	var last reply
	if n.End.Summary != nil {
		last.Summary = summaryOf(n.End.Summary)
	}
	if n.End.Err != nil {
		last.Error = problemOf(n.End.Err)
	}
	last.Done = n.End.Err == nil
	t.tell(last)
	return false
}

// end tells an error, which is the last that a session hears.
func (t *talk) end(err error) bool {
	t.tell(reply{Error: problemOf(err)})
	return false
}

func (t *talk) tell(r reply) bool {
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(r) == nil
}
