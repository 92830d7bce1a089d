package draw

import (
	"fmt"
	"html"
	"strings"
)

// Sizes of an SVG drawing, in pixels.
const (
	nodeHeight  = 44
	layerGap    = 60
	nodeGap     = 28
	bendWidth   = 12
	margin      = 16
	letterWidth = 7.3 // of the 12 px monospace face, a little generous
)

type box struct{ x, y, w float64 } // left, top, width

func (b box) middle() float64 { return b.x + b.w/2 }

// SVG is the graph as a picture, for a browser.
func (g *Graph) SVG() string {
	l := g.place()
	boxes, width, height := g.boxes(l)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" font-family="monospace" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(g.Name))
	b.WriteString(`<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>` + "\n")
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for i, e := range g.Edges {
		g.svgEdge(&b, e, l.paths[i], boxes)
	}
	for n, node := range g.Nodes {
		r := boxes[n]
		fmt.Fprintf(&b, `<g><rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="6" fill="#f4f6f8" stroke="#345"/>`, r.x, r.y, r.w, nodeHeight)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" font-weight="bold">%s</text>`, r.middle(), r.y+18, html.EscapeString(node.Name))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#456">%s</text></g>`+"\n", r.middle(), r.y+35, html.EscapeString(node.label()))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// boxes gives every node and bend its place; each layer is centred.
func (g *Graph) boxes(l *layout) (boxes map[int]box, width, height float64) {
	boxes = map[int]box{}
	var widths []float64
	for d, layer := range l.layers {
		x := 0.0
		for _, n := range layer {
			w := float64(bendWidth)
			if n < len(g.Nodes) {
				w = 20 + letterWidth*float64(max(len(g.Nodes[n].Name), len(g.Nodes[n].label())))
			}
			boxes[n] = box{x, margin + float64(d)*(nodeHeight+layerGap), w}
			x += w + nodeGap
		}
		widths = append(widths, x-nodeGap)
		width = max(width, x-nodeGap)
	}
	for d, layer := range l.layers {
		for _, n := range layer {
			r := boxes[n]
			r.x += margin + (width-widths[d])/2
			boxes[n] = r
		}
	}
	return boxes, width + 2*margin, 2*margin + float64(len(l.layers))*(nodeHeight+layerGap) - layerGap
}

func (g *Graph) svgEdge(b *strings.Builder, e Edge, path []int, boxes map[int]box) {
	from := boxes[path[0]]
	x, y := from.middle(), from.y+nodeHeight
	fmt.Fprintf(b, `<path d="M%.1f %.1f`, x, y)
	for i, n := range path[1:] {
		to := boxes[n]
		fmt.Fprintf(b, `C%.1f %.1f %.1f %.1f %.1f %.1f`, x, y+layerGap/2, to.middle(), to.y-layerGap/2, to.middle(), to.y)
		x, y = to.middle(), to.y
		if i < len(path)-2 { // a bend goes straight through its layer
			y += nodeHeight
			fmt.Fprintf(b, `L%.1f %.1f`, x, y)
		}
	}
	dash := ""
	if e.Label == "" {
		dash = ` stroke-dasharray="4 3"`
	}
	fmt.Fprintf(b, `" fill="none" stroke="#555"%s marker-end="url(#tip)"/>`, dash)
	if e.Label != "" {
		last := boxes[path[len(path)-1]]
		before := boxes[path[len(path)-2]].middle()
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#789" font-size="10">%s</text>`,
			last.middle()+(before-last.middle())*0.25, last.y-14, html.EscapeString(e.Label))
	}
	b.WriteByte('\n')
}
