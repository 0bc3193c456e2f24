package control

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

func TestAComplexityIsANumberOrAWord(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Complexity{"0": 0, "0.85": 0.85, "1": 1, `"low"`: 0.3, `"medium"`: 0.6, `"high"`: 0.9} {
		var asJSON, asYAML Task
		require.NoError(t, json.Unmarshal([]byte(`{"complexity": `+text+`}`), &asJSON), text)
		require.InDelta(t, float64(want), float64(asJSON.Complexity), 0, text)
		require.NoError(t, yaml.UnmarshalWithOptions([]byte("complexity: "+text), &asYAML, yaml.Strict(), yaml.UseJSONUnmarshaler()), text)
		require.InDelta(t, float64(want), float64(asYAML.Complexity), 0, text)
	}
	require.Greater(t, float64(complexityWords["high"]), config.Default().Deliberation.GammaComplexityOver, "high lets GAMMA join")
	for _, text := range []string{"1.1", "-0.1", `"huge"`, "true", "[]", "{}", `"HIGH"`} {
		var task Task
		require.Error(t, json.Unmarshal([]byte(`{"complexity": `+text+`}`), &task), text)
	}
}

func TestASpawningThatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxTaskName+1)
	subtasks := func(s ...contract.Subtask) *Task { return &Task{Objective: "o", Subtasks: s} }
	for why, s := range map[string]Spawning{
		"the objective is empty":                             {},
		"the task must be valid UTF-8 without NUL bytes":     {Objective: "a\x00b"},
		"the task and the request have different objectives": {Objective: "a", Task: &Task{Objective: "b"}},
		`the mode "remote" is invalid`:                       {Objective: "a", Mode: "remote"},
		"must have the form provider/model":                  {Objective: "a", Model: "gpt"},
		"the timeout is -1":                                  {Objective: "a", Timeout: -1},
		"timeout_seconds is 86401":                           {Objective: "a", Task: &Task{TimeoutSeconds: 86401}},
		"task_id is 101 bytes long":                          {Objective: "a", Task: &Task{TaskID: long}},
		"a subtask requires an id":                           {Task: subtasks(contract.Subtask{Description: "d"})},
		`two subtasks have the id "a"`:                       {Task: subtasks(contract.Subtask{ID: "a"}, contract.Subtask{ID: "a"})},
		`"a" cannot depend on "b"`:                           {Task: subtasks(contract.Subtask{ID: "a", Dependencies: []string{"b"}})},
		`"a" cannot depend on "a"`:                           {Task: subtasks(contract.Subtask{ID: "a", Dependencies: []string{"a"}})},
		`["a" "b" "c"] form a dependency cycle`: {Task: subtasks(
			contract.Subtask{ID: "free"}, contract.Subtask{ID: "a", Dependencies: []string{"free", "c"}},
			contract.Subtask{ID: "b", Dependencies: []string{"a"}}, contract.Subtask{ID: "c", Dependencies: []string{"b"}})},
		"101 subtasks":                                                  {Task: subtasks(make([]contract.Subtask, 101)...)},
		"more than 100 constraints or":                                  {Task: &Task{Objective: "o", Constraints: make([]string, 101)}},
		"must be valid UTF-8 without NUL bytes":                         {Objective: "a", Task: &Task{SuccessCriteria: []string{"\xff"}}},
		"complexity is 2; it must be a number":                          {Objective: "a", Task: &Task{Complexity: 2}},
		"a subtask requires an id; id and status may each be at most 1": {Task: subtasks(contract.Subtask{ID: "a", Status: long})},
	} {
		err := s.Check()
		require.ErrorContains(t, err, why)
		require.Equal(t, contract.ClassHuman, fault.Of(err).Class, why)
	}
	require.NoError(t, Spawning{Task: subtasks(contract.Subtask{ID: "b", Dependencies: []string{"a", "a"}}, contract.Subtask{ID: "a"}), Mode: contract.ModeLocal}.Check())
	require.NoError(t, Spawning{Objective: " o ", Task: &Task{Objective: "o"}}.Check(), "the same objective twice is one")
}

// scriptedConfig is a configuration whose only models are scripted.
func scriptedConfig() *config.Config {
	cfg := config.Default()
	cfg.Models.Providers["scripted"] = config.Provider{Kind: "scripted", BaseURL: "http://127.0.0.1:1/v1", MaxConcurrent: 1}
	cfg.Models.Default = config.Choice{Provider: "scripted", Model: "scripted"}
	return cfg
}

