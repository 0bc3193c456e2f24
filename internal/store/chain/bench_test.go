package chain_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// entriesOfBench is the size of the ledger that is verified.
const entriesOfBench = 100_000

// BenchmarkVerify verifies a ledger of 100,000 entries; entries/s is what it reads and checks.
func BenchmarkVerify(b *testing.B) {
	f := storetest.Setup(b)
	seq, hash, err := chain.Head(b.Context(), f.Store)
	require.NoError(b, err)
	storetest.Query(b, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		columns := []string{"seq", "at", "actor", "name", "action", "object", "run_id", "details", "digest", "previous", "hash"}
		at := time.Now().UTC().Truncate(time.Microsecond)
		_, err := conn.CopyFrom(ctx, pgx.Identifier{"orchestrator_ledger"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			if seq == entriesOfBench {
				return nil, nil
			}
			seq++
			details := fmt.Sprintf(`{"step": "step-001", "attempt": 1, "turns": 7, "usage": {"prompt_tokens": %d}}`, seq)
			sum := sha256.Sum256([]byte(details))
			e := ledger.Entry{
				Seq: seq, At: at.Add(time.Duration(seq) * time.Millisecond), Actor: ledger.Agent, Name: "builder openai/gpt-5",
				Action: "step.completed", Object: "run 1 step-001", RunID: 1, Digest: hex.EncodeToString(sum[:]), Previous: hash,
			}
			hash = e.Sum()
			return []any{e.Seq, e.At, string(e.Actor), e.Name, e.Action, e.Object, e.RunID, details, e.Digest, e.Previous, hash}, nil
		}))
		require.NoError(b, err)
		_, err = conn.Exec(ctx, `UPDATE orchestrator_ledger_head SET seq = $1, hash = $2`, seq, hash)
		require.NoError(b, err)
	})
	for b.Loop() {
		report, err := chain.Verify(b.Context(), f.Store, nil)
		require.NoError(b, err)
		require.True(b, report.OK(), report.Faults)
		require.EqualValues(b, entriesOfBench, report.Entries)
	}
	b.ReportMetric(entriesOfBench*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkAppend appends entries, one transaction each.
func BenchmarkAppend(b *testing.B) {
	f := storetest.Setup(b)
	for b.Loop() {
		storetest.AppendLedger(b, f.Store, ledger.Entry{Actor: ledger.System, Name: "bench", Action: "tested", Object: "x"}, "1")
	}
}
