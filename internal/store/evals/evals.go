// Package evals stores evaluations and their results. Hidden tests and solutions are not stored.
package evals

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Status is the status of an evaluation or of one of its results.
type Status string

// The statuses. An evaluation is running, stopped or done; a result is pending, running or done.
const (
	Pending Status = "pending"
	Running Status = "running"
	Stopped Status = "stopped"
	Done    Status = "done"
)

// maxDetail is the maximum length of the detail of a result that is stored, in bytes.
const maxDetail = 4000

// Eval is an evaluation.
type Eval struct {
	ID            int64          `json:"id"`
	Set           string         `json:"set" doc:"name of the set of tasks"`
	Digest        string         `json:"digest" doc:"of the tasks and variants"`
	Variants      []eval.Variant `json:"variants"`
	MaxCostMicros int64          `json:"max_cost_micros,omitempty" doc:"budget of the whole evaluation, in millionths of a US dollar; 0: none"`
	Status        Status         `json:"status" enum:"running,stopped,done"`
	Reason        string         `json:"reason,omitempty" doc:"why it stopped"`
	CreatedBy     string         `json:"created_by,omitempty"`
	CreatedAt     time.Time      `json:"created_at"`
	FinishedAt    *time.Time     `json:"finished_at,omitempty"`
}

// Summary is an evaluation with the numbers of its results.
type Summary struct {
	Eval
	Results    int64 `json:"results" doc:"tasks times variants"`
	Finished   int64 `json:"finished"`
	Solved     int64 `json:"solved"`
	CostMicros int64 `json:"cost_micros"`
	CostKnown  bool  `json:"cost_known" doc:"false: some of the cost is of models without a known price"`
}

// Result is the outcome of one task with one variant.
type Result struct {
	Task    string `json:"task"`
	Variant string `json:"variant"`
	Repo    string `json:"repo"`
	Title   string `json:"title"`
	RunID   int64  `json:"run_id,omitempty" doc:"run of the product; absent for other agents"`
	Status  Status `json:"status" enum:"pending,running,done"`
	Outcome
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Outcome is what a task with one variant took, and whether its hidden tests passed.
type Outcome struct {
	Solved          bool    `json:"solved"`
	Reason          string  `json:"reason,omitempty" doc:"code of why the task is not solved"`
	Detail          string  `json:"detail,omitempty" doc:"the reason in words; the output of hidden tests is not included"`
	CostMicros      int64   `json:"cost_micros" doc:"in millionths of a US dollar"`
	CostKnown       bool    `json:"cost_known" doc:"false: some of the cost is of models without a known price"`
	FreshTokens     int64   `json:"fresh_tokens" doc:"of prompts, not read from a provider's cache"`
	CachedTokens    int64   `json:"cached_tokens" doc:"of prompts, read from a provider's cache"`
	ReasoningTokens int64   `json:"reasoning_tokens" doc:"of responses, what the model thought"`
	OutputTokens    int64   `json:"output_tokens" doc:"of responses, without reasoning"`
	Turns           int     `json:"turns" doc:"model calls"`
	Heals           int     `json:"heals"`
	Seconds         float64 `json:"seconds" doc:"from the goal to the result, without the hidden tests"`
	Tests           *Tests  `json:"tests,omitempty" doc:"hidden tests; absent if they did not run"`
}

// Tokens returns the number of all tokens.
func (o Outcome) Tokens() int64 {
	return o.FreshTokens + o.CachedTokens + o.ReasoningTokens + o.OutputTokens
}

// Prompt returns the number of prompt tokens.
func (o Outcome) Prompt() int64 { return o.FreshTokens + o.CachedTokens }

// Tests counts the hidden tests of a task.
type Tests struct {
	FailToPass Count `json:"fail_to_pass" doc:"tests that a solution makes pass"`
	PassToPass Count `json:"pass_to_pass" doc:"tests that must keep passing"`
	Passed     bool  `json:"passed"`
}

// Count says how many of some tests passed.
type Count struct {
	Passed int `json:"passed"`
	Total  int `json:"total"`
}

// Store stores evaluations. It is safe for concurrent use.
type Store struct {
	store *store.Store
	q     *db.Queries
	lists *db.Queries
}

// New returns the evaluations in a database.
func New(st *store.Store) *Store { return &Store{store: st, q: st.Queries(), lists: st.ListQueries()} }

// Pair is a task with a variant.
type Pair struct {
	Position int    `json:"position"`
	Task     string `json:"task"`
	Variant  string `json:"variant"`
	Repo     string `json:"repo"`
	Title    string `json:"title"`
}

// Create stores a new evaluation with a pending result for each pair, and returns its ID.
func (s *Store) Create(ctx context.Context, e Eval, pairs []Pair) (id int64, err error) {
	variants, err := rowconv.Encode(e.Variants)
	if err != nil {
		return 0, err
	}
	results, err := rowconv.Encode(pairs)
	if err != nil {
		return 0, err
	}
	err = s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if id, err = q.CreateEval(ctx, db.CreateEvalParams{
			SetName: rowconv.Text(e.Set), SetDigest: e.Digest, Variants: variants, MaxCostMicros: e.MaxCostMicros, CreatedBy: rowconv.Text(e.CreatedBy),
		}); err != nil {
			return err
		}
		return q.AddEvalResults(ctx, db.AddEvalResultsParams{EvalID: id, Results: results})
	})
	return id, dberr.Explain(err, "create an evaluation of %s", e.Set)
}

