package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

func TestPoliciesOfARequestAreJudgedWithinAMemoryLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Gate.Memory, b.config.Gate.Timeout = config.Size(256<<20), time.Minute
	run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{Gate: gate.Settings(b.config)}})
	require.NoError(t, err)
	in := policy.NewInput(policy.StageRelease, gatetest.Between(gatetest.Tree{"a": "1\n"}, gatetest.Tree{"a": "2\n"}), nil)
	raw, err := json.Marshal(in)
	require.NoError(t, err)
	_, err = verdicts.Save(t.Context(), b.Store, "p", contract.GateRecord{
		RunID: run.ID, Stage: contract.GateRelease, Author: "run", Subject: "sha256:1", Decision: contract.GateAllow, Policies: map[string]string{},
	}, verdicts.Basis{Input: raw})
	require.NoError(t, err)
	rejudge := func(rule string) (int, string) {
		body, err := json.Marshal(map[string]any{"policies": map[string]string{"sent.rego": "package operator\n" + rule}})
		require.NoError(t, err)
		w := b.send(t, http.MethodPost, fmt.Sprintf("/api/runs/%d/rejudge", run.ID), string(body))
		return w.Code, w.Body.String()
	}
	status, said := rejudge(`deny contains "no"`)
	require.Equal(t, http.StatusOK, status, said)
	require.Contains(t, said, `"now":"deny"`)
	for rule, why := range map[string]string{
		"deny contains x if { x := [[y, z] | some y in numbers.range(1, 3000); some z in numbers.range(1, 3000)] }": "used too much memory or time (limits: 256 MiB, gate.memory",
		"deny contains {": "sent.rego:2",
	} {
		status, said = rejudge(rule)
		require.Equal(t, http.StatusUnprocessableEntity, status, said)
		require.Contains(t, said, why)
	}
}
