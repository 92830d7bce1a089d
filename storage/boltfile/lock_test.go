package boltfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/storage/boltfile"
)

func lock(t *testing.T, dir string, shared bool) *boltfile.Lock {
	t.Helper()
	l, err := boltfile.AcquireLock(dir, shared)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release() })
	return l
}

func TestLockExcludes(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second bool // shared
		refused       bool
	}{
		{"engine after engine", false, false, true},
		{"reader after engine", false, true, true},
		{"engine after reader", true, false, true},
		{"reader after reader", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			first := lock(t, dir, c.first)
			_, err := boltfile.AcquireLock(dir, c.second)
			var used *boltfile.InUseError
			if refused := errors.As(err, &used); refused != c.refused || err != nil && !refused {
				t.Fatalf("refused %v (%v), want %v", refused, err, c.refused)
			}
			if err := first.Release(); err != nil {
				t.Fatal(err)
			}
			lock(t, dir, c.second)
		})
	}
}

func TestRefusalNamesTheOwner(t *testing.T) {
	dir := t.TempDir()
	l := lock(t, dir, false)
	o := boltfile.ThisProcess()
	o.Socket = "/run/socket"
	if err := l.WriteOwner(o); err != nil {
		t.Fatal(err)
	}
	_, err := boltfile.AcquireLock(dir, false)
	var used *boltfile.InUseError
	if !errors.As(err, &used) || used.Owner.PID != os.Getpid() || used.Owner.Socket != o.Socket {
		t.Fatalf("refused with %+v", err)
	}
	if !strings.Contains(err.Error(), "process") {
		t.Errorf("message %q names no process", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "owner")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the owner file is left: %v", err)
	}
}

// An owner file may be left by a killed engine, and its number be another
// process's by now.
func TestOwnerIsNotBelievedOnItsNumber(t *testing.T) {
	here := boltfile.ThisProcess()
	if here.Start == 0 {
		t.Skip("processes cannot be told apart here")
	}
	gone := here
	gone.PID = 1 << 22 // above the largest number that Linux gives
	later := here
	later.Start++
	rebooted := here
	rebooted.BootID = "another"
	elsewhere := rebooted
	elsewhere.Host = "elsewhere.invalid"
	for _, c := range []struct {
		name     string
		owner    boltfile.Owner
		believed bool
	}{
		{"itself", here, true},
		{"ended", gone, false},
		{"number taken again", later, false},
		{"before the machine was booted", rebooted, false},
		{"another machine", elsewhere, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := json.Marshal(c.owner)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "owner"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ok := boltfile.ReadOwner(dir); ok != c.believed {
				t.Errorf("believed %v, want %v", ok, c.believed)
			}
			lock(t, dir, false) // whatever it says, the kernel decides
		})
	}
	t.Run("nonsense", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "owner"), []byte(`{"pid":"x"`), 0o600); err != nil {
			t.Fatal(err)
		}
		if o, ok := boltfile.ReadOwner(dir); ok {
			t.Errorf("believed %+v", o)
		}
	})
}

func TestReaderOfAReadOnlyDirectory(t *testing.T) {
	asAnyUser(t, func(t *testing.T) {
		without, with := t.TempDir(), t.TempDir()
		lock(t, with, false).Release()
		for _, dir := range []string{without, with} {
			if err := os.Chmod(dir, 0o500); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(dir, 0o700) })
		}
		if lock(t, without, true).Held() {
			t.Error("holds a lock file that cannot be there")
		}
		if !lock(t, with, true).Held() {
			t.Error("does not hold the lock file that is there")
		}
		if _, err := boltfile.AcquireLock(without, false); !errors.Is(err, os.ErrPermission) {
			t.Errorf("an engine got %v", err)
		}
	})
}
