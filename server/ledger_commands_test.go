package server_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// noEntry begins the reason why a write operation makes no entry of the ledger.
const noEntry = "none: "

// entriesOf are, for each operation that is not a GET, the actions of the ledger that its success makes,
// or the reason why there are none. A new operation needs an entry here.
func entriesOf() map[string]string {
	const command = "run.updated"
	return map[string]string{
		"create-run": "run.created", "fork-run": "run.created", "follow-up-run": "run.created",
		"approve-run": "approval.granted intervention.resolved", "reject-run": "approval.rejected intervention.resolved", "answer-run": "input.answered",
		"pause-run": command, "resume-run": command, "advance-run": command, "stop-run": command, "replay-run": command,
		"heal-run": "approval.granted intervention.resolved run.updated", "models-run": "model.switched", "messages-run": "message.added",
		"labels-run":     "label.added label.removed",
		"pause-attempts": command, "resume-attempts": command, "stop-attempts": "attempts.stopped run.updated",
		"checks-run":     "check.received", // if a fix begins; a check that passed or is outdated changes nothing
		"spawn-pipeline": "pipeline.spawned", "continue-pipeline": "pipeline.commanded", "stop-pipeline": "pipeline.commanded",
		"record-pipeline-error": "pipeline.commanded", "revoke-agent": "pipeline.commanded", "failure-context": "pipeline.commanded",
		"switch-pipeline-models": "models_switched",
		"set-agent-model":        "model_choice.changed", "unset-agent-model": "model_choice.changed",
		"add-quarantine": "quarantine.added", "delete-quarantine": "quarantine.removed",
		"add-setup": "setup.added", "delete-setup": "setup.revoked", "delete-environment": "environment.removed",
		"hold-run": "hold.added", "release-hold": "hold.released", "clean-up": "cleanup.started",
		"create-webhook": "webhook.added", "change-webhook": "webhook.changed", "delete-webhook": "webhook.removed",
		"subscribe-browser": "browser.subscribed browser.changed", "remove-browser": "browser.removed", "resend-notification": "notification.resent",
		"fire-trigger": "trigger.requested", "pause-trigger": "trigger.paused", "resume-trigger": "trigger.resumed", "redeliver-trigger": "trigger.redelivered",
		"stop-change-set": "change_set.stopped", "release-change-set": "change_set.released",
		"add-merge-queue": "queue.", "remove-merge-queue": "queue.", "skip-merge-queue": "queue.", "pause-merge-queue": "queue.", "resume-merge-queue": "queue.",

		"test-notification-channel": noEntry + "it changes nothing",

		"test-webhook":     noEntry + "it changes nothing but the webhook's log of deliveries",
		"redeliver":        noEntry + "it changes nothing but the webhook's log of deliveries",
		"estimate-run":     noEntry + "it only computes",
		"rejudge-run":      noEntry + "it only computes",
		"find-environment": noEntry + "it only reads a repository",
		"index-repository": noEntry + "an index is computed from a repository, and can be computed again",
	}
}

func TestNoOperationThatChangesSomethingIsMissingInTheLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var known string // the triggers of the schema and their functions, which name the actions
	storetest.Query(t, b.address, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, `SELECT string_agg(source, '') FROM (
			SELECT pg_get_triggerdef(oid) AS source FROM pg_trigger WHERE tgname LIKE 'orchestrator_ledger%'
			UNION ALL SELECT prosrc FROM pg_proc WHERE proname LIKE 'rgpt_ledger%' OR proname = 'rgpt_in_ledger') AS parts`).Scan(&known))
	})
	entries := entriesOf()
	for path, methods := range b.document(t).Paths {
		for method, op := range methods {
			if method == "get" {
				continue
			}
			actions, decided := entries[op.OperationID]
			require.True(t, decided, "%s %s (%s): add a trigger that appends to the ledger, or say in entriesOf why it needs none", strings.ToUpper(method), path, op.OperationID)
			delete(entries, op.OperationID)
			if strings.HasPrefix(actions, noEntry) {
				continue
			}
			for action := range strings.FieldsSeq(actions) {
				require.Contains(t, known, "'"+action+"'", "%s: no trigger appends %s", op.OperationID, action)
			}
		}
	}
	require.Empty(t, entries, "operations that no longer exist")
}

