package body

import (
	"fmt"
	"os"

	"operon/engine/body/internal/proc"
)

// SlotOptions say where a slot keeps what it keeps.
type SlotOptions struct {
	Index   int      // from 0; unique among the slots that share Running or Dir
	Running *Running // notes what runs; nil: nothing is noted
	// Dir is the folder for captured output, standard input and temporary
	// files, made if need be; best in the state directory. "" is one of the
	// slot's own under os.TempDir.
	Dir string
}

// Slot is what one of the engine's -j slots keeps between jobs. Its methods and
// every Run on it must be called from the goroutine that made it.
type Slot struct {
	proc *proc.Slot
	own  string // folder to remove, or ""
}

// NewSlot makes a slot and locks the calling goroutine to its OS thread until
// Close. The process becomes a subreaper: orphans of jobs become its children.
func NewSlot(o SlotOptions) (*Slot, error) {
	s := &Slot{}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "operon-slot-")
		if err != nil {
			return nil, fmt.Errorf("make slot %d: %w", o.Index, err)
		}
		o.Dir, s.own = dir, dir
	}
	var running *proc.Running
	if o.Running != nil {
		running = o.Running.file
	}
	p, err := proc.Open(o.Dir, o.Index, running)
	if err != nil {
		if s.own != "" {
			os.Remove(s.own)
		}
		return nil, fmt.Errorf("make slot %d: %w", o.Index, err)
	}
	s.proc = p
	return s, nil
}

// Close frees what the slot keeps and unlocks its goroutine's thread.
func (s *Slot) Close() error {
	err := s.proc.Close()
	if s.own != "" && err == nil {
		err = proc.RemoveTree(s.own)
	}
	if err != nil {
		return fmt.Errorf("close slot: %w", err)
	}
	return nil
}
