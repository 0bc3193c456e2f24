// Package verdicts stores what the policy gate decided about the changes of runs, and the policies
// that runs use.
package verdicts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Key identifies a verdict: what was judged, where, and by which policies.
type Key struct {
	RunID   int64
	Stage   contract.GateStage
	Subject string // digest of what was judged
	Policy  string // digest of the policies, guards and settings
}

// gateEvent is the payload of the events of the gate. verdict_id is added when it is written.
type gateEvent struct {
	Stage   contract.GateStage    `json:"stage"`
	Step    string                `json:"step,omitempty"`
	Author  string                `json:"author"`
	Subject string                `json:"subject"`
	Reasons []contract.GateReason `json:"reasons,omitempty"` // the first ones
	Total   int                   `json:"total"`
}

// Basis is what the policies read for a verdict.
type Basis struct {
	Input json.RawMessage // of package policy, without secrets
	// Repository is the digest of the repository's policies, and Files are their contents by name;
	// empty: it has none.
	Repository string
	Files      map[string]string
	Refused    string // why they were not evaluated; empty: they were
}

// Save stores a verdict with its basis and its event gate.allowed, gate.needs_approval or gate.denied,
// and returns the stored one. If this change has already been judged by the same policies, it returns
// that verdict and stores nothing.
func Save(ctx context.Context, st *store.Store, policy string, v contract.GateRecord, b Basis) (contract.GateRecord, error) {
	params, err := saveParams(policy, v)
	if err != nil {
		return contract.GateRecord{}, err
	}
	if params.Input, err = rowconv.Document(b.Input); err != nil {
		return contract.GateRecord{}, err
	}
	params.Repository, params.Refused = b.Repository, rowconv.Text(b.Refused)
	if b.Repository != "" {
		if err := SavePolicies(ctx, st, b.Repository, b.Files); err != nil {
			return contract.GateRecord{}, err
		}
	}
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRun(ctx, v.RunID); err != nil {
			return err
		}
		_, err := q.SaveGateVerdict(ctx, params)
		return err
	})
	if err != nil {
		return contract.GateRecord{}, dberr.OfRun(err, v.RunID, "store the verdict about a change of run %d", v.RunID)
	}
	stored, ok, err := Find(ctx, st, Key{RunID: v.RunID, Stage: v.Stage, Subject: v.Subject, Policy: policy})
	if err == nil && !ok {
		err = fault.New(contract.ClassRuntime, contract.CodeUnknown, "the verdict about a change of run %d was not stored", v.RunID)
	}
	return stored, err
}

func saveParams(policy string, v contract.GateRecord) (p db.SaveGateVerdictParams, err error) {
	p = db.SaveGateVerdictParams{
		RunID: v.RunID, ExecutionID: v.ExecutionID, Stage: string(v.Stage), Step: rowconv.Text(v.Step), Author: v.Author, Subject: v.Subject,
		FromTree: v.From, Tree: v.Tree, Policy: policy, Decision: string(v.Decision), Automerge: v.Automerge, EventType: string(v.Decision.Event()), FilesTotal: int32(v.FilesTotal),
	}
	reasons, findings := redacted(v)
	if p.Policies, err = rowconv.Encode(v.Policies); err != nil {
		return p, err
	}
	if p.Reasons, err = rowconv.Encode(reasons); err != nil {
		return p, err
	}
	if p.Findings, err = rowconv.Encode(findings); err != nil {
		return p, err
	}
	files := make([]contract.GateFile, len(v.Files))
	for i, f := range v.Files {
		f.Path, f.From = rowconv.Text(telemetry.Redact(f.Path)), rowconv.Text(telemetry.Redact(f.From))
		files[i] = f
	}
	if p.Files, err = rowconv.Encode(files); err != nil {
		return p, err
	}
	p.Payload, err = rowconv.Encode(gateEvent{
		Stage: v.Stage, Step: v.Step, Author: v.Author, Subject: v.Subject,
		Reasons: reasons[:min(len(reasons), contract.MaxGateReasons)], Total: len(reasons),
	})
	return p, err
}

// redacted returns reasons and findings without anything secret: paths and policies are written by
// others.
func redacted(v contract.GateRecord) (reasons []contract.GateReason, findings []contract.GateFinding) {
	reasons, findings = []contract.GateReason{}, []contract.GateFinding{}
	for _, r := range v.Reasons {
		r.Path, r.Text = rowconv.Text(telemetry.Redact(r.Path)), rowconv.Text(telemetry.Redact(r.Text))
		reasons = append(reasons, r)
	}
	for _, f := range v.Findings {
		f.Path, f.Message = rowconv.Text(telemetry.Redact(f.Path)), rowconv.Text(telemetry.Redact(f.Message))
		findings = append(findings, f)
	}
	return reasons, findings
}

// Find returns the verdict about a change by the same policies; false if there is none.
func Find(ctx context.Context, st *store.Store, k Key) (contract.GateRecord, bool, error) {
	row, err := st.Queries().GateVerdict(ctx, db.GateVerdictParams{RunID: k.RunID, Stage: string(k.Stage), Subject: k.Subject, Policy: k.Policy})
	return one(k.RunID, row, err)
}

