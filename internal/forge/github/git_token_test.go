package github_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge/forgetest"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
)

func TestGitUsesATokenOfTheRepositorysInstallation(t *testing.T) {
	t.Parallel()
	key, file := keyFile(t)
	hub := forgetest.NewGitHub(t)
	hub.Repository("octo/app")
	id, _ := hub.App("rocketgpt", &key.PublicKey, whole)
	s := openApp(t, hub, github.App{ID: id, KeyFile: file})
	token, err := s.GitToken(t.Context(), "octo/app")
	require.NoError(t, err)
	require.NotEmpty(t, token)
	before := hub.Tokens(id)
	again, err := s.GitToken(t.Context(), "octo/app")
	require.NoError(t, err)
	require.Equal(t, token, again)
	require.Equal(t, before, hub.Tokens(id), "a token that is valid is used again")
	_, err = s.GitToken(t.Context(), "../app")
	require.True(t, fault.Is(err, contract.CodeRepository), "%v", err)
}
