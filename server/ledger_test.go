package server_test

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestTheLedgerIsListedOverHTTPAsInTheDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.run(t, "Add dark mode"), b.run(t, "Add light mode")
	client, _ := clientOf(t, b.handler, quietly)
	for _, f := range []chain.Filter{{}, {RunID: second}, {Action: "run.created", Limit: 1}, {Name: "nobody"}, {Before: 2}} {
		want, err := chain.List(t.Context(), b.Store, f)
		require.NoError(t, err)
		got, err := client.Ledger(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, got, len(want), f)
		for i := range got {
			require.Equal(t, want[i].Hash, got[i].Hash)
			require.Equal(t, got[i].Hash, got[i].Sum(), "clients can verify what they get")
		}
	}
	require.NotEqual(t, first, second)
	require.Equal(t, http.StatusBadRequest, b.get(t, "/api/ledger?limit=1001").Code)
}

func TestAVerificationUsesStoredCheckpointsTheirCopiesAndThoseKeptElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t, "Add dark mode")
	runs := &control.Runs{Store: b.Store, Artifacts: b.artifacts, Config: b.config, DataDir: t.TempDir()}
	made, err := runs.CheckpointLedger(t.Context())
	require.NoError(t, err)
	b.run(t, "Add light mode")
	verify := func(kept []ledger.Checkpoint, public ed25519.PublicKey) ledger.Report {
		report, err := runs.VerifyLedger(t.Context(), kept, public)
		require.NoError(t, err)
		return report
	}
	report := verify(nil, nil)
	require.True(t, report.OK(), report.Faults)
	require.Equal(t, 1, report.Checkpoints)
	public, err := control.ParsePublicKey(made.Key)
	require.NoError(t, err)
	require.True(t, verify([]ledger.Checkpoint{made}, public).OK())

	other, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	_, err = runs.VerifyLedger(t.Context(), []ledger.Checkpoint{made}, other)
	require.ErrorContains(t, err, "was not signed with the key")
	require.Contains(t, verify(nil, other).Faults[0].What, "was not signed with the key")

	storetest.Query(t, b.address, func(ctx context.Context, conn *pgx.Conn) {
		for _, sql := range []string{
			`ALTER TABLE orchestrator_ledger DISABLE TRIGGER ALL`, `DELETE FROM orchestrator_ledger`,
			`UPDATE orchestrator_ledger_head SET seq = 0, hash = ''`, `DELETE FROM orchestrator_ledger_checkpoints`,
		} {
			_, err := conn.Exec(ctx, sql)
			require.NoError(t, err)
		}
	})
	require.True(t, verify(nil, nil).OK(), "nothing is left to compare with")
	gone := verify([]ledger.Checkpoint{made}, nil)
	require.Contains(t, gone.Faults[0].What, "entry 1 is missing, which the checkpoint of")
}

func TestACheckpointThatDiffersFromItsCopyIsReported(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t, "Add dark mode")
	runs := &control.Runs{Store: b.Store, Artifacts: b.artifacts, Config: b.config, DataDir: t.TempDir()}
	_, err := runs.CheckpointLedger(t.Context())
	require.NoError(t, err)
	digest, err := b.artifacts.Put(t.Context(), []byte(`{"seq": 1, "hash": "other"}`))
	require.NoError(t, err)
	storetest.Query(t, b.address, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `UPDATE orchestrator_ledger_checkpoints SET artifact = $1`, digest)
		require.NoError(t, err)
	})
	report, err := runs.VerifyLedger(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Contains(t, report.Faults[0].What, "differs from its copy")
}

func TestAServerSignsACheckpointWhenOneIsDue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run(t, "Add dark mode")
	dir := t.TempDir()
	runs := &control.Runs{Store: b.Store, Artifacts: b.artifacts, Config: b.config, DataDir: dir, Log: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); runs.CheckpointLedgerEvery(ctx, 10*time.Millisecond) }()
	count := func() int {
		list, err := chain.Checkpoints(t.Context(), b.Store)
		require.NoError(t, err)
		return len(list)
	}
	await.Until(t, "a checkpoint", func() bool { return count() == 1 })
	b.run(t, "Add light mode")
	await.Until(t, "another one, because there are new entries", func() bool { return count() == 2 })
	stop()
	<-done
	info, err := os.Stat(filepath.Join(dir, "ledger-key.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}
