package body

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"operon/spec/value"
)

// filePath is the path at which the body finds a file: its own if it was taken
// by reference, else a read-only file of its name in the job's folder. Each lies
// in a folder of its own, so that equal names do not collide.
func (a *attempt) filePath(arg, item int, f *value.FileInfo) (string, error) {
	if a.paths == nil {
		a.paths = make([][]string, len(a.job.Args))
	}
	if a.paths[arg] == nil {
		a.paths[arg] = make([]string, max(1, item+1, a.items(arg)))
	}
	if path := a.paths[arg][item]; path != "" {
		return path, nil
	}
	path, err := a.placeFile(arg, item, f)
	if err != nil {
		return "", err
	}
	a.paths[arg][item] = path
	return path, nil
}

func (a *attempt) items(arg int) int {
	if s := a.job.Args[arg].Slice; s != nil {
		return len(s.Items)
	}
	return 1
}

func (a *attempt) placeFile(arg, item int, f *value.FileInfo) (string, error) {
	if f.Ref {
		return a.referenced(f)
	}
	if f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\x00") {
		return "", failf(KindInternal, "%q is no file name (this is a bug)", f.Name)
	}
	folder := []string{"in", a.task.In[arg].Arg}
	if a.job.Args[arg].Slice != nil {
		folder = append(folder, strconv.Itoa(item))
	}
	dir, fail := a.dir.sub(folder...)
	if fail != nil {
		return "", fail
	}
	path := filepath.Join(dir, f.Name)
	if err := a.share(f.Path, path, f.Exec); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", &Failure{Kind: KindLost, Err: err, Message: fmt.Sprintf("the stored file %s of %s is missing: %v", f.Name, a.task.In[arg], err)}
		}
		return "", machine("hand over file "+f.Name, err)
	}
	return path, nil
}

// share makes dst a read-only file with src's content: a clone where the file
// system has such, else a hard link if src has the right permissions, else a
// copy.
func (c *common) share(src, dst string, exec bool) error {
	in, info, err := value.OpenRegular(src)
	if err != nil {
		return err
	}
	defer in.Close()
	mode := os.FileMode(0o444)
	if exec {
		mode = 0o555
	}
	perm := info.Mode().Perm()
	// To root no file is read-only: a job of his gets no link to the store's own.
	linkable := perm&0o222 == 0 && (perm&0o111 != 0) == exec && os.Geteuid() != 0
	if linkable && c.noClone.Load() && os.Link(src, dst) == nil {
		return nil
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = cloneFile(out, in)
	if err != nil {
		c.noClone.Store(true) // on the same file system they will all fail
		_, err = io.Copy(out, in)
	}
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// cloneFile makes out share in's blocks.
func cloneFile(out, in *os.File) error {
	return unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
}
