// Package forgeevents stores what happens on forges to the pull requests of runs that watch their
// branches: an inbox, which servers share, when each pull request is looked at, and which webhooks
// were received.
package forgeevents

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Check   Kind = "check"   // a check of a commit has ended
	Comment Kind = "comment" // a comment was written
	Closed  Kind = "closed"  // the pull request was closed
	Merged  Kind = "merged"  // the pull request was merged
	Pushed  Kind = "pushed"  // the branch was moved, but not by its run
	Base    Kind = "base"    // the base has commits that the branch needs
)

// State is the state of an event.
type State string

// The states of an event. Only pending ones are worked on.
const (
	Pending State = "pending"
	Sent    State = "sent"    // the run was informed
	Ignored State = "ignored" // the run does not need it
	Failed  State = "failed"  // it was given up
)

// Event is something that happened to a pull request on a forge.
type Event struct {
	ID      int64
	Forge   string // name in the configuration
	Repo    string // path on the forge
	Number  int64
	Key     string // says what happened; unique in the repository
	Kind    Kind
	Name    string // of the check; path and line of the comment
	Result  string // of the check
	Payload Payload

	ReceivedAt time.Time
	TriedAt    time.Time // first attempt; zero: none was made
	State      State
	Reason     string // why it was ignored or failed, or the last attempt did
	RunID      int64  // that it was sent to; 0: none
	Answer     string // address of the answer to a comment
	Attempt    int
}

// Payload is the content of an event. Its texts are redacted and bounded by who adds the event.
type Payload struct {
	ID          string    `json:"id,omitempty"` // of the check or comment on the forge
	Description string    `json:"description,omitempty"`
	Body        string    `json:"body,omitempty"`
	URL         string    `json:"url,omitempty"`
	Author      string    `json:"author,omitempty"`
	Bot         bool      `json:"bot,omitempty"`
	Thread      string    `json:"thread,omitempty"`
	Review      bool      `json:"review,omitempty"` // a comment that is the text of a review
	Path        string    `json:"path,omitempty"`
	Line        int       `json:"line,omitempty"`
	Commit      string    `json:"commit,omitempty"`
	At          time.Time `json:"at,omitzero"`
	Earlier     bool      `json:"earlier,omitempty"` // a comment from before the run had the pull request
	Edited      bool      `json:"edited,omitempty"`  // a comment that was edited before it was found
}

// Add stores events, in their order, and returns how many of them were not known yet. Adding an event
// again changes nothing, whatever its payload is.
func Add(ctx context.Context, st *store.Store, events []Event) (added int, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		for _, e := range events {
			payload, err := rowconv.Encode(e.Payload)
			if err != nil {
				return err
			}
			n, err := q.AddForgeEvent(ctx, db.AddForgeEventParams{
				Forge: e.Forge, Repo: rowconv.Text(e.Repo), Number: e.Number, EventID: rowconv.Text(e.Key), Kind: string(e.Kind),
				Name: rowconv.Text(e.Name), Result: rowconv.Text(e.Result), Payload: payload,
			})
			if err != nil {
				return err
			}
			added += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, dberr.Explain(err, "store events of pull request %d of %s", events[0].Number, events[0].Repo)
	}
	return added, nil
}

// Claim leases at most most pending events that are due, no two of them of the same pull request, and
// each only after all earlier ones of its pull request have ended. Only an event of the kinds Closed and
// Merged goes past earlier ones whose attempts failed, because it ends them. No other server gets them until the
// lease expires; then the caller counts as dead. Events of the forges in without are left alone.
func Claim(ctx context.Context, st *store.Store, most int, lease time.Duration, without ...string) ([]Event, error) {
	if without == nil {
		without = []string{}
	}
	rows, err := st.Queries().ClaimForgeEvents(ctx, db.ClaimForgeEventsParams{Most: int32(most), LeaseSeconds: lease.Seconds(), Without: without})
	if err != nil {
		return nil, dberr.Explain(err, "claim events of pull requests")
	}
	return rowconv.ConvertAll(rows, eventOf)
}

// Outcome is how an event ended.
type Outcome struct {
	State  State
	Reason string
	RunID  int64 // 0: none
}

