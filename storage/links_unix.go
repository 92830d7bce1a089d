//go:build unix

package storage

import (
	"os"
	"syscall"
)

// links is how many names a file has.
func links(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 0
}
