package setup

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// Service is what every long-running process of ours has: a log and traces.
type Service struct {
	Log   *slog.Logger
	file  io.Closer
	trace func(context.Context) error
}

// flushTime is how long sending the last traces may take when a process ends.
const flushTime = 5 * time.Second

// StartService sets up logging, redaction and tracing for a component.
func StartService(ctx context.Context, cfg *config.Config, component string) (*Service, error) {
	RegisterSecrets(cfg)
	l := cfg.Logging
	log, file, err := telemetry.NewLogger(telemetry.LogOptions{
		Component: component, Level: l.Level, Format: l.Format, Dir: l.Dir, MaxSize: l.MaxSize.Int64(), MaxAge: l.MaxAge, MaxFiles: l.MaxFiles,
	})
	if err != nil {
		return nil, err
	}
	trace, err := telemetry.Setup(ctx, telemetry.Options{Service: "rgpt-" + component, Version: version.Version})
	if err != nil {
		return nil, err
	}
	return &Service{Log: log, file: file, trace: trace}, nil
}

// Close sends the remaining traces and closes the log.
func (s *Service) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := s.trace(ctx); err != nil {
		s.Log.Warn("Could not send the remaining traces", "error", err)
	}
	_ = s.file.Close()
}

// LogWaiting returns a function that logs at once that a service waits for its database,
// and why.
func LogWaiting(ctx context.Context, log *slog.Logger) func(error) {
	return func(err error) {
		log.WarnContext(ctx, "Waiting for the database", "error", err)
	}
}

// RegisterSecrets registers what must never be shown: keys and headers of providers,
// including those in the usual variables of their kind, and the other secrets that the
// configuration holds or names.
func RegisterSecrets(cfg *config.Config) {
	for _, p := range Providers(cfg) {
		if p.APIKeyEnv != "" {
			telemetry.RegisterSecret(os.Getenv(p.APIKeyEnv))
		}
		for _, value := range p.Headers {
			telemetry.RegisterSecret(value)
		}
	}
	for _, secret := range cfg.Secrets(os.Getenv) {
		telemetry.RegisterSecret(secret)
	}
}
