package chain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// since returns the entries after a number, oldest first.
func since(t *testing.T, f *storetest.Fixture, seq int64) (out []ledger.Entry) {
	t.Helper()
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{Limit: 1000})
	require.NoError(t, err)
	for _, e := range entries {
		if e.Seq > seq {
			out = append([]ledger.Entry{e}, out...)
		}
	}
	return out
}

// lines shortens entries to who did what to what.
func lines(entries []ledger.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s %s: %s %s", e.Actor, e.Name, e.Action, e.Object))
	}
	return out
}

// commanded requires that a command makes these entries and no others, and that the chain stays whole.
func commanded(t *testing.T, f *storetest.Fixture, command func() error, want ...string) []ledger.Entry {
	t.Helper()
	before, _, err := chain.Head(t.Context(), f.Store)
	require.NoError(t, err)
	require.NoError(t, command())
	got := since(t, f, before)
	require.Equal(t, want, lines(got))
	require.True(t, verify(t, f).OK())
	return got
}

func TestCommandsToPipelinesAreEntriesOfTheirSenders(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	settings := contract.DeliberationSettings{Mode: contract.ModeLocal}
	spawn := func(by, key string) (p store.Pipeline) {
		p, _, err := f.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "Design a cache", Settings: settings, By: by, IdempotencyKey: key})
		require.NoError(t, err)
		return p
	}
	var p store.Pipeline
	entries := commanded(t, f, func() error { p = spawn("ann", "k"); return nil }, "person ann: pipeline.spawned pipeline 1")
	require.Equal(t, p.RunID, entries[0].RunID)
	commanded(t, f, func() error { spawn("ann", "k"); return nil })
	commanded(t, f, func() error { spawn(contract.ByAPI, ""); return nil }, "client api: pipeline.spawned pipeline 2")
	commanded(t, f, func() error { spawn("", ""); return nil }, "client unnamed: pipeline.spawned pipeline 3")

	secret := "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
	entries = commanded(t, f, func() error {
		_, _, err := f.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: strings.Repeat("x", 480) + " " + secret, Settings: settings, By: "ann"})
		return err
	}, "person ann: pipeline.spawned pipeline 4")
	require.NotContains(t, string(entries[0].Details), "ghp_", "also where the objective is cut")

	source := store.Source{WorkflowID: contract.PipelineWorkflowID(p.ID), WorkflowRunID: "first"}
	record := contract.PipelineRecord{PipelineID: p.ID, RunID: p.RunID, Seq: 1, Events: []contract.EventDraft{
		{Type: contract.EventPipelineUpdated, Payload: map[string]any{"status": contract.PipelineRunning}},
		{Type: contract.EventPipelineCommanded, Payload: map[string]any{"command": contract.UpdateContinue, "by": "bob"}},
		{Type: contract.EventModelsSwitched, Payload: map[string]any{"models": map[string]any{}, "by": ""}},
		{Type: contract.EventPipelineCommanded, Payload: map[string]any{"command": contract.UpdateStop, "by": contract.ByDashboard}},
	}}
	for range 2 { // a repeat of the record changes nothing
		require.NoError(t, f.PipelineRecord(t.Context(), source, record))
	}
	require.Equal(t, []string{
		"person bob: pipeline.commanded pipeline 1", "client unnamed: models_switched pipeline 1", "client dashboard: pipeline.commanded pipeline 1",
	}, lines(since(t, f, 5)))
	recovery := contract.NewPipeline{RunID: p.RunID, Prior: p.ID, Attempt: 2, Settings: settings}
	commanded(t, f, func() error { _, err := f.CreatePipeline(t.Context(), recovery); return err }, "system rgpt: pipeline.spawned pipeline 5")
}