// BasisOf returns what the policies read for a verdict of a run; false if the verdict is older than the
// version that keeps this.
func BasisOf(ctx context.Context, st *store.Store, runID, id int64) (Basis, bool, error) {
	row, err := st.Queries().GateInput(ctx, db.GateInputParams{ID: id, RunID: runID})
	if errors.Is(err, pgx.ErrNoRows) {
		return Basis{}, false, nil
	}
	if err != nil {
		return Basis{}, false, dberr.Explain(err, "read what verdict %d was based on", id)
	}
	b := Basis{Input: row.Input, Repository: row.Repository, Refused: row.Refused}
	if b.Repository != "" {
		b.Files, err = Policies(ctx, st, b.Repository)
	}
	return b, err == nil, err
}

// Last returns the last verdict about a change, by any policies; false if there is none.
func Last(ctx context.Context, st *store.Store, runID int64, stage contract.GateStage, subject string) (contract.GateRecord, bool, error) {
	row, err := st.Queries().LastGateVerdict(ctx, db.LastGateVerdictParams{RunID: runID, Stage: string(stage), Subject: subject})
	return one(runID, row, err)
}

func one(runID int64, row db.GateVerdict, err error) (contract.GateRecord, bool, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return contract.GateRecord{}, false, nil
	}
	if err != nil {
		return contract.GateRecord{}, false, dberr.Explain(err, "read a verdict about a change of run %d", runID)
	}
	v, err := record(row)
	return v, err == nil, err
}

// Of returns the verdicts about the changes of a run, oldest first.
func Of(ctx context.Context, st *store.Store, runID int64) ([]contract.GateRecord, error) {
	rows, err := st.Queries().GateVerdicts(ctx, runID)
	if err != nil {
		return nil, dberr.OfRun(err, runID, "read the verdicts about the changes of run %d", runID)
	}
	out := make([]contract.GateRecord, len(rows))
	for i, r := range rows {
		if out[i], err = record(r.GateVerdict); err != nil {
			return nil, err
		}
		out[i].ApprovedBy = r.ApprovedBy
	}
	return out, nil
}

func record(row db.GateVerdict) (contract.GateRecord, error) {
	v := contract.GateRecord{
		ID: row.ID, RunID: row.RunID, ExecutionID: row.ExecutionID, Stage: contract.GateStage(row.Stage), Step: row.Step, Author: row.Author,
		Subject: row.Subject, From: row.FromTree, Tree: row.Tree, Decision: contract.GateDecision(row.Decision), Automerge: row.Automerge,
		CreatedAt: row.CreatedAt, Policy: row.Policy, FilesTotal: int(row.FilesTotal),
	}
	var err error
	if v.Policies, err = rowconv.Decode[map[string]string](row.Policies); err != nil {
		return v, err
	}
	if v.Reasons, err = rowconv.Decode[[]contract.GateReason](row.Reasons); err != nil {
		return v, err
	}
	if v.Files, err = rowconv.Decode[[]contract.GateFile](row.Files); err != nil {
		return v, err
	}
	v.Findings, err = rowconv.Decode[[]contract.GateFinding](row.Findings)
	return v, err
}

// ApprovedBy returns the person who approved the release of exactly this subject, when asked because of
// a verdict, or of any if it is 0; empty: nobody.
func ApprovedBy(ctx context.Context, st *store.Store, runID int64, subject string, verdict int64) (string, error) {
	by, err := st.Queries().ApprovedSubject(ctx, db.ApprovedSubjectParams{
		RunID: runID, Kind: contract.ApprovalRelease, Subject: subject, VerdictID: verdict,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return by, dberr.Explain(err, "read who approved the release of run %d", runID)
}

// SavePolicies stores policies, contents by name, under their digest.
func SavePolicies(ctx context.Context, st *store.Store, digest string, files map[string]string) error {
	doc, err := rowconv.Encode(files)
	if err != nil {
		return err
	}
	return dberr.Explain(st.Queries().SaveGatePolicies(ctx, db.SaveGatePoliciesParams{Digest: digest, Files: doc}), "store the policies %s", digest)
}

// SaveSettings stores the settings of the policy gate that apply to new runs, values by key. If they differ
// from those that were stored last, the ledger gets an entry. Several servers with the same settings make
// one.
func SaveSettings(ctx context.Context, st *store.Store, settings map[string]any) error {
	doc, err := rowconv.Encode(settings)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(doc)
	return dberr.Explain(st.Queries().SaveGateSettings(ctx, db.SaveGateSettingsParams{
		Digest: "sha256:" + hex.EncodeToString(sum[:]), Settings: doc,
	}), "store the settings of the policy gate")
}

// Policies returns policies that SavePolicies stored.
func Policies(ctx context.Context, st *store.Store, digest string) (map[string]string, error) {
	doc, err := st.Queries().GatePolicies(ctx, digest)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, dberr.NotFound("the policies %s are not stored", digest)
	}
	if err != nil {
		return nil, dberr.Explain(err, "read the policies %s", digest)
	}
	return rowconv.Decode[map[string]string](doc)
}
