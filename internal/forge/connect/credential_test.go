package connect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
)

func TestGitGetsTheTokenOfItsForgeAndOfNoOtherHost(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"HUB": "hub-token", "TEA": "tea-token"}
	set, err := connect.New(map[string]config.Forge{
		"hub":  {Kind: "github", TokenEnv: "HUB"},
		"tea":  {Kind: "gitea", URL: "https://git.example.com", Hosts: []string{"mirror.example.com:8443", "other.example.com"}, TokenEnv: "TEA"},
		"none": {Kind: "gitlab", URL: "https://lab.example.com", TokenEnv: "MISSING"},
	}, func(name string) string { return secrets[name] })
	require.NoError(t, err)
	for address, want := range map[string][2]string{
		"https://github.com/o/r.git":                {"x-access-token", "hub-token"},
		"https://git.example.com/o/r":               {"rgpt", "tea-token"},
		"https://mirror.example.com:8443/o/r.git":   {"rgpt", "tea-token"},
		"https://other.example.com/o/r.git":         {"rgpt", "tea-token"},
		"https://other.example.com:8443/o/r.git":    {},
		"https://mirror.example.com/o/r.git":        {},
		"https://lab.example.com/o/r.git":           {},
		"https://github.com.example.com/o/r.git":    {},
		"https://evil.example.com/github.com/o/r":   {},
		"https://git.example.com.evil.test/o/r.git": {},
		"not an address":                            {},
	} {
		user, password, known, err := set.GitCredential(t.Context(), address)
		require.NoError(t, err, address)
		require.Equal(t, want[1] != "", known, address)
		if known {
			require.Equal(t, want, [2]string{user, password}, address)
		}
	}
}
