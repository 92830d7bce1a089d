package engine

import (
	"errors"
	"fmt"
	"path/filepath"

	"operon/meta"
	"operon/spec"
	"operon/storage"
	"operon/storage/boltfile"
)

// LoadLast loads the pipeline that last ran in a state directory, as the run
// had it: with the params that it was given. path is the pipeline file; "" takes
// the snapshot that the state keeps, as if it lay in the folder dir. Where the
// state tells nothing, the file is loaded without params.
func LoadLast(path, dir, state string, lookupEnv func(string) (string, bool)) (*spec.Pipeline, error) {
	foot, err := lastFootprint(state)
	if err != nil && path == "" {
		return nil, err
	}
	params := decodeAsked(foot.Asked).Params
	if path == "" {
		files := fileDigests{dir: dir}
		p, err := spec.Load(foot.Source, spec.Options{File: filepath.Join(dir, foot.File), Params: params, LookupEnv: lookupEnv, Digests: files, Files: files})
		if err != nil {
			return nil, fmt.Errorf("load the pipeline that ran in %s: %w", state, err)
		}
		return p, nil
	}
	if len(params) > 0 {
		if p, err := LoadFile(path, LoadOptions{Params: params, LookupEnv: lookupEnv}); err == nil {
			return p, nil
		}
	}
	return LoadFile(path, LoadOptions{LookupEnv: lookupEnv}) // it may have other params now
}

// lastFootprint is the footprint of a state, of the one of its stores that can
// be read.
func lastFootprint(dir string) (foot meta.Footprint, err error) {
	if !anythingIn(dir) {
		return foot, ErrNoState
	}
	found := false
	m, metaErr := meta.Open(dir, meta.Options{ReadOnly: true})
	if metaErr == nil {
		metaErr = m.View(func(r *meta.Reader) (err error) {
			foot, found, err = r.Footprint()
			return err
		})
		metaErr = errors.Join(metaErr, m.Close())
	}
	if metaErr == nil && found {
		return foot, nil
	}
	var data storage.Footprint
	s, err := storage.Open(dir, storage.Options{ReadOnly: true})
	if err == nil {
		err = s.View(func(r *storage.Reader) (err error) {
			data, found, err = r.Footprint()
			return err
		})
		err = errors.Join(err, s.Close())
	}
	if _, busy := errors.AsType[*boltfile.InUseError](err); busy {
		return foot, lockError(dir, err)
	}
	if err != nil {
		return foot, stateError(dir, "read the footprint", err)
	}
	if !found {
		return foot, ErrNoState
	}
	return meta.Footprint{Asked: data.Asked, File: data.File, Pipeline: data.Pipeline, Source: data.Source, RunID: data.RunID, State: data.State}, nil
}
