package control

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
)

// Ledger returns entries of the audit ledger, newest first.
func (r *Runs) Ledger(ctx context.Context, f chain.Filter) ([]ledger.Entry, error) {
	const most = 1000
	if f.Limit < 0 || f.Limit > most || f.Before < 0 || f.RunID < 0 {
		return nil, wrong("show the ledger: limit must be from 1 to %d, and run and before must not be negative", most)
	}
	return chain.List(ctx, r.Store, f)
}

func (r *Runs) keyFile() string {
	return cmp.Or(r.Config.Ledger.KeyFile, filepath.Join(r.DataDir, "ledger-key.pem"))
}

// ledgerKey returns the key that signs checkpoints. It makes one if there is none yet.
func (r *Runs) ledgerKey() (ed25519.PrivateKey, error) {
	key, err := ledger.Key(r.keyFile())
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the ledger has no key for checkpoints (ledger.key_file)")
	}
	return key, nil
}

// VerifyLedger checks the audit ledger and all its checkpoints: those that are stored, their copies with
// the artifacts, and those that the caller has kept. public is the key with which they must be signed;
// nil: that of this installation. A checkpoint with another signature is an error of the report.
func (r *Runs) VerifyLedger(ctx context.Context, kept []ledger.Checkpoint, public ed25519.PublicKey) (ledger.Report, error) {
	stored, err := chain.Checkpoints(ctx, r.Store)
	if err != nil {
		return ledger.Report{}, err
	}
	if public == nil && len(stored)+len(kept) > 0 {
		if _, err := os.Stat(r.keyFile()); err != nil {
			return ledger.Report{}, wrong("the key %s that signed the ledger's checkpoints is not on this host; name its public key (--key), as rgpt ledger checkpoint printed it", r.keyFile())
		}
		key, err := r.ledgerKey()
		if err != nil {
			return ledger.Report{}, err
		}
		public, _ = key.Public().(ed25519.PublicKey)
	}
	var trusted []ledger.Checkpoint
	var faults []ledger.Fault
	for _, c := range kept {
		if err := c.Check(public); err != nil {
			return ledger.Report{}, wrong("verify the ledger: %v", err)
		}
		trusted = append(trusted, c)
	}
	for _, c := range stored {
		if err := r.checkStored(ctx, c, public); err != nil {
			faults = append(faults, ledger.Fault{Seq: c.Seq, What: err.Error()})
			continue
		}
		trusted = append(trusted, c.Checkpoint)
	}
	report, err := chain.Verify(ctx, r.Store, trusted)
	report.Faults, report.Total = append(faults, report.Faults...), report.Total+len(faults)
	return report, err
}

// checkStored returns an error if a stored checkpoint, or its copy, is not what was signed.
func (r *Runs) checkStored(ctx context.Context, c chain.Stored, public ed25519.PublicKey) error {
	if err := c.Check(public); err != nil {
		return err
	}
	raw, err := r.Artifacts.Get(ctx, c.Artifact)
	if err != nil {
		return fmt.Errorf("the copy of the checkpoint of entry %d cannot be read: %w", c.Seq, err)
	}
	var copied ledger.Checkpoint
	if err := json.Unmarshal(raw, &copied); err != nil {
		return fmt.Errorf("the copy of the checkpoint of entry %d cannot be read: %w", c.Seq, err)
	}
	if copied.Seq != c.Seq || copied.Hash != c.Hash || copied.Signature != c.Signature {
		return fmt.Errorf("the checkpoint of entry %d differs from its copy with the artifacts", c.Seq)
	}
	return nil
}

// ExportLedger calls f for all entries of the audit ledger, oldest first.
func (r *Runs) ExportLedger(ctx context.Context, f func(ledger.Entry) error) error {
	_, _, err := chain.Each(ctx, r.Store, f)
	return err
}

// CheckpointLedger signs a checkpoint of the end of the audit ledger, and stores it with a copy among
// the artifacts.
func (r *Runs) CheckpointLedger(ctx context.Context) (ledger.Checkpoint, error) {
	key, err := r.ledgerKey()
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	seq, hash, err := chain.Head(ctx, r.Store)
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	if seq == 0 {
		return ledger.Checkpoint{}, refused("the ledger is empty; it has no entry to sign yet")
	}
	c := ledger.Sign(key, seq, hash, time.Now())
	raw, err := json.Marshal(c)
	if err != nil {
		return c, err
	}
	digest, err := r.Artifacts.Put(ctx, raw)
	if err != nil {
		return c, err
	}
	return c, chain.SaveCheckpoint(ctx, r.Store, c, digest)
}

// checkpointTick is how often a server looks whether a checkpoint is due.
const checkpointTick = time.Minute

// CheckpointLedgerEvery makes checkpoints at an interval, until ctx ends. A failure is logged, and tried
// again.
func (r *Runs) CheckpointLedgerEvery(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		return
	}
	tick := time.NewTicker(min(interval, checkpointTick))
	defer tick.Stop()
	for {
		if err := r.checkpointIfDue(ctx, interval); err != nil && ctx.Err() == nil {
			r.Log.WarnContext(ctx, "The audit ledger has no new checkpoint", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Runs) checkpointIfDue(ctx context.Context, interval time.Duration) error {
	stored, err := chain.Checkpoints(ctx, r.Store)
	if err != nil {
		return err
	}
	seq, _, err := chain.Head(ctx, r.Store)
	if err != nil || seq == 0 {
		return err
	}
	if n := len(stored); n > 0 && (stored[n-1].Seq == seq || time.Since(stored[n-1].At) < interval) {
		return nil
	}
	c, err := r.CheckpointLedger(ctx)
	if err == nil {
		r.Log.InfoContext(ctx, "Signed a checkpoint of the audit ledger", "entry", c.Seq, "hash", c.Hash)
	}
	return err
}

// detailsTick is how often a server looks for details that are too old.
const detailsTick = time.Hour

// RemoveLedgerDetails removes the details of entries that reach an age, until ctx ends. A failure is
// logged, and tried again.
func (r *Runs) RemoveLedgerDetails(ctx context.Context, age time.Duration) {
	if age <= 0 {
		return
	}
	tick := time.NewTicker(min(age, detailsTick))
	defer tick.Stop()
	for {
		n, err := chain.RemoveDetails(ctx, r.Store, time.Now().Add(-age))
		switch {
		case err != nil && ctx.Err() == nil:
			r.Log.WarnContext(ctx, "Old details of the audit ledger were not removed", "error", err)
		case n > 0:
			r.Log.InfoContext(ctx, "Removed old details of the audit ledger", "entries", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ParsePublicKey reads a public key in base64, as rgpt ledger checkpoint prints it.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, wrong("%q is not a public key; expected %d bytes in base64, as rgpt ledger checkpoint prints it", text, ed25519.PublicKeySize)
	}
	return raw, nil
}
