package ticket

import (
	"math/rand/v2"
	"testing"

	"operon/engine/ticket/reference"
)

const cooking = `
	A<i> = alpha()
	B<j> = beta(A) for i
	C<k> = gamma(A) for i
	D = delta(A, B, C) for i, j, k
	E = epsilon(B<j>, D<j>) for i, k
	F = zeta(C<k>, E<k>) for i
`

const stress = `
	A<i> = alpha()
	B<j> = beta(A<i>, A) for i
	C<k> = gamma(A) for i
	D<l> = delta(A, B<i, j>, B<j>, B, C) for i, j, k
	E<m> = epsilon(D<i, k, j, l>)
	F<n> = zeta(E, D<j, l>, D) for j, l, i, k, m
	G = eta(F<n>, F<l, n>, F, E, D<l>, D) for n, l, i, k, m, j
	H = theta(G, F, E, D, C, B, A) for i, j, k, l, m, n
`

const twoRoots = `
	A<i> = a()
	B<j> = b()
	X = x(A, B) for i, j
	R = r(X<j>) for i
	C = c(X<i>) for j
	Z = z(R<i>, C<j>)
`

// The five faults of the scheme as it was first built.
func TestFaultW1QuotaFallsBeforeAnIndependentSlotIsBound(t *testing.T) {
	mustRun(t, cooking, fixed(map[string][]uint32{"i": {3}, "j": {0, 2, 0}, "k": {2, 1, 3}}), 60)
	mustRun(t, twoRoots, fixed(map[string][]uint32{"i": {2}, "j": {0}}), 20)
}

func TestFaultW2ResolutionReachesTheTablesOneByOne(t *testing.T) {
	mustRun(t, cooking, fixed(map[string][]uint32{"i": {2}, "j": {2, 3}, "k": {3, 1}}), 60)
	mustRun(t, twoRoots, fixed(map[string][]uint32{"i": {3}, "j": {2}}), 60)
}

func TestFaultW3TwoSlicesOfOneEntityShareADimension(t *testing.T) {
	mustRun(t, `
		A<i> = alpha()
		B<j> = beta(A) for i
		C<k> = gamma(A) for i
		D = delta(B, C) for i, j, k
		E = eps(D<j>, D<j, k>) for i, k`, fixed(map[string][]uint32{"i": {2}, "j": {2, 0}, "k": {2, 3}}), 60)
}

func TestFaultW4ShapeUnknownUnderAnEmptySibling(t *testing.T) {
	mustRun(t, `
		A<i> = a()
		B<j> = b(A) for i
		C<k> = c(A) for i
		D = d(B, C) for i, j, k
		E = e(D<k, j>) for i
		F = f(D<j, k>) for i
		G = g(D<i, k, j>)`, fixed(map[string][]uint32{"i": {2}, "j": {0}, "k": {2}}), 60)
}

func TestFaultW5ChildrenBornReadyAreQueued(t *testing.T) {
	mustRun(t, `
		A<i> = a()
		B = b(A<i>)
		C<j> = c()
		D = d(B) for j`, fixed(map[string][]uint32{"i": {0}, "j": {3}}), 20)
	// The slow spawner last: D's only input is long done when its slots bind.
	p := load(t, reference.Parse(`
		A = a()
		C<j> = c()
		D = d(A) for j`))
	s := newSimulation(p, fixed(map[string][]uint32{"j": {3}}), rules{})
	if err := s.run(func(int) int { return 0 }, true); err != nil {
		t.Fatal(err)
	}
}

