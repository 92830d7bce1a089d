// Package spec reads pipeline files. Bytes go in; a *Pipeline comes out, or all
// that is wrong with the file, place by place. It knows no clock, process,
// network or file: what it must know of those comes through Options.
//
// A pipeline is a set of tasks. Each takes entities that other tasks return,
// and returns one of its own; a task may return a list, and so spawn a
// dimension that others iterate over or take slices of:
//
//	pipeline: splitter
//	tasks:
//	  get_inputs:
//	    out: Input<input_no>     # each line becomes one Input: spawns input_no
//	    run: printf '%s\n' 'Good morning' 'Bonjour'
//	  get_words:
//	    in: Input
//	    for: input_no            # one job for each input
//	    out: Word<word_no>
//	    run: tr ' ' '\n'         # an input not mentioned by name is on stdin
//	  tally:
//	    in: Word<input_no, word_no>   # a slice: everything, as nested lists
//	    out: Tally
//	    run: sort | uniq -c
//
// The top of a file has pipeline (its name), description, params, env, defaults,
// pools and tasks. A task has out; in and for, its inputs and the dimensions of
// its context; one body: run (a script), exec (an argv), jq (a filter), worker (a
// program that serves many jobs), source (files, lines, records, values) or func
// (a Go function); and what goes with them: stdin, format, file, schema, key,
// save, pool, order, cpus, mem, gpus, retry, timeout, grace, on_error, shell,
// env, workdir, deps, keep, cache. The tables in fields.go are the whole list.
//
// Each input arrives once: by name if the body mentions it ($name in run and jq,
// {name} in exec, env and file), else on standard input; a worker and a function
// get all of them by name. Load finds the mentions and compiles both.
//
// A pipeline that Load returns keeps these rules. (1) An entity has one
// producer, a dimension one spawner. (2) Tasks do not wait for one another in a
// circle. (3) A dimension depends on its spawner's context, and on what that
// depends on. (4) Who iterates over a dimension iterates over all it depends
// on. (5) A slice names dimensions of its entity. (6) Every dimension of an
// input is iterated over or sliced. (7) None that is sliced leaves one that
// depends on it fixed. (8) A context dimension that an input lacks gives the
// same value to every index. (9) A sliced dimension may be in the context too.
// (10) for and a slice name a dimension once, a slice after those it depends
// on. (11) The names that a body may mention differ.
//
// The canonical order of dimensions, in which all coordinates are written, is:
// fewer dependencies first, then by name.
//
// Each task has a Fingerprint, the digest of all that can change what its body
// returns, and Fields, the same to be read; JobKey adds a job's inputs.
//
// # Caveats
//
// A scalar is what is written, not what YAML makes of it: where a text is meant,
// no, 010 and 1.10 stay what they are; where a number or a boolean is meant,
// nothing else is taken, and 010 is an error rather than 8 or 10.
//
// A Pipeline is shared and must not be changed. Names that begin with a task's
// own words may be mentioned by accident: a loop variable i of a script is the
// dimension i, if the task iterates over one.
//
// A worker and a function are given the whole coordinate, but only the indices
// of dimensions that no input brings count as mentioned: the others are for logs.
// The code of a function is not in any fingerprint.
//
// The value of a secret param is in Params for whoever runs the bodies. Source
// may hold its default; what is kept or shown is Snapshot.
//
// Ranges count lines by LF alone, and columns in code points. An anchored value
// is reported where it is written, not where an alias takes it.
package spec
