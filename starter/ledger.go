package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/ledger"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newLedger(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ledger", Short: "Show and verify the audit ledger",
		Long: `The audit ledger says who did what: people, clients, agents with their models, and the system. It
contains every command that changes something in the database. Entries form a chain of hashes, so verify
finds any that was edited, deleted, inserted or moved. docs/LEDGER.md describes it.`,
	}
	cmd.AddCommand(newLedgerShow(a))
	cmd.AddCommand(local(newLedgerVerify(a), newLedgerExport(a), newLedgerCheckpoint(a))...)
	return cmd
}

func newLedgerShow(a *app) *cobra.Command {
	var f chain.Filter
	cmd := &cobra.Command{
		Use: "show", Short: "Show entries, newest first", Args: noArgs,
		Example: `  rgpt ledger show --run 42
  rgpt ledger show --action approval.granted --name ann
  rgpt ledger show --before 1000 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				entries, err := h.Ledger(cmd.Context(), f)
				if err != nil {
					return err
				}
				printList(a, "entries", entries, "No entries.", "ENTRY\tTIME\tWHO\tACTION\tOBJECT", func(w io.Writer, e ledger.Entry) {
					fmt.Fprintf(w, "%d\t%s\t%s %s\t%s\t%s\n", e.Seq, e.At.Local().Format(time.DateTime), e.Actor, terminal.Clean(e.Name),
						terminal.Clean(e.Action), terminal.Clean(e.Object))
				})
				return nil
			})
		},
	}
	cmd.Flags().Int64Var(&f.RunID, "run", 0, "only entries about this run")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this action, such as approval.granted")
	cmd.Flags().StringVar(&f.Name, "name", "", "only entries of this person, agent or part")
	cmd.Flags().Int64Var(&f.Before, "before", 0, "only entries before this number")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number of entries, up to 1000")
	return cmd
}

func newLedgerVerify(a *app) *cobra.Command {
	var files []string
	var key string
	cmd := &cobra.Command{
		Use: "verify", Short: "Find entries that were edited, deleted, inserted or moved", Args: noArgs,
		Long: `Reads the whole ledger from the database and checks each entry against the one before it, and all
checkpoints against their signatures and entries. The exit code is 1 if something was changed.

Anyone who owns the database could make a whole new chain. Keep checkpoints and the public key
elsewhere, and verify with them.`,
		Example: `  rgpt ledger verify
  rgpt ledger verify --checkpoint /backup/2026-11-01.json --key MCowBQYDK2Vw…`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var kept []ledger.Checkpoint
			for _, file := range files {
				c, err := ledger.ReadCheckpoint(file)
				if err != nil {
					return usageError{err}
				}
				kept = append(kept, c)
			}
			var public ed25519.PublicKey
			if key != "" {
				var err error
				if public, err = control.ParsePublicKey(key); err != nil {
					return err
				}
			}
			return a.withLedger(cmd.Context(), func(r *control.Runs) error {
				report, err := r.VerifyLedger(cmd.Context(), kept, public)
				if err != nil {
					return err
				}
				return a.printLedger(report)
			})
		},
	}
	cmd.Flags().StringArrayVar(&files, "checkpoint", nil, "file with a checkpoint that was kept elsewhere; repeatable")
	cmd.Flags().StringVar(&key, "key", "", "public key of the checkpoints, base64 (default: that of this installation)")
	return cmd
}

// withLedger calls f with direct access to the installation: a verification must not trust its server.
func (a *app) withLedger(ctx context.Context, f func(*control.Runs) error) error {
	return a.with(ctx, backend.NeedArtifacts, func(h backend.Backend) error {
		l, ok := h.(*backend.Local)
		if !ok {
			return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "this command needs the database; run it on a host of the installation")
		}
		return f(l.Runs)
	})
}

func (a *app) printLedger(r ledger.Report) error {
	if a.json {
		a.printJSON(r)
	} else {
		for _, f := range r.Faults {
			fmt.Fprintf(a.out, "%s\n", terminal.Clean(f.What))
		}
		if more := r.Total - len(r.Faults); more > 0 {
			fmt.Fprintf(a.out, "and %d more\n", more)
		}
		fmt.Fprintf(a.out, "%d entries and %d checkpoints verified; the last entry is %d (%s)\n", r.Entries, r.Checkpoints, r.Seq, r.Hash)
		if r.Removed > 0 {
			fmt.Fprintf(a.out, "%d entries no longer have details, which retention removed; their digests are part of the chain\n", r.Removed)
		}
	}
	if !r.OK() {
		return fault.New(contract.ClassSafety, contract.CodeIntegrity,
			"the audit ledger was changed in %d places, first at entry %d; compare it with a backup of the database", r.Total, r.Faults[0].Seq)
	}
	return nil
}

func newLedgerExport(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "Write all entries as JSON lines, oldest first", Args: noArgs,
		Example: "  rgpt ledger export > ledger.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedger(cmd.Context(), func(r *control.Runs) error {
				out := bufio.NewWriter(a.out)
				lines := json.NewEncoder(out)
				if err := r.ExportLedger(cmd.Context(), func(e ledger.Entry) error { return lines.Encode(e) }); err != nil {
					return err
				}
				return out.Flush()
			})
		},
	}
}

func newLedgerCheckpoint(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "checkpoint", Short: "Sign what the ledger's last entry is now", Args: noArgs,
		Long: `Signs the number and the hash of the last entry with the installation's key, and stores that in the
database and with the artifacts. The server does so every ledger.checkpoint_every. With --out, it is
also written to a file, to be kept elsewhere.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedger(cmd.Context(), func(r *control.Runs) error {
				c, err := r.CheckpointLedger(cmd.Context())
				if err != nil {
					return err
				}
				if file != "" {
					raw, err := json.Marshal(c)
					if err != nil {
						return err
					}
					if err := os.WriteFile(file, append(raw, '\n'), 0o600); err != nil {
						return fmt.Errorf("write the checkpoint: %w", err)
					}
				}
				if a.json {
					a.printJSON(c)
					return nil
				}
				fmt.Fprintf(a.out, "Signed entry %d (%s)\nPublic key: %s\n", c.Seq, c.Hash, c.Key)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&file, "out", "", "file to write the checkpoint to")
	return cmd
}
