// Package proc runs one program at a time on a slot and leaves nothing of it
// behind. It is for Linux alone.
//
// A [Slot] belongs to one goroutine, which keeps its OS thread as long as the
// slot lives. The thread that forks so outlives the child, and the death signal
// that ends the child with the engine is sound.
//
// Standard output and standard error go to two pipes that the slot keeps from
// job to job. Their ends are never waited for, so that no process that was left
// behind can hold a job up by holding a pipe. What a short program printed is
// read in one go when it is over; along with a longer one two goroutines read.
// More than 256 KiB goes to an unnamed file.
//
// A program leads a process group of its own. If there is a terminal it leads a
// session, too, and so has none: one that asks for a password fails at once,
// where in the background of the user's session it would be stopped for ever.
//
// # How a job ends
//
// The leader's end is waited for without reaping it, so that its process id,
// which is its group's too, can't be given to anybody else. The group is killed.
// What had left the group (setsid, job control) became a child of ours, because
// the process is a subreaper: new parentless processes show up as children of
// the main thread, where one read says whether there are any. Of those, a job's
// own are known by its token in their environment, or by the slot's pipes among
// their open files. Then the leader is reaped. If a process may be left that is
// not known to be the job's, the slot takes new pipes.
//
// # Limits of memory
//
// A program with a limit gets a control group of its own where [OpenGroups] can
// have one. It is in there before its first step, and so is all that it starts:
// the limit is of all of them together, what they have of files counts as far as
// the kernel can't do without, and there is no swap. When memory runs out the
// kernel kills all of them, and [GroupUse] says so. What is in the group at the end
// is killed with the rest. Elsewhere RLIMIT_DATA bounds each process on its own.
//
// # Caveats
//
// Without a control group a process that leaves the process group, clears its
// environment and closes the pipes it was given can't be told from a stranger and
// is left alone.
//
// What a program left of files in memory is given back to the kernel by it, in its
// own time: the peak of a group tells of it, too.
//
// A dead process that nobody waited for and that can't be told to be a job's is
// reaped when it has been seen dead for a second, unless it is in the process
// group of this program.
package proc
