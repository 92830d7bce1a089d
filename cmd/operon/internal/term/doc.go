// Package term finds out what may be written where: whether a stream is a
// terminal, how wide it is, and whether it takes colour.
//
// The policy is the usual one. Colour is for terminals other than TERM=dumb;
// NO_COLOR takes it away and CLICOLOR_FORCE gives it, NO_COLOR first. What
// moves the cursor is for terminals alone, and not where CI is set: a log that
// somebody reads afterwards has no use for it.
//
// # Caveats
//
// A size is what the terminal says now; it changes when a window does, so ask
// again for each picture.
package term
