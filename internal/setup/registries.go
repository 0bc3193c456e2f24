package setup

import (
	"os"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/releases"
)

// Registries returns the client that asks registries about dependencies for the policy gate; nil if the
// configuration does not allow it. The names that GOPRIVATE and GONOPROXY match are not sent.
func Registries(cfg *config.Config) (*releases.Client, error) {
	return releases.New(cfg.Gate.Dependencies, os.Getenv("GOPRIVATE")+","+os.Getenv("GONOPROXY"))
}
