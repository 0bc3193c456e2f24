// Package changesets stores change sets: runs that change several repositories for one goal and are
// released together.
package changesets

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// maxReason is the maximum size in bytes of a stored reason, and maxListed the largest number of sets
// that List returns.
const (
	maxReason = 2000
	maxListed = 200
)

// Set is a change set from its rows.
type Set struct {
	ID            int64                      `json:"id"`
	Tenant        string                     `json:"tenant"`
	Title         string                     `json:"goal_title"`
	Settings      contract.ChangeSetSettings `json:"settings"`
	CreatedBy     string                     `json:"created_by,omitempty"`
	CreatedAt     time.Time                  `json:"created_at"`
	StoppedAt     *time.Time                 `json:"stopped_at,omitempty"`
	StoppedBy     string                     `json:"stopped_by,omitempty"`
	StopReason    string                     `json:"stop_reason,omitempty"`
	ReleasedAt    *time.Time                 `json:"released_at,omitempty" doc:"when a person wanted the runs that are ready to be released"`
	ReleasedBy    string                     `json:"released_by,omitempty"`
	ReleaseReason string                     `json:"release_reason,omitempty"`
	DecidedAt     *time.Time                 `json:"decided_at,omitempty" doc:"absent: the runs that are ready wait"`
	Outcome       string                     `json:"outcome,omitempty" enum:"complete,incomplete,none,stopped" doc:"absent: it was not decided yet"`
	Reason        string                     `json:"reason,omitempty"`
	Held          bool                       `json:"held,omitempty" doc:"some runs are ready and others are not; a person must release or stop the set"`
	WaitingSince  *time.Time                 `json:"waiting_since,omitempty" doc:"since when a person must decide, who was notified then"`
	WaitsUntil    *time.Time                 `json:"waits_until,omitempty" doc:"when the runs that are ready stop waiting for the others"`
	Runs          []Member                   `json:"runs"`

	wait int // number of its last wait for a person
}

// Member is a run of a change set.
type Member struct {
	Number      int               `json:"number"`
	RunID       int64             `json:"runId"`
	Project     string            `json:"project"`
	Repo        string            `json:"repo"`
	Status      contract.Status   `json:"status"`
	Phase       contract.Phase    `json:"phase"`
	WaitingFor  string            `json:"waiting_for,omitempty"`
	Failure     *contract.Failure `json:"failure,omitempty"`
	ReadyAt     *time.Time        `json:"ready_at,omitempty" doc:"when it was first ready for its release"`
	Branch      string            `json:"branch,omitempty" doc:"that was released"`
	PullRequest *PullRequest      `json:"pull_request,omitempty"`
	Tokens      int64             `json:"tokens"`
	MicroUSD    int64             `json:"micro_usd"`
	Estimated   bool              `json:"estimated_price,omitempty" doc:"some of the cost is of models without a known price"`
	StartedAt   *time.Time        `json:"started_at,omitempty"`
	FinishedAt  *time.Time        `json:"finished_at,omitempty"`
	WorkflowID  string            `json:"-"`
	Staying     bool              `json:"watching,omitempty" doc:"it watches its branch"`

	toldWait int // the last wait for a person of which an event of the run tells
}

// PullRequest is the pull request of a run as last seen.
type PullRequest struct {
	Forge  string                    `json:"forge"`
	Repo   string                    `json:"repository"`
	Number int64                     `json:"number"`
	URL    string                    `json:"url"`
	State  contract.PullRequestState `json:"state" enum:"open,closed,merged"`
	Draft  bool                      `json:"draft"`
}

// Ready reports whether the run is ready for its release and waits for the others now.
func (m Member) Ready() bool { return m.ReadyAt != nil && m.WaitingFor == contract.WaitsForChangeSet }

// Ended reports whether the run has ended, or was released and only watches its branch.
func (m Member) Ended() bool { return m.Status.Terminal() }

