// Package storagetest tests what claims to be a store of jobs' results: against
// a model in memory, and against crashes and damage.
//
// A Twin takes the same changes to a store and to a Model; Compare then holds
// one against the other. Snapshots copies a state directory at every commit
// point, which is what a crash there would leave, with what the model held.
//
// # Caveats
//
// A Model keeps a copy of itself for each batch: it is for small stores.
//
// Snapshots takes the files as the system has them, written or not: it does not
// lose writes that were never synced. Torn makes those.
package storagetest
