package spec

import (
	"bytes"
	"encoding/json"
	"slices"

	"gopkg.in/yaml.v3"

	"operon/spec/value"
)

// secretDefault reads the default of a secret param, which the file itself
// tells: Snapshot leaves it out, and a person should know. Who looks at a
// snapshot finds something else there, and so it is not read without an
// environment.
func (l *loader) secretDefault(p *Param, n *node, choices []value.Value) {
	if n.bad {
		return
	}
	if n.kind != scalarNode || n.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 || n.plain && !l.text.has(n.at.start, n.text) {
		l.errorf(n.at, "secret", "give it on one line, best not in the file at all", "the default of a secret param is one text on one line").Found = ""
		return
	}
	l.pipeline.hidden = append(l.pipeline.hidden, placeholder{n.at, p.placeholder(choices)})
	l.warnf(n.at, "secret", "leave the default out and say `env: "+envOf(p)+"`, or give it with -p", "the default of the secret param `%s` is for everybody to read who can read the file", p.Name).Found = ""
	if l.options.LookupEnv == nil {
		return
	}
	before := len(l.errs)
	p.Value = l.nodeValue(l.report, p, n, "the default of")
	l.checkChoice(p, choices, n)
	hideFound(l.errs[before:])
}

// placeholder stands in a snapshot where the default of a secret stood.
type placeholder struct {
	at   span // of Source less its byte order mark
	text string
}

// placeholder is a text that may stand where the param's default stands.
func (p *Param) placeholder(choices []value.Value) string {
	switch {
	case len(choices) > 0 && choices[0].Kind != 0:
		return string(choices[0].JSON)
	case p.Type == ParamInt, p.Type == ParamFloat:
		return "0"
	case p.Type == ParamBool:
		return "false"
	}
	return "null"
}

func envOf(p *Param) string {
	if p.EnvName != "" {
		return p.EnvName
	}
	return "NAME"
}

// Secrets are the texts of the secret params' values, longest first: what must
// not be shown. Of a JSON value each string and number in it is one too. Those of
// one or two letters are left out; hiding them would hide everything else.
func (p *Pipeline) Secrets() []string {
	var out []string
	for _, param := range p.Params {
		if !param.Secret {
			continue
		}
		texts := []string{param.Text()}
		if param.Type == ParamJSON {
			texts = append(texts, leaves(param.Value.JSON)...)
		}
		for _, text := range texts {
			if len(text) > 2 && text != "true" && text != "false" && text != "null" && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// leaves are the strings and numbers in a JSON text.
func leaves(text []byte) []string {
	var out []string
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return out // its end
		}
		switch leaf := token.(type) {
		case string:
			out = append(out, leaf)
		case json.Number:
			out = append(out, leaf.String())
		}
	}
}

// Snapshot is the file's bytes for keeping: the defaults of secret params are
// replaced by something that means nothing.
func (p *Pipeline) Snapshot() []byte {
	if len(p.hidden) == 0 {
		return p.Source
	}
	mark := len(p.Source) - len(bytes.TrimPrefix(p.Source, []byte("\ufeff")))
	hidden := slices.Clone(p.hidden)
	slices.SortFunc(hidden, func(a, b placeholder) int { return b.at.start - a.at.start })
	hidden = slices.CompactFunc(hidden, func(a, b placeholder) bool { return a.at == b.at }) // one anchor, many aliases
	out := slices.Clone(p.Source)
	for _, h := range hidden {
		out = slices.Replace(out, mark+h.at.start, mark+h.at.end, []byte(h.text)...)
	}
	return out
}
