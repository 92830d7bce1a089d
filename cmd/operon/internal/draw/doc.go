// Package draw draws a pipeline's graph of tasks: as text, as the input of
// Graphviz and Mermaid, and as SVG.
//
// A node is a task; an edge is an input, labelled with the reference as the
// pipeline file has it. A task that iterates over a dimension without taking an
// input from its spawner has a dashed edge from there. Two drawings of one
// pipeline are equal byte for byte.
//
// # Caveats
//
// The layout is for graphs that a person can take in, a few hundred tasks: its
// crossings are few, not fewest. Graphviz does better with more.
package draw
