package draw

import (
	"strings"

	"operon/spec"
)

// Graph is what is drawn.
type Graph struct {
	Name  string
	Nodes []Node // topological order
	Edges []Edge // by consumer, in the order of its inputs
}

// Node is a task.
type Node struct {
	Name string
	Over []string // the dimensions it iterates over
	Out  string   // Entity, or Entity<dim> where it spawns one
}

// Edge says that To needs From.
type Edge struct {
	From, To int    // positions in Nodes
	Label    string // the reference; "" if To just iterates over what From spawns
}

// Of is the graph of a pipeline.
func Of(p *spec.Pipeline) *Graph {
	g := &Graph{Name: p.Name}
	at := map[*spec.TaskSpec]int{}
	for n, t := range p.Topo {
		at[t] = n
		out := t.Out.Name
		if t.Spawn != nil {
			out += "<" + t.Spawn.Name + ">"
		}
		g.Nodes = append(g.Nodes, Node{Name: t.Name, Over: t.ContextNames(), Out: out})
	}
	for n, t := range p.Topo {
		brings := map[*spec.Dim]bool{}
		for _, in := range t.In {
			g.Edges = append(g.Edges, Edge{From: at[in.Entity.Producer], To: n, Label: in.String()})
			for _, d := range in.Free {
				brings[d] = true
			}
		}
		for _, d := range t.Context {
			if !brings[d] {
				g.Edges = append(g.Edges, Edge{From: at[d.Spawner], To: n})
			}
		}
	}
	return g
}

// label is what a node shows below its name.
func (n Node) label() string {
	if len(n.Over) == 0 {
		return n.Out
	}
	return n.Out + " for " + strings.Join(n.Over, ", ")
}
