package chain_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// verify checks the whole ledger.
func verify(t *testing.T, f *storetest.Fixture, trusted ...ledger.Checkpoint) ledger.Report {
	t.Helper()
	report, err := chain.Verify(t.Context(), f.Store, trusted)
	require.NoError(t, err)
	return report
}

// filled appends entries.
func filled(t *testing.T, f *storetest.Fixture, n int) {
	t.Helper()
	for i := range n {
		storetest.AppendLedger(t, f.Store, ledger.Entry{Actor: ledger.System, Name: "test", Action: "tested", Object: fmt.Sprint("thing ", i)}, fmt.Sprintf(`{"n": %d}`, i))
	}
}

func TestOnlyANamedPersonIsAPersonInTheLedger(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	var events []contract.EventDraft
	for _, by := range []string{"ann", contract.ByAPI, "Dashboard", contract.ByCommandLine, ""} {
		events = append(events, contract.EventDraft{Type: contract.EventApprovalGranted, Payload: map[string]any{"by": by}})
	}
	events = append(events, contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]any{"stopping": true, "by": ""}},
		contract.EventDraft{Type: contract.EventApprovalExpired, Payload: map[string]any{"by": ""}})
	f.Apply(t, contract.Record{Events: events})
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{RunID: f.First.ID})
	require.NoError(t, err)
	var got []string
	for i := len(entries) - 2; i >= 0; i-- { // without run.created
		got = append(got, fmt.Sprint(entries[i].Actor, " ", entries[i].Name, " ", entries[i].Action))
	}
	require.Equal(t, []string{
		"person ann approval.granted", "client api approval.granted", "client Dashboard approval.granted", "client the command line approval.granted",
		"client unnamed approval.granted", "client unnamed run.updated", "system rgpt approval.expired",
	}, got)
	require.True(t, verify(t, f).OK())
}

func TestEveryActOfARunIsAnEntryOfItsAuthor(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	event := func(kind contract.EventType, payload map[string]any) contract.EventDraft {
		return contract.EventDraft{Type: kind, Payload: payload}
	}
	f.Apply(t, contract.Record{
		Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder, Model: contract.ModelChoice{Provider: "p", Model: "m"}},
		Events: []contract.EventDraft{
			event(contract.EventStepStarted, map[string]any{"step": "step-001"}),
			event(contract.EventRunUpdated, map[string]any{"status": "paused"}),
			event(contract.EventRunUpdated, map[string]any{"status": "paused", "by": "ann"}),
			event(contract.EventStepCompleted, map[string]any{"step": "step-001"}),
			event(contract.EventApprovalGranted, map[string]any{"kind": "release", "by": "bob"}),
		},
	})
	_, err := verdicts.Save(t.Context(), f.Store, "p1", contract.GateRecord{
		RunID: f.First.ID, Stage: contract.GateStep, Author: "builder", Subject: "s", Policies: map[string]string{}, Decision: contract.GateAllow,
	}, verdicts.Basis{Input: []byte("{}")})
	require.NoError(t, err)
	require.NoError(t, verdicts.SavePolicies(t.Context(), f.Store, "sha256:1", map[string]string{}))
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{})
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append([]string{fmt.Sprintf("%s %s: %s %s", e.Actor, e.Name, e.Action, e.Object)}, got...)
	}
	run := fmt.Sprint("run ", f.First.ID)
	require.Equal(t, []string{
		"system rgpt: run.created " + run,
		"person ann: run.updated " + run,
		"agent builder p/m: step.completed " + run + " step-001",
		"person bob: approval.granted " + run,
		"system rgpt: gate.allowed " + run,
		"system rgpt: policies.changed policies sha256:1",
	}, got)
	require.True(t, verify(t, f).OK())

	bobs, err := chain.List(t.Context(), f.Store, chain.Filter{Name: "bob", RunID: f.First.ID, Action: "approval.granted"})
	require.NoError(t, err)
	require.Len(t, bobs, 1)
	require.JSONEq(t, `{"kind": "release", "by": "bob"}`, string(bobs[0].Details))
}

func TestWritersAtTheSameTimeMakeOneChain(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			run := f.Create(t, store.NewRun{GoalTitle: fmt.Sprint("goal ", i)})
			for j := range 10 {
				storetest.AppendLedger(t, f.Store, ledger.Entry{Actor: ledger.System, Name: "test", Action: "tested", RunID: run.ID}, fmt.Sprint(j))
			}
		})
	}
	all.Wait()
	report := verify(t, f)
	require.True(t, report.OK(), report.Faults)
	require.EqualValues(t, 1+8*11, report.Entries)
}