func TestTheModeOfAPipelineIsThatOfItsModels(t *testing.T) {
	t.Parallel()
	p := &Pipelines{Config: scriptedConfig()}
	for _, mode := range []contract.PipelineMode{"", contract.ModeOpenRouter, contract.ModeLocal} {
		s, err := p.models(t.Context(), mode, "")
		require.NoError(t, err)
		require.Equal(t, contract.ModeLocal, s.Mode, "nothing but the scripted model is there")
		require.Len(t, s.Models, 3)
	}
	s, err := p.models(t.Context(), "", "openai/gpt-5")
	require.NoError(t, err)
	require.Equal(t, contract.ModeOpenRouter, s.Mode)
	for _, m := range contract.Members() {
		require.Equal(t, "gpt-5", s.Models[m.Agent()].Model)
	}
	s, err = p.models(t.Context(), contract.ModeLocal, "scripted/other")
	require.NoError(t, err)
	require.Equal(t, "other", s.Models[contract.AgentGamma].Model)
	_, err = p.models(t.Context(), contract.ModeLocal, "openai/gpt-5")
	require.ErrorContains(t, err, "local mode uses the scripted model")
	_, err = p.models(t.Context(), "", "nowhere/x")
	require.ErrorContains(t, err, `model provider "nowhere" not found`)
}

func TestTheModelOfAllAgentsIsThatOfThoseWhoDeliberateToo(t *testing.T) {
	t.Parallel()
	cfg := scriptedConfig()
	d, err := setup.Deliberation(cfg, "")
	require.NoError(t, err)
	require.Equal(t, contract.ModeLocal, d.Mode)
	s := contract.Settings{Models: map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: {}}, Deliberation: &d}
	require.NoError(t, chooseModel(cfg, &s, "openai/gpt-5"))
	require.Equal(t, contract.ModeOpenRouter, d.Mode)
	for _, m := range contract.Members() {
		require.Equal(t, s.Models[contract.AgentPlanner], d.Models[m.Agent()], m)
	}
}

func TestWhoPlansARunIsASettingOfItsRequest(t *testing.T) {
	t.Parallel()
	require.Nil(t, Creation{}.settings())
	require.Equal(t, map[string]string{"deliberation.plan_by": "deliberation"}, Creation{PlanBy: "deliberation"}.settings())
	both := Creation{PlanBy: "deliberation", Settings: map[string]string{"deliberation.plan_by": "planner", "git.stay": "1h"}}
	require.Equal(t, both.Settings, both.settings())
	raw, err := json.Marshal(Creation{})
	require.NoError(t, err)
	require.NotContains(t, string(raw), "PlanBy", "requests of before are still the same ones")
}

func TestWhatCannotReachTheModelsOfADeliberationIsRefusedBefore(t *testing.T) {
	t.Parallel()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"object": "list", "data": []}`))
	}))
	t.Cleanup(answers.Close)
	cfg := scriptedConfig()
	cfg.Models.Providers["scripted"] = config.Provider{Kind: "scripted", BaseURL: answers.URL + "/v1", MaxConcurrent: 1}
	cfg.Models.Providers["keyless"] = config.Provider{Kind: "openai", BaseURL: answers.URL + "/v1", APIKeyEnv: "RGPT_TEST_NO_SUCH_KEY", MaxConcurrent: 1}
	scripted := contract.ModelChoice{Provider: "scripted", Model: "scripted"}
	run := contract.Settings{
		Models:       map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: scripted, contract.AgentBuilder: scripted},
		Deliberation: &contract.DeliberationSettings{Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: scripted, contract.AgentBeta: {Provider: "keyless", Model: "x"}}},
	}
	require.NoError(t, probe(t.Context(), cfg, run), "nobody deliberates unless the plan is complex")
	run.PlanBy = contract.PlanByDeliberation
	err := probe(t.Context(), cfg, run)
	require.ErrorContains(t, err, "the run was not created: ")
	require.Equal(t, contract.CodeUnauthorized, fault.Of(err).Code)
	require.Equal(t, 1, strings.Count(err.Error(), "keyless"), "said once")
	run.PlanGiven = true
	require.NoError(t, probe(t.Context(), cfg, run), "the plan is there")
	p := &Pipelines{Config: cfg}
	require.ErrorContains(t, p.probe(t.Context(), *run.Deliberation, "pipeline 7 was not continued"), "pipeline 7 was not continued: ")
}
