package setup

import (
	"os"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
	"github.com/rocketgpt/orchestrator/internal/gate/releases"
)

// Registries returns the client that asks registries about dependencies for the policy gate; nil if the
// configuration does not allow it. The Go modules that GOPRIVATE and GONOPROXY match are not sent.
func Registries(cfg *config.Config) (*releases.Client, error) {
	return releases.New(cfg.Gate.Dependencies, os.Getenv("GOPRIVATE")+","+os.Getenv("GONOPROXY"))
}

// WidePattern is a pattern of private packages that matches every name of ecosystems.
type WidePattern struct {
	Pattern string
	// From is the setting or the environment variable that has it.
	From       string
	Ecosystems []dependencies.Ecosystem
}

// WidePatterns returns the patterns of private packages because of which nothing is looked up in some
// ecosystems.
func WidePatterns(cfg *config.Config) []WidePattern {
	var out []WidePattern
	add := func(from string, forGo bool, patterns []string) {
		for _, p := range patterns {
			if wide := releases.TooWide(strings.TrimSpace(p), forGo); len(wide) > 0 {
				out = append(out, WidePattern{strings.TrimSpace(p), from, wide})
			}
		}
	}
	add("gate.dependencies.private", false, cfg.Gate.Dependencies.Private)
	for _, name := range []string{"GOPRIVATE", "GONOPROXY"} {
		add(name, true, strings.Split(os.Getenv(name), ","))
	}
	return out
}