func TestChoicesOfModelsAreEntries(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	choices := modelchoices.New(f.Store)
	entries := commanded(t, f, func() error {
		_, err := choices.Set(t.Context(), contract.AgentBuilder, contract.ModelChoice{Provider: "p", Model: "m"}, nil, "ann")
		return err
	}, "person ann: model_choice.changed agent builder")
	require.JSONEq(t, `{"to": {"provider": "p", "model": "m"}}`, string(entries[0].Details))
	unset := func() error {
		_, err := choices.Unset(t.Context(), contract.AgentBuilder, nil, contract.ByAPI)
		return err
	}
	commanded(t, f, unset, "client api: model_choice.changed agent builder")
	commanded(t, f, unset)
	var stale int64 = 7
	commanded(t, f, func() error {
		_, err := choices.Set(t.Context(), contract.AgentBuilder, contract.ModelChoice{Provider: "p", Model: "m"}, &stale, "ann")
		require.Error(t, err)
		return nil
	})

	stored := catalogue.New(f.Store)
	entry := func(name string) model.CatalogueEntry { return model.CatalogueEntry{Provider: "openai", Model: name} }
	update := func(names ...string) func() error {
		return func() error {
			var all model.Catalogue
			for _, name := range names {
				all = append(all, entry(name))
			}
			return stored.Update(t.Context(), all, "ann")
		}
	}
	commanded(t, f, update("a"), "person ann: models.updated model openai/a")
	entries = commanded(t, f, update("a", "b", "c"), "person ann: models.updated catalogue of models")
	require.JSONEq(t, `{"models": 3}`, string(entries[0].Details))
	commanded(t, f, func() error {
		return stored.Check(t.Context(), model.Checked{Provider: "openai", Model: "a", At: time.Unix(1, 0)}, contract.ByCommandLine)
	}, "client the command line: models.checked model openai/a")
	reset := func() error { _, err := stored.Reset(t.Context(), "bob"); return err }
	commanded(t, f, reset, "person bob: models.reset catalogue of models")
	commanded(t, f, reset)
}

func TestQuarantinedTestsAreEntries(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	tests := flaky.New(f.Store)
	var last flaky.Entry
	add := func() (err error) {
		last, err = tests.Add(t.Context(), flaky.Entry{
			Repo: "https://user:secret@example.com/app.git?token=1", Test: "TestSlow", Reason: "slow", CreatedBy: "ann", ExpiresAt: time.Now().Add(time.Hour),
		}, 10)
		return err
	}
	entries := commanded(t, f, add, "person ann: quarantine.added test TestSlow")
	require.Contains(t, string(entries[0].Details), `"https://example.com/app.git"`)
	commanded(t, f, add, "person ann: quarantine.added test TestSlow") // it replaces the first
	remove := func(by string) func() error {
		return func() error { _, _, err := tests.Remove(t.Context(), last.ID, by); return err }
	}
	commanded(t, f, remove(contract.ByAPI), "client api: quarantine.removed test TestSlow")
	commanded(t, f, remove("bob"))
}

func TestSetupsAndEnvironmentsAreEntries(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	secret := "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
	var made store.Setup
	add := func(source, by string) func() error {
		return func() (err error) {
			made, err = f.AddSetup(t.Context(), store.Setup{
				Repo: "/repos/app", Source: source, Settings: json.RawMessage(`{"Variables": {"TOKEN": "hunter2"}}`), Reason: "with " + secret, CreatedBy: by,
			})
			return err
		}
	}
	entries := commanded(t, f, add("person", "ann"), "person ann: setup.added setup 1")
	require.NotContains(t, string(entries[0].Details), "hunter2")
	require.NotContains(t, string(entries[0].Details), secret)
	revoke := func(by string) func() error {
		return func() error { _, err := f.RevokeSetup(t.Context(), made.ID, by); return err }
	}
	commanded(t, f, revoke("bob"), "person bob: setup.revoked setup 1")
	commanded(t, f, revoke("bob"))
	commanded(t, f, add("agent", "environment agent"), "agent environment agent: setup.added setup 2")
	commanded(t, f, revoke("the baseline: no test passed"), "system rgpt: setup.revoked setup 2")
	commanded(t, f, add("agent", "environment agent"), "agent environment agent: setup.added setup 3")
	commanded(t, f, func() error { _, err := f.ProveSetup(t.Context(), made.ID); return err }, "system rgpt: setup.proven setup 3")
	commanded(t, f, revoke("the baseline: by a person"), "person the baseline: by a person: setup.revoked setup 3")

	save := func(digest string) {
		require.NoError(t, f.SaveEnvironment(t.Context(), store.Environment{Digest: digest, Repo: "/repos/app", Source: "detected", Recipe: json.RawMessage(`{}`), Archive: "sha256:1"}))
	}
	save("d1")
	commanded(t, f, func() error { _, err := f.RemoveEnvironment(t.Context(), "d1", "ann"); return err }, "person ann: environment.removed environment d1")
	commanded(t, f, func() error { _, err := f.RemoveEnvironment(t.Context(), "d1", "ann"); return err })
	save("d2")
	commanded(t, f, func() error { _, err := f.RemoveUnusedEnvironments(t.Context(), -time.Hour); return err })
}

