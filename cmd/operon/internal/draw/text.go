package draw

import (
	"fmt"
	"strings"
)

// Text is the graph as a table: what each task takes, over what it iterates,
// and what it makes, every task after those it needs.
func (g *Graph) Text() string {
	takes := make([][]string, len(g.Nodes))
	for _, e := range g.Edges {
		if e.Label != "" {
			takes[e.To] = append(takes[e.To], e.Label)
		}
	}
	rows := make([][3]string, len(g.Nodes))
	var wide [3]int
	for n, node := range g.Nodes {
		over := ""
		if len(node.Over) > 0 {
			over = "for " + strings.Join(node.Over, ", ")
		}
		rows[n] = [3]string{node.Name, over, strings.Join(takes[n], ", ")}
		for i, cell := range rows[n] {
			wide[i] = max(wide[i], len(cell))
		}
	}
	var b strings.Builder
	for n, r := range rows {
		line := fmt.Sprintf("%-*s", wide[0], r[0])
		if wide[1] > 0 {
			line += fmt.Sprintf("  %-*s", wide[1], r[1])
		}
		if wide[2] > 0 {
			line += fmt.Sprintf("  %*s", wide[2], r[2])
		}
		fmt.Fprintf(&b, "%s -> %s\n", line, g.Nodes[n].Out)
	}
	return b.String()
}

// DOT is the graph in the language of Graphviz.
func (g *Graph) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  node [shape=box]\n", g.Name)
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "  %q [label=%q]\n", n.Name, n.Name+"\n"+n.label())
	}
	for _, e := range g.Edges {
		attr := "style=dashed"
		if e.Label != "" {
			attr = fmt.Sprintf("label=%q", e.Label)
		}
		fmt.Fprintf(&b, "  %q -> %q [%s]\n", g.Nodes[e.From].Name, g.Nodes[e.To].Name, attr)
	}
	b.WriteString("}\n")
	return b.String()
}

// Mermaid is the graph in the language of Mermaid.
func (g *Graph) Mermaid() string {
	// Entities written as HTML keep "<" from being taken for a tag; a task may
	// be named as a keyword such as end, so nodes go by number.
	escape := strings.NewReplacer("<", "&lt;", ">", "&gt;", `"`, "&quot;")
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for i, n := range g.Nodes {
		fmt.Fprintf(&b, "  t%d[\"%s<br>%s\"]\n", i, n.Name, escape.Replace(n.label()))
	}
	for _, e := range g.Edges {
		if e.Label == "" {
			fmt.Fprintf(&b, "  t%d -.-> t%d\n", e.From, e.To)
			continue
		}
		fmt.Fprintf(&b, "  t%d -- \"%s\" --> t%d\n", e.From, escape.Replace(e.Label), e.To)
	}
	return b.String()
}
