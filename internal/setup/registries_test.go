package setup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

func TestPatternsThatMatchEveryPackageAreNamed(t *testing.T) {
	t.Setenv("GOPRIVATE", "git.corp.example, *")
	t.Setenv("GONOPROXY", "")
	cfg := config.Default()
	cfg.Gate.Dependencies.Private = []string{"@acme/*", "?*"}
	wide := setup.WidePatterns(cfg)
	require.Len(t, wide, 2)
	require.Equal(t, []string{"?*", "gate.dependencies.private"}, []string{wide[0].Pattern, wide[0].From})
	require.Len(t, wide[0].Ecosystems, 8)
	require.Equal(t, setup.WidePattern{Pattern: "*", From: "GOPRIVATE", Ecosystems: []dependencies.Ecosystem{dependencies.Go}}, wide[1])
}
