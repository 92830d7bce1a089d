package draw

import (
	"cmp"
	"slices"
)

// layout places nodes in layers, top to bottom.
type layout struct {
	layers [][]int // nodes, left to right; a long edge's bends are numbered after the nodes
	paths  [][]int // for each edge: its nodes and bends, top to bottom
}

// place puts every node below all that it needs, breaks edges over several
// layers into bends, and orders each layer so that edges cross little.
func (g *Graph) place() *layout {
	depth := make([]int, len(g.Nodes))
	for _, e := range g.Edges { // by consumer in topological order, so one pass is enough
		depth[e.To] = max(depth[e.To], depth[e.From]+1)
	}
	l := &layout{}
	put := func(node, d int) {
		for len(l.layers) <= d {
			l.layers = append(l.layers, nil)
		}
		l.layers[d] = append(l.layers[d], node)
	}
	for n, d := range depth {
		put(n, d)
	}
	next := len(g.Nodes)
	for _, e := range g.Edges {
		path := []int{e.From}
		for d := depth[e.From] + 1; d < depth[e.To]; d++ {
			put(next, d)
			path = append(path, next)
			next++
		}
		l.paths = append(l.paths, append(path, e.To))
	}
	l.order(next)
	return l
}

// sweeps is how often layers are put in order by their neighbours; more does
// not help on graphs of this size.
const sweeps = 8

// order moves nodes towards the middle of their neighbours, down and up in turn.
func (l *layout) order(nodes int) {
	above, below := make([][]int, nodes), make([][]int, nodes)
	for _, p := range l.paths {
		for i := 1; i < len(p); i++ {
			above[p[i]] = append(above[p[i]], p[i-1])
			below[p[i-1]] = append(below[p[i-1]], p[i])
		}
	}
	at := make([]float64, nodes)
	for _, layer := range l.layers {
		note(layer, at)
	}
	for range sweeps {
		for d := 1; d < len(l.layers); d++ {
			arrange(l.layers[d], above, at)
		}
		for d := len(l.layers) - 2; d >= 0; d-- {
			arrange(l.layers[d], below, at)
		}
	}
}

func arrange(layer []int, neighbours [][]int, at []float64) {
	middle := map[int]float64{}
	for _, n := range layer {
		middle[n] = at[n]
		if len(neighbours[n]) > 0 {
			sum := 0.0
			for _, m := range neighbours[n] {
				sum += at[m]
			}
			middle[n] = sum / float64(len(neighbours[n]))
		}
	}
	slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
	note(layer, at)
}

// note writes down where a layer's nodes stand, as a part of its length, so
// that layers of different lengths compare.
func note(layer []int, at []float64) {
	for i, n := range layer {
		at[n] = (float64(i) + 0.5) / float64(len(layer))
	}
}