func TestRetentionByPeopleIsEntries(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	rows := retain.New(f.Store)
	run := fmt.Sprint("run ", f.First.ID)
	hold := func() error { _, err := rows.Hold(t.Context(), f.First.ID, "an audit", "ann"); return err }
	entries := commanded(t, f, hold, "person ann: hold.added "+run)
	require.Equal(t, f.First.ID, entries[0].RunID)
	commanded(t, f, hold) // the hold stays as it is
	commanded(t, f, func() error { _, err := rows.Release(t.Context(), f.First.ID, ""); return err }, "client unnamed: hold.released "+run)
	begin := func(origin, by string) func() error {
		return func() error { _, err := rows.Begin(t.Context(), origin, by, map[string]int{"max_age": 1}); return err }
	}
	commanded(t, f, begin("person", "ann"), "person ann: cleanup.started clean-up 1")
	commanded(t, f, begin("schedule", ""))
}

func TestWebhooksAreEntriesWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	var hook store.Webhook
	add := func() (err error) {
		hook, _, _, err = f.CreateWebhook(t.Context(), store.NewWebhook{
			URL: "https://u:p4ss@hooks.example.com/services/T0/B0/p4th?token=t0ken", Name: "team", Secret: "whsec_first", Enabled: true, Most: 10, Key: "k", By: "ann",
		})
		return err
	}
	all := commanded(t, f, add, "person ann: webhook.added webhook 1")
	var details map[string]any
	require.NoError(t, json.Unmarshal(all[0].Details, &details))
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", details["url_digest"])
	delete(details, "url_digest")
	require.Equal(t, map[string]any{"url": "https://hooks.example.com", "name": "team", "events": []any{}, "enabled": true}, details)
	commanded(t, f, add) // a repeat of the request
	change := func(c store.WebhookChange) func() error {
		return func() error { _, err := f.ChangeWebhook(t.Context(), hook.ID, c); return err }
	}
	secret, project, off := store.Secret("whsec_second"), "app", false
	changed := commanded(t, f, change(store.WebhookChange{Secret: &secret, Project: &project, By: "bob"}), "person bob: webhook.changed webhook 1")
	require.Contains(t, string(changed[0].Details), `"changed": ["project", "secret"]`)
	commanded(t, f, change(store.WebhookChange{Project: &project, By: "bob"})) // nothing changes
	commanded(t, f, change(store.WebhookChange{Enabled: &off}), "client unnamed: webhook.changed webhook 1")
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `UPDATE orchestrator_webhooks SET enabled = true`)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, `UPDATE orchestrator_webhooks SET failing_since = now()`)
		require.NoError(t, err)
	})
	commanded(t, f, func() error {
		return f.InTx(t.Context(), func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE orchestrator_webhooks SET enabled = false, disabled_reason = 'it failed for 3 days'`)
			return err
		})
	}, "system rgpt: webhook.disabled webhook 1")
	all = append(all, commanded(t, f, func() error { return f.DeleteWebhook(t.Context(), hook.ID, contract.ByAPI) }, "client api: webhook.removed webhook 1")...)
	for _, e := range append(all, changed...) {
		for _, hidden := range []string{"whsec", "p4ss", "p4th", "t0ken"} {
			require.NotContains(t, string(e.Details), hidden)
		}
	}
}

func TestEvaluationsAndAttemptsAreEntries(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	commanded(t, f, func() error {
		_, err := evals.New(f.Store).Create(t.Context(), evals.Eval{Set: "small", Digest: "sha256:1", CreatedBy: "ann"}, []evals.Pair{{Task: "t", Variant: "v"}})
		return err
	}, "person ann: evaluation.started evaluation 1")
	group, _, err := attempts.Create(t.Context(), f.Store, attempts.New{
		Runs: []store.NewRun{storetest.Filled(store.NewRun{GoalTitle: "goal"}), storetest.Filled(store.NewRun{GoalTitle: "goal"})},
	})
	require.NoError(t, err)
	stop := func() error { _, err := attempts.Stop(t.Context(), f.Store, group.ID, "ann"); return err }
	commanded(t, f, stop, fmt.Sprint("person ann: attempts.stopped attempts ", group.ID))
	commanded(t, f, stop)
}

func TestOnlyRealChangesOfTheGatesSettingsAreEntries(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	settings := func(policy string) map[string]any {
		return map[string]any{"gate.policy": policy, "gate.limits.files": 10, "gate.allowed": []string{}}
	}
	save := func(policy string) func() error {
		return func() error { return verdicts.SaveSettings(t.Context(), f.Store, settings(policy)) }
	}
	const entry = "system configuration: gate.configured settings of the policy gate"
	commanded(t, f, save("default"), entry)
	commanded(t, f, save("default"))
	changed := commanded(t, f, save("permissive"), entry)
	var details struct{ Changed map[string]map[string]any }
	require.NoError(t, json.Unmarshal(changed[0].Details, &details))
	require.Equal(t, map[string]map[string]any{"gate.policy": {"from": "default", "to": "permissive"}}, details.Changed)
	commanded(t, f, func() error {
		var all sync.WaitGroup
		for range 8 { // servers that read the same configuration at the same time
			all.Go(func() { require.NoError(t, save("strict")()) })
		}
		all.Wait()
		return nil
	}, entry)
	long := settings("default")
	long["gate.allowed"] = []string{strings.Repeat("x", 20_000)}
	huge := commanded(t, f, func() error { return verdicts.SaveSettings(t.Context(), f.Store, long) }, entry)
	require.Less(t, len(huge[0].Details), 1000)
	require.Contains(t, string(huge[0].Details), `"changed": ["gate.allowed", "gate.policy"]`)
}

func TestCommandsThatAreRolledBackLeaveNoEntry(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	run := f.First.ID
	rows := `INSERT INTO orchestrator_holds (run_id, reason, held_by) VALUES ($1, 'r', 'ann')`
	for name, statements := range map[string][]string{
		"hold":     {rows},
		"webhook":  {`INSERT INTO orchestrator_webhooks (url, secret) SELECT 'https://example.com', 's' WHERE $1 > 0`},
		"pipeline": {`INSERT INTO orchestrator_events (run_id, seq, event_type, payload) VALUES ($1, 1000, 'pipeline.commanded', '{"by": "ann", "pipeline_id": 1}')`},
		"gate":     {`INSERT INTO orchestrator_gate_settings (digest, settings) SELECT 'd', '{}' WHERE $1 > 0`},
		"cleanup":  {`INSERT INTO orchestrator_cleanups (origin, asked_by, policy) SELECT 'person', 'ann', '{}' WHERE $1 > 0`},
	} {
		for _, kept := range []bool{false, true} {
			before := verify(t, f).Seq
			undone := errors.New("undone")
			err := f.InTx(t.Context(), func(tx pgx.Tx) error {
				for _, sql := range statements {
					_, err := tx.Exec(t.Context(), sql, run)
					require.NoError(t, err, name)
				}
				if _, err := tx.Exec(t.Context(), `SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
					return err
				}
				if kept {
					return nil
				}
				return undone
			})
			report := verify(t, f)
			require.True(t, report.OK(), name)
			if kept {
				require.NoError(t, err)
				require.Equal(t, before+1, report.Seq, name)
			} else {
				require.ErrorIs(t, err, undone)
				require.Equal(t, before, report.Seq, name)
			}
		}
	}
}
