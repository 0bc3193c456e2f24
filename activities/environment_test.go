package activities_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestRunsThatWaitForASetupThatFailsDoNotTryItAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  []")
	var err error
	h.Proxy, err = setup.Proxy(h.Config)
	require.NoError(t, err)
	// It takes long enough for all runs to wait for it.
	h.Config.Environment.Setup = []string{"sleep 5; echo no such registry; exit 1"}
	settings, spec, err := setup.Freeze(h.Config, h.repo)
	require.NoError(t, err)
	prepare := func() (contract.EnvironmentResult, int64, error) {
		run, _, err := h.Store.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "Say more", Settings: settings, Spec: spec})
		if err != nil {
			return contract.EnvironmentResult{}, 0, err
		}
		out, err := h.Environment(t.Context(), contract.EnvironmentInput{RunID: run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9})
		return out, run.ID, err
	}
	// tried counts the runs that carried the set-up out: each keeps its output.
	tried := func(runs []int64) (n int) {
		for _, id := range runs {
			details, err := h.Store.RunDetails(t.Context(), id)
			require.NoError(t, err)
			for _, a := range details.Artifacts {
				if strings.HasSuffix(a.Name, "/setup.log") {
					n++
				}
			}
		}
		return n
	}
	runs, results := make([]int64, 3), make([]contract.EnvironmentResult, 3)
	var group errgroup.Group
	for i := range runs {
		group.Go(func() (err error) {
			results[i], runs[i], err = prepare()
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, out := range results {
		require.NotNil(t, out.Failure)
		require.Contains(t, out.Failure.Cause, "no such registry")
	}
	require.Equal(t, 1, tried(runs))

	_, later, err := prepare()
	require.NoError(t, err)
	require.Equal(t, 1, tried([]int64{later}), "who asks later, after somebody may have mended it, tries again")
}

func TestASetupComesFromTheRunThenAPersonThenTheConfigurationThenAnAgent(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  []")
	var err error
	h.Proxy, err = setup.Proxy(h.Config)
	require.NoError(t, err)
	h.Config.Environment.Setup = []string{"echo configured $WORD; exit 1"}
	h.Config.Environment.Variables = map[string]string{"WORD": "here"}
	// executed is what the set-up of a new run printed before it failed.
	executed := func(given bool) string {
		settings, spec, err := setup.Freeze(h.Config, h.repo)
		require.NoError(t, err)
		spec.EnvironmentGiven = given
		run, _, err := h.Store.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "Say more", Settings: settings, Spec: spec})
		require.NoError(t, err)
		out, err := h.Environment(t.Context(), contract.EnvironmentInput{RunID: run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9})
		require.NoError(t, err)
		require.NotNil(t, out.Failure)
		return out.Failure.Cause
	}
	say := func(source environment.Source, s environment.Settings) {
		doc, err := json.Marshal(s)
		require.NoError(t, err)
		_, err = h.Store.AddSetup(t.Context(), store.Setup{Repo: h.repo.URL, Source: string(source), Settings: doc, Reason: "because", CreatedBy: "t", Proven: true})
		require.NoError(t, err)
	}
	say(environment.SourceAgent, environment.Settings{Setup: []string{"echo of an agent; exit 1"}})
	require.Contains(t, executed(false), "configured here")

	say(environment.Source("person"), environment.Settings{Variables: map[string]string{"WORD": "there"}})
	require.Contains(t, executed(false), "configured there", "a person who names variables alone takes no command away")

	say(environment.Source("person"), environment.Settings{Setup: []string{"echo of a person; exit 1"}})
	require.Contains(t, executed(false), "of a person")
	require.Contains(t, executed(true), "configured here", "what was given for one run")
}
