package boltfile

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// guard calls fn with faults turned into panics, and panics that the file's
// content caused into a *DamagedError. Other panics pass: they are bugs of the
// caller and nothing that a rebuild would mend.
func guard(path string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		detail, ok := damage(p)
		if !ok {
			panic(p)
		}
		err = &DamagedError{Path: path, Detail: detail}
	}()
	return fn()
}

// damage tells whether a panic comes from the content of a file: a fault on
// mapped memory, or a panic inside of bbolt itself. It is called while the
// panicking frames are still on the stack.
func damage(p any) (detail string, ok bool) {
	if _, fault := p.(interface{ Addr() uintptr }); fault {
		return "a page lies outside of the file, which was cut short or overwritten", true
	}
	if !fromBolt() {
		return "", false
	}
	return "a page makes no sense", true
}

// fromBolt reports whether the innermost frame that panicked, the runtime and
// the standard library aside, is bbolt's.
func fromBolt() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicked := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicked = true
		case panicked && !standard(frame.Function):
			return strings.HasPrefix(frame.Function, "go.etcd.io/bbolt")
		}
		if !more {
			return false
		}
	}
}

// standard reports whether a function is of the standard library: its import
// path has no dot in the first part and is not this module's.
func standard(function string) bool {
	first, _, path := strings.Cut(function, "/")
	if !path {
		first, _, _ = strings.Cut(function, ".")
	}
	switch first {
	case "operon", "main":
		return false
	}
	return !strings.Contains(first, ".")
}
