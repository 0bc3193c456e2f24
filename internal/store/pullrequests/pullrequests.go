// Package pullrequests stores the pull requests that runs opened or updated.
package pullrequests

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// maxListed is the largest number of pull requests that List returns.
const maxListed = 200

// event is the payload of the events of pull requests.
type event struct {
	Forge  string                    `json:"forge"`
	Repo   string                    `json:"repository"`
	Number int64                     `json:"number"`
	URL    string                    `json:"url"`
	Title  string                    `json:"title"`
	Head   string                    `json:"head"`
	Base   string                    `json:"base"`
	Commit string                    `json:"commit"`
	State  contract.PullRequestState `json:"state"`
	Draft  bool                      `json:"draft"`
	Notes  []string                  `json:"notes,omitempty"`
}

// Save stores the pull request of a run as it is now. The event pr.opened, pr.updated, pr.merged or
// pr.closed is written with it if the pull request is new to the run, its commit or its state has
// changed; opened says that the run itself opened it. Storing it again changes nothing.
func Save(ctx context.Context, st *store.Store, p contract.PullRequest, opened bool) error {
	clean := rowconv.Text
	params := db.SavePullRequestParams{
		RunID: p.RunID, Forge: p.Forge, Repo: clean(p.Repo), Number: p.Number, Url: clean(p.URL), Title: clean(p.Title), Head: clean(p.Head),
		Base: clean(p.Base), CommitID: p.Commit, State: string(p.State), Draft: p.Draft, Opened: opened,
		OpenedEvent: string(contract.EventPullRequestOpened), UpdatedEvent: string(contract.EventPullRequestUpdated),
		MergedEvent: string(contract.EventPullRequestMerged), ClosedEvent: string(contract.EventPullRequestClosed),
	}
	notes := make([]string, len(p.Notes))
	for i, n := range p.Notes {
		notes[i] = clean(n)
	}
	var err error
	if params.Notes, err = rowconv.Encode(notes); err != nil {
		return err
	}
	if params.Payload, err = rowconv.Encode(event{
		Forge: p.Forge, Repo: params.Repo, Number: p.Number, URL: params.Url, Title: params.Title, Head: params.Head, Base: params.Base,
		Commit: p.Commit, State: p.State, Draft: p.Draft, Notes: notes,
	}); err != nil {
		return err
	}
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRun(ctx, p.RunID); err != nil {
			return err
		}
		_, err := q.SavePullRequest(ctx, params)
		return err
	})
	return dberr.OfRun(err, p.RunID, "store the pull request of run %d", p.RunID)
}

// Of returns the pull requests of a run, oldest first.
func Of(ctx context.Context, st *store.Store, run int64) ([]contract.PullRequest, error) {
	rows, err := st.Queries().PullRequestsOfRun(ctx, run)
	if err != nil {
		return nil, dberr.OfRun(err, run, "read the pull requests of run %d", run)
	}
	return ofRows(rows)
}

// NoteConflict stores whether the forge says that a pull request conflicts with its base.
func NoteConflict(ctx context.Context, st *store.Store, forge, repo string, number int64, conflict bool) error {
	err := st.Queries().NotePullRequestConflict(ctx, db.NotePullRequestConflictParams{Forge: forge, Repo: repo, Number: number, Conflict: conflict})
	return dberr.Explain(err, "store whether pull request %d of %s conflicts", number, repo)
}

// PushedTo reports whether people pushed to the branch of a run while it watched it.
func PushedTo(ctx context.Context, st *store.Store, run int64) (bool, error) {
	pushed, err := st.Queries().PushedTo(ctx, run)
	return pushed, dberr.OfRun(err, run, "find out whether people pushed to the branch of run %d", run)
}

// maxOpen is the largest number of pull requests that OpenFrom returns.
const maxOpen = 10

// OpenFrom returns the numbers of the pull requests from a branch that runs last saw open, newest first.
// They may have been closed since, and their bases may have been changed.
func OpenFrom(ctx context.Context, st *store.Store, forge, repo, head string) ([]int64, error) {
	numbers, err := st.Queries().OpenPullRequestsOfBranch(ctx, db.OpenPullRequestsOfBranchParams{Forge: forge, Repo: rowconv.Text(repo), Head: rowconv.Text(head), Most: maxOpen})
	return numbers, dberr.Explain(err, "read the pull requests of the branch %s of %s", head, repo)
}

// Page is a part of the list of pull requests.
type Page struct {
	PullRequests []contract.PullRequest
	Next         int64 // Before of the next page; 0: this is the last one
}

// List returns the newest pull requests of runs in a state, or in any if it is empty: at most most of
// them, only those before an entry of an earlier page unless before is 0.
func List(ctx context.Context, st *store.Store, state contract.PullRequestState, before int64, most int) (Page, error) {
	most = min(max(most, 1), maxListed)
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := st.Queries().PullRequests(ctx, db.PullRequestsParams{State: string(state), Before: before, Most: int32(most + 1)})
	if err != nil {
		return Page{}, dberr.Explain(err, "read the pull requests")
	}
	out := Page{}
	if len(rows) > most {
		rows = rows[:most]
		out.Next = rows[most-1].ID
	}
	out.PullRequests, err = ofRows(rows)
	return out, err
}

// RunOf returns the last run that has a pull request, 0 if none has.
func RunOf(ctx context.Context, st *store.Store, forge, repo string, number int64) (int64, error) {
	run, err := st.Queries().LastRunOfPullRequest(ctx, db.LastRunOfPullRequestParams{Forge: forge, Repo: repo, Number: number})
	return run, dberr.Explain(err, "find the run of pull request %d of %s", number, repo)
}

func ofRows(rows []db.PullRequest) ([]contract.PullRequest, error) {
	out := make([]contract.PullRequest, len(rows))
	for i, r := range rows {
		notes, err := rowconv.Decode[[]string](r.Notes)
		if err != nil {
			return nil, err
		}
		out[i] = contract.PullRequest{
			RunID: r.RunID, Forge: r.Forge, Repo: r.Repo, Number: r.Number, URL: r.Url, Title: r.Title, Head: r.Head, Base: r.Base,
			Commit: r.CommitID, State: contract.PullRequestState(r.State), Draft: r.Draft, Conflict: r.Conflict, Notes: notes, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}
	}
	return out, nil
}
