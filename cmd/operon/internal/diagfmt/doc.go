// Package diagfmt shows what is wrong with a pipeline file: for a person with
// the line it is about and a caret under the place, for a program as JSON.
//
//	p.yaml:4:10: error: unknown key [unknown-key]
//	   4 |     pol: 3
//	     |     ^^^
//	     = mend: write pool
//	   2 |   ab:
//	     |   ^^ note: of this task
//
// The first line is what editors and compilers agree on, so an editor jumps to
// the place. What the message is about is data of package spec; nothing here
// knows a rule.
//
// # Caveats
//
// Text from the file is shown without its control characters, so a file can't
// write to the terminal. Columns count code points, as in package spec; the
// caret stands where the text is seen, tabs and wide characters included.
package diagfmt