// End stores how a claimed event ended, and reports whether it did so: false if the caller's lease
// had expired and another server took the event over.
func End(ctx context.Context, st *store.Store, e Event, o Outcome) (bool, error) {
	p := db.EndForgeEventParams{ID: e.ID, Attempt: int32(e.Attempt), State: string(o.State), Reason: rowconv.Text(o.Reason)}
	if o.RunID != 0 {
		p.RunID = &o.RunID
	}
	n, err := st.Queries().EndForgeEvent(ctx, p)
	return n > 0, dberr.Explain(err, "end event %d of a pull request", e.ID)
}

// Retry makes a claimed event due again after a time, with the reason why this attempt failed.
func Retry(ctx context.Context, st *store.Store, e Event, wait time.Duration, reason string) error {
	_, err := st.Queries().RetryForgeEvent(ctx, db.RetryForgeEventParams{
		ID: e.ID, Attempt: int32(e.Attempt), Reason: rowconv.Text(reason), WaitSeconds: wait.Seconds(),
	})
	return dberr.Explain(err, "postpone event %d of a pull request", e.ID)
}

// Answered stores the address of the answer to the comment of an event.
func Answered(ctx context.Context, st *store.Store, forge, repo, key, url string) error {
	err := st.Queries().AnswerForgeEvent(ctx, db.AnswerForgeEventParams{Forge: forge, Repo: repo, EventID: key, Answer: rowconv.Text(url)})
	return dberr.Explain(err, "store the answer to a comment of %s", repo)
}

// Of returns the newest events of a pull request, newest first, at most most.
func Of(ctx context.Context, st *store.Store, forge, repo string, number int64, most int) ([]Event, error) {
	rows, err := st.Queries().ForgeEvents(ctx, db.ForgeEventsParams{Forge: forge, Repo: repo, Number: number, Most: int32(most)})
	if err != nil {
		return nil, dberr.Explain(err, "read the events of pull request %d of %s", number, repo)
	}
	return rowconv.ConvertAll(rows, eventOf)
}

// LastChecks returns the last known result of each check of a pull request, by name.
func LastChecks(ctx context.Context, st *store.Store, forge, repo string, number int64) (map[string]string, error) {
	rows, err := st.Queries().LastForgeChecks(ctx, db.LastForgeChecksParams{Forge: forge, Repo: repo, Number: number})
	out := map[string]string{}
	for _, r := range rows {
		out[r.Name] = r.Result
	}
	return out, dberr.Explain(err, "read the checks of pull request %d of %s", number, repo)
}

func eventOf(r db.ForgeEvent) (Event, error) {
	payload, err := rowconv.Decode[Payload](r.Payload)
	return Event{
		ID: r.ID, Forge: r.Forge, Repo: r.Repo, Number: r.Number, Key: r.EventID, Kind: Kind(r.Kind), Name: r.Name, Result: r.Result, Payload: payload,
		ReceivedAt: r.ReceivedAt, TriedAt: rowconv.Deref(r.TriedAt), State: State(r.State), Reason: r.Reason, RunID: rowconv.Deref(r.RunID), Answer: r.Answer, Attempt: int(r.Attempts),
	}, err
}

// Holder is a run that has a pull request.
type Holder struct {
	contract.PullRequest
	Staying bool // it watches its branch
	Status  contract.Status
}

// Holders returns the runs that have a pull request, newest first.
func Holders(ctx context.Context, st *store.Store, forge, repo string, number int64) ([]Holder, error) {
	rows, err := st.Queries().PullRequestHolders(ctx, db.PullRequestHoldersParams{Forge: forge, Repo: repo, Number: number})
	if err != nil {
		return nil, dberr.Explain(err, "read the runs of pull request %d of %s", number, repo)
	}
	return rowconv.ConvertAll(rows, func(r db.PullRequestHoldersRow) (Holder, error) {
		p := r.PullRequest
		notes, err := rowconv.Decode[[]string](p.Notes)
		return Holder{
			PullRequest: contract.PullRequest{
				RunID: p.RunID, Forge: p.Forge, Repo: p.Repo, Number: p.Number, URL: p.Url, Title: p.Title, Head: p.Head, Base: p.Base, Commit: p.CommitID,
				State: contract.PullRequestState(p.State), Draft: p.Draft, Conflict: p.Conflict, Notes: notes, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
			},
			Staying: r.Staying, Status: contract.Status(r.Status),
		}, err
	})
}
