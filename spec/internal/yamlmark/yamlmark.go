// Package yamlmark finds the place of a YAML syntax error.
//
// The parser that reads pipeline files, gopkg.in/yaml.v3, gives a syntax error
// no column, and its line is often that where the broken construct began. So a
// document that it refuses is read once more by go.yaml.in/yaml/v4, for the
// mark alone.
//
// # Caveats
//
// The two parsers are not one: Find reports false where the second finds
// nothing wrong. Encoding errors have no mark; they must be looked for before.
package yamlmark

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v4"
)

// Mark is a place in a document: a line and a column in code points, from 1, as
// the YAML parser counts them. The zero Mark is none.
type Mark struct{ Line, Column int }

// Problem is a syntax error with its places.
type Problem struct {
	Message string // the parser's
	At      Mark
	Context string // what was being read, such as "while parsing a flow sequence"; may be ""
	Opened  Mark   // where that began; may be none
}

// Find reads src, which must be UTF-8, and returns what is wrong with it. It
// reports false if nothing is, or nothing that has a place.
func Find(src []byte) (Problem, bool) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if err == nil {
			continue
		}
		var load *yaml.LoadError
		if errors.Is(err, io.EOF) || !errors.As(err, &load) || load.Mark.Line == 0 {
			return Problem{}, false
		}
		return Problem{
			Message: load.Message,
			At:      Mark{load.Mark.Line, max(load.Mark.Column, 1)},
			Context: load.ContextMsg,
			Opened:  Mark{load.ContextMark.Line, load.ContextMark.Column},
		}, true
	}
}
