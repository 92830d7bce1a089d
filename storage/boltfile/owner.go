package boltfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Owner is the process that holds a state directory.
type Owner struct {
	PID    int       `json:"pid"`
	Start  int64     `json:"start"`   // when the process started, in clock ticks since boot; 0: not known
	BootID string    `json:"boot_id"` // "": not known
	Host   string    `json:"host"`
	Socket string    `json:"socket,omitempty"` // where the engine answers
	Since  time.Time `json:"since"`
}

// ThisProcess is the calling process as an Owner, since now, without a socket.
func ThisProcess() Owner {
	host, _ := os.Hostname() // an owner without a host is still worth naming
	pid := os.Getpid()
	return Owner{PID: pid, Start: startTicks(pid), BootID: bootID(), Host: host, Since: time.Now()}
}

// ReadOwner reads who holds the state directory dir, and reports false if
// nobody does or the owner file cannot be believed: a process that has ended,
// another one of the same number, or one from before the machine was booted.
// An owner on another host is believed: it cannot be looked at from here.
func ReadOwner(dir string) (Owner, bool) {
	text, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if err != nil {
		return Owner{}, false
	}
	var o Owner
	if json.Unmarshal(text, &o) != nil || o.PID <= 0 {
		return Owner{}, false
	}
	here := ThisProcess()
	if o.Host != here.Host && o.BootID != here.BootID {
		return o, true
	}
	if o.BootID != here.BootID || o.Start == 0 || o.Start != startTicks(o.PID) {
		return Owner{}, false
	}
	return o, true
}

const ownerFile = "owner"

func writeOwner(dir string, o Owner) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("write owner of %q: %w", dir, err)
	}
	path := filepath.Join(dir, ownerFile)
	if err := os.WriteFile(path+".tmp", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write owner of %q: %w", dir, err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write owner of %q: %w", dir, err)
	}
	return nil
}

func removeOwner(dir string) error {
	err := os.Remove(filepath.Join(dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
