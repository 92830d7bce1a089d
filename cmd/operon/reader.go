package main

import (
	"errors"
	"os"
	"syscall"
)

// errReaderGone: who read our results has stopped.
var errReaderGone = errors.New("the reader of standard output has gone")

// reader is standard output, told apart from every other file that may fail.
type reader struct{ f *os.File }

func (r reader) Write(p []byte) (int, error) {
	n, err := r.f.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = errReaderGone
	}
	return n, err
}
