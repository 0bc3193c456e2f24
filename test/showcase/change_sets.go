package showcase

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
)

// changing is what becomes of a run of a change set of the showcase.
type changing string

const (
	working  changing = "working"
	isReady  changing = "ready"
	fails    changing = "fails"
	released changing = "released"
)

// shownSet is a change set of the showcase.
type shownSet struct {
	goal, by, reason, failure string
	age                       time.Duration
	incomplete                string
	projects                  []string
	become                    []changing
	decided                   bool // a person released those that were ready
	stopped                   bool
}

// changeSets writes change sets in each state. Their runs are the last ones.
func (f *dataset) changeSets(ctx context.Context) error {
	three := []string{"shop-api", "shop-web", "shop-mobile"}
	for _, s := range []shownSet{
		{goal: "Rename the field user to login", by: "ada", age: 3 * day, incomplete: contract.IncompleteDraft, projects: three, become: []changing{released, released, released}},
		{goal: "Send the time zone with each order", by: "ada", age: 2 * day, incomplete: contract.IncompleteDraft, projects: three, become: []changing{released, released, fails}, decided: true, reason: "the app follows next week"},
		{goal: "Drop the old payment endpoint", by: "grace", age: day, incomplete: contract.IncompleteDraft, projects: three[:2], become: []changing{isReady, working}, stopped: true, reason: "the provider still needs it"},
		{goal: "Log requests with the same ID everywhere", by: "ada", age: 5 * time.Hour, incomplete: contract.IncompleteHold, projects: three, become: []changing{isReady, isReady, fails}},
		{goal: "Accept gift cards", by: "", age: 40 * time.Minute, incomplete: contract.IncompleteDraft, projects: three, become: []changing{isReady, working, working}},
	} {
		if err := f.changeSet(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// hostileChangeSet writes a change set whose every text is the given one. It waits for a person or was stopped.
func (f *dataset) hostileChangeSet(ctx context.Context, text string, stopped bool) error {
	return f.changeSet(ctx, shownSet{
		goal: text, by: text, reason: text, failure: text, age: time.Hour, incomplete: contract.IncompleteHold,
		projects: []string{cut(text, 100), cut(text, 100), cut(text, 100)}, become: []changing{isReady, fails, fails}, stopped: stopped,
	})
}

func (f *dataset) changeSet(ctx context.Context, s shownSet) error {
	n := changesets.New{
		Tenant: store.DefaultTenant, Title: s.goal, CreatedBy: s.by,
		Settings: contract.ChangeSetSettings{Incomplete: s.incomplete, Wait: day, Follow: 14 * day, MicroUSD: 10_000_000},
	}
	for _, project := range s.projects {
		settings, spec, err := f.freeze(project)
		if err != nil {
			return err
		}
		settings.CreatedBy = s.by
		n.Runs = append(n.Runs, store.NewRun{Tenant: store.DefaultTenant, Project: project, GoalTitle: s.goal, Settings: settings, Spec: spec, MaxRetries: settings.MaxRetries})
	}
	set, _, err := changesets.Create(ctx, f.store, n)
	if err != nil {
		return err
	}
	for i, m := range set.Runs {
		if err := f.becomes(ctx, set.ID, m, s.become[i], s.failure); err != nil {
			return err
		}
	}
	if s.decided {
		_, err = changesets.Release(ctx, f.store, set.ID, s.by, s.reason)
	}
	if err == nil && s.stopped {
		_, err = changesets.Stop(ctx, f.store, set.ID, s.by, s.reason)
	}
	if err == nil {
		_, err = changesets.Decide(ctx, f.store, set.ID)
	}
	for i, m := range set.Runs {
		if err == nil && s.become[i] == released {
			err = f.releases(ctx, m, set.ID)
		}
		if err == nil && s.stopped && s.become[i] != fails {
			err = f.ends(ctx, m.RunID, contract.RunChange{
				Phase: contract.PhaseTester, Status: contract.StatusCancelled, Finished: true,
				Failure: &contract.Failure{Class: contract.ClassHuman, Code: contract.CodeCancelled, Message: "stopped by " + s.by + ": " + s.reason},
			})
		}
	}
	if err != nil {
		return err
	}
	return f.backdateSet(ctx, set, s.age)
}

// becomes writes what becomes of a run until its set is decided about.
func (f *dataset) becomes(ctx context.Context, set int64, m changesets.Member, what changing, failure string) error {
	c := contract.RunChange{Phase: contract.PhaseTester, Status: contract.PhaseTester.Completed(), WaitingFor: contract.WaitsForChangeSet}
	switch what {
	case isReady, released:
	case working:
		c = contract.RunChange{Phase: contract.PhaseBuilder, Status: contract.PhaseBuilder.Running()}
	case fails:
		c = contract.RunChange{Phase: contract.PhaseTester, Status: contract.StatusFailed, Finished: true, Failure: &contract.Failure{
			Class: contract.ClassAssertion, Code: contract.CodeCheckFailed, Message: cmp.Or(failure, "npm test failed: OrderScreen shows the time of an order in the zone of the phone"),
		}}
	}
	if err := f.writes(ctx, m.RunID, 1, c); err != nil || what == working || what == fails {
		return err
	}
	_, _, err := changesets.Ready(ctx, f.store, set, m.RunID, uuidOf("run", m.RunID, 1))
	return err
}

func (f *dataset) ends(ctx context.Context, run int64, c contract.RunChange) error {
	return f.writes(ctx, run, 2, c)
}

func (f *dataset) writes(ctx context.Context, run, seq int64, c contract.RunChange) error {
	_, err := f.store.Record(ctx, store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: uuidOf("run", run, 1)}, contract.Record{
		RunID: run, Seq: seq, At: f.now, Run: &c, Events: event(contract.EventRunUpdated, map[string]any{"status": c.Status}),
	})
	return err
}

// releases opens the pull request of a run and ends it.
func (f *dataset) releases(ctx context.Context, m changesets.Member, set int64) error {
	state, number := contract.PullRequestOpen, 100+m.RunID
	if set == 1 && m.Number == 1 {
		state = contract.PullRequestMerged
	}
	err := pullrequests.Save(ctx, f.store, contract.PullRequest{
		RunID: m.RunID, Forge: "work", Repo: "team/" + m.Project, Number: number, Title: "Change set", URL: fmt.Sprintf("https://git.example.com/team/%s/pulls/%d", m.Project, number),
		Head: fmt.Sprintf("rgpt/run-%d", m.RunID), Base: "main", State: state,
	}, true)
	if err != nil {
		return err
	}
	return f.ends(ctx, m.RunID, contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusDone, Branch: fmt.Sprintf("rgpt/run-%d", m.RunID), Finished: true})
}

// backdateSet moves a change set and its runs to the past, and lets them have cost something.
func (f *dataset) backdateSet(ctx context.Context, set changesets.Set, age time.Duration) error {
	var runs []int64
	for _, m := range set.Runs {
		runs = append(runs, m.RunID)
	}
	began := f.now.Add(-age)
	later := began.Add(age / 3)
	for _, change := range []struct {
		sql  string
		args []any
	}{
		{"UPDATE orchestrator_runs SET created_at = $2::timestamptz + (id - $4) * interval '1 second', started_at = $2::timestamptz + interval '30 seconds', updated_at = $3, " +
			"finished_at = CASE WHEN finished_at IS NOT NULL THEN $3::timestamptz END WHERE id = ANY ($1)", []any{runs, began, later, runs[0]}},
		{"UPDATE orchestrator_events SET created_at = $2 WHERE run_id = ANY ($1)", []any{runs, later}},
		{"UPDATE orchestrator_pull_requests SET created_at = $2, updated_at = $2 WHERE run_id = ANY ($1)", []any{runs, later}},
		{"UPDATE orchestrator_change_set_runs SET ready_at = $2 WHERE set_id = $1 AND ready_at IS NOT NULL", []any{set.ID, later}},
		{"UPDATE orchestrator_change_sets SET created_at = $2, waiting_since = CASE WHEN waiting_since IS NOT NULL THEN $3::timestamptz END, " +
			"stopped_at = CASE WHEN stopped_at IS NOT NULL THEN $3::timestamptz END, released_at = CASE WHEN released_at IS NOT NULL THEN $3::timestamptz END, " +
			"decided_at = CASE WHEN decided_at IS NOT NULL THEN $3::timestamptz END WHERE id = $1", []any{set.ID, began, later}},
	} {
		if _, err := f.sql.Exec(ctx, change.sql, change.args...); err != nil {
			return fmt.Errorf("move the change set %d to the past: %w", set.ID, err)
		}
	}
	return nil
}