// Open returns the newest evaluation of the same tasks and variants that is not done; 0 if there is
// none.
func (s *Store) Open(ctx context.Context, digest string) (int64, error) {
	ids, err := s.q.OpenEval(ctx, digest)
	if err != nil || len(ids) == 0 {
		return 0, dberr.Explain(err, "look for an evaluation to continue")
	}
	return ids[0], nil
}

// Get returns an evaluation, or store.ErrNotFound.
func (s *Store) Get(ctx context.Context, id int64) (Eval, error) {
	row, err := s.q.GetEval(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Eval{}, store.ErrNotFound
	}
	if err != nil {
		return Eval{}, dberr.Explain(err, "read evaluation %d", id)
	}
	return evalOf(row)
}

func evalOf(r db.Eval) (Eval, error) {
	variants, err := rowconv.Decode[[]eval.Variant](r.Variants)
	return Eval{
		ID: r.ID, Set: r.SetName, Digest: r.SetDigest, Variants: variants, MaxCostMicros: r.MaxCostMicros, Status: Status(r.Status), Reason: r.Reason,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt,
	}, err
}

// List returns evaluations, newest first; only those before an ID if it is not 0.
func (s *Store) List(ctx context.Context, before int64, limit int) ([]Summary, error) {
	rows, err := s.lists.ListEvals(ctx, db.ListEvalsParams{Before: rowconv.Optional(before), Most: rowconv.Limit(limit, 50)})
	if err != nil {
		return nil, dberr.Explain(err, "list evaluations")
	}
	return rowconv.ConvertAll(rows, func(r db.ListEvalsRow) (Summary, error) {
		e, err := evalOf(db.Eval{
			ID: r.ID, SetName: r.SetName, SetDigest: r.SetDigest, Variants: r.Variants, MaxCostMicros: r.MaxCostMicros, Status: r.Status, Reason: r.Reason,
			CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt,
		})
		return Summary{Eval: e, Results: r.Results, Finished: r.Finished, Solved: r.Solved, CostMicros: r.CostMicros, CostKnown: r.CostKnown}, err
	})
}

