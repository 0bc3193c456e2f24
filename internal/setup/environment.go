package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// StoredSetup returns the stored setup that a repository uses, the zero Setup if there is none: one
// that a person stored overrides configured commands, which override one that an agent found.
func StoredSetup(ctx context.Context, db *store.Store, repo string, configured environment.Settings) (store.Setup, error) {
	known, err := db.SetupOf(ctx, repo)
	if errors.Is(err, store.ErrNotFound) || err == nil && len(configured.Setup) > 0 && known.Source == string(environment.SourceAgent) {
		return store.Setup{}, nil
	}
	return known, err
}

// WithStored returns the configured settings, overridden by those of a stored setup, which may be
// the zero Setup. Settings that the setup does not contain stay as configured. A person's variable
// replaces a configured one with the same name; an agent's does not.
func WithStored(configured environment.Settings, known store.Setup) (environment.Settings, error) {
	if known.ID == 0 {
		return configured, nil
	}
	var own environment.Settings
	if err := json.Unmarshal(known.Settings, &own); err != nil {
		return configured, fmt.Errorf("read setup %d: %w", known.ID, err)
	}
	out := configured
	if own.Image != "" || own.Dockerfile != nil {
		out.Image, out.Dockerfile = own.Image, own.Dockerfile
	}
	if len(own.Setup) > 0 {
		out.Setup = own.Setup
	}
	if len(own.Hosts) > 0 {
		out.Hosts = own.Hosts
	}
	weaker, stronger := configured.Variables, own.Variables
	if known.Source == string(environment.SourceAgent) {
		weaker, stronger = stronger, weaker
	}
	out.Variables = map[string]string{}
	maps.Copy(out.Variables, weaker)
	maps.Copy(out.Variables, stronger)
	return out, nil
}
