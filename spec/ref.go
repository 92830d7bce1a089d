package spec

import (
	"fmt"
	"strings"
)

// Reference is a reference as it is written: Entity or Entity<d1, d2, …>.
type Reference struct {
	Entity string
	Dims   []string // written order
	DimAt  []int    // where in the text each of Dims begins, in bytes
}

// String is the reference in its usual form.
func (r Reference) String() string {
	if len(r.Dims) == 0 {
		return r.Entity
	}
	return r.Entity + "<" + strings.Join(r.Dims, ", ") + ">"
}

// RefError says why a text is no reference.
type RefError struct {
	Start, End int // the offending bytes of the text
	Message    string
	Mend       string
}

// Error is the message.
func (e *RefError) Error() string { return e.Message }

// ParseRef reads a reference. White space may stand around every name. The
// error is a *RefError. Names are checked for their form alone.
func ParseRef(text string) (Reference, error) {
	var r Reference
	start := len(text) - len(strings.TrimLeft(text, " \t"))
	open := strings.IndexByte(text, '<')
	name := text
	if open >= 0 {
		name = text[:open]
	}
	r.Entity = strings.Trim(name, " \t")
	if err := entityProblem(r.Entity, start); err != nil {
		return r, err
	}
	if open < 0 {
		return r, nil
	}
	end := strings.IndexByte(text, '>')
	if end < open {
		return r, &RefError{open, len(text), fmt.Sprintf("the `<` of `%s` is not closed", quotable(text)),
			"in a [list] or {mapping} a reference with a comma needs quotes: \"Entity<a, b>\""}
	}
	if rest := strings.TrimRight(text[end+1:], " \t"); rest != "" {
		return r, &RefError{end + 1, end + 1 + len(rest), "a reference ends at `>`", "take away what follows"}
	}
	return r, r.parseDims(text[:end], open+1)
}

// parseDims reads the names between the brackets.
func (r *Reference) parseDims(text string, at int) error {
	for {
		end := len(text)
		if comma := strings.IndexByte(text[at:], ','); comma >= 0 {
			end = at + comma
		}
		part := text[at:end]
		name := strings.Trim(part, " \t")
		begin := at + len(part) - len(strings.TrimLeft(part, " \t"))
		if name == "" {
			return &RefError{at - 1, end, "a dimension's name is missing", "write Entity<dimension>, or the entity alone"}
		}
		if !IsName(name) {
			return &RefError{begin, begin + len(name), "`" + quotable(name) + "` is not a dimension's name", "a dimension is written in small letters, digits and _, a letter first"}
		}
		if slip := longSlip(name); slip != nil {
			return &RefError{begin, begin + len(name), slip.message, ""}
		}
		r.Dims = append(r.Dims, name)
		r.DimAt = append(r.DimAt, begin)
		if end == len(text) {
			return nil
		}
		at = end + 1
	}
}

func entityProblem(name string, at int) error {
	if IsEntityName(name) {
		if slip := longSlip(name); slip != nil {
			return &RefError{at, at + len(name), slip.message, ""}
		}
		return nil
	}
	e := &RefError{at, at + len(name), "`" + quotable(name) + "` is not an entity's name", "an entity is written in letters and digits, a capital first"}
	if name == "" {
		e.Message = "an entity's name is missing"
	}
	if strings.HasSuffix(name, ">") {
		e.Mend = "in a [list] or {mapping} a reference with a comma needs quotes: \"Entity<a, b>\""
	}
	return e
}
