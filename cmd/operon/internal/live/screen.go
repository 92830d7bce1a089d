package live

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// screen is a stream whose last lines are a picture that is drawn over, while
// others write lines above it. Its methods may be called from several
// goroutines.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	lines []string // the picture that stands there
}

// Write puts text above the picture. Text without a line end gets one while
// there is a picture, which needs lines of its own.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		return s.out.Write(p)
	}
	var b bytes.Buffer
	b.WriteString(s.erase())
	b.Write(p)
	if !bytes.HasSuffix(p, []byte("\n")) {
		b.WriteByte('\n')
	}
	b.WriteString(text(s.lines))
	if _, err := s.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// draw replaces the picture, in one write so that it does not flicker.
func (s *screen) draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(lines, s.lines) {
		return
	}
	io.WriteString(s.out, s.erase()+text(lines)) // a terminal that went away does not stop the run
	s.lines = lines
}

// leave lets the picture stand: what is written from now on comes below it.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

func (s *screen) erase() string {
	if len(s.lines) == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", len(s.lines))
}

func text(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
