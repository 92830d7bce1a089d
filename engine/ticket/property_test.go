package ticket

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"operon/engine/ticket/reference"
)

// scale is how many random pipelines the tests try.
func scale(normal int) int {
	if os.Getenv("OPERON_LONG") != "" {
		return 20 * normal
	}
	return normal
}

// randomCase is one random pipeline with its lengths; every second one begins
// with the crossed shape.
func randomCase(seed uint64) (reference.Pipeline, reference.Lengths, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 77))
	p := reference.Random(rng, reference.Limits{Tasks: 10, Dims: 4, Crossed: seed%2 == 0})
	most := uint32(5)
	if seed%4 != 1 {
		most = 2 // deep pipelines of long lists take too long to be naive about
	}
	return p, reference.RandomLengths(seed, most), rng
}

// Every schedule of a random pipeline ends with the values of the reference, and
// the invariant of the counters holds after every event.
func TestRandomPipelines(t *testing.T) {
	jobs, pipelines := 0, 0
	for seed := range uint64(scale(1500)) {
		decl, lengths, rng := randomCase(seed)
		p := load(t, decl)
		for name, pick := range picks(rng) {
			s := newSimulation(p, lengths, rules{})
			if s.tooLarge() {
				continue
			}
			if err := s.run(pick, true); err != nil {
				t.Fatalf("seed %d, order %s: %v\n%s", seed, name, err, decl)
			}
			jobs += s.jobs
			pipelines++
		}
	}
	t.Logf("%d runs, %d jobs, 0 wrong", pipelines, jobs)
}

// tooLarge spares the naive model what it can't do in time.
func (s *simulation) tooLarge() bool {
	n := 0
	for _, values := range reference.Evaluate(s.p, s.lengths) {
		n += len(values)
	}
	return n > 600
}

// Leaving out any clause of the rules must be noticed by the very test that
// holds them.
func TestEveryClauseIsFelt(t *testing.T) {
	for _, m := range []struct {
		name  string
		rules rules
		least float64 // of all random pipelines, in percent
	}{
		{"no slot condition", rules{noSlots: true}, 5},
		{"no shape condition", rules{noShape: true}, 1},
		{"shape at the own coordinate only", rules{shapeAtOwn: true}, 0.5},
		{"no second try", rules{noSecondTry: true}, 5},
		{"explosion without pins", rules{noPins: true}, 1},
		{"explosion on every reference", rules{everyReference: true}, 0.5},
		{"quota of 1 at birth", rules{skipQuotaAtBirth: true}, 1},
	} {
		t.Run(m.name, func(t *testing.T) {
			wrong, runs := 0, 0
			example := ""
			for seed := range uint64(400) {
				decl, lengths, rng := randomCase(seed)
				p := load(t, decl)
				s := newSimulation(p, lengths, rules{})
				if s.tooLarge() {
					continue
				}
				runs++
				if err := tryRules(p, lengths, m.rules, rng); err != nil {
					wrong++
					if example == "" {
						example = fmt.Sprintf("seed %d: %v", seed, err)
					}
				}
			}
			share := 100 * float64(wrong) / float64(runs)
			t.Logf("%d of %d wrong (%.1f %%), such as %s", wrong, runs, share, example)
			if share < m.least {
				t.Errorf("left out, and %.1f %% wrong: the test would not notice", share)
			}
		})
	}
}
