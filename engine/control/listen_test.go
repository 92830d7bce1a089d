package control_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"operon/engine"
	"operon/engine/control"
)

func TestListenIsPrivateAndCleansUp(t *testing.T) {
	dir := t.TempDir()
	ln, path, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(dir, "control.sock") || path != control.SocketPath(dir) {
		t.Errorf("socket at %s", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	ln.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
}

func TestListenReplacesWhatAKilledEngineLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "control.sock")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	ln, _, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, ln, &fake{status: &engine.Status{}})
	dial(t, path)
}

func TestListenLeavesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "control.sock")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ln, _, err := control.Listen(dir); err == nil {
		ln.Close()
		t.Error("a file was taken for a socket")
	}
	if got, _ := os.ReadFile(path); string(got) != "mine" {
		t.Error("the file is gone")
	}
}

func TestLongPathsMoveToTheRuntimeFolder(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	runtime, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runtime) })
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	path := control.SocketPath(long)
	if filepath.Dir(path) != filepath.Join(runtime, "operon") {
		t.Fatalf("socket at %s", path)
	}
	if other := control.SocketPath(long + "/other"); other == path {
		t.Error("two state directories share a socket")
	}
	ln, got, err := control.Listen(long)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, ln, &fake{status: &engine.Status{}})
	if got != path {
		t.Errorf("listens at %s, not %s", got, path)
	}
	dial(t, path)
}

func TestRuntimeFolderOfSomebodyElseIsRefused(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	runtime, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(runtime) })
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(runtime, "operon")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	if ln, _, err := control.Listen(long); err == nil {
		ln.Close()
		t.Error("a folder that others may write was taken")
	}
}

func TestSocketPathAlwaysFits(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/"+strings.Repeat("x", 200))
	t.Setenv("TMPDIR", "/"+strings.Repeat("y", 200))
	for _, dir := range []string{"/s", "/" + strings.Repeat("z", 300)} {
		if path := control.SocketPath(dir); len(path) > 100 {
			t.Errorf("%d bytes: %s", len(path), path)
		}
	}
}
