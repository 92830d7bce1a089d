package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// heldSave is a save that waits in the middle of writing its first file: a full
// FIFO lies under the temporary name that the state directory's saves write to.
type heldSave struct {
	t       *testing.T
	temp    string
	pipe    *os.File
	reading sync.WaitGroup
}

// holdSave makes a folder of the project and has the next save into it wait.
func (p *project) holdSave(pipeline, folder string) *heldSave {
	t := p.t.(*testing.T)
	t.Helper()
	token := sha256.Sum256([]byte(p.stateDir(pipeline)))
	h := &heldSave{t: t, temp: filepath.Join(p.dir, folder, ".operon-"+hex.EncodeToString(token[:8]))}
	if err := os.Mkdir(filepath.Dir(h.temp), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(h.temp, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.pipe, err = os.OpenFile(h.temp, os.O_RDWR|syscall.O_NONBLOCK, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.pipe.Close()
		h.reading.Wait()
	})
	raw, err := h.pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	full := make([]byte, 1<<20)
	if err := raw.Write(func(fd uintptr) bool { syscall.Write(int(fd), full); return true }); err != nil {
		t.Fatal(err)
	}
	return h
}

// await waits until the save is at it.
func (h *heldSave) await() {
	h.t.Helper()
	await(h.t, "the save writes its first value", func() bool { return opened(h.t, h.temp) == 2 })
}

// release lets the save go on.
func (h *heldSave) release() {
	h.reading.Go(func() { io.Copy(io.Discard, h.pipe) }) // until it is closed
}

// opened is how often this process has a file open.
func opened(t *testing.T, path string) (n int) {
	t.Helper()
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Stat("/proc/self/fd/" + fd.Name()); err == nil && os.SameFile(file, to) {
			n++
		}
	}
	return n
}
