package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var served atomic.Int64

// leader is the server's process, 0 once it has ended.
func (v *Server) leader() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pid
}

func serve(t *testing.T, s *Slot, script string, errs io.Writer) *Server {
	t.Helper()
	// No two have one token, or one's end would sweep the other away.
	token := fmt.Sprintf("tok-%s-%d", t.Name(), served.Add(1))
	v, err := s.Serve(&Program{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Token: token,
		Env: []string{"PATH=" + os.Getenv("PATH"), "OPERON_JOB=" + token},
	}, errs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// line reads what the server prints up to a line end.
func line(t *testing.T, v *Server) string {
	t.Helper()
	var got []byte
	buf := make([]byte, 4096)
	for !bytes.HasSuffix(got, []byte("\n")) {
		n, err := v.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
		got = append(got, buf[:n]...)
		if n == 0 {
			if err := v.Wait(false, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	return strings.TrimSuffix(string(got), "\n")
}

func say(t *testing.T, v *Server, text string) {
	t.Helper()
	if n, err := v.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(text), err)
	}
}

func TestServerServes(t *testing.T) {
	s := openSlot(t)
	var errs bytes.Buffer
	v := serve(t, s, `echo begin >&2; while read x; do echo "<$x>"; done; echo "end" >&2; exit 3`, &errs)
	for i := range 3 {
		say(t, v, strconv.Itoa(i)+"\n")
		if got := line(t, v); got != "<"+strconv.Itoa(i)+">" {
			t.Errorf("answered %q", got)
		}
	}
	x, err := v.End(time.Minute)
	if err != nil || x.Status.ExitStatus() != 3 || errs.String() != "begin\nend\n" {
		t.Errorf("ended with %d, %v, and %q", x.Status.ExitStatus(), err, errs.String())
	}
}

// What a server leaves behind (in its group, out of it, holding its pipes) is
// gone when it has ended, and a server that hears neither the end of its input
// nor SIGTERM is killed.
func TestServerLeavesNothing(t *testing.T) {
	s := openSlot(t)
	for name, end := range map[string]func(*Server){
		"end":       func(v *Server) { v.End(10 * time.Millisecond) },
		"kill":      func(v *Server) { v.Kill(); v.End(time.Hour) },
		"terminate": func(v *Server) { v.Terminate(10 * time.Millisecond); v.End(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			v := serve(t, s, `trap '' TERM; setsid sh -c 'echo $$; sleep 300' & sleep 300 & while :; do echo flood; sleep 0.01; done`, io.Discard)
			stray := 0
			for stray == 0 { // until it is out of the group
				for word := range strings.FieldsSeq(line(t, v)) {
					if word != "flood" {
						stray, _ = strconv.Atoi(word)
					}
				}
			}
			leader := v.pid
			end(v)
			if err := unix.Kill(-leader, 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("the group lives: %v", err)
			}
			if st, ok := statusOf(stray); ok && st.state != 'Z' {
				t.Errorf("the stray lives: %c", st.state)
			}
		})
	}
}

func TestServerWakesForItsContext(t *testing.T) {
	s := openSlot(t)
	v := serve(t, s, `echo ready; read x`, io.Discard)
	_ = line(t, v)
	kill := errors.New("kill")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := v.WatchContext(ctx, time.Hour, kill)
	defer stop()
	cancel(kill)
	<-v.Ended()
	x, err := v.End(time.Hour)
	if err != nil || x.Status.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, %v", x.Status, err)
	}
}

// What it printed before its end can be read after it.
func TestServerIsReadToItsEnd(t *testing.T) {
	s := openSlot(t)
	v := serve(t, s, `echo last words; exit 1`, io.Discard)
	<-v.Ended()
	if got := line(t, v); got != "last words" {
		t.Errorf("read %q", got)
	}
	if _, err := v.Read(make([]byte, 10)); err != io.EOF {
		t.Errorf("then %v", err)
	}
	if _, err := v.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("writing: %v", err)
	}
	v.End(0)
}

// The running file names servers behind the slots, so that they can be ended
// after a crash, and forgets them with their end.
func TestServerIsNoted(t *testing.T) {
	path := t.TempDir() + "/running"
	r, err := OpenRunning(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s, err := Open(t.TempDir(), 0, r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, b := serve(t, s, "read x", io.Discard), serve(t, s, "read x", io.Discard)
	entries, err := readRunning(path)
	if err != nil || len(entries) != 2 || entries[0].pid != a.leader() || entries[1].pid != b.leader() {
		t.Errorf("noted %+v, %v", entries, err)
	}
	a.End(time.Hour)
	c := serve(t, s, "read x", io.Discard)
	if entries, _ = readRunning(path); len(entries) != 2 || entries[0].pid != c.leader() {
		t.Errorf("noted %+v", entries)
	}
	c.End(time.Hour)
	b.End(time.Hour)
	if entries, _ = readRunning(path); len(entries) != 0 {
		t.Errorf("noted %+v", entries)
	}
}

// Without control groups a limit of memory holds before the program's first step, for what it forks at
// once as well.
func TestMemoryLimit(t *testing.T) {
	s := openSlot(t)
	s.asked = true // no control groups
	for name, script := range map[string]string{
		"itself": `ulimit -d`,
		"child":  `(ulimit -d) & wait`,
	} {
		x, err := s.Run(t.Context(), &Program{
			Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
			Token: "tok", Stdin: s.Null(), MaxMemory: 64 << 20,
		})
		if err != nil || x.Status.ExitStatus() != 0 {
			t.Fatalf("%v, %v", x, err)
		}
		if out, _ := s.Stdout().Bytes(); string(out) != "65536\n" {
			t.Errorf("%s: the limit is %q", name, out)
		}
		if err := s.Clean(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Run(t.Context(), &Program{Path: "/bin/none", Argv: []string{"none"}, Token: "tok", Stdin: s.Null(), MaxMemory: 1 << 20})
	var start *StartError
	if !errors.As(err, &start) || start.Errno != unix.ENOENT {
		t.Errorf("a program that is missing: %v", err)
	}
}
