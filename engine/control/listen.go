package control

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	socketName     = "control.sock"
	hostSocketName = "serve.sock"
)

// maxSocketPath is the longest path that a socket may have: the kernel's limit
// is 108 bytes on Linux and 104 elsewhere, with the NUL.
const maxSocketPath = 100

// SocketPath is where an engine of that state directory answers: control.sock
// in it or, where that path is too long for a socket, a name of its own in the
// user's runtime folder. It touches nothing.
func SocketPath(stateDir string) string { return socketPath(stateDir, socketName) }

// HostSocketPath is where a host of that state root answers: serve.sock in it,
// with the same way out.
func HostSocketPath(root string) string { return socketPath(root, hostSocketName) }

func socketPath(dir, base string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	path := filepath.Join(dir, base)
	if len(path) <= maxSocketPath {
		return path
	}
	if base == socketName {
		base = "" // as it always was
	}
	sum := sha256.Sum256([]byte(dir + base))
	name := hex.EncodeToString(sum[:8]) + ".sock"
	for _, dir := range runtimeDirs() {
		if path := filepath.Join(dir, name); len(path) <= maxSocketPath {
			return path
		}
	}
	return path
}

// runtimeDirs are folders for sockets, best first. The last one is short.
func runtimeDirs() []string {
	own := "operon-" + strconv.Itoa(os.Getuid())
	var dirs []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "operon"))
	}
	return append(dirs, filepath.Join(os.TempDir(), own), filepath.Join("/tmp", own))
}

// Listen opens the socket of a state directory, which the caller must hold: a
// socket that lies there is then what a killed engine left, and is replaced.
// It returns the socket's path. Closing the listener removes the socket.
func Listen(stateDir string) (net.Listener, string, error) {
	return listen(SocketPath(stateDir), socketName)
}

// ListenHost opens the socket of a state root, which the caller must own.
func ListenHost(root string) (net.Listener, string, error) {
	return listen(HostSocketPath(root), hostSocketName)
}

func listen(path, base string) (net.Listener, string, error) {
	if filepath.Base(path) != base { // a runtime folder, not the caller's
		if err := makePrivate(filepath.Dir(path)); err != nil {
			return nil, "", fmt.Errorf("open socket %s: %w", path, err)
		}
	}
	if err := removeSocket(path); err != nil {
		return nil, "", fmt.Errorf("remove the socket that an earlier engine left: %w", err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, "", fmt.Errorf("open socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, "", errors.Join(fmt.Errorf("open socket %s: %w", path, err), ln.Close())
	}
	return ln, path, nil
}

// removeSocket removes what lies at path if it is a socket. Anything else is
// somebody's, and stays.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is no socket", path)
	}
	return os.Remove(path)
}

// makePrivate makes sure that dir exists and is the user's alone: in a shared
// folder such as /tmp somebody else might have made it first.
func makePrivate(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("folder %s is not yours alone (want a folder of mode 0700)", dir)
	}
	return nil
}
