// Package chain reads and verifies the audit ledger (package ledger). Its entries are appended by
// triggers, in the transaction of the change that they are about.
package chain

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Filter selects entries. Its zero value selects all.
type Filter struct {
	RunID  int64
	Action string // such as approval.granted
	Name   string // of the author
	Before int64  // only entries with a lower number; 0: all
	Limit  int    // default 50, at most 1000
}

// List returns the last entries, newest first.
func List(ctx context.Context, st *store.Store, f Filter) ([]ledger.Entry, error) {
	if f.Limit == 0 {
		f.Limit = 50
	}
	rows, err := st.ListQueries().LastLedgerEntries(ctx, db.LastLedgerEntriesParams{
		Before: f.Before, RunID: f.RunID, Action: f.Action, Name: f.Name, Most: rowconv.Limit(f.Limit, 1000),
	})
	return rowconv.Convert(rows, entry), dberr.Explain(err, "read the ledger")
}

// page is the number of entries that are read at once.
const page = 5000

// Each calls f for all entries in the order of their numbers, as of one moment, and returns the end of
// the chain.
func Each(ctx context.Context, st *store.Store, f func(ledger.Entry) error) (seq int64, hash string, err error) {
	err = st.Snapshot(ctx, func(st *store.Store) error {
		head, err := st.Queries().LedgerHead(ctx)
		if err != nil {
			return err
		}
		seq, hash = head.Seq, head.Hash
		for after := int64(-1 << 62); ; {
			rows, err := st.Queries().LedgerEntries(ctx, db.LedgerEntriesParams{After: after, Most: page})
			if err != nil {
				return err
			}
			for _, r := range rows {
				if err := f(entry(r)); err != nil {
					return err
				}
				after = r.Seq
			}
			if len(rows) < page {
				return nil
			}
		}
	})
	return seq, hash, dberr.Explain(err, "read the ledger")
}

// Verify checks the whole ledger, and the checkpoints that are trusted: those with a valid signature.
func Verify(ctx context.Context, st *store.Store, trusted []ledger.Checkpoint) (ledger.Report, error) {
	v := ledger.Verifier{Trusted: map[int64]ledger.Checkpoint{}}
	for _, c := range trusted {
		v.Trusted[c.Seq] = c
	}
	seq, hash, err := Each(ctx, st, func(e ledger.Entry) error {
		v.Add(e)
		return nil
	})
	if err != nil {
		return ledger.Report{}, err
	}
	return v.End(seq, hash), nil
}

// removedAtOnce is the number of entries whose details one statement removes.
const removedAtOnce = 5000

// RemoveDetails removes the details of all entries before a time, and notes that in the ledger if there
// were any. It returns their number. The chain remains whole: it consists of the digests.
func RemoveDetails(ctx context.Context, st *store.Store, before time.Time) (total int64, err error) {
	for {
		removed, err := st.Queries().RemoveLedgerDetails(ctx, db.RemoveLedgerDetailsParams{Before: before, Most: removedAtOnce})
		if err != nil {
			return total, dberr.Explain(err, "remove old details of the ledger")
		}
		if total += removed; removed < removedAtOnce {
			return total, nil
		}
	}
}

// Head returns the end of the chain.
func Head(ctx context.Context, st *store.Store) (seq int64, hash string, err error) {
	head, err := st.Queries().LedgerHead(ctx)
	return head.Seq, head.Hash, dberr.Explain(err, "read the end of the ledger")
}

// SaveCheckpoint stores a checkpoint, with the digest of its copy in the artifact store. A second one of
// the same entry changes nothing.
func SaveCheckpoint(ctx context.Context, st *store.Store, c ledger.Checkpoint, artifact string) error {
	return dberr.Explain(st.Queries().SaveCheckpoint(ctx, db.SaveCheckpointParams{
		Seq: c.Seq, Hash: c.Hash, At: c.At, Key: c.Key, Signature: c.Signature, Artifact: artifact,
	}), "store a checkpoint of the ledger")
}

// Stored is a checkpoint with the digest of its copy in the artifact store.
type Stored struct {
	ledger.Checkpoint
	Artifact string `json:"artifact"`
}

// Checkpoints returns the stored checkpoints, oldest first.
func Checkpoints(ctx context.Context, st *store.Store) ([]Stored, error) {
	rows, err := st.Queries().Checkpoints(ctx)
	return rowconv.Convert(rows, func(r db.CheckpointsRow) Stored {
		return Stored{Checkpoint: ledger.Checkpoint{Seq: r.Seq, Hash: r.Hash, At: r.At, Key: r.Key, Signature: r.Signature}, Artifact: r.Artifact}
	}), dberr.Explain(err, "read the checkpoints of the ledger")
}

func entry(r db.LedgerEntry) ledger.Entry {
	e := ledger.Entry{
		Seq: r.Seq, At: r.At, Actor: ledger.Actor(r.Actor), Name: r.Name, Action: r.Action, Object: r.Object, RunID: r.RunID,
		Digest: r.Digest, Previous: r.Previous, Hash: r.Hash,
	}
	if r.Details != nil {
		e.Details = json.RawMessage(*r.Details)
	}
	return e
}
