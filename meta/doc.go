// Package meta keeps what the scheduler knows, in meta.db: the footprint, the
// dataflows and their tickets, resolutions and quota shares, and the history.
// All of it can be made anew from package storage's data.
//
// # On disk
//
// meta.db is a bbolt database with these buckets, all at the top level. Numbers
// in keys are big-endian.
//
//	state      format, footprint, applied, buckets (their number)
//	dataflows  id -> dataflow; the bucket's sequence counts them
//	history    rising number -> run id, data
//	commands   index -> lifecycle command, of the run that wrote last; the
//	           bucket's sequence counts them
//	d<id>      all that belongs to a dataflow, so that it goes in one piece;
//	           the bucket's sequence counts the keys:
//	           't', prefix, page -> page of tickets
//	           'r', prefix, page -> page of resolutions
//	           's', reference, pins -> done, quota
//
// Every value ends with a CRC-32C over the bucket's name, the key and the
// value, and every read verifies it. What the pages hold is their writer's
// business.
//
// # Commits
//
// Submit queues a Batch; one writer commits all that has queued up (package
// boltfile). Batches are applied whole, and in order. Batch.Applied says which
// commit of the data they rest on, and is stored in the same transaction.
//
// # Caveats
//
// Readers see what is durable, not what was only submitted.
//
// The order between the two stores is the caller's: a batch must not be
// submitted before the data that it rests on is durable.
//
// Do not wait for a commit inside of View, and do not nest views.
package meta
