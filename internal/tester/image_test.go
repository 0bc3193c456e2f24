package tester_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// imageHost returns a host whose engine does as told, and a repository with a Dockerfile.
func imageHost(t *testing.T, build func(context.Context, docker.Source) (docker.Built, error)) (*tester.Host, contract.Repo) {
	t.Helper()
	dir := t.TempDir()
	cfg := config.Default()
	blobs, err := setup.Artifacts(t.Context(), cfg, dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = blobs.Close() })
	workspaces, err := setup.Workspaces(cfg, dir, blobs)
	require.NoError(t, err)
	repo, _, err := workspaces.Resolve(t.Context(), harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"ci/Dockerfile": "FROM a:1\n"}), "")
	require.NoError(t, err)
	start, err := workspaces.Start(t.Context(), repo)
	require.NoError(t, err)
	repo.Tree = start.Tree
	return &tester.Host{
		Config: cfg, Workspaces: workspaces, DataDir: dir, Log: slog.New(slog.DiscardHandler), BuildImage: build,
		Tools: func(_ context.Context, image string) (environment.Tools, error) {
			return environment.Tools{environment.ImageTool: "sha256:of " + image, "go": "1.26"}, nil
		},
	}, repo
}

func TestAnImageIsBuiltFromTheBaseAndKnownByTheNameThatAllHostsGiveIt(t *testing.T) {
	t.Parallel()
	h, repo := imageHost(t, func(ctx context.Context, s docker.Source) (docker.Built, error) {
		require.Equal(t, "ci/Dockerfile", s.Dockerfile)
		require.Equal(t, ".", s.Context)
		require.NotEmpty(t, s.Key)
		root, release, err := s.Files(ctx)
		require.NoError(t, err)
		defer release()
		f, err := root.Open(s.Dockerfile)
		require.NoError(t, err)
		defer f.Close()
		data, err := io.ReadAll(f)
		require.NoError(t, err)
		require.Equal(t, "FROM a:1\n", string(data))
		return docker.Built{Name: "rgpt-built:1", ID: "sha256:1"}, nil
	})
	tools, err := h.ToolsOf(t.Context(), repo, environment.Settings{Dockerfile: &environment.Dockerfile{Path: "ci/Dockerfile"}})
	require.NoError(t, err)
	require.Equal(t, environment.Tools{environment.ImageTool: "rgpt-built:1", "go": "1.26"}, tools)
}

func TestABuildThatFailedIsAConfigurationErrorWithTheEndOfItsOutput(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		h, repo := imageHost(t, func(context.Context, docker.Source) (docker.Built, error) {
			return docker.Built{}, &docker.BuildError{Refused: refused, Reason: "the build failed", Log: strings.Repeat("x", 3000) + "the end"}
		})
		_, err := h.ToolsOf(t.Context(), repo, environment.Settings{Dockerfile: &environment.Dockerfile{Path: "ci/Dockerfile"}})
		f := fault.Of(err)
		require.Equal(t, contract.ClassConfig, f.Class)
		require.Equal(t, map[bool]contract.Code{true: contract.CodeInvalidConfig, false: contract.CodeCheckFailed}[refused], f.Code)
		require.Equal(t, "the build failed", f.Message)
		require.True(t, strings.HasSuffix(f.Cause, "the end"))
		require.Less(t, len(f.Cause), 2000)
	}
	h, repo := imageHost(t, nil)
	_, err := h.ToolsOf(t.Context(), repo, environment.Settings{Dockerfile: &environment.Dockerfile{Path: "ci/Dockerfile"}})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class, "without containers, nothing else runs the commands: %v", err)
}

func TestSecretsInTheOutputOfAFailedBuildAreRedacted(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + strings.Repeat("x9Y", 12)
	h, repo := imageHost(t, func(context.Context, docker.Source) (docker.Built, error) {
		// Shortened to the shown end, the output would begin in the middle of the secret.
		return docker.Built{}, &docker.BuildError{Reason: "RUN curl -H " + secret, Log: strings.Repeat("x ", 500) + secret + strings.Repeat("y", 1480)}
	})
	_, err := h.ToolsOf(t.Context(), repo, environment.Settings{Dockerfile: &environment.Dockerfile{Path: "ci/Dockerfile"}})
	f := fault.Of(err)
	require.NotContains(t, f.Message, secret)
	require.NotContains(t, f.Cause, secret[len(secret)-10:])
}
