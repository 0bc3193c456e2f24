package setup

import (
	"context"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
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

// flushTime is how long traces may take to leave when a process ends.
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

// Close sends what is left of traces and closes the log.
func (s *Service) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := s.trace(ctx); err != nil {
		s.Log.Warn("Could not send the last traces", "error", err)
	}
	_ = s.file.Close()
}

// RegisterSecrets makes known what must never be shown: keys of providers and
// passwords of the configuration.
func RegisterSecrets(cfg *config.Config) {
	for _, p := range Providers(cfg) {
		if p.APIKeyEnv != "" {
			telemetry.RegisterSecret(os.Getenv(p.APIKeyEnv))
		}
		if p.APIKeyFile != "" {
			if key, err := os.ReadFile(p.APIKeyFile); err == nil {
				telemetry.RegisterSecret(strings.TrimSpace(string(key)))
			}
		}
		for _, value := range p.Headers {
			telemetry.RegisterSecret(value)
		}
	}
	if cfg.Temporal.APIKeyEnv != "" {
		telemetry.RegisterSecret(os.Getenv(cfg.Temporal.APIKeyEnv))
	}
	if u, err := url.Parse(cfg.Database.URL); err == nil && u.User != nil {
		if password, ok := u.User.Password(); ok {
			telemetry.RegisterSecret(password)
		}
	}
}
