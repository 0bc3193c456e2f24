package setup

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// Service provides a long-running process with a log and traces.
type Service struct {
	Log   *slog.Logger
	file  io.Closer
	trace func(context.Context) error
}

// flushTime is the time limit for sending the last traces when a process exits.
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

// LogWaiting returns a function that immediately logs that a service is waiting for its database,
// and the reason.
func LogWaiting(ctx context.Context, log *slog.Logger) func(error) {
	return func(err error) {
		log.WarnContext(ctx, "Waiting for the database", "error", err)
	}
}

// RegisterSecrets registers the secrets to redact: keys and headers of providers, including keys in
// the default variables of their kind, and the other secrets that the configuration contains or
// refers to.
func RegisterSecrets(cfg *config.Config) {
	for _, p := range Providers(cfg) {
		if p.APIKeyEnv != "" {
			telemetry.RegisterSecret(os.Getenv(p.APIKeyEnv))
		}
		if p.Kind == model.KindBedrock {
			telemetry.RegisterSecret(os.Getenv("AWS_SECRET_ACCESS_KEY"))
			telemetry.RegisterSecret(os.Getenv("AWS_SESSION_TOKEN"))
		}
		for _, value := range p.Headers {
			telemetry.RegisterSecret(value)
		}
	}
	for _, secret := range cfg.Secrets(os.Getenv) {
		telemetry.RegisterSecret(secret)
	}
}
