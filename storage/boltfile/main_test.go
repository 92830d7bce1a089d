package boltfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"operon/storage/boltfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file that commits at once; it is closed when the test ends.
func open(t testing.TB, path string, o boltfile.Options) *boltfile.File {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = -1
	}
	f, err := boltfile.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func flush(t testing.TB, f *boltfile.File) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return f.Flush(ctx)
}

var bucket = []byte("b")

func key(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }

func value(i int) []byte { return fmt.Appendf(nil, "value %d of some length, so that pages fill", i) }

// put is a commit of keys from lo to hi.
func put(lo, hi int) boltfile.Commit {
	return boltfile.Commit{Apply: func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		for i := lo; i < hi; i++ {
			if err := b.Put(key(i), boltfile.Seal(bucket, key(i), value(i))); err != nil {
				return err
			}
		}
		return nil
	}}
}

// keys reads all keys with their values, and fails on a wrong one.
func keys(f *boltfile.File) (n int, err error) {
	err = f.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if _, ok := boltfile.Unseal(bucket, k, v); !ok {
				return errWrong
			}
			n++
		}
		return nil
	})
	return n, err
}

var errWrong = errors.New("a value is not what was put")

// filled is the path of a closed file with n keys.
func filled(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data.db")
	f, err := boltfile.Open(path, boltfile.Options{Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 500 {
		f.Submit(put(i, min(i+500, n)))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func isDamage(err error) bool {
	var d *boltfile.DamagedError
	return errors.As(err, &d)
}

// again runs the test of this name in a process of its own, whose environment
// has OPERON_TEST_CHILD set.
func again(t *testing.T, set func(*exec.Cmd)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "OPERON_TEST_CHILD=1")
	set(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

func child() bool { return os.Getenv("OPERON_TEST_CHILD") != "" }

// asAnyUser runs fn as a user whom permissions bind: root starts the test again
// as nobody.
func asAnyUser(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	if os.Geteuid() != 0 {
		fn(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	place := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(place, 0o755), os.Chown(place, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	again(t, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Dir = filepath.Join(dir, "test"), place
		cmd.Env = append(cmd.Env, "TMPDIR="+place)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
}