func TestRequestsOverHTTPAreEntriesOfTheirSenders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.saveEnvironment(t)
	for _, r := range []struct{ method, path, body, want string }{
		{"POST", "/api/webhooks", `{"url": "https://example.com/a?token=t", "by": "ann"}`, "person ann webhook.added"},
		{"PATCH", "/api/webhooks/1", `{"project": "app"}`, "client api webhook.changed"},
		{"DELETE", "/api/webhooks/1?by=bob", "", "person bob webhook.removed"},
		{"DELETE", "/api/environments/" + keptDigest, "", "client api environment.removed"},
	} {
		w := b.send(t, r.method, r.path, r.body)
		require.Less(t, w.Code, 300, w.Body)
		var got string
		storetest.Query(t, b.address, func(ctx context.Context, conn *pgx.Conn) {
			require.NoError(t, conn.QueryRow(ctx, `SELECT actor || ' ' || name || ' ' || action FROM orchestrator_ledger ORDER BY seq DESC LIMIT 1`).Scan(&got))
		})
		require.Equal(t, r.want, got)
	}
	report, err := chain.Verify(t.Context(), b.Store, nil)
	require.NoError(t, err)
	require.True(t, report.OK(), report.Faults)
}

func TestTheGatesSettingsAreNotedByServersAndNewRunsOnlyIfTheyChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	noted := func() (out []map[string]map[string]any) {
		entries, err := chain.List(t.Context(), b.Store, chain.Filter{Action: "gate.configured"})
		require.NoError(t, err)
		for _, e := range entries {
			require.Equal(t, ledger.System, e.Actor)
			var details struct{ Changed map[string]map[string]any }
			require.NoError(t, json.Unmarshal(e.Details, &details))
			out = append(out, details.Changed)
		}
		return out
	}
	server := func() *control.Runs { return &control.Runs{Store: b.Store, Config: b.config} }
	require.NoError(t, server().NoteGate(t.Context()))
	require.NoError(t, server().NoteGate(t.Context()), "a restart")
	require.Len(t, noted(), 1)
	require.Equal(t, b.config.Gate.Policy, noted()[0]["gate.policy"]["to"])
	require.Contains(t, noted()[0], "verification.pinned_tests")
	require.Contains(t, noted()[0], "gate.limits.files")

	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	client, _ := clientOf(t, b.handler, quietly)
	create := func(settings map[string]string) {
		_, err := client.Create(t.Context(), control.Creation{Repo: repo, PrepareOnly: true, Settings: settings})
		require.NoError(t, err)
	}
	create(nil)
	create(map[string]string{"gate.policy": "strict"}) // of this run only
	require.Len(t, noted(), 1)
	b.config.Gate.Policy = "permissive"
	create(nil)
	create(nil)
	require.Len(t, noted(), 2)
	require.Equal(t, map[string]map[string]any{"gate.policy": {"from": "default", "to": "permissive"}}, noted()[0])

	b.config.Gate.Policies = t.TempDir()
	own := filepath.Join(b.config.Gate.Policies, "own.rego")
	for _, content := range []string{"package operator\n", "package operator\n# edited\n", "package operator\n"} { // the last is the first again
		require.NoError(t, os.WriteFile(own, []byte(content), 0o600))
		require.NoError(t, server().NoteGate(t.Context()))
	}
	require.Len(t, noted(), 5)
	require.Contains(t, noted()[0], "gate.policies (content)")
	require.NoError(t, os.WriteFile(own, []byte("package operator\n\ndeny contains\n"), 0o600))
	require.ErrorContains(t, server().NoteGate(t.Context()), "own.rego")
	require.Len(t, noted(), 5, "settings that are not valid are not in force")
	b.config.Gate.Policy = "none"
	require.NoError(t, server().NoteGate(t.Context()))
	require.Equal(t, map[string]any{"from": "permissive", "to": "none"}, noted()[0]["gate.policy"])
}
