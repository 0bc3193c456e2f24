package control

import (
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// chooser returns runs whose models a scripted server serves, and the database.
func chooser(t *testing.T, dir string) (*Runs, *storetest.Fixture) {
	t.Helper()
	scenario, err := scripted.Parse("scenario.yaml", []byte("rules: []\n"))
	require.NoError(t, err)
	model, err := scripted.New(scenario, scripted.Options{LogPath: filepath.Join(dir, "requests.jsonl")})
	require.NoError(t, err)
	server := httptest.NewServer(model)
	t.Cleanup(func() {
		server.Close()
		_ = model.Close()
	})
	f := storetest.Setup(t)
	runs := preparer(t, dir)
	runs.Store = f.Store
	runs.Config.Models.Providers["house"] = config.Provider{Kind: "scripted", BaseURL: server.URL + "/v1", MaxConcurrent: 1}
	runs.Config.Models.Default = config.Choice{Provider: "house", Model: "small"}
	return runs, f
}

func TestAChoiceAppliesToNewRunsAndNeverToThoseThatExist(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, f := chooser(t, dir)
	create := func(c Creation) (store.Run, setup.RunSpec) {
		c.Repo, c.Goal = repo, "x"
		made, err := runs.prepare(t.Context(), c, runs.Config, &Created{})
		require.NoError(t, err)
		made.GoalTitle = "x"
		run, _, err := f.CreateRun(t.Context(), made)
		require.NoError(t, err)
		return run, made.Spec.(setup.RunSpec)
	}
	before, spec := create(Creation{})
	require.Equal(t, "models.default", spec.ModelSources[contract.AgentBuilder])

	runs.Config.Models.Catalogue = []config.CatalogueEntry{{Provider: "house", Model: "better", Capabilities: []string{"tools", "effort"}}}
	set, err := runs.SetAgentModel(t.Context(), contract.AgentBuilder, NewModelChoice{Model: "house/better", Effort: contract.EffortHigh, By: "ana"})
	require.NoError(t, err)
	require.Contains(t, set.Message, "house/better")
	after, spec := create(Creation{})
	require.Equal(t, contract.ModelChoice{Provider: "house", Model: "better", Effort: contract.EffortHigh}, after.Settings.Models[contract.AgentBuilder])
	require.Contains(t, spec.ModelSources[contract.AgentBuilder], "settings page, by ana at ")
	require.Equal(t, "small", after.Settings.Models[contract.AgentPlanner].Model)

	asked, spec := create(Creation{Model: "house/asked"})
	require.Equal(t, "asked", asked.Settings.Models[contract.AgentBuilder].Model)
	require.Equal(t, "the request (--model)", spec.ModelSources[contract.AgentBuilder])

	now, err := f.Run(t.Context(), before.ID)
	require.NoError(t, err)
	require.Equal(t, "small", now.Settings.Models[contract.AgentBuilder].Model, "a run under way keeps its models")

	_, err = runs.UnsetAgentModel(t.Context(), contract.AgentBuilder, nil, "ana")
	require.NoError(t, err)
	last, _ := create(Creation{})
	require.Equal(t, "small", last.Settings.Models[contract.AgentBuilder].Model)
	_, err = runs.UnsetAgentModel(t.Context(), contract.AgentBuilder, nil, "ana")
	require.True(t, fault.Is(err, contract.CodeRejected))
}

func TestARunIsNotCreatedWithAnotherModelThanTheChosenOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, _ := chooser(t, dir)
	runs.Config.Models.Providers["gone"] = runs.Config.Models.Providers["house"]
	_, err := runs.SetAgentModel(t.Context(), contract.AgentPlanner, NewModelChoice{Model: "gone/m", By: "ana"})
	require.NoError(t, err)
	delete(runs.Config.Models.Providers, "gone")

	_, err = runs.prepare(t.Context(), Creation{Repo: repo, Goal: "x"}, runs.Config, &Created{})
	require.ErrorContains(t, err, "rgpt models unset planner")
	_, err = runs.prepare(t.Context(), Creation{Repo: repo, Goal: "x", Model: "house/asked"}, runs.Config, &Created{})
	require.NoError(t, err, "the request's model replaces it")
	_, err = runs.Pipelines().models(t.Context(), contract.ModeOpenRouter, "")
	require.ErrorContains(t, err, "rgpt models unset planner", "members use the planner's model")

	shown := runs.Models(t.Context(), false)
	require.Len(t, shown.Problems, 1)
	require.Contains(t, shown.Problems[0], "New runs fail")
	one, err := runs.AgentModel(t.Context(), contract.AgentPlanner)
	require.NoError(t, err)
	require.Equal(t, shown.Problems[0], one.Problem)
}

