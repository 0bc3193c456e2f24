package control

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
)

// NewQuarantine is the request to quarantine a test.
type NewQuarantine struct {
	Repo   string `json:"repo" minLength:"1" doc:"a directory on the server's host or a URL"`
	Test   string `json:"test" minLength:"1" maxLength:"1000" doc:"exact name of the test case, with its parameters, as runs report it"`
	Check  string `json:"check,omitempty" maxLength:"200" doc:"check of the test without its shard, such as test-go; default: any"`
	Reason string `json:"reason" minLength:"1" maxLength:"2000"`
	Hours  int    `json:"hours,omitempty" minimum:"0" maximum:"8760" doc:"duration; default: verification.flaky.quarantine_for; at most verification.flaky.quarantine_max"`
	By     string `json:"by,omitempty" maxLength:"200" doc:"who quarantines it; default: api"`
}

func (r *Runs) flaky() *flaky.Store { return flaky.New(r.Store) }

// FlakyTests returns up to limit flaky tests of one repository, or of all if repo is empty, and which of
// them the policy suggests to quarantine.
func (r *Runs) FlakyTests(ctx context.Context, repo string, limit int) ([]flaky.Test, error) {
	repo, err := r.named(ctx, repo)
	if err != nil {
		return nil, err
	}
	s := r.Config.Verification.Flaky
	list, err := r.flaky().Flaky(ctx, repo, s.Window, limit)
	for i := range list {
		list[i].Suggested = s.Quarantine != "off" && list[i].QuarantineID == 0 && list[i].Flips >= s.QuarantineAfter
	}
	return list, err
}

// Quarantine returns up to limit quarantined tests of one repository, or of all if repo is empty. With
// all, it includes entries that expired or were removed.
func (r *Runs) Quarantine(ctx context.Context, repo string, all bool, limit int) ([]flaky.Entry, error) {
	repo, err := r.named(ctx, repo)
	if err != nil {
		return nil, err
	}
	list, err := r.flaky().List(ctx, repo, all, limit)
	for i := range list {
		list[i].Ready = list[i].Active && !list[i].Missing && list[i].Streak >= int64(r.Config.Verification.Flaky.ReadyAfter)
	}
	return list, err
}

// AddQuarantine quarantines a test for a limited time. Verifications that are planned from now on use
// the entry. It replaces a current entry for the same test and check.
func (r *Runs) AddQuarantine(ctx context.Context, n NewQuarantine) (flaky.Entry, error) {
	s := r.Config.Verification.Flaky
	if s.Quarantine == "off" {
		return flaky.Entry{}, refused("the quarantine is disabled (verification.flaky.quarantine: off)")
	}
	if n.Repo == "" {
		return flaky.Entry{}, wrong("no repository given; specify a directory or a URL (--repo)")
	}
	repo, err := r.named(ctx, n.Repo)
	if err != nil {
		return flaky.Entry{}, err
	}
	length := min(s.QuarantineFor, s.QuarantineMax)
	if n.Hours != 0 {
		length = time.Duration(n.Hours) * time.Hour
	}
	if length < 0 || length > s.QuarantineMax {
		return flaky.Entry{}, wrong("a quarantine of %d hours is not possible: the maximum is %.0f hours (verification.flaky.quarantine_max)", n.Hours, s.QuarantineMax.Hours())
	}
	return r.flaky().Add(ctx, flaky.Entry{
		Repo: repo, Check: n.Check, Test: n.Test, Reason: n.Reason, CreatedBy: n.By, ExpiresAt: time.Now().Add(length),
	}, s.MaxQuarantined)
}

// RemoveQuarantine ends a quarantine. It is rejected if the entry was removed before, and fails with
// ErrNotFound if it does not exist.
func (r *Runs) RemoveQuarantine(ctx context.Context, id int64, by string) (flaky.Entry, error) {
	e, removed, err := r.flaky().Remove(ctx, id, by)
	if err == nil && !removed {
		err = refused("quarantine entry %d was already removed by %s", id, e.RemovedBy)
	}
	return e, err
}

// Quarantined returns the quarantined tests that applied to an execution.
func (r *Runs) Quarantined(ctx context.Context, executionID int64) ([]contract.QuarantinedTest, error) {
	return r.flaky().Used(ctx, executionID)
}
