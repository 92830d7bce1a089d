package engine

// FaultKind names a kind of fault.
type FaultKind string

// The kinds of faults. FaultKinds says of each what it means.
const (
	FaultDataMissing    FaultKind = "data-missing"
	FaultDataDamaged    FaultKind = "data-damaged"
	FaultDataEmpty      FaultKind = "data-empty"
	FaultFreeList       FaultKind = "free-list-damaged"
	FaultDataBehind     FaultKind = "data-behind"
	FaultMetaMissing    FaultKind = "metadata-missing"
	FaultMetaDamaged    FaultKind = "metadata-damaged"
	FaultMetaOlder      FaultKind = "metadata-older"
	FaultMetaForeign    FaultKind = "metadata-foreign"
	FaultDataflow       FaultKind = "dataflow-wrong"
	FaultTicketMissing  FaultKind = "ticket-missing"
	FaultTicketWrong    FaultKind = "ticket-wrong"
	FaultExtent         FaultKind = "extent-wrong"
	FaultShare          FaultKind = "share-wrong"
	FaultCount          FaultKind = "count-wrong"
	FaultRecordMissing  FaultKind = "record-missing"
	FaultRecordDamaged  FaultKind = "record-damaged"
	FaultRecordShape    FaultKind = "record-shape"
	FaultRecordKey      FaultKind = "record-key"
	FaultValuesDamaged  FaultKind = "values-damaged"
	FaultBlobMissing    FaultKind = "blob-missing"
	FaultBlobDamaged    FaultKind = "blob-damaged"
	FaultFailureDamaged FaultKind = "failure-damaged"
	FaultHeaderDamaged  FaultKind = "header-damaged"
	FaultFootprint      FaultKind = "footprint-damaged"
	FaultStructure      FaultKind = "structure-damaged"
)

// The kinds of notes. NoteKinds says of each what it means.
const (
	NoteUnappliedRecords = "unapplied-records"
	NoteUnappliedFailure = "unapplied-failures"
	NoteUnappliedRun     = "unapplied-run"
	NoteOldDataflows     = "old-dataflows"
	NoteItems            = "items-without-record"
	NoteFiles            = "files-without-record"
	NoteChangedTasks     = "changed-tasks"
	NoteMore             = "faults-not-listed"
)

// Words on how to mend a fault.
const (
	mendMeta  = "operon run or operon rebuild makes the metadata again from the data"
	mendJob   = "operon run --redo-inconsistent runs the job again; operon rebuild drops it and all that hangs on it"
	mendState = "operon run --redo-inconsistent or operon rebuild mends it"
	mendFile  = "operon rebuild or operon run --redo-inconsistent copies what can be read of data.db, if anything, into a new one"
	// mendEarlier is of what no run needs.
	mendEarlier = "operon rebuild or operon run --redo-inconsistent drops it; the current results do not rest on it"
	mendData    = mendFile + "; or put back a copy of it, or start over with operon run --fresh"
	mendGone    = "put data.db back, or start over with operon run --fresh"
	mendNone    = "nothing can be copied out of it: put back a copy of it, or start over with operon run --fresh"
)

// Kind is a kind of fault or note, and what it means.
type Kind struct {
	Name    string
	Meaning string
	Mend    string // of faults
}

// FaultKinds are all kinds of faults.
func FaultKinds() []Kind {
	return []Kind{
		{string(FaultDataMissing), "data.db is gone, and the metadata says that there were results", mendGone},
		{string(FaultDataDamaged), "data.db can't be read as a database, all of it or a part", mendData},
		{string(FaultDataEmpty), "data.db is an empty file, or none at all", mendNone},
		{string(FaultFreeList), "data.db can be read, and writing to it would write over what is in use", mendFile},
		{string(FaultDataBehind), "the metadata knows of commits that the data has not: an old copy of data.db was put back", mendMeta},
		{string(FaultMetaMissing), "there is no metadata", mendMeta},
		{string(FaultMetaDamaged), "the metadata can't be read, all of it or a part", mendMeta},
		{string(FaultMetaOlder), "the metadata is of an older format", mendMeta},
		{string(FaultMetaForeign), "the metadata is of another run than the data: an old copy of one of them was put back", mendMeta},
		{string(FaultDataflow), "a task is not noted in the metadata as it is in the data, or not in the state that follows from its jobs", mendMeta},
		{string(FaultTicketMissing), "a job has a record, and its ticket does not say that it is done", mendMeta},
		{string(FaultTicketWrong), "a ticket's status can't be: its inputs are not there, or its record says otherwise", mendMeta},
		{string(FaultExtent), "the length of a list is not what the record says", mendMeta},
		{string(FaultShare), "a counter of finished upstream jobs, or how many there must be, is not what follows from the tickets", mendMeta},
		{string(FaultCount), "how many jobs of a task are done, failed, waiting or holes is not what the run said at its end", mendMeta},
		{string(FaultRecordMissing), "a ticket is done, and there is no record", mendState},
		{string(FaultRecordDamaged), "a record can't be read", mendJob},
		{string(FaultRecordShape), "a record has other dimensions than its task, or a list where its task makes one value, or the other way round", mendJob},
		{string(FaultRecordKey), "a record was made of other inputs than those that are there", mendJob},
		{string(FaultValuesDamaged), "values are missing or not those that the record names", mendJob},
		{string(FaultBlobMissing), "a file or large value is missing", mendJob},
		{string(FaultBlobDamaged), "a file or large value has other bytes than were written", mendJob},
		{string(FaultFailureDamaged), "the record of a failure can't be read", mendState},
		{string(FaultHeaderDamaged), "what a task's results are of can't be read: they are lost", mendState},
		{string(FaultFootprint), "whose results the data holds can't be read", mendState},
		{string(FaultStructure), "keys, counts or lists in data.db are wrong; results may be hidden", mendState},
	}
}

// NoteKinds are all kinds of notes: what a run that was killed may leave, and
// what is worth knowing and no fault.
func NoteKinds() []Kind {
	return []Kind{
		{NoteUnappliedRecords, "records that the metadata has not applied yet: the next run adopts them", ""},
		{NoteUnappliedFailure, "failures that the metadata has not applied yet, or not forgotten yet", ""},
		{NoteUnappliedRun, "a run was cut short before the metadata had anything of it: the next one makes it again", ""},
		{NoteOldDataflows, "dataflows of the metadata that the data has replaced", ""},
		{NoteItems, "items that no record names", ""},
		{NoteFiles, "files in the folder of blobs that no record names", ""},
		{NoteChangedTasks, "tasks that the next run replaces, since they, their source, or what they need has changed", ""},
		{NoteMore, "faults beyond the first ten thousand of one kind in one task", ""},
	}
}

// mendOf is how to mend a kind of fault.
func mendOf(k FaultKind) string {
	for _, kind := range FaultKinds() {
		if kind.Name == string(k) {
			return kind.Mend
		}
	}
	return ""
}
