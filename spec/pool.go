package spec

import (
	"slices"
	"strings"
)

// readPools reads the pools that tasks share.
func (l *loader) readPools(n *node) {
	for _, e := range n.entries {
		if e.value.bad || !IsName(e.key.text) {
			continue
		}
		p := &SharedPool{Name: e.key.text, Line: l.text.line(e.key.at.start)}
		l.pipeline.Pools = append(l.pipeline.Pools, p)
		l.declareName(e.key, "a pool")
		quiet := &report{text: l.text}
		if !quiet.check(sharedPoolShape(), e.value, "") {
			continue // said by its shape
		}
		l.readSharedPool(p, e)
	}
}

func (l *loader) readSharedPool(p *SharedPool, e entry) {
	if e.value.kind == scalarNode {
		p.Size = e.value.whole()
		return
	}
	size, rate := e.value.get("size"), e.value.get("rate")
	if size == nil && rate == nil {
		l.errorf(e.key.at, "missing-key", "say `"+p.Name+": 10`, or `"+p.Name+": {size: 10, rate: 5/s}`", "the pool `%s` has neither a size nor a rate", p.Name)
		return
	}
	if size != nil {
		p.Size = size.whole()
	}
	if rate != nil {
		p.Rate, _ = parseRate(rate.text)
	}
}

// pool is the shared pool of that name, or nil.
func (p *Pipeline) pool(name string) *SharedPool {
	i := slices.IndexFunc(p.Pools, func(s *SharedPool) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return p.Pools[i]
}

// readPoolName reads a pool's size, or the name of a shared one.
func (l *loader) readPoolName(d *draft, n *node) {
	d.Pool, d.SharedPool = Pool{}, nil
	if !IsName(n.text) {
		d.Pool.Size = n.whole()
		return
	}
	if d.SharedPool = l.pipeline.pool(n.text); d.SharedPool != nil {
		return
	}
	var known []string
	for _, p := range l.pipeline.Pools {
		known = append(known, p.Name)
	}
	mend := l.didYouMean(n.text, known)
	if len(known) == 0 {
		mend = "say how large it is at the top of the file: `pools: {" + n.text + ": 10}`"
	}
	l.errorf(n.at, "unknown-pool", mend, "there is no pool `%s`", n.text)
}

func (l *loader) readPool(d *draft, n *node) {
	if n.kind == scalarNode {
		l.readPoolName(d, n)
		return
	}
	name := n.get("env")
	d.Pool, d.SharedPool = Pool{Env: name.text}, nil
	if l.options.LookupEnv == nil {
		return
	}
	text, set := l.options.LookupEnv(name.text)
	if !set {
		l.errorf(name.at, "pool", "set it to a whole number from 1", "the environment variable %s, which says the pool's size, is not set", name.text)
		return
	}
	size := &node{kind: scalarNode, plain: true, text: strings.TrimSpace(text)}
	if slip := wholeShape("", 1, maxPool).scalar(size.text, size); slip != nil {
		l.errorf(name.at, "pool", "set it to a whole number from 1", "the environment variable %s is %q, which is not a pool's size", name.text, quotable(text))
		return
	}
	d.Pool.Size = size.whole()
}
