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
	buf   []byte
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 4096), limit: limit}
}

// next is the next line without its end, valid until the next call. A last
// line without an end is io.ErrUnexpectedEOF: its writer died in it.
func (l *lineReader) next() ([]byte, error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.buf)+len(part) > l.limit {
			return nil, errLineTooLong
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

// answer writes the lines of one answer.
type answer struct {
	buf  *bufio.Writer
	enc  *json.Encoder
	last reply // the closing line, filled in as the answer goes
}

func newAnswer(conn net.Conn) *answer {
	a := &answer{buf: bufio.NewWriterSize(patient{conn}, 32<<10)}
	a.enc = json.NewEncoder(a.buf)
	a.enc.SetEscapeHTML(false) // values keep their bytes
	return a
}

func (a *answer) line(r reply) error { return a.enc.Encode(r) }

// close writes the closing line: done, or the error that ended the answer.
func (a *answer) close(err error) error {
	if err != nil {
		return a.fail(err)
	}
	a.last.Done = true
	if err := a.line(a.last); err != nil {
		return err
	}
	return a.buf.Flush()
}

func (a *answer) fail(err error) error {
	if err := a.line(reply{Error: problemOf(err)}); err != nil {
		return err
	}
	return a.buf.Flush()
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
