// Package storage keeps what jobs have made: their records, values and
// failures, in data.db and in a folder of blobs beside it.
//
// # On disk
//
// data.db is a bbolt database with these buckets, all at the top level. Numbers
// in keys are big-endian, so that keys sort as the numbers do.
//
//	state     format, footprint, next (instance number), commit (last number),
//	          buckets (their number)
//	headers   instance -> header
//	drops     instance -> what is being dropped of it, in steps
//	commits   number of a commit -> the jobs whose records it put, until
//	          metadata has applied it
//	blobs     digest, executable (1 byte) -> number of records that name it, size
//	r<inst>   coordinate, 1 -> record
//	v<inst>   coordinate, index of its last item -> chunk of items
//	f<inst>   coordinate, 1 -> failure
//
// Every value ends with a CRC-32C over the bucket's name, the key and the
// value, and every read verifies it. All buckets but state and v<inst> keep the
// number of their keys in their sequence.
//
// A record tells everything about its job: coordinate, job key, digest of the
// output, extent, attempts, times. Items of up to 1 KiB together lie in the
// record; others in chunks of up to 32 KiB, each with a table of where its items
// end, so one item of a million is found by one search and one look. A chunk is
// keyed by its last item: the first key not below an index is the chunk with it.
//
// The record of a hole, a job that has no value, holds one item with the reason,
// also where the job was to return a list; its extent is 0.
//
// A JSON text over 16 KiB, and every file that is not taken by reference, is a
// blob: a file in blobs/ named by the SHA-256 of its bytes in hexadecimal, with
// ".x" behind it if it may be executed (links share a mode, so the two cannot be
// one file). It is written under blobs/tmp/, synced, and renamed; the folder is
// synced before the commit that names it. It goes after the commit with which
// the last record stopped naming it.
//
// Jobs are keyed by coordinate because jobs that are neighbours end and are read
// together: a key that began with a hash would cost ten times as much. The
// counts of blobs are keyed by digest all the same: they are looked up by
// nothing else, and only outputs with blobs, each of which has cost a synced
// file, touch them.
//
// # Commits and readers
//
// Submit numbers a Batch and queues it; one writer commits all that has queued
// up (package boltfile). What was submitted is seen by readers at once, out of
// memory, until it is durable. Batches are applied whole, and in order.
//
// # Caveats
//
// Readers see what is not durable: what is said to the outside has to wait for
// Done or Flush.
//
// Do not wait for a commit inside of View, and do not nest views. A view that
// stays open keeps what is submitted meanwhile in memory.
//
// After a commit has failed, nothing is written any more (Failed); the store
// has to be opened anew. What readers see in the meantime includes what failed.
//
// A job without a record is indistinguishable, for a single look-up, from one
// whose key was damaged. Check finds those, and Mend brings what other things
// hang on back into order.
//
// The number of an instance is never given twice, but one that was allocated
// and whose header was never durable may be.
package storage
