// Package boltfile is what both stores need of bbolt: who may use a state
// directory, opening a database file without being hurt by what lies there,
// one writer that commits what has queued up, and values with a checksum.
//
// # One writer, group commit
//
// Each File has one goroutine that writes. Submit queues a Commit and returns;
// the writer takes all that is queued, applies it in order in one transaction,
// syncs once, and then calls each Commit's Done in the same order. Between two
// transactions it leaves up to Options.Interval, unless something urgent
// waits, so a stream of small commits costs few syncs.
//
// A transaction that fails, for whatever reason, changes nothing, and ends
// writing: its commits and all later ones get the error, until the file is
// closed and opened again. Reading goes on.
//
// # Damage
//
// bbolt trusts its files: what a damaged page says may make it panic, fault
// on memory beyond the end of a truncated file, or follow pages in a circle.
// Open therefore walks the branch pages and the list of buckets once, which
// finds pages outside the file, pages that are used twice and pages that are
// both used and free, and buckets that make no sense; and every use of the file
// turns panics that come from bbolt, and faults, into a *DamagedError. A list of
// free pages that is damaged shuts out those who write, as bbolt would write over
// pages that are in use; those who read are told (FreeListDamage). Salvage makes
// a new file of what can still be read. What lies in the leaves is not looked at by Open; values
// carry a checksum of their own for that (Seal, Unseal).
//
// # Caveats
//
// Do not wait for a commit (Flush, Close) inside of View: the writer may have
// to map the file anew and waits for all readers. For the same reason a View
// inside of a View may block for ever.
//
// Buckets are to lie at the top level only: Open does not look for others.
//
// Memory that View hands out ends with it. A fault is caught only in the
// goroutine that called View.
//
// After damage that left bbolt's own locks taken, Close gives the file's lock
// back but not the address space of its map.
package boltfile
