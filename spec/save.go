package spec

import "slices"

// checkSave checks the path that values are linked or copied to: it may name
// the dimensions of the entity and the params.
func (l *loader) checkSave(d *draft) {
	n := d.save
	if n == nil {
		return
	}
	d.Save = ParseTemplate(n.text)
	dims := slices.Clone(d.outRef.Dims)
	for _, dim := range d.dims {
		dims = append(dims, dim.text)
	}
	known := append(l.paramNames(), dims...)
	_, at := parseTemplate(n.text)
	names := map[string]bool{}
	for i, p := range d.Save {
		switch {
		case p.Name == "":
		case slices.Contains(known, p.Name):
			names[p.Name] = true
			l.checkSaveSecret(n, p.Name, at[i])
		case l.means(d, p.Name) != nil:
			l.errorf(l.within(n, at[i], at[i]+len(p.Name)+2), "unknown-name", "name a dimension instead; with `key` a dimension reads as its label", "`save` is filled in with dimensions and params, and `%s` is %s", p.Name, l.means(d, p.Name).what)
		default:
			l.unknownName(n, p.Name, at[i], known)
		}
	}
	l.warnBraces(n)
	for _, dim := range dims {
		if !names[dim] {
			l.warnf(n.at, "save-one-path", "name it: `{"+dim+"}`", "`save` does not name the dimension `%s`, so there can be one value along it and no more", dim)
		}
	}
}

func (l *loader) checkSaveSecret(n *node, name string, at int) {
	if p := l.pipeline.params[name]; p != nil && p.Secret {
		l.errorf(l.within(n, at, at+len(name)+2), "secret", "name something else", "the param `%s` is secret, and a path shows it", name)
	}
}
