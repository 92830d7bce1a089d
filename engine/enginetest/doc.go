// Package enginetest helps to test what runs on the engine: bodies whose jobs
// end when a test says so, one by one, so that the test is the schedule.
//
//	r := enginetest.New(t)
//	e, err := engine.New(p, engine.Options{Bodies: r.Body})
//	go e.Run(ctx)
//	r.OK("split", "", `"a"`, `"b"`)   // waits until the engine has started it
//	r.OK("count", "i=1", `1`)
//	r.Fail("count", "i=0", body.KindExit, "exit status 1")
//
// A task with a `worker:` body is run in batches: as many of a command's jobs at once
// as its `concurrency` says, and those that are added to it meanwhile. The test ends
// each of them by itself.
//
// # Caveats
//
// A job that a test never ends keeps the engine waiting until its context is
// cancelled.
package enginetest
