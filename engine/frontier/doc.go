// Package frontier answers one question: may any worker still run anything for
// dataflow id? Only when the answer is no, for every worker and for ever, may
// what the peers of a dataflow could touch be freed. Dropping a dataflow is
// therefore done in two steps: each worker freezes it (runs it no more, keeps
// what others may touch, and says so), and frees the rest once id is no longer
// Beyond its View.
//
// # The algorithm
//
// A Time is a permission. Installed(x) permits to schedule dataflow x; Future(l)
// permits to install any dataflow from l on. a <= b says that holding a may lead
// to holding b, so id is beyond the frontier, and may still be scheduled, if
// some minimal time that somebody holds is <= Installed(id).
//
// Ids come from one sequencer and are never used again. Every worker goes
// through all of them in order, and holds one Future, at the first id it has not
// passed, and an Installed for each dataflow it runs:
//
//	install k    -Future(k) +Future(k+1) +Installed(k)    as k is taken, before anything is built
//	skip k       -Future(k) +Future(k+1)                  nothing of k is placed here
//	retract k    -Installed(k)                            once, whichever way it ends
//
// Each line is one batch, sent to every observer, the worker itself included.
// From them an observer knows, for each worker, the first id it has not passed
// and the set it holds, and id is beyond if it is at or above the least of the
// former or in one of the latter. A View keeps just that. A MutableAntichain
// keeps the sum of all batches instead, as counts, and the minimal times of
// those that are positive; on the same batches both give the same answer.
//
// # What it rests on
//
// All of this was found by visiting every state of small clusters; the tests do
// so again, and break each point to see that it is noticed.
//
//   - An observer starts with a Future(0) for every worker, itself included. It
//     must not start from what it has heard of.
//   - A batch counts as a whole. Between -Future(k) and +Installed(k) the worker
//     would seem to have given k up.
//   - A batch counts once: a second -Installed cancels what another worker holds.
//     Order matters neither within a worker nor between workers, as each worker's
//     changes alone are never ahead of what it does. A View numbers them, which
//     finds the repeated and the missing, and takes them in order.
//   - Two Installed are never comparable. In an order by id, one long-lived
//     dataflow would keep all later ones beyond.
//   - Workers come and go at a place in the command order that is the same for
//     all; see Join, Leave, Crash and Replace.
//   - Not beyond is not completed: a dropped dataflow is over as well. How a
//     share ended travels with its retraction, and the worst of all shares counts;
//     see View.Outcome.
//
// What never happens while these hold: an id that a View says is over is run by
// anybody (safety); an id that is over is beyond again (the set only shrinks). And
// once every worker has passed k, retracted it, and been heard, k is over,
// whatever becomes of other ids (liveness).
//
// # Where it comes from
//
// The scheduling frontier is the subject of pull request 521 of
// TimelyDataflow/timely-dataflow (open, not merged), which has the two kinds of
// time, their order, and the broadcast of batches. Its reason is told in
// MaterializeInc/materialize issue 18837: a worker that dropped a dataflow looked
// to its peer as if its input were complete, and the peer published a part for
// the whole. That the command order decides on membership, and that ids and not
// local counters name a dataflow, follows Materialize's notes on its command
// sequencer and on reconciliation. Skipping, the attributed form, changes of
// membership and outcomes are not in the pull request.
//
// # Caveats
//
// A View or a MutableAntichain has one owner, and must not be copied; it takes no
// locks. A ChangeBatch is a value, whose copies may be read anywhere.
//
// A View is about scheduling, not about messages: if frontier batches overtake
// data between two workers, data for an id that is over will arrive, and has to
// be discarded. It is for the receiver to tell: id at or above its own next is
// early, below and not running is late.
//
// One worker that stalls at m keeps every id from m on beyond, on all workers.
// Nothing here bounds that: a sequencer should hold back when the newest id runs
// away from View.Low, and Pins names the worker.
//
// A lost batch costs memory, not safety: what it would have let go stays. It
// shows in Gaps only when a later one has come, so a worker that has nothing to
// say has to say nothing, an empty batch, now and then.
//
// Crash believes its caller. If the old life of the worker still runs, ids are
// released under it.
//
// Batch numbers count what one observer is sent: an observer that joined later is
// sent ChangeBatch.Since of its first id, from number 0.
//
// A batch written with Update carries no outcome. Its retractions count as
// dropped, and an install and a retraction that cancel in it count as a skip.
package frontier
