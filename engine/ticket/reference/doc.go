// Package reference says what a pipeline means, in the plainest way: nested
// loops over named dimensions. It is the oracle that the engine's tests hold
// against, and may serve the tests of programs that embed it.
//
// It also makes random pipelines, legal by construction, with the shapes that
// schedulers get wrong: empty lists at any depth, independent dimensions that
// meet in one context, the same entity taken through several slices.
//
// # Caveats
//
// Values are digests of what they were made of, so that two runs agree on a
// value only if they agree on everything that went into it.
package reference
