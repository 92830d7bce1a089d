package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"operon/cmd/operon/internal/term"
)

// logger is what libraries log to: lines for a person, or JSON.
func (a *app) logger(w io.Writer) *slog.Logger {
	if a.logFormat != "json" {
		facts := term.Of(a.stderr, a.getenv)
		w = zerolog.ConsoleWriter{Out: w, NoColor: !facts.Color, TimeFormat: time.TimeOnly}
	}
	return slog.New(zerolog.NewSlogHandler(zerolog.New(w).Level(a.logLevel).With().Timestamp().Logger()))
}
