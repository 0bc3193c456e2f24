package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// logNever is above every level.
const logNever = slog.Level(100)

// serverLogger adapts a slog logger for Temporal's server.
type serverLogger struct {
	slog  *slog.Logger
	level *slog.LevelVar
}

var (
	_ log.Logger      = serverLogger{}
	_ log.SLogWrapper = serverLogger{}
)

func newLogger(w io.Writer, level slog.Level, format string) serverLogger {
	variable := &slog.LevelVar{}
	variable.Set(level)
	options := &slog.HandlerOptions{Level: variable}
	if format == "json" {
		return serverLogger{slog.New(slog.NewJSONHandler(w, options)), variable}
	}
	return serverLogger{slog.New(slog.NewTextHandler(w, options)), variable}
}

// silence disables the log: services that stop one after another log errors about those already
// stopped.
func (l serverLogger) silence() { l.level.Set(logNever) }

// SLog allows the server to pass the logger to its internal SDK clients.
func (l serverLogger) SLog() *slog.Logger { return l.slog }

func (l serverLogger) Debug(msg string, tags ...tag.Tag)  { l.log(slog.LevelDebug, msg, tags) }
func (l serverLogger) Info(msg string, tags ...tag.Tag)   { l.log(slog.LevelInfo, msg, tags) }
func (l serverLogger) Warn(msg string, tags ...tag.Tag)   { l.log(slog.LevelWarn, msg, tags) }
func (l serverLogger) Error(msg string, tags ...tag.Tag)  { l.log(slog.LevelError, msg, tags) }
func (l serverLogger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

func (l serverLogger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg) //nolint:forbidigo // required by the interface
}

// Fatal exits the process, as the server expects: its callers would otherwise continue with nil
// values. The cause is printed even if the log is disabled.
func (l serverLogger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	var text strings.Builder
	for _, t := range tags {
		fmt.Fprintf(&text, " %s=%v", t.Key(), t.Value())
	}
	fmt.Fprintf(os.Stderr, "temporal-devserver: the Temporal server cannot continue: %s:%s\n", msg, text.String())
	if strings.Contains(text.String(), "address already in use") {
		os.Exit(exitPortInUse)
	}
	os.Exit(exitError)
}

func (l serverLogger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if !l.slog.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	l.slog.LogAttrs(ctx, level, msg, attrs...)
}
