package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stopped is the end that a signal asked for.
type stopped struct{ signal syscall.Signal }

// Error names the signal.
func (s *stopped) Error() string { return "stopped by " + name(s.signal) }

func name(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGTERM:
		return "SIGTERM"
	}
	return fmt.Sprintf("signal %d", int(s))
}

// stops turns signals into ends. The first one ends a command at once, unless
// it has said what to do instead; the second one always does. A command that
// does not notice can be killed by a third.
type stops struct {
	mu       sync.Mutex
	cancel   context.CancelCauseFunc
	graceful func() // what the first signal does instead, or nil
	first    *stopped
}

// watch hears signals until ctx ends.
func (s *stops) watch(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case sig := <-signals:
			s.hear(sig)
		case <-ctx.Done():
			return
		}
	}
}

func (s *stops) hear(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = &stopped{number}
		if s.graceful != nil {
			s.graceful()
			return
		}
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	s.cancel(s.first)
}

// instead says what the first signal does. do must return at once. It reports
// false where that signal has come already.
func (s *stops) instead(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.graceful = do
	return s.first == nil
}

// heard is the first signal as an error, nil if there was none.
func (s *stops) heard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		return nil
	}
	return s.first
}
