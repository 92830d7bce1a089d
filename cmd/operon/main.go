package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(start(newApp())) }

func start(a *app) int {
	stops := make(chan os.Signal, 4)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // not under nohup
		signal.Notify(stops, syscall.SIGHUP)
	}
	// A reader of ours that went away is an error of one write, not our end:
	// a run goes on although nobody looks any more.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return a.main(context.Background(), os.Args, stops)
}
