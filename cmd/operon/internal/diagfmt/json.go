package diagfmt

import (
	"encoding/json"
	"io"

	"operon/spec"
)

// Finding is one thing wrong, or likely to be, as a program reads it.
type Finding struct {
	Severity  Severity `json:"severity"`
	File      string   `json:"file"`
	Line      int      `json:"line"` // from 1; 0: no place in the file
	Column    int      `json:"column"`
	EndLine   int      `json:"end_line"`
	EndColumn int      `json:"end_column"`
	Rule      string   `json:"rule"`
	Message   string   `json:"message"`
	Found     string   `json:"found"`
	Mend      string   `json:"mend"`
	Notes     []Note   `json:"notes"`
}

// Note is another place that a finding speaks of.
type Note struct {
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndLine   int    `json:"end_line"`
	EndColumn int    `json:"end_column"`
	Message   string `json:"message"`
}

// Findings are errs as data, never nil.
func Findings(sev Severity, errs spec.Errors) []Finding {
	out := make([]Finding, 0, len(errs))
	for _, e := range errs {
		r := e.Range
		f := Finding{
			Severity: sev, File: e.File,
			Line: r.Line, Column: r.Column, EndLine: r.EndLine, EndColumn: r.EndColumn,
			Rule: e.Rule, Message: e.Message, Found: e.Found, Mend: e.Mend, Notes: []Note{},
		}
		for _, n := range e.Notes {
			f.Notes = append(f.Notes, Note{n.Range.Line, n.Range.Column, n.Range.EndLine, n.Range.EndColumn, n.Message})
		}
		out = append(out, f)
	}
	return out
}

// WriteJSON writes findings as one JSON array on one line.
func WriteJSON(w io.Writer, findings []Finding) error {
	if findings == nil {
		findings = []Finding{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(findings)
}
