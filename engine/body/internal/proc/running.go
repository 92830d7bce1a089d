package proc

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
)

// entrySize is the size of one entry of a running file.
//
//	 0  process id, 0 if nothing runs
//	 4  start, earliest and latest, ticks since boot (2 × 8 bytes)
//	20  boot id (16 bytes)
//	36  length of the token, then the token
//	124 CRC-32 of all before
//
// All numbers are little-endian.
const (
	entrySize = 128
	tokenAt   = 37
	sumAt     = 124
	maxToken  = sumAt - tokenAt
)

// Running is the file that says what runs on each slot. It is written in place
// and never synced: it has to outlive the process, not the machine.
type Running struct {
	f      *os.File
	boot   [16]byte
	slots  int
	groups *Groups // nil: none

	mu    sync.Mutex
	extra []bool // entries behind those of the slots: which are taken
}

// OpenRunning opens the file for a number of slots, and forgets what it said.
func OpenRunning(path string, slots int) (*Running, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open running file: %w", err)
	}
	r := &Running{f: f, boot: boot, slots: slots}
	// Zeros that are written, not a hole: a later write then needs no space.
	if _, err := f.WriteAt(make([]byte, slots*entrySize), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write running file: %w", err), f.Close())
	}
	if err := f.Truncate(int64(slots) * entrySize); err != nil {
		return nil, errors.Join(fmt.Errorf("write running file: %w", err), f.Close())
	}
	return r, nil
}

// LimitGroups makes limits of memory hold for all processes of a program together,
// by control groups. The error says why that can't be; then they hold for each
// process. It must be called before anything runs: see OpenGroups.
func (r *Running) LimitGroups(log *slog.Logger) (err error) {
	r.groups, err = OpenGroups(log)
	return err
}

// Close closes the file; what it says stays. Nothing may be running any more.
func (r *Running) Close() error {
	r.groups.Close()
	r.groups = nil
	return r.f.Close()
}

// set notes that pid runs on a slot; it was started between two times.
func (r *Running) set(slot, pid int, earliest, latest uint64, token string) error {
	if r == nil {
		return nil
	}
	var e [entrySize]byte
	binary.LittleEndian.PutUint32(e[0:], uint32(pid))
	binary.LittleEndian.PutUint64(e[4:], earliest)
	binary.LittleEndian.PutUint64(e[12:], latest)
	copy(e[20:], r.boot[:])
	token = token[:min(len(token), maxToken)]
	e[36] = byte(len(token))
	copy(e[tokenAt:], token)
	binary.LittleEndian.PutUint32(e[sumAt:], crc32.ChecksumIEEE(e[:sumAt]))
	if _, err := r.f.WriteAt(e[:], int64(slot)*entrySize); err != nil {
		return fmt.Errorf("write running file: %w", err)
	}
	return nil
}

// reserve takes an entry for a program that stays, behind those of the slots.
func (r *Running) reserve() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.extra, false)
	if i < 0 {
		i = len(r.extra)
		r.extra = append(r.extra, false)
	}
	r.extra[i] = true
	return r.slots + i
}

// release clears an entry that was reserved, and gives it back.
func (r *Running) release(entry int) error {
	if r == nil {
		return nil
	}
	err := r.clear(entry)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extra[entry-r.slots] = false
	return err
}

// clear notes that nothing runs on a slot.
func (r *Running) clear(slot int) error {
	if r == nil {
		return nil
	}
	if _, err := r.f.WriteAt([]byte{0, 0, 0, 0}, int64(slot)*entrySize); err != nil {
		return fmt.Errorf("write running file: %w", err)
	}
	return nil
}

// entry is one process that was running.
type entry struct {
	pid              int
	earliest, latest uint64
	boot             [16]byte
	token            string
}

// readRunning reads the entries of a running file that say something; damaged
// ones say nothing. No file is no entries.
func readRunning(path string) ([]entry, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read running file: %w", err)
	}
	var out []entry
	for ; len(raw) >= entrySize; raw = raw[entrySize:] {
		if e, ok := parseEntry(raw[:entrySize]); ok {
			out = append(out, e)
		}
	}
	return out, nil
}

func parseEntry(raw []byte) (entry, bool) {
	pid := int32(binary.LittleEndian.Uint32(raw))
	n := int(raw[36])
	if pid <= 1 || n > maxToken || crc32.ChecksumIEEE(raw[:sumAt]) != binary.LittleEndian.Uint32(raw[sumAt:]) {
		return entry{}, false
	}
	return entry{
		pid:      int(pid),
		earliest: binary.LittleEndian.Uint64(raw[4:]),
		latest:   binary.LittleEndian.Uint64(raw[12:]),
		boot:     [16]byte(raw[20:36]),
		token:    string(raw[tokenAt : tokenAt+n]),
	}, true
}

func bootID() ([16]byte, error) {
	var id [16]byte
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id, fmt.Errorf("read boot id: %w", err)
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(raw)), "-", ""))
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("read boot id: %q is none", raw)
	}
	return [16]byte(b), nil
}
