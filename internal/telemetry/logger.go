package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/DeRuina/timberjack"
	temporallog "go.temporal.io/sdk/log"
	"golang.org/x/term"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// LogOptions configure what is logged, in which format and where. The zero value logs at level info
// to standard error.
type LogOptions struct {
	Component string        // worker or server: part of each record and of the file name
	Level     string        // debug, info, warn, error; empty: info
	Format    string        // json, text, auto; empty: auto, which is text on a terminal
	Dir       string        // directory of log files; empty: Console
	MaxSize   int64         // size in bytes at which a file is rotated, in whole MiB; 0: 100 MiB
	MaxAge    time.Duration // age at which rotated files are removed, in whole days; 0: never
	MaxFiles  int           // maximum number of rotated files; 0: unlimited
	Console   io.Writer     // nil: standard error
}

// NewLogger returns a logger whose output contains no secrets. The closer flushes and
// closes its file, if it has one. Invalid options are a CONFIG_ERROR.
func NewLogger(o LogOptions) (*slog.Logger, io.Closer, error) {
	var level slog.Level
	if o.Level != "" {
		if err := level.UnmarshalText([]byte(o.Level)); err != nil {
			return nil, nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "logging.level: expected debug, info, warn or error, got %q", o.Level)
		}
	}
	out, format, err := o.output()
	if err != nil {
		return nil, nil, err
	}
	settings := &slog.HandlerOptions{Level: level}
	var next slog.Handler = slog.NewJSONHandler(out, settings)
	if format == "text" {
		next = slog.NewTextHandler(out, settings)
	}
	logger := slog.New(NewHandler(next))
	if o.Component != "" {
		logger = logger.With("component", o.Component)
	}
	return logger, out, nil
}

// output opens the destination of records and chooses their format.
func (o LogOptions) output() (io.WriteCloser, string, error) {
	if o.Dir != "" {
		file, err := o.file()
		return file, "json", err
	}
	console := o.Console
	if console == nil {
		console = os.Stderr
	}
	format := o.Format
	switch format {
	case "", "auto":
		format = "json"
		if f, ok := console.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			format = "text"
		}
	case "json", "text":
	default:
		return nil, "", fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "logging.format: expected json, text or auto, got %q", format)
	}
	return keepOpen{console}, format, nil
}

const (
	mebibyte    = 1 << 20
	defaultSize = 100 * mebibyte
	day         = 24 * time.Hour
)

// file opens the component's log file. timberjack rotates by time as well as by size;
// lumberjack, the usual choice, does not, and is no longer maintained.
func (o LogOptions) file() (io.WriteCloser, error) {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		f := fault.Of(err)
		return nil, fault.Wrap(err, f.Class, f.Code, "cannot create the log directory %s (logging.dir)", o.Dir)
	}
	size := o.MaxSize
	if size <= 0 {
		size = defaultSize
	}
	return &timberjack.Logger{
		Filename:         filepath.Join(o.Dir, fileName(o.Component)),
		MaxSize:          int(max(size/mebibyte, 1)),
		MaxAge:           int((o.MaxAge + day - 1) / day),
		MaxBackups:       o.MaxFiles,
		RotationInterval: day,
		FileMode:         0o640,
	}, nil
}

// fileName ensures that a component's name cannot refer to another directory.
func fileName(component string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, component)
	clean = cmp.Or(clean, "rgpt")
	return fmt.Sprintf("%s.log", clean)
}

// keepOpen wraps a shared console, which must not be closed.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// TemporalLogger returns a logger for the Temporal SDK.
func TemporalLogger(l *slog.Logger) temporallog.Logger { return temporallog.NewStructuredLogger(l) }
