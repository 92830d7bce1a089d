package body

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"operon/spec"
	"operon/spec/value"
)

// SourceKey digests what a source's task would read now, without reading it in:
// two equal keys mean equal values. Of a glob it covers paths, executable bits
// and contents; of a file its content; of values and count nothing, as they are
// part of the task's fingerprint. The error is a *Failure.
func SourceKey(ctx context.Context, cfg *Config, t *spec.TaskSpec) (value.Digest, error) {
	if t.Body.Kind != spec.BodySource || t.Body.Source == nil {
		return value.Digest{}, failf(KindInternal, "task %s is no source (this is a bug)", t.Name)
	}
	c, err := newCommon(cfg, t)
	if err != nil {
		return value.Digest{}, asFailure(fmt.Errorf("task %s: %w", t.Name, err))
	}
	s := &source{common: c, src: t.Body.Source}
	switch s.src.Kind {
	case spec.SourceValues, spec.SourceCount:
		return value.Digest{}, nil
	case spec.SourceGlob:
		files, err := s.files(ctx)
		if err != nil {
			return value.Digest{}, asFailure(err)
		}
		return digestFiles(files), nil
	}
	info, err := cfg.files.describe(s.path())
	if err != nil {
		return value.Digest{}, s.noFile(s.src.Path, err)
	}
	return info.SHA256, nil
}

// digestFiles digests a list of files, each framed so that no two lists write
// the same.
func digestFiles(files []value.FileInfo) value.Digest {
	h := sha256.New()
	var n [8]byte
	for _, f := range files {
		binary.BigEndian.PutUint64(n[:], uint64(len(f.Path)))
		h.Write(n[:])
		h.Write([]byte(f.Path))
		value.FromFile(f).WriteIdentity(h)
	}
	return value.Digest(h.Sum(nil))
}
