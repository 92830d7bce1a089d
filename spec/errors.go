package spec

// Range is a stretch of the pipeline file: from (Line, Column) up to, not
// including, (EndLine, EndColumn). Lines and columns count from 1, columns in
// code points. The zero Range is no place in the file.
type Range struct{ Line, Column, EndLine, EndColumn int }

// Error is one thing wrong with a pipeline file.
type Error struct {
	File    string
	Range   Range
	Rule    string // stable short name of the rule broken, such as "unknown-key"
	Message string // the rule in the user's terms, lower case, without a full stop
	Found   string // the offending text, "" if none
	Mend    string // what to do about it, "" if nothing short can be said
	Notes   []Note // other places that belong to it
}

// Note points at another place that an error speaks of.
type Note struct {
	Range   Range
	Message string
}

// Errors are all that is wrong with a pipeline file, in the order of the file.
// It is an error; an empty one means that nothing is wrong.
type Errors []*Error

// Error is e on one line: file:line:column: message (found "…"); mend.
func (e *Error) Error() string { return e.Message }

// Error is all of them, a line each.
func (es Errors) Error() string {
	s := ""
	for _, e := range es {
		s += e.Error() + "\n"
	}
	return s
}