func TestAnActThatIsRolledBackLeavesNoEntry(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	before := verify(t, f).Seq
	err := f.InTx(t.Context(), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT rgpt_ledger_append('system', 'a', 'b', 'c', 0, '{}')`)
		require.NoError(t, err)
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	filled(t, f, 1)
	report := verify(t, f)
	require.True(t, report.OK())
	require.Equal(t, before+1, report.Seq)
}

func TestEntriesCannotBeChangedByStatements(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	filled(t, f, 3)
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		for _, sql := range []string{
			`UPDATE orchestrator_ledger SET name = 'other' WHERE seq = 2`,
			`UPDATE orchestrator_ledger SET details = '{}' WHERE seq = 2`,
			`UPDATE orchestrator_ledger SET details = NULL, hash = '' WHERE seq = 2`,
			`DELETE FROM orchestrator_ledger WHERE seq = 4`,
			`TRUNCATE orchestrator_ledger`,
		} {
			_, err := conn.Exec(ctx, sql)
			require.ErrorContains(t, err, "the ledger is append-only", sql)
		}
	})
	require.True(t, verify(t, f).OK())
}

// tamper changes the ledger as somebody can who owns the database.
func tamper(t *testing.T, f *storetest.Fixture, statements ...string) {
	t.Helper()
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		for _, sql := range append([]string{`ALTER TABLE orchestrator_ledger DISABLE TRIGGER ALL`}, statements...) {
			_, err := conn.Exec(ctx, sql)
			require.NoError(t, err, sql)
		}
	})
}

func TestTamperingIsFoundWithItsPlace(t *testing.T) {
	t.Parallel()
	remake := `DO $$ DECLARE e orchestrator_ledger; last TEXT := ''; BEGIN
		FOR e IN SELECT * FROM orchestrator_ledger ORDER BY seq LOOP
			UPDATE orchestrator_ledger SET previous = last,
				hash = rgpt_ledger_hash(last, e.seq, e.at, e.actor, e.name, e.action, e.object, e.run_id, e.digest) WHERE seq = e.seq RETURNING hash INTO last;
		END LOOP; UPDATE orchestrator_ledger_head SET hash = last; END $$`
	for name, c := range map[string]struct {
		statements []string
		place      int64
		what       string
	}{
		"edited name":     {[]string{`UPDATE orchestrator_ledger SET name = 'mallory' WHERE seq = 5`}, 5, "was edited"},
		"edited time":     {[]string{`UPDATE orchestrator_ledger SET at = at + interval '1 microsecond' WHERE seq = 5`}, 5, "was edited"},
		"edited details":  {[]string{`UPDATE orchestrator_ledger SET details = '{"n": 99}' WHERE seq = 5`}, 5, "details of entry 5 were edited"},
		"deleted":         {[]string{`DELETE FROM orchestrator_ledger WHERE seq = 5`}, 5, "entry 5 is missing"},
		"deleted several": {[]string{`DELETE FROM orchestrator_ledger WHERE seq BETWEEN 5 AND 7`}, 5, "entries 5 to 7 are missing"},
		"deleted and closed up": {[]string{
			`DELETE FROM orchestrator_ledger WHERE seq = 5`, `UPDATE orchestrator_ledger SET seq = seq - 1 WHERE seq = 6`,
			`UPDATE orchestrator_ledger SET seq = seq - 1 WHERE seq = 7`, `UPDATE orchestrator_ledger SET seq = seq - 1 WHERE seq = 8`,
			`UPDATE orchestrator_ledger SET seq = seq - 1 WHERE seq = 9`, `UPDATE orchestrator_ledger SET seq = seq - 1 WHERE seq = 10`,
			`UPDATE orchestrator_ledger SET seq = seq - 1 WHERE seq = 11`, `UPDATE orchestrator_ledger_head SET seq = seq - 1`,
		}, 5, "entry 5 does not follow"},
		"swapped": {[]string{
			`UPDATE orchestrator_ledger SET seq = 1000 WHERE seq = 5`, `UPDATE orchestrator_ledger SET seq = 5 WHERE seq = 6`,
			`UPDATE orchestrator_ledger SET seq = 6 WHERE seq = 1000`,
		}, 5, "entry 5"},
		"cut off":                       {[]string{`DELETE FROM orchestrator_ledger WHERE seq > 8`}, 9, "missing at the end"},
		"inserted at end":               {[]string{`INSERT INTO orchestrator_ledger SELECT 12, at, actor, 'mallory', action, object, run_id, details, digest, previous, hash FROM orchestrator_ledger WHERE seq = 11`}, 12, "entry 12"},
		"inserted before the beginning": {[]string{`INSERT INTO orchestrator_ledger SELECT 0, at, actor, 'mallory', action, object, run_id, details, digest, previous, hash FROM orchestrator_ledger WHERE seq = 11`}, 0, "entry 0"},
		"cut off with the head": {[]string{
			`DELETE FROM orchestrator_ledger WHERE seq > 8`,
			`UPDATE orchestrator_ledger_head SET seq = 8, hash = (SELECT hash FROM orchestrator_ledger WHERE seq = 8)`,
		}, 10, "which the checkpoint of"},
		"made again": {[]string{`UPDATE orchestrator_ledger SET name = 'mallory' WHERE seq = 5`, remake}, 10, "differs from the checkpoint"},
		"emptied":    {[]string{`DELETE FROM orchestrator_ledger`, `UPDATE orchestrator_ledger_head SET seq = 0, hash = ''`}, 10, "which the checkpoint of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.Setup(t) // entry 1: its run
			filled(t, f, 9)
			_, key, err := ed25519.GenerateKey(nil)
			require.NoError(t, err)
			seq, hash, err := chain.Head(t.Context(), f.Store)
			require.NoError(t, err)
			require.EqualValues(t, 10, seq)
			checkpoint := ledger.Sign(key, seq, hash, time.Now())
			filled(t, f, 1)
			require.True(t, verify(t, f, checkpoint).OK())

			tamper(t, f, c.statements...)
			report := verify(t, f, checkpoint)
			require.NotEmpty(t, report.Faults)
			require.Equal(t, c.place, report.Faults[0].Seq, report.Faults)
			require.Contains(t, report.Faults[0].What, c.what)
		})
	}
}

func TestRemovedDetailsLeaveTheChainWhole(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	filled(t, f, 5)
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `UPDATE orchestrator_ledger SET details = NULL WHERE seq < 5`)
		require.NoError(t, err)
	})
	report := verify(t, f)
	require.True(t, report.OK(), report.Faults)
	require.EqualValues(t, 4, report.Removed)
	entries, err := chain.List(t.Context(), f.Store, chain.Filter{Before: 3})
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Empty(t, entries[0].Details)
	require.NotEmpty(t, entries[0].Digest)
}

func TestCheckpointsAreStoredOncePerEntry(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	first := ledger.Sign(key, 1, "h", time.Now())
	require.NoError(t, chain.SaveCheckpoint(t.Context(), f.Store, first, "sha256:a"))
	require.NoError(t, chain.SaveCheckpoint(t.Context(), f.Store, ledger.Sign(key, 1, "other", time.Now()), "sha256:b"))
	stored, err := chain.Checkpoints(t.Context(), f.Store)
	require.NoError(t, err)
	require.Equal(t, []chain.Stored{{Checkpoint: first, Artifact: "sha256:a"}}, stored)
}

func TestOldDetailsAreRemovedAndTheChainRemainsWhole(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	for i := range 3 {
		storetest.AppendLedger(t, f.Store, ledger.Entry{Actor: ledger.Person, Name: "ann", Action: "x", Object: fmt.Sprint(i)}, "{}")
	}
	before, err := chain.List(t.Context(), f.Store, chain.Filter{})
	require.NoError(t, err)
	n, err := chain.RemoveDetails(t.Context(), f.Store, before[0].At)
	require.NoError(t, err)
	require.EqualValues(t, len(before)-1, n, "not those of the entry at that time")
	after, err := chain.List(t.Context(), f.Store, chain.Filter{})
	require.NoError(t, err)
	require.Equal(t, "details.removed", after[0].Action)
	require.Equal(t, fmt.Sprintf("entries up to %d", before[1].Seq), after[0].Object)
	require.NotEmpty(t, after[1].Details)
	for _, e := range after[2:] {
		require.Empty(t, e.Details)
	}
	report := verify(t, f)
	require.True(t, report.OK(), report.Faults)
	require.Equal(t, n, report.Removed)
	n, err = chain.RemoveDetails(t.Context(), f.Store, before[0].At)
	require.NoError(t, err)
	require.Zero(t, n, "and nothing is noted")
	again, err := chain.List(t.Context(), f.Store, chain.Filter{})
	require.NoError(t, err)
	require.Len(t, again, len(after))
}
