package frontier

import (
	"cmp"
	"strconv"
)

// Time is a permission: Installed(x) permits a worker to schedule dataflow x,
// Future(l) permits it to install, hence to schedule, any dataflow from l on.
// It is comparable; the zero value is Future(0), the least of all.
type Time struct {
	id        uint64
	installed bool
}

// Installed is the permission to schedule dataflow id and nothing else.
func Installed(id uint64) Time { return Time{id: id, installed: true} }

// Future is the permission to install every dataflow from lower on.
func Future(lower uint64) Time { return Time{id: lower} }

// ID is the dataflow of an Installed, and the first dataflow of a Future.
func (t Time) ID() uint64 { return t.id }

// IsInstalled tells the two kinds apart.
func (t Time) IsInstalled() bool { return t.installed }

// LessEqual is the partial order: holding t may lead to holding u. A Future
// leads to whatever is not below it; an Installed leads only to itself, so that
// one long-lived dataflow holds up no other.
func (t Time) LessEqual(u Time) bool {
	if t.installed {
		return t == u
	}
	return t.id <= u.id
}

// Compare is a total order for sorting, every Future before every Installed and
// each by id. It extends the partial order: t.LessEqual(u) implies
// t.Compare(u) <= 0. It says nothing about what t permits.
func (t Time) Compare(u Time) int {
	if t.installed != u.installed {
		if u.installed {
			return -1
		}
		return 1
	}
	return cmp.Compare(t.id, u.id)
}

// String is the time as it is written in Go: Future(3), Installed(3).
func (t Time) String() string {
	kind := "Future("
	if t.installed {
		kind = "Installed("
	}
	return kind + strconv.FormatUint(t.id, 10) + ")"
}
