package e2e

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockertest"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestRunsWorkInContainersAndLeaveNone kills the worker while a setup runs in a container. The runs
// need what the setup installs, and the image that the repository names, or has built for its dev
// container, and are done.
func TestRunsWorkInContainersAndLeaveNone(t *testing.T) {
	t.Parallel()
	engine := dockertest.Start(t)
	engine.Variant(t, "example.com/variant:1", "VARIANT", "two")
	s := harness.Start(t, harness.Options{Scenario: quickRules("20ms"), Env: []string{
		"RGPT_EXECUTION_SANDBOX_RUNNER=docker", "RGPT_EXECUTION_SANDBOX_DOCKER_HOST=" + engine.Host, "RGPT_EXECUTION_SANDBOX_DOCKER_IMAGE=" + dockertest.Image,
		"RGPT_EXECUTION_SANDBOX_DOCKER_IMAGES=[example.com/*]", "RGPT_EXECUTION_SANDBOX_DOCKER_BUILD_ENABLED=true",
	}})
	files := needing(busySetup)
	files["rgpt.yaml"] += "  image: example.com/variant:1\n"
	files["test.sh"] = "#!/bin/sh\n[ \"$VARIANT\" = two ] || { echo 'another image'; exit 1; }\n" + files["test.sh"]
	repo := harness.Repo(t, filepath.Join(s.Dir, "cold"), files)
	db := s.Store(t)
	first := s.Create(t, "--repo", repo, "--goal", "Quick")
	c, err := client.New(client.WithHost(engine.Host))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	containers := func() (running, all int) {
		found, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", docker.OwnerLabel(s.DataDir))})
		require.NoError(t, err)
		for _, item := range found.Items {
			if item.State == "running" {
				running++
			}
		}
		return running, len(found.Items)
	}
	harness.Await(t, "a setup that runs in a container", longest, func() (bool, string) {
		events := environmentEvents(s.Inspect(t, first))
		running, _ := containers()
		return len(events) > 0 && running > 0, "none"
	})
	s.Kill(t, devstack.RoleWorker)
	s.Up(t)
	second := s.Create(t, "--repo", repo, "--goal", "Quick")
	built := builtRepo(t, s, files)
	third := s.Create(t, "--repo", built, "--goal", "Quick")
	for _, id := range []int64{first, second, third} {
		s.AwaitEnd(t, db, id, longest)
		run := s.Inspect(t, id)
		require.Equal(t, contract.StatusDone, run.Status, "%v", run.Failure)
		require.NotNil(t, run.Environment)
	}
	harness.CheckInvariants(t, s, first, second, third)
	failed := s.RGPT(t, "env", "build", "--repo", harness.Repo(t, filepath.Join(s.Dir, "failing"), map[string]string{
		"rgpt.yaml": "environment: {dockerfile: Dockerfile}\n", "Dockerfile": "FROM example.com/variant:1\nRUN echo 'the reason'; exit 3\n",
	}), "--json")
	require.Equal(t, 2, failed.Code, "%s", failed)
	require.Contains(t, failed.Stdout, "the build of Dockerfile failed")
	require.Contains(t, failed.Stdout, "CONFIG_ERROR")
	require.Contains(t, failed.Stdout, "the reason")
	var image struct {
		Name  string
		Kept  bool
		Tools map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(s.OK(t, "env", "image", "--repo", built, "--json").Stdout), &image))
	require.True(t, image.Kept, "it is the image that the run's worker built")
	require.NotEmpty(t, image.Tools["python"])
	require.Contains(t, s.OK(t, "verify", "--repo", built).Stdout, "built from .devcontainer/Dockerfile", "its tests need that image")
	require.Contains(t, s.RGPT(t, "doctor").Stdout, "the Docker engine builds images, from images that match example.com/*")
	s.OK(t, "dev", "stop")
	harness.Await(t, "the removal of all containers", longest, func() (bool, string) {
		_, all := containers()
		return all == 0, "some are left"
	})
}

// builtRepo makes a repository whose tests need the image of its dev container.
func builtRepo(t *testing.T, s *harness.Stack, like map[string]string) string {
	t.Helper()
	files := map[string]string{
		".devcontainer/devcontainer.json": `{"build": {"dockerfile": "Dockerfile", "context": ".."}} // ours`,
		".devcontainer/Dockerfile":        "FROM example.com/variant:1\nCOPY test.sh /opt/built/\nRUN chmod 755 /opt/built\n",
	}
	maps.Copy(files, like)
	files["rgpt.yaml"] = strings.ReplaceAll(like["rgpt.yaml"], "  image: example.com/variant:1\n", "")
	files["test.sh"] = strings.ReplaceAll(like["test.sh"], "#!/bin/sh\n", "#!/bin/sh\n[ -e /opt/built/test.sh ] || { echo 'not the built image'; exit 1; }\n")
	return harness.Repo(t, filepath.Join(s.Dir, "built"), files)
}
