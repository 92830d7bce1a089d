package reference

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Limits bound a random pipeline.
type Limits struct {
	Tasks   int  // at most
	Dims    int  // at most
	Holes   bool // some slices pass holes on as nulls
	Crossed bool // begin with the crossed shape, which needs seven tasks and three dimensions
}

// Crossed is the shape that tells a sound promotion rule from a lucky one: two
// dimensions spawned apart under a third, an entity over all three, and
// consumers that slice it in both orders and altogether.
const Crossed = `
	A<i> = a()
	B<j> = b(A) for i
	C<k> = c(A) for i
	D = d(B, C) for i, j, k
	E = e(D<k, j>) for i
	F = f(D<j, k>) for i
	G = g(D<i, k, j>)
`

// Random makes a legal pipeline: contexts closed under precedents, slices closed
// under what depends on them and topologically ordered, no dimension left
// hanging. Roots, contexts without inputs, several slices of one entity and
// inputs taken twice all occur.
func Random(rng *rand.Rand, l Limits) Pipeline {
	g := &generator{rng: rng, limits: l, prec: map[string][]string{}, dims: map[string][]string{}}
	if l.Crossed {
		for _, d := range Parse(Crossed) {
			g.add(d)
		}
	}
	want := 1 + rng.IntN(l.Tasks)
	for len(g.p) < want {
		g.add(g.decl())
	}
	rng.Shuffle(len(g.p), func(i, j int) { g.p[i], g.p[j] = g.p[j], g.p[i] })
	return g.p
}

type generator struct {
	rng    *rand.Rand
	limits Limits
	p      Pipeline
	names  []string            // dimensions, in order of appearance
	prec   map[string][]string // of each dimension
	dims   map[string][]string // of each entity
}

func (g *generator) add(d Decl) {
	g.p = append(g.p, d)
	dims := slices.Clone(d.For)
	if d.Spawn != "" {
		g.names = append(g.names, d.Spawn)
		g.prec[d.Spawn] = slices.Clone(d.For)
		dims = append(dims, d.Spawn)
	}
	g.dims[d.Out] = dims
}

func (g *generator) decl() Decl {
	n := len(g.p)
	d := Decl{Task: fmt.Sprintf("t%d", n), Out: fmt.Sprintf("T%d", n)}
	context := map[string]bool{}
	if n > 0 {
		for range g.rng.IntN(4) {
			ref := g.ref()
			for _, x := range g.dims[ref.Entity] {
				if !slices.Contains(ref.Slice, x) {
					context[x] = true
				}
			}
			d.In = append(d.In, ref)
		}
	}
	if len(g.names) > 0 && g.rng.IntN(3) == 0 {
		x := g.names[g.rng.IntN(len(g.names))]
		context[x] = true
		for _, p := range g.prec[x] {
			context[p] = true
		}
	}
	for _, x := range g.names {
		if context[x] {
			d.For = append(d.For, x)
		}
	}
	g.rng.Shuffle(len(d.For), func(i, j int) { d.For[i], d.For[j] = d.For[j], d.For[i] })
	if len(g.names) < g.limits.Dims && g.rng.IntN(2) == 0 {
		d.Spawn = fmt.Sprintf("d%d", len(g.names))
	}
	return d
}

// ref picks an entity and a slice of it that is closed under what depends on its
// dimensions, in a random order that respects dependencies.
func (g *generator) ref() Ref {
	entity := g.p[g.rng.IntN(len(g.p))].Out
	dims := g.dims[entity]
	sliced := map[string]bool{}
	for _, x := range dims {
		if g.rng.IntN(3) == 0 {
			sliced[x] = true
		}
	}
	for _, x := range dims {
		for _, p := range g.prec[x] {
			if sliced[p] {
				sliced[x] = true
			}
		}
	}
	var order []string
	for len(order) < len(sliced) {
		var next []string
		for x := range sliced {
			if !slices.Contains(order, x) && g.precedentsIn(x, sliced, order) {
				next = append(next, x)
			}
		}
		slices.Sort(next) // for determinism
		order = append(order, next[g.rng.IntN(len(next))])
	}
	null := g.limits.Holes && len(order) > 0 && g.rng.IntN(2) == 0
	return Ref{Entity: entity, Slice: order, HolesNull: null}
}

func (g *generator) precedentsIn(x string, sliced map[string]bool, order []string) bool {
	for _, p := range g.prec[x] {
		if sliced[p] && !slices.Contains(order, p) {
			return false
		}
	}
	return true
}

// RandomLengths draws the length of every list: from 0 to most, a third of them
// 0. The same dimension and coordinate always give the same length.
func RandomLengths(seed uint64, most uint32) Lengths {
	return func(dim string, at []uint32) uint32 {
		h := seed*0x9e3779b97f4a7c15 + 1
		mix := func(x uint64) {
			h ^= x
			h *= 0xff51afd7ed558ccd
			h ^= h >> 32
		}
		for _, c := range dim {
			mix(uint64(c))
		}
		for _, i := range at {
			mix(uint64(i) + 7)
		}
		if mix(3); h%3 == 0 || most == 0 {
			return 0
		}
		return 1 + uint32(h>>8)%most
	}
}
