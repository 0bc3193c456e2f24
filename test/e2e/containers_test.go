package e2e

import (
	"path/filepath"
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
// need what the setup installs, and the image that the repository names, and are done.
func TestRunsWorkInContainersAndLeaveNone(t *testing.T) {
	t.Parallel()
	engine := dockertest.Start(t)
	engine.Variant(t, "example.com/variant:1", "VARIANT", "two")
	s := harness.Start(t, harness.Options{Scenario: quickRules("20ms"), Env: []string{
		"RGPT_EXECUTION_SANDBOX_RUNNER=docker", "RGPT_EXECUTION_SANDBOX_DOCKER_HOST=" + engine.Host, "RGPT_EXECUTION_SANDBOX_DOCKER_IMAGE=" + dockertest.Image,
		"RGPT_EXECUTION_SANDBOX_DOCKER_IMAGES=[example.com/*]",
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
	for _, id := range []int64{first, second} {
		s.AwaitEnd(t, db, id, longest)
		run := s.Inspect(t, id)
		require.Equal(t, contract.StatusDone, run.Status, "%v", run.Failure)
		require.NotNil(t, run.Environment)
	}
	harness.CheckInvariants(t, s, first, second)
	s.OK(t, "dev", "stop")
	harness.Await(t, "the removal of all containers", longest, func() (bool, string) {
		_, all := containers()
		return all == 0, "some are left"
	})
}