// Usage returns what the runs have used so far.
func (s Set) Usage() (tokens, microUSD int64, estimated bool) {
	for _, m := range s.Runs {
		tokens, microUSD, estimated = tokens+m.Tokens, microUSD+m.MicroUSD, estimated || m.Estimated
	}
	return tokens, microUSD, estimated
}

// New is a set to be created, with its runs in the order of their numbers.
type New struct {
	Tenant    string
	Title     string
	Settings  contract.ChangeSetSettings
	CreatedBy string
	Runs      []store.NewRun // only the first has an idempotency key
}

// Create stores a set with its runs, all or nothing. If the idempotency key of the first run was used
// before, it returns that run's set and false, or a HUMAN_ERROR with store.CodeConflict if the request
// was different.
func Create(ctx context.Context, st *store.Store, n New) (Set, bool, error) {
	settings, err := rowconv.Encode(n.Settings)
	if err != nil {
		return Set{}, false, err
	}
	var id int64
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if id, err = q.CreateChangeSet(ctx, db.CreateChangeSetParams{
			Tenant: n.Tenant, GoalTitle: rowconv.Text(n.Title), Settings: settings, CreatedBy: rowconv.Text(n.CreatedBy),
		}); err != nil {
			return err
		}
		for i, r := range n.Runs {
			r.Settings.ChangeSet = &contract.ChangeSetMember{Set: id, Number: i + 1, Of: len(n.Runs)}
			r.Settings = budgeted(r.Settings, contract.ChangeSetBudget{Set: id, Tokens: n.Settings.Tokens, MicroUSD: n.Settings.MicroUSD})
			run, err := st.CreateRunIn(ctx, tx, r)
			if err != nil {
				return err
			}
			if err := q.AddToChangeSet(ctx, db.AddToChangeSetParams{SetID: id, Number: int32(i + 1), RunID: run}); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, pgx.ErrNoRows) && n.Runs[0].IdempotencyKey != "" { // created by the same request before
		first, err := st.RunByKey(ctx, n.Tenant, n.Runs[0].IdempotencyKey, n.Runs[0].RequestDigest)
		if err != nil {
			return Set{}, false, err
		}
		if first.Settings.ChangeSet == nil {
			return Set{}, false, fault.New(contract.ClassHuman, store.CodeConflict,
				"the idempotency key %q was already used for a single run, %d; use a new key", n.Runs[0].IdempotencyKey, first.ID)
		}
		s, err := Read(ctx, st, first.Settings.ChangeSet.Set)
		return s, false, err
	}
	if err != nil {
		return Set{}, false, dberr.Explain(err, "create a change set of %d runs", len(n.Runs))
	}
	s, err := Read(ctx, st, id)
	return s, true, err
}

// budgeted lets the calls of a run count for the budget of its set as well.
func budgeted(s contract.Settings, b contract.ChangeSetBudget) contract.Settings {
	s.RunBudget.ChangeSet = &b
	if s.Deliberation != nil {
		d := *s.Deliberation
		d.Budget.ChangeSet = &b
		s.Deliberation = &d
	}
	return s
}

// Read returns a set, or store.ErrNotFound.
func Read(ctx context.Context, st *store.Store, id int64) (Set, error) {
	return read(ctx, st.Queries(), id, false)
}

func read(ctx context.Context, q *db.Queries, id int64, lock bool) (Set, error) {
	get := q.GetChangeSet
	if lock {
		get = q.LockChangeSet
	}
	row, err := get(ctx, id)
	if err != nil {
		return Set{}, dberr.Or(err, dberr.NotFound("no change set %d exists", id), "read the change set %d", id)
	}
	all, err := withRuns(ctx, q, []db.OrchestratorChangeSet{row})
	if err != nil {
		return Set{}, err
	}
	return all[0], nil
}

// maxChain is the largest number of runs that continue a branch through which Of looks for a set.
const maxChain = 20

