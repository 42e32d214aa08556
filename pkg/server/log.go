// The log: zerolog, to stderr, for people or as JSON.

package server

import (
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// LogFailure logs why a server did not start or could not go on.
func LogFailure(cfg Config, err error) {
	log := newLog(&cfg, os.Stderr)
	log.Error().Err(err).Msg("failed")
}

// newLog builds the logger that cfg asks for. Times are ISO 8601 with
// milliseconds and the zone.
func newLog(cfg *Config, out io.Writer) zerolog.Logger {
	const layout = "2006-01-02T15:04:05.000Z07:00"
	zerolog.TimeFieldFormat = layout
	if cfg.LogFormat != "json" {
		f, isFile := out.(interface{ Fd() uintptr })
		out = zerolog.ConsoleWriter{
			Out: out, TimeFormat: layout,
			NoColor: !isFile || !isatty.IsTerminal(f.Fd()),
		}
	}
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}
