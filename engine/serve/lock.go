package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"operon/engine"
	"operon/storage/boltfile"
)

// lockName is not the name of a pipeline, whose state directory it would be.
const lockName = "serve.lock"

// rootLock is the right to serve a state root. The kernel takes it back when
// the process ends, however it ends.
type rootLock struct {
	file *os.File
	once sync.Once
	err  error
}

// holdRoot makes the root if it is not there, and takes its lock without waiting.
func holdRoot(root string) (*rootLock, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, &engine.MachineError{Doing: "make the state root", Err: err}
	}
	file, err := os.OpenFile(filepath.Join(root, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &engine.MachineError{Doing: "lock the state root", Err: err}
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = name(file)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &RootError{Root: root, Owner: owner(file)}
	} else if err != nil {
		err = &engine.MachineError{Doing: "lock the state root", Err: err}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &rootLock{file: file}, nil
}

// name writes into the file who holds it, for whoever is refused.
func name(file *os.File) error {
	o := boltfile.ThisProcess()
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(fmt.Sprintf("process %d on host %s\n", o.PID, o.Host)), 0)
	return err
}

func owner(file *os.File) string {
	text, err := io.ReadAll(io.LimitReader(file, 1024))
	if who := strings.TrimSpace(string(text)); err == nil && who != "" {
		return who
	}
	return "another process"
}

// release gives the lock back. Its file stays: another host may be opening it.
// Further calls do nothing.
func (l *rootLock) release() error {
	l.once.Do(func() { l.err = l.unlock() })
	return l.err
}

func (l *rootLock) unlock() error {
	unlocked := unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	return errors.Join(unlocked, l.file.Close())
}