// Of returns the place of a run in its change set, and the run that has this place: the run itself, or the
// one whose branch it continues, directly or through others. It returns nil if that belongs to no set.
func Of(ctx context.Context, st *store.Store, id int64) (int64, *contract.ChangeSetMember, error) {
	for range maxChain {
		run, err := st.Run(ctx, id)
		if err != nil {
			return 0, nil, err
		}
		if of := run.Settings.ChangeSet; of != nil {
			return id, of, nil
		}
		if f := run.Settings.FollowUp; f == nil || f.Branch == "" { // a fork has a branch of its own
			break
		}
		id = run.Settings.FollowUp.RunID
	}
	return 0, nil, nil
}

// Page is a part of the list of change sets.
type Page struct {
	Sets []Set
	Next int64 // Before of the next page; 0: this is the last one
}

// List returns the newest change sets, only those before an id of an earlier page unless before is 0.
func List(ctx context.Context, st *store.Store, tenant string, before int64, most int) (Page, error) {
	most = min(max(most, 1), maxListed)
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := st.Queries().ChangeSets(ctx, db.ChangeSetsParams{Tenant: tenant, Before: before, Most: int32(most + 1)})
	if err != nil {
		return Page{}, dberr.Explain(err, "read the change sets")
	}
	out := Page{}
	if len(rows) > most {
		rows = rows[:most]
		out.Next = rows[most-1].ID
	}
	out.Sets, err = withRuns(ctx, st.Queries(), rows)
	return out, err
}

// withRuns returns sets with their runs.
func withRuns(ctx context.Context, q *db.Queries, rows []db.OrchestratorChangeSet) ([]Set, error) {
	out, at, ids := make([]Set, len(rows)), map[int64]*Set{}, make([]int64, len(rows))
	for i, row := range rows {
		s, err := setOf(row)
		if err != nil {
			return nil, err
		}
		out[i], ids[i] = s, row.ID
		at[row.ID] = &out[i]
	}
	runs, err := q.RunsOfChangeSets(ctx, ids)
	if err != nil {
		return nil, dberr.Explain(err, "read the runs of change sets")
	}
	for _, r := range runs {
		s := at[r.SetID]
		s.Runs = append(s.Runs, memberOf(r))
	}
	for i := range out {
		out[i].complete()
	}
	return out, nil
}

func setOf(row db.OrchestratorChangeSet) (Set, error) {
	s := Set{
		ID: row.ID, Tenant: row.Tenant, Title: row.GoalTitle, CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt,
		StoppedAt: row.StoppedAt, StoppedBy: row.StoppedBy, StopReason: row.StopReason,
		ReleasedAt: row.ReleasedAt, ReleasedBy: row.ReleasedBy, ReleaseReason: row.ReleaseReason,
		DecidedAt: row.DecidedAt, Outcome: row.Outcome, Reason: row.Reason, Runs: []Member{},
		WaitingSince: row.WaitingSince, wait: int(row.Waits),
	}
	var err error
	s.Settings, err = rowconv.Decode[contract.ChangeSetSettings](row.Settings)
	return s, err
}

func memberOf(r db.RunsOfChangeSetsRow) Member {
	m := Member{
		Number: int(r.Number), RunID: r.RunID, Project: r.Project, Repo: r.Repo, Status: contract.Status(r.Status), Phase: contract.Phase(r.Phase),
		WaitingFor: r.WaitingFor, Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, ""), ReadyAt: r.ReadyAt, Branch: r.ReleaseBranch,
		Tokens: r.Tokens, MicroUSD: r.MicroUsd, Estimated: r.PriceEstimated, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		WorkflowID: r.WorkflowID, Staying: r.StayingUntil != nil,
		toldWait: int(r.ToldWait),
	}
	if r.PrNumber != 0 {
		m.PullRequest = &PullRequest{Forge: r.PrForge, Repo: r.PrRepo, Number: r.PrNumber, URL: r.PrUrl, State: contract.PullRequestState(r.PrState), Draft: r.PrDraft}
	}
	return m
}