// The shapes that the original's tests and our own proposals name, each under
// lengths from 0 to 3 and random schedules.
func TestShapes(t *testing.T) {
	for name, text := range map[string]string{
		"01 splitter": `
			Input<n> = get_inputs()
			Word<w> = get_words(Input) for n
			Char<c> = get_chars(Word) for n, w
			Tally = tally(Char<n, w, c>)`,
		"01 cooking": cooking,
		"01 stress":  stress,
		"01 fanout": `
			A<i> = alpha()
			B<j> = beta(A) for i
			C<k> = gamma(A) for i
			D = delta(B, C) for i, j, k`,
		"01 sensors": `
			S<s> = collect()
			B<b> = aggregate(S) for s
			R = report(B) for s, b`,
		"03 deep": `
			A<i> = alpha()
			B<j> = beta(A) for i
			C<k> = gamma(B) for i, j
			S = all(C<i, j, k>)
			T = per_i(C<j, k>) for i
			U = per_ij(C<k>) for i, j`,
		"04 late k": `
			A<i> = alpha()
			B<j> = beta(A) for i
			C<k> = gamma(A) for i
			D = delta(B, C) for i, j, k
			E = epsilon(D<j>) for i, k`,
		"05 double slice": `
			A<i> = alpha()
			B<j> = beta(A) for i
			C<k> = gamma(A) for i
			D = delta(B, C) for i, j, k
			E = eps(D<j>, D<j, k>) for i, k`,
		"06 two roots": twoRoots,
		"07 slice over a context dimension": `
			A<i> = a()
			F = f(A<i>, A) for i
			G = g(A<i>)`,
		"08 no dimensions": `
			A = a()
			B = b(A)
			C = c(B, A)`,
		"08 late barrier": `
			A<i> = a()
			B = b(A) for i
			C<j> = c(B<i>)
			D = d(A, C) for i, j
			E = e(D<i, j>)`,
		"09 one entity many ways": `
			A<i> = a()
			B<j> = b(A) for i
			C = c(B, B, B<j>, B<i, j>, A, A<i>) for i, j`,
		"10 odd orders": `
			A<z> = a()
			B<a1> = b(A) for z
			C<m> = c(A) for z
			D = d(C, B) for m, z, a1
			E = e(D<m, a1>, D<a1, m>) for z
			F = f(D<z, m, a1>)`,
		"11 context without inputs": `
			A<i> = a()
			B<j> = b() for i
			C = c() for j, i
			D = d(C<i, j>)`,
		"12 taken twice": `
			A<i> = ra()
			X = x(A, A, A<i>) for i
			Y = y(X<i>, X<i>)`,
		"13 roots of every kind": `
			A = a()
			B<i> = b()
			C<j> = c(A) for i
			D = d(A, B, C) for i, j
			E = e(D<i, j>, A)`,
		"14 three independent": `
			A<i> = a()
			B<j> = b()
			C<k> = c()
			D = d(A, B, C) for i, j, k
			E = e(D<i>) for j, k
			F = f(D<k, i>) for j
			G = g(D<j, k, i>)`,
		"15 spawn after aggregate": `
			A<i> = a()
			B = b(A) for i
			C<j> = c(B<i>)
			D<k> = d(C) for j
			E = e(D<j, k>, B<i>)`,
		"16 broadcast down": `
			A = a()
			B<i> = b(A)
			C<j> = c(B) for i
			D<k> = d(C, A) for i, j
			E = e(D, C, B, A) for i, j, k
			F = f(E<k>, E<j, k>) for i, j`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := load(t, reference.Parse(text))
			for seed := range uint64(scale(15)) {
				most := uint32(3)
				if name == "01 stress" {
					most = 2
				}
				lengths := reference.RandomLengths(seed, most)
				rng := rand.New(rand.NewPCG(seed, 5))
				for order, pick := range picks(rng) {
					s := newSimulation(p, lengths, rules{})
					if s.tooLarge() {
						continue
					}
					if err := s.run(pick, true); err != nil {
						t.Fatalf("order %s, seed %d: %v", order, seed, err)
					}
				}
			}
		})
	}
}

// 02: empties at the root, in the middle, at the end, and by turns.
func TestEmpties(t *testing.T) {
	deep := `
		A<i> = alpha()
		B<j> = beta(A) for i
		C<k> = gamma(B) for i, j
		S = all(C<i, j, k>)
		T = per_i(C<j, k>) for i
		U = per_ij(C<k>) for i, j
		V = v(T<i>, U<i, j>)`
	for name, lengths := range map[string]map[string][]uint32{
		"root":      {"i": {0}, "j": {2}, "k": {2}},
		"middle":    {"i": {3}, "j": {0}, "k": {2}},
		"last":      {"i": {3}, "j": {2}, "k": {0}},
		"by turns":  {"i": {4}, "j": {2, 0}, "k": {0, 2}},
		"all empty": {"i": {0}, "j": {0}, "k": {0}},
	} {
		t.Run(name, func(t *testing.T) { mustRun(t, deep, fixed(lengths), 10) })
	}
}
