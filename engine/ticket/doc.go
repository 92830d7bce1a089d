// Package ticket decides which jobs of a pipeline may run: the pure transition
// function (state, event) -> (changes, runnable) that run, resume, check and
// rebuild all go through.
//
// A ticket is a job-to-be, or a whole family of them: a coordinate of its
// task's context whose slots may be unresolved, with a quota (how many upstream
// completions it must see), how many it has seen (done) and a status. A
// resolution is the length of one spawned list. It explodes every ticket that
// was unresolved there into as many tickets as the list is long, each
// inheriting both counters.
//
// # How it is stored
//
// Tickets are not stored one by one. Which tickets there are follows from the
// resolutions, so a Table keeps these and enumerates. What a reference
// contributes to done and quota depends only on the coordinate of the
// producer's dimensions that the reference does not slice, so both are counted
// once for each such coordinate, in a share that all agreeing tickets have in
// common. A reference that slices nothing needs no share: it asks the
// producer's own status.
//
// # The promotion rule
//
// A ticket may run when every slot is bound, every share has done = quota, and
// the shape of every slice is known: walking the slice's dimensions in written
// order, each length that is needed has been recorded, and under a length of 0
// nothing more is needed. It is asked again when a share closes, when a shape
// becomes known, and when a ticket is born, and nowhere else.
//
// The algorithm is the ticket and quota scheme of "Operon: Incremental
// Construction of Ragged Data via Named Dimensions" (arXiv 2511.16080), with
// its races mended: one event loop applies a resolution to every table in one
// step, promotion needs bound slots and known shapes, and an explosion counts
// once for each reference that slices over it, for that reference alone.
//
// # Holes
//
// A hole is a job that ended without a value. It counts as one that is done, and
// a spawning one has a list of no items: nothing iterates there. What differs is
// what its value gives to others. A ticket takes a hole if a value that it takes
// is one; if the list that a slice is was to come from a hole, so that there is
// no list; and, unless the input says that holes are null, if an item of the
// slice, or an inner list of it, is a hole. Lists are told from the walk over
// the shape: where it meets the length of a hole's list, the hole stands in the
// place of that list, and what lies under an empty outer one is never met.
//
// Such a ticket is promoted like any other, in a Range with Hole set: nothing
// but OnHole may end it.
//
// # Caveats
//
// A Table is not safe for concurrent use; it has one owner. An event must be
// possible where it is applied: finishing a ticket that was never promoted, or
// resolving a dimension twice, is an error and changes nothing.
package ticket
