// Package live shows a run while it goes on, and how it ended.
//
// A [View] hears the engine's events and folds them into a picture: where each
// task stands, how fast it goes, how long it has left. What it makes of the
// picture is its [Mode]: one line a task that is drawn over and over on a
// terminal; a plain line at every change of a task's state, and now and then,
// everywhere else; one JSON object an event; or nothing. [WriteSummary] tells
// how a run ended.
//
// The fold and the drawing know no clock and no terminal, so a test gives them
// events and a width and reads what comes out.
//
// # Caveats
//
// A View does not lose an event: where its output stands still, it makes the
// engine wait after a few thousand. Rates and times left are of the last ten
// seconds, and a task whose dimensions are still growing has more left than is
// said.
package live