func TestTheEffortOfARequestAppliesToAllAgentsOrIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, f := chooser(t, dir)
	runs.Config.Models.Catalogue = []config.CatalogueEntry{
		{Provider: "house", Model: "thinks", Capabilities: []string{"tools", "effort"}}, {Provider: "house", Model: "acts", Capabilities: []string{"tools"}},
	}
	runs.Config.Deliberation.PlanBy = "auto"
	prepare := func(c Creation) (contract.Settings, error) {
		c.Repo, c.Goal = repo, "x"
		row, err := runs.prepare(t.Context(), c, runs.Config, &Created{})
		return row.Settings, err
	}
	s, err := prepare(Creation{Model: "house/thinks", Effort: contract.EffortHigh})
	require.NoError(t, err)
	for _, m := range []contract.ModelChoice{s.Models[contract.AgentPlanner], s.Models[contract.AgentBuilder], s.Models[contract.AgentRepair], s.Deliberation.Models[contract.AgentGamma]} {
		require.Equal(t, contract.EffortHigh, m.Effort)
	}
	runs.Config.Models.Default.Model = "thinks"
	s, err = prepare(Creation{Effort: contract.EffortLow})
	require.NoError(t, err)
	require.Equal(t, contract.ModelChoice{Provider: "house", Model: "thinks", Effort: contract.EffortLow}, s.Models[contract.AgentBuilder])

	runs.Config.Models.Phases = map[string]config.Choice{"builder": {Provider: "house", Model: "acts"}}
	_, err = prepare(Creation{Effort: contract.EffortHigh})
	require.ErrorContains(t, err, "cannot be used for the builder: the amount of reasoning of house/acts cannot be set")
	require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	require.ErrorContains(t, Creation{Repo: repo, Goal: "x", Effort: "much"}.Check(), "must be low, medium or high")

	run := store.Run{Settings: contract.Settings{Models: map[contract.Agent]contract.ModelChoice{
		contract.AgentBuilder: {Provider: "house", Model: "thinks", Effort: contract.EffortLow}, contract.AgentTester: {Provider: "house", Model: "thinks"},
	}}}
	again, err := runs.ModelFor(t.Context(), run, contract.AgentBuilder, ModelOverride{Effort: contract.EffortHigh})
	require.NoError(t, err)
	require.Equal(t, &contract.ModelChoice{Provider: "house", Model: "thinks", Effort: contract.EffortHigh}, again)
	for what, c := range map[string]struct {
		agent contract.Agent
		o     ModelOverride
	}{
		"reasoning of house/acts cannot be set": {contract.AgentBuilder, ModelOverride{Model: "house/acts", Effort: contract.EffortHigh}},
		"the tester calls no model":             {contract.AgentTester, ModelOverride{Effort: contract.EffortHigh}},
		"must be low, medium or high":           {contract.AgentBuilder, ModelOverride{Effort: "much"}},
	} {
		_, err := runs.ModelFor(t.Context(), run, c.agent, c.o)
		require.ErrorContains(t, err, what)
	}
	_, err = runs.SwitchModel(t.Context(), 1, "house/acts", nil, contract.EffortHigh, contract.Command{})
	require.ErrorContains(t, err, "cannot be set")

	runs.Config.Models.Phases = nil
	spawned, err := runs.Pipelines().settings(t.Context(), Spawning{Mode: contract.ModeLocal, Model: "house/thinks", Effort: contract.EffortHigh})
	require.NoError(t, err)
	require.Equal(t, contract.EffortHigh, spawned.Models[contract.AgentAlpha].Effort)
	_, err = runs.Pipelines().settings(t.Context(), Spawning{Mode: contract.ModeLocal, Model: "house/acts", Effort: contract.EffortHigh})
	require.ErrorContains(t, err, "cannot be used for the alpha")
	p, _, err := f.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "x", Settings: spawned})
	require.NoError(t, err)
	_, err = runs.Pipelines().SwitchModel(t.Context(), p.ID, contract.Alpha, "house/acts", nil, contract.EffortLow, contract.PipelineCommand{})
	require.ErrorContains(t, err, "cannot be set")
}

func TestAModelThatAnAgentCannotUseIsNotChosen(t *testing.T) {
	t.Parallel()
	runs, _ := chooser(t, t.TempDir())
	runs.Config.Models.Catalogue = []config.CatalogueEntry{
		{Provider: "house", Model: "talks", Capabilities: []string{"json_schema"}},
		{Provider: "house", Model: "works", Capabilities: []string{"tools", "fixed_temperature"}},
		{Provider: "house", Model: "embeds", Capabilities: []string{"embeddings"}},
	}
	half, hot := 0.5, 2.5
	for _, c := range []struct {
		agent contract.Agent
		n     NewModelChoice
		wrong string
	}{
		{contract.AgentTester, NewModelChoice{Model: "house/works"}, "the tester calls no model"},
		{"delta", NewModelChoice{Model: "house/works"}, `unknown agent "delta"`},
		{contract.AgentBuilder, NewModelChoice{Model: "nobody/works"}, `provider "nobody" not found`},
		{contract.AgentBuilder, NewModelChoice{Model: "works"}, "provider/model"},
		{contract.AgentBuilder, NewModelChoice{Model: "house/a\x1bb"}, "control characters"},
		{contract.AgentBuilder, NewModelChoice{Model: "house/talks"}, "works with tools, which house/talks does not support"},
		{contract.AgentPlanner, NewModelChoice{Model: "house/embeds"}, "computes embeddings"},
		{contract.AgentPlanner, NewModelChoice{Model: "house/works", Temperature: &half}, "does not accept a temperature"},
		{contract.AgentPlanner, NewModelChoice{Model: "house/talks", Temperature: &hot}, "must be from 0 to 2"},
		{contract.AgentPlanner, NewModelChoice{Model: "house/talks", Effort: "high"}, "omit the effort"},
		{contract.AgentPlanner, NewModelChoice{Model: "house/talks", Effort: "much"}, "must be low, medium or high"},
	} {
		_, err := runs.SetAgentModel(t.Context(), c.agent, c.n)
		require.ErrorContains(t, err, c.wrong)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	}
	changes, err := runs.ModelChanges(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, changes)

	_, err = runs.SetAgentModel(t.Context(), contract.AgentPlanner, NewModelChoice{Model: "house/talks"})
	require.NoError(t, err, "the planner needs no tools")
	runs.Config.Models.Providers["other"] = config.Provider{Kind: "compatible", BaseURL: "http://127.0.0.1:1/v1", MaxConcurrent: 1}
	unknown, err := runs.SetAgentModel(t.Context(), contract.AgentBuilder, NewModelChoice{Model: "other/new", Temperature: &half})
	require.NoError(t, err)
	require.Contains(t, unknown.Message, "not in the catalogue")
}