// Results returns the results of an evaluation, in its order.
func (s *Store) Results(ctx context.Context, id int64) ([]Result, error) {
	rows, err := s.q.EvalResults(ctx, id)
	if err != nil {
		return nil, dberr.Explain(err, "read the results of evaluation %d", id)
	}
	return rowconv.ConvertAll(rows, func(r db.EvalResult) (Result, error) {
		tests, err := rowconv.Decode[*Tests](r.Tests)
		return Result{
			Task: r.Task, Variant: r.Variant, Repo: r.Repo, Title: r.Title, RunID: r.RunID, Status: Status(r.Status), StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
			Outcome: Outcome{
				Solved: r.Solved, Reason: r.Reason, Detail: r.Detail, CostMicros: r.CostMicros, CostKnown: r.CostKnown, FreshTokens: r.FreshTokens,
				CachedTokens: r.CachedTokens, ReasoningTokens: r.ReasoningTokens, OutputTokens: r.OutputTokens, Turns: int(r.Turns), Heals: int(r.Heals),
				Seconds: r.Seconds, Tests: tests,
			},
		}, err
	})
}

// Started is a result that is being made.
type Started struct {
	RunID     int64 // of an attempt that was interrupted; 0: none
	CapMicros int64 // share of the budget; 0: no limit
	Attempt   int
}

// Start notes that a result is being made with a share of the budget. The run and the share of an
// attempt that was interrupted remain, so that it continues as it began. It returns store.ErrNotFound
// if the result is done.
func (s *Store) Start(ctx context.Context, id int64, task, variant string, capMicros int64) (Started, error) {
	row, err := s.q.StartEvalResult(ctx, db.StartEvalResultParams{EvalID: id, Task: task, Variant: variant, CapMicros: capMicros})
	if errors.Is(err, pgx.ErrNoRows) {
		return Started{}, store.ErrNotFound
	}
	return Started{RunID: row.RunID, CapMicros: row.CapMicros, Attempt: int(row.Attempt)}, dberr.Explain(err, "start task %s", task)
}

// SetRun stores the run that makes a result.
func (s *Store) SetRun(ctx context.Context, id int64, task, variant string, run int64) error {
	return dberr.Explain(s.q.SetEvalRun(ctx, db.SetEvalRunParams{EvalID: id, Task: task, Variant: variant, RunID: run}), "store the run of task %s", task)
}

// Finish stores the outcome of a result.
func (s *Store) Finish(ctx context.Context, id int64, task, variant string, o Outcome) error {
	tests, err := rowconv.EncodeSome(o.Tests)
	if err != nil {
		return err
	}
	if len(o.Detail) > maxDetail {
		o.Detail = o.Detail[:maxDetail]
	}
	return dberr.Explain(s.q.FinishEvalResult(ctx, db.FinishEvalResultParams{
		EvalID: id, Task: task, Variant: variant, Solved: o.Solved, Reason: o.Reason, Detail: rowconv.Text(o.Detail), CostMicros: o.CostMicros, CostKnown: o.CostKnown,
		FreshTokens: o.FreshTokens, CachedTokens: o.CachedTokens, ReasoningTokens: o.ReasoningTokens, OutputTokens: o.OutputTokens, Turns: int32(o.Turns),
		Heals: int32(o.Heals), Seconds: o.Seconds, Tests: tests,
	}), "store the result of task %s", task)
}

// Reopen makes the unfinished results of an evaluation pending again, and the finished ones with one
// of the reasons. It returns their number.
func (s *Store) Reopen(ctx context.Context, id int64, reasons []string) (int64, error) {
	n, err := s.q.ReopenEvalResults(ctx, db.ReopenEvalResultsParams{EvalID: id, Reasons: store.NotNil(reasons)})
	return n, dberr.Explain(err, "continue evaluation %d", id)
}

// SetStatus sets the status of an evaluation, why it stopped, and its budget.
func (s *Store) SetStatus(ctx context.Context, id int64, status Status, reason string, maxCostMicros int64) error {
	return dberr.Explain(s.q.SetEvalStatus(ctx, db.SetEvalStatusParams{
		ID: id, Status: string(status), Reason: rowconv.Text(reason), MaxCostMicros: maxCostMicros,
	}), "update evaluation %d", id)
}
