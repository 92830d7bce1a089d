package worker

import "testing"

// begun is a session that is complete, with dataflow 3 installed and scheduled.
const begun = `
	hello s1; instance 1; create 3; schedule 3; complete
	> frontier -F1 +F4 +I3
`

// TestScripts: what a worker says to what it is told, command by command.
func TestScripts(t *testing.T) {
	for name, text := range map[string]string{
		"three stages": `
			schedule 1
			> refused: worker.Schedule comes before Hello
			create 1
			> refused: worker.CreateDataflow comes before Hello
			complete
			> refused: worker.InitializationComplete comes before Hello
			hello s1; instance 1; create 3; schedule 3
			> nothing
			complete
			> frontier -F1 +F4 +I3
			run 1 3 at 0; end 3@0
			> done 1: 0 ok
			complete
			> refused: worker.InitializationComplete is not for a session that is complete
			create 4; schedule 4
			> frontier -F4 +F5 +I4
			run 2 4 at 7; end 4@7
			> done 2: 7 ok`,
		"a second Hello forgets what was gathered": `
			hello s1; create 1; create 2
			hello s2; create 3; complete
			> frontier -F1 +F4 +I3
			drop 1 dropped; drop 2 completed
			> nothing`,
		"a second Hello forgets it, and what is installed goes on": begun + `
			run 1 3 at 0; begins 3@0
			hello s2
			hello s3; create 3; create 5; complete
			> frontier -F4 +F6 +I5
			end 3@0
			> done 1: 0 ok`,
		"a new session keeps by id and drops the rest": begun + `
			create 4; schedule 4; create 5; schedule 5
			> frontier -F4 +F6 +I4 +I5
			run 1 3 at 0; begins 3@0; run 2 3 at 1; begins 3@1; run 4 4 at 0
			hello s2; create 3; create 6; complete
			> done 4: 0 unbegun
			> frontier -F6 +F7 -I4 -I5 +I6 4=dropped 5=dropped
			end 3@1
			> done 2: 1 ok
			end 3@0
			> done 1: 0 ok
			run 3 3 at 1; end 3@1
			> done 3: 1 ok`,
		"another fingerprint is refused": `
			hello s1; create 3 fp a; schedule 3; complete
			> frontier -F1 +F4 +I3
			configure 3 fp b
			> refused: a configuration of dataflow 3 with the fingerprint…
			hello s2; create 3 fp b; complete
			> refused: a configuration of dataflow 3 with the fingerprint…
			run 1 3 at 0; end 3@0
			> done 1: 0 ok`,
		"an id is not used again": begun + `
			create 3
			> refused: CreateDataflow of 3, which is installed
			create 2
			> refused: CreateDataflow of 2, and ids below 4 have been passed: none is used again
			drop 3 completed
			> frontier -I3 3=completed
			create 3
			> refused: CreateDataflow of 3, and ids below 4…
			configure 3
			> refused: a configuration of dataflow 3, which is not running here`,
		"another instance is refused": begun + `
			hello s2; instance 2; create 3; complete
			> refused: CreateInstance with…
			hello s3; instance 1; create 3; complete
			> nothing`,
		"ids are skipped": `
			hello s1; create 7; create 9; complete
			> frontier -F1 +F10 +I7 +I9`,
		"drop before install": begun + `
			drop 6 dropped; drop 5 dropped; drop 9 dropped; run 1 6 at 0
			> done 1: 0 unbegun
			create 5 as broken
			> frontier -F4 +F6 5=dropped
			create 8
			> frontier -F6 +F9 +I8 6=dropped
			run 2 5 at 0
			> done 2: 0 unbegun
			create 12
			> frontier -F9 +F13 +I12 9=dropped`,
		"several that are known to be dropped are passed at once": `
			hello s1; complete
			drop 2 dropped; drop 3 dropped; drop 5 dropped; drop 6 dropped; drop 9 dropped; drop 11 dropped
			create 12
			> frontier -F1 +F13 +I12 2=dropped 3=dropped 5=dropped 6=dropped 9=dropped 11=dropped`,
		"drop during construction": `
			hello s1; complete
			block install; create 3; reached
			drop 3 dropped; run 1 3 at 0
			unblock
			> frontier -F1 +F4 3=dropped
			> done 1: 0 unbegun`,
		"one retraction: dropped twice": begun + `
			drop 3 dropped; drop 3 completed; drop 3 failed
			> frontier -I3 3=dropped
			> nothing`,
		"one retraction: dropped while a job runs, and again": begun + `
			run 1 3 at 0; begins 3@0
			drop 3 dropped; drop 3 dropped
			> done 1: 0 cancelled
			> frontier -I3 3=dropped
			drop 3 dropped
			> nothing`,
		"one retraction: completed while a job runs": begun + `
			run 1 3 at 0; begins 3@0; run 2 3 at 1; begins 3@1; run 3 3 at 2
			drop 3 completed
			> done 3: 2 unbegun
			end 3@0
			> done 1: 0 ok
			end 3@1
			> done 2: 1 ok
			> frontier -I3 3=completed
			> nothing`,
		"one retraction: the end and the drop in one turn": begun + `
			run 1 3 at 0; begins 3@0
			block command; drop 3 dropped; reached
			end 3@0
			> done 1: 0 ok
			unblock
			> frontier -I3 3=dropped
			> nothing`,
		"what can't be built is retracted": `
			hello s1; create 3 as broken; schedule 3; create 4; complete
			> frontier -F1 +F5 +I4 3=failed
			> reason: install dataflow 3 of task work: it has no body
			run 1 3 at 0
			> done 1: 0 unbegun
			drop 3 completed
			> nothing`,
		"each that can't be built says why": `
			hello s1; create 3 as broken; create 4 as broken; complete
			> frontier -F1 +F5 3=failed 4=failed
			> reason: install dataflow 3…dataflow 4…`,
		"jobs wait for the install and the schedule": `
			hello s1; complete
			run 1 5 at 0 1
			> nothing
			create 5
			> frontier -F1 +F6 +I5
			run 2 5 at 2
			> nothing
			schedule 5; end 5@0; end 5@2
			> done 2: 2 ok
			end 5@1
			> done 1: 0 ok 1 ok
			schedule 5
			> nothing`,
		"what waits for one that is passed or dropped is answered": begun + `
			run 1 5 at 0; run 2 6 at 0 1; run 3 7 at 0
			> nothing
			create 6
			> done 1: 0 unbegun
			> frontier -F4 +F7 +I6
			drop 6 dropped
			> done 2: 0 unbegun 1 unbegun
			> frontier -I6 6=dropped
			drop 7 dropped
			> done 3: 0 unbegun`,
		"jobs of what is over": begun + `
			run 1 2 at 0
			> done 1: 0 unbegun
			drop 3 completed
			> frontier -I3 3=completed
			run 2 3 at 0
			> done 2: 0 unbegun`,
		"cancel a command": begun + `
			run 1 3 at 0; begins 3@0; run 2 3 at 1 2; begins 3@1; run 3 3 at 3
			cancel 3 2
			> done 2: 1 cancelled 2 unbegun
			begins 3@3
			cancel 3 99; cancel 4
			end 3@0
			> done 1: 0 ok
			end 3@3
			> done 3: 3 ok`,
		"cancel all of a dataflow": begun + `
			create 4; schedule 4
			> frontier -F4 +F5 +I4
			run 1 4 at 0; begins 4@0; run 2 3 at 0; begins 3@0; run 3 3 at 1
			cancel 3
			> done 2: 0 cancelled
			> done 3: 1 unbegun
			end 4@0
			> done 1: 0 ok`,
		"cancel what waits": `
			hello s1; create 3; complete
			> frontier -F1 +F4 +I3
			run 1 3 at 0; run 2 3 at 1; run 3 3 at 2; run 4 8 at 0
			cancel 3 2
			> done 2: 1 unbegun
			cancel 8
			> done 4: 0 unbegun
			schedule 3; end 3@0
			> done 1: 0 ok
			end 3@2
			> done 3: 2 ok`,
		"a failed job leaves the rest of its command": begun + `
			run 1 3 at 0 1 2; end 3@0; fail 3@1
			> done 1: 0 ok 1 exit 2 unbegun`,
		"equal jobs are one": `
			hello s1; create 3 as memo; schedule 3; complete
			> frontier -F1 +F4 +I3
			run 1 3 at 0; begins 3@0; run 2 3 at 1
			> done 2: 1 waits
			end 3@0
			> done 1: 0 ok`,
		"peek": begun + `
			run 1 3 at 4; end 3@4
			> done 1: 4 ok
			peek q 3 at 4
			> peek q: "3@4"
			peek r 3 at 5
			> peek r: …no such record
			unpeek q; unpeek z
			> nothing`,
		"peek before Hello": `
			peek q 3 at 0
			> peek q: …no such record`,
		"a peek that is taken back": begun + `
			block command; peek q 3 at 0; reached
			unpeek q; unblock
			> peek q: cancelled
			> nothing`,
		"a new session drops what was asked": begun + `
			block command; peek q 3 at 0; reached
			hello s2; create 3; complete; unblock
			> nothing
			peek q 3 at 0
			> peek q: no such record`,
		"another configuration while jobs run": `
			hello s1; create 3 as process; schedule 3; complete
			> frontier -F1 +F4 +I3
			run 1 3 at 0; begins 3@0; hold
			configure 3 as process
			run 2 3 at 1; begins 3@1
			closing 0
			end 3@0
			> done 1: 0 ok
			closing 1; unhold
			end 3@1
			> done 2: 1 ok
			configure 3 as process; configure 3 as broken
			> refused: configure dataflow 3: it has no body
			drop 3 completed
			> frontier -I3 3=completed`,
		"processes end before the retraction": `
			hello s1; create 3 as process; schedule 3; complete
			> frontier -F1 +F4 +I3
			run 1 3 at 0; end 3@0
			> done 1: 0 ok
			hold; drop 3 completed; closing 1
			> nothing
			unhold
			> frontier -I3 3=completed`,
		"those of an earlier configuration too": `
			hello s1; create 3 as process; schedule 3; complete
			> frontier -F1 +F4 +I3
			hold; configure 3 as process; closing 1; pass
			configure 3 as process; closing 2
			drop 3 dropped; closing 3
			> nothing
			unhold
			> frontier -I3 3=dropped`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t)
			d.script(text).expect("nothing")
			d.close(patience)
			d.checkClosed()
		})
	}
}
