package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"
)

var errLineTooLong = errors.New("line too long")

// lineReader reads lines of a bounded length.
type lineReader struct {
	in    *bufio.Reader
	limit int
	hold  func(n int) error // allows n bytes more; nil: all
	buf   []byte
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 4096), limit: limit}
}

// next is the next line without its end, valid until the next call. A last
// line without an end is io.ErrUnexpectedEOF: its writer died in it.
func (l *lineReader) next() ([]byte, error) {
	if l.buf = l.buf[:0]; cap(l.buf) > MaxRequest {
		l.buf = nil // one large line does not cost its memory for good
	}
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.buf)+len(part) > l.limit {
			return nil, errLineTooLong
		}
		if l.hold != nil {
			if err := l.hold(len(part)); err != nil {
				return nil, err
			}
		}
		l.buf = append(l.buf, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(l.buf, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.buf) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// answer writes the lines of one answer: first into a spool, and to the client
// when it is whole.
type answer struct {
	out   io.Writer
	spool spool
	enc   *json.Encoder
	last  reply // the closing line, filled in as the answer goes
}

func newAnswer(out io.Writer) *answer {
	a := &answer{out: out}
	a.enc = json.NewEncoder(&a.spool)
	a.enc.SetEscapeHTML(false) // values keep their bytes
	return a
}

func (a *answer) line(r reply) error { return a.enc.Encode(r) }

// end sends the answer with its closing line: done, or the error that ended it.
func (a *answer) end(err error) error {
	closing := a.last
	closing.Done = true
	if err != nil {
		closing = reply{Error: problemOf(err)}
	}
	err = a.line(closing)
	if err == nil {
		err = a.spool.send(a.out)
	}
	return errors.Join(err, a.spool.close())
}

// patient gives each write WriteTimeout, so that a client that has stopped
// reading does not hold its connection for ever.
type patient struct{ conn net.Conn }

func (p patient) Write(b []byte) (int, error) {
	if err := p.conn.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
		return 0, err
	}
	return p.conn.Write(b)
}
