package changesets

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// maxFailure is the maximum size in bytes of the beginning of a failure, which readers of other
// repositories see.
const maxFailure = 160

// Missing says why a run that is not released is missing in its set, and the beginning of its failure if it
// has ended with one.
func (m Member) Missing() (why, failure string) {
	if m.Failure != nil {
		failure = fault.Clip(fault.FirstLine(telemetry.Redact(m.Failure.Message)), maxFailure)
	}
	switch {
	case m.Failure != nil && m.Failure.Code == contract.CodeDenied:
		return "the policy gate refused it", failure
	case m.Status == contract.StatusCancelled:
		return "it was stopped", failure
	case m.Status == contract.StatusFailed:
		return "it failed", failure
	case m.Status == contract.StatusDone:
		return "it has ended without waiting for the others", ""
	case m.Status.WaitsForPerson():
		return "it waits for a person", ""
	case m.Status == contract.StatusPaused:
		return "it is paused", ""
	}
	return "it is not ready yet", ""
}

// Waiting returns the sets about which a person must decide, the one that has waited longest first.
func Waiting(ctx context.Context, st *store.Store, tenant string, most int) ([]Set, error) {
	rows, err := st.Queries().WaitingChangeSets(ctx, db.WaitingChangeSetsParams{Tenant: tenant, Most: int32(min(max(most, 1), maxListed))})
	if err != nil {
		return nil, dberr.Explain(err, "read the change sets that wait for a person")
	}
	return withRuns(ctx, st.Queries(), rows)
}

// CountWaiting returns the number of sets about which a person must decide.
func CountWaiting(ctx context.Context, st *store.Store, tenant string) (int, error) {
	n, err := st.Queries().CountWaitingChangeSets(ctx, tenant)
	return int(n), dberr.Explain(err, "count the change sets that wait for a person")
}

// waits begins or ends the wait of the set for a person, with an event of each run that is ready. While it
// waits, only runs that become ready get one. d is the decision if it is made now. The row of the set is
// locked.
func (s *Set) waits(ctx context.Context, q *db.Queries, now time.Time, d contract.ChangeSetDecision) error {
	held := d.Outcome == "" && s.held(now)
	began := s.WaitingSince != nil
	if began && held { // a person may have started a run again, in vain
		again, err := q.EndedAgainInWait(ctx, s.ID)
		if err != nil {
			return err
		}
		if again {
			if err := s.endWait(ctx, q, contract.ChangeSetDecision{Reason: "a run that was missing has ended again"}); err != nil {
				return err
			}
			began = false
		}
	}
	switch {
	case held:
		return s.beginWait(ctx, q, began)
	case began:
		return s.endWait(ctx, q, d)
	}
	return nil
}

// beginWait begins a wait unless it began already, and tells the runs that are ready and do not know of it.
func (s *Set) beginWait(ctx context.Context, q *db.Queries, began bool) error {
	if !began {
		n, err := q.BeginWaitOfChangeSet(ctx, s.ID)
		if err != nil {
			return err
		}
		s.wait = int(n)
	}
	var tell []int64
	for _, m := range s.Runs {
		if m.Ready() && m.toldWait != s.wait {
			tell = append(tell, m.RunID)
		}
	}
	return s.tell(ctx, q, tell, contract.EventChangeSetWaiting, s.waiting())
}

// endWait ends a wait, and tells the runs that know of it.
func (s *Set) endWait(ctx context.Context, q *db.Queries, d contract.ChangeSetDecision) error {
	if err := q.EndWaitOfChangeSet(ctx, s.ID); err != nil {
		return err
	}
	var tell []int64
	for _, m := range s.Runs {
		if m.toldWait == s.wait {
			tell = append(tell, m.RunID)
		}
	}
	if d.Outcome == "" && d.Reason == "" {
		d.Reason = "a run that is missing works again, or one that was ready does not wait any more"
	}
	return s.tell(ctx, q, tell, contract.EventChangeSetResolved, contract.ChangeSetResolved{
		ChangeSet: s.ID, WaitingID: contract.ChangeSetWaitingID(s.ID, s.wait), Outcome: d.Outcome, Reason: d.Reason,
	})
}

// tell adds an event to runs of the set.
func (s *Set) tell(ctx context.Context, q *db.Queries, runs []int64, event contract.EventType, content any) error {
	if len(runs) == 0 {
		return nil
	}
	payload, err := rowconv.Encode(content)
	if err != nil {
		return err
	}
	if err := q.LockRuns(ctx, runs); err != nil {
		return err
	}
	for _, run := range runs {
		if err := q.AddEvent(ctx, db.AddEventParams{RunID: run, EventType: string(event), Payload: payload}); err != nil {
			return err
		}
	}
	return q.ToldOfWait(ctx, db.ToldOfWaitParams{SetID: s.ID, Runs: runs, Wait: int32(s.wait)})
}

// waiting describes for what a person is needed. Names and failures are of repositories and models.
func (s *Set) waiting() contract.ChangeSetWaiting {
	out := contract.ChangeSetWaiting{
		ChangeSet: s.ID, WaitingID: contract.ChangeSetWaitingID(s.ID, s.wait), Kind: contract.WaitsForChangeSet,
		Ready: []contract.ChangeSetRun{}, Missing: []contract.MissingChangeRun{},
		Commands: []string{fmt.Sprintf("rgpt set release %d", s.ID), fmt.Sprintf("rgpt set stop %d", s.ID)},
	}
	var missing []string
	for _, m := range s.Runs {
		run := contract.ChangeSetRun{RunID: m.RunID, Project: telemetry.Redact(m.Project)}
		if m.Ready() {
			out.Ready = append(out.Ready, run)
			continue
		}
		why, failure := m.Missing()
		out.Missing = append(out.Missing, contract.MissingChangeRun{ChangeSetRun: run, Status: m.Status, Why: why, Failure: failure})
		missing = append(missing, fmt.Sprintf("run %d (%s): %s", m.RunID, run.Project, why))
	}
	out.Reason = fault.Clip(fmt.Sprintf("%d of %d runs of change set %d are ready; missing: %s", len(out.Ready), len(s.Runs), s.ID, strings.Join(missing, ", ")), maxReason)
	out.ActionRequired = fmt.Sprintf("release those that are ready (rgpt set release %d), stop all (rgpt set stop %[1]d), or resume what is missing", s.ID)
	return out
}