// complete sets what follows from the other fields.
func (s *Set) complete() {
	counts := s.count()
	if s.DecidedAt != nil || s.StoppedAt != nil || counts.ready == 0 {
		return
	}
	until := counts.first.Add(s.Settings.Wait)
	s.WaitsUntil, s.Held = &until, s.held(time.Now())
}

// held reports whether a person must decide about the set at a time.
func (s *Set) held(now time.Time) bool {
	c := s.count()
	return s.Settings.Incomplete == contract.IncompleteHold && s.DecidedAt == nil && s.StoppedAt == nil && s.ReleasedAt == nil &&
		c.ready > 0 && c.ready < len(s.Runs) && (c.working == 0 || !now.Before(c.first.Add(s.Settings.Wait)))
}

// counted says how far the runs of a set are.
type counted struct {
	ready, working int       // the others have ended
	first          time.Time // when the first of those that are ready was ready
}

func (s *Set) count() (c counted) {
	for _, m := range s.Runs {
		switch {
		case m.Ready():
			if c.ready++; c.ready == 1 || m.ReadyAt.Before(c.first) {
				c.first = *m.ReadyAt
			}
		case !m.Ended():
			c.working++
		}
	}
	return c
}

// decide returns the decision about the set that can be made at a time, and else how long to wait until
// time decides, or until a person must; 0: time alone changes nothing.
func (s *Set) decide(now time.Time) contract.ChangeSetDecision {
	c := s.count()
	left := c.first.Add(s.Settings.Wait).Sub(now)
	switch {
	case s.DecidedAt != nil:
		return contract.ChangeSetDecision{Outcome: s.Outcome, Reason: s.Reason}
	case s.StoppedAt != nil:
		return contract.ChangeSetDecision{Outcome: contract.OutcomeStopped, Reason: "stopped by " + s.StoppedBy + because(s.StopReason)}
	case c.ready == len(s.Runs):
		return contract.ChangeSetDecision{Outcome: contract.OutcomeComplete, Reason: fmt.Sprintf("all %d runs are ready", c.ready)}
	case c.ready == 0 && c.working == 0:
		return contract.ChangeSetDecision{Outcome: contract.OutcomeNone, Reason: "all runs have ended without being ready"}
	case c.ready == 0:
		return contract.ChangeSetDecision{}
	case s.ReleasedAt != nil:
		return contract.ChangeSetDecision{Outcome: contract.OutcomeIncomplete, Reason: "released by " + s.ReleasedBy + because(s.ReleaseReason)}
	case s.Settings.Incomplete == contract.IncompleteHold && s.held(now):
		return contract.ChangeSetDecision{}
	case s.Settings.Incomplete == contract.IncompleteHold:
		return contract.ChangeSetDecision{Wait: left}
	case c.working == 0:
		return contract.ChangeSetDecision{Outcome: contract.OutcomeIncomplete, Reason: fmt.Sprintf("%d of %d runs are ready, and the others have ended", c.ready, len(s.Runs))}
	case left <= 0:
		return contract.ChangeSetDecision{Outcome: contract.OutcomeIncomplete, Reason: fmt.Sprintf("%d of %d runs are ready, and have waited %s for the others (git.change_set.wait)", c.ready, len(s.Runs), s.Settings.Wait)}
	}
	return contract.ChangeSetDecision{Wait: left}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// Decide makes the decision about a set if it can be made now, once: a later one changes nothing.
func Decide(ctx context.Context, st *store.Store, id int64) (contract.ChangeSetDecision, error) {
	var out contract.ChangeSetDecision
	fresh := false
	err := st.InTx(ctx, func(tx pgx.Tx) (err error) {
		out, fresh, err = decideIn(ctx, db.New(tx), id)
		return err
	})
	if err == nil && fresh {
		telemetry.CountChangeSet(out.Outcome)
	}
	return out, dberr.Explain(err, "decide about the change set %d", id)
}

// decideIn is Decide in a transaction. It reports whether it made the decision. If a person must make it, or
// need not any more, it records events that say so, once.
func decideIn(ctx context.Context, q *db.Queries, id int64) (out contract.ChangeSetDecision, fresh bool, err error) {
	s, err := read(ctx, q, id, true)
	if err != nil {
		return out, false, err
	}
	now := time.Now()
	if out = s.decide(now); s.DecidedAt != nil {
		return out, false, nil
	}
	out.Reason = fault.Clip(rowconv.Text(telemetry.Redact(out.Reason)), maxReason)
	if err := s.waits(ctx, q, now, out); err != nil || out.Outcome == "" {
		return out, false, err
	}
	if err := q.DecideChangeSet(ctx, db.DecideChangeSetParams{ID: id, Outcome: out.Outcome, Reason: out.Reason}); err != nil {
		return out, false, err
	}
	if out.Outcome == contract.OutcomeStopped {
		err = q.TellStoppedChangeSet(ctx, id)
	}
	return out, err == nil, err
}

// Ready notes that a run is ready for its release, and returns the decision about its set as it sees it.
// It makes the decision if that is possible now, and reports whether it did: the workflow of the set, which
// does so otherwise, may have been terminated.
// workflowRun identifies the workflow run that asks. A run that a person resumes after the set was stopped
// is released: a replay of it was ordered since, or it asks with another workflow run than the one that
// learned of the stop.
func Ready(ctx context.Context, st *store.Store, set, run int64, workflowRun string) (out contract.ReadyAnswer, fresh bool, err error) {
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if _, err := q.LockChangeSet(ctx, set); err != nil {
			return err
		}
		told, err := q.ChangeSetToldTo(ctx, db.ChangeSetToldToParams{SetID: set, RunID: run})
		if err != nil {
			return err
		}
		if _, err := q.ReadyInChangeSet(ctx, db.ReadyInChangeSetParams{SetID: set, RunID: run}); err != nil {
			return err
		}
		var d contract.ChangeSetDecision
		if d, fresh, err = decideIn(ctx, q, set); err != nil || d.Outcome == "" {
			return err
		}
		out = contract.ReadyAnswer{Decided: true, Release: true, Outcome: d.Outcome, Reason: d.Reason}
		if d.Outcome != contract.OutcomeStopped {
			return nil
		}
		resumed, err := q.ResumedAfterStop(ctx, db.ResumedAfterStopParams{SetID: set, RunID: run})
		if err != nil {
			return err
		}
		if resumed || told != "" && told != workflowRun {
			out.Reason = "a person resumed it after the change set was stopped"
			return nil
		}
		out.Release = false
		return q.TellRunOfChangeSet(ctx, db.TellRunOfChangeSetParams{SetID: set, RunID: run, ToldTo: workflowRun})
	})
	if err == nil && fresh {
		telemetry.CountChangeSet(out.Outcome)
	}
	return out, fresh, dberr.Or(err, dberr.NotFound("run %d does not belong to change set %d", run, set), "read the decision about change set %d", set)
}

// Stop records that a person stopped all runs of a set. It reports false if that was recorded before.
func Stop(ctx context.Context, st *store.Store, set int64, by, reason string) (bool, error) {
	n, err := st.Queries().StopChangeSet(ctx, db.StopChangeSetParams{ID: set, StoppedBy: rowconv.Text(by), Reason: fault.Clip(rowconv.Text(reason), maxReason)})
	return n > 0, dberr.Explain(err, "stop the change set %d", set)
}

// Release records that a person wants the runs of a set that are ready to be released without the
// others. It reports false if that was recorded, or the set decided about, before.
func Release(ctx context.Context, st *store.Store, set int64, by, reason string) (bool, error) {
	n, err := st.Queries().ReleaseChangeSet(ctx, db.ReleaseChangeSetParams{ID: set, ReleasedBy: rowconv.Text(by), Reason: fault.Clip(rowconv.Text(reason), maxReason)})
	return n > 0, dberr.Explain(err, "release the change set %d", set)
}
