package serve

import "sync"

// MaxHeld is how many bytes of commands the sessions of a host hold together
// that are not installed yet.
const MaxHeld = 128 << 20

// room bounds what sessions hold together.
type room struct {
	mu   sync.Mutex
	held int
}

// share is what one session holds of a room. It may be used from several
// goroutines.
type share struct {
	room *room
	held int // with room.mu
}

// take makes the share larger by n bytes, or fails with ErrCrowded.
func (s *share) take(n int) error {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if n > MaxHeld-s.room.held {
		return ErrCrowded
	}
	s.held += n
	s.room.held += n
	return nil
}

// giveBack empties the share.
func (s *share) giveBack() {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.held -= s.held
	s.held = 0
}
