// Package triggers stores what fired triggers, and the outcome.
package triggers

import (
	"context"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Delivery is something that fires a trigger.
type Delivery struct {
	Trigger    string // name in the configuration
	At         Place  // where it happened
	Key        string // says what happened; unique for the trigger and the place
	Payload    Payload
	OccurredAt time.Time
}

// Place is the repository in which something happened; zero: it did not happen on a forge.
type Place struct {
	Forge      string // name in the configuration
	Repository string // path on the forge, in lower case: forges ignore the case
}

// PlaceOf returns the place of a repository on a forge.
func PlaceOf(forge, repository string) Place { return Place{forge, strings.ToLower(repository)} }

// String is the forge and the path, empty for no place.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return p.Forge + "/" + p.Repository
}

// Payload is what a delivery says. Its texts are data that strangers may have written, redacted and
// bounded by who adds the delivery.
type Payload struct {
	Issue  string `json:"issue,omitempty"`  // address of the issue that the run is about
	Title  string `json:"title,omitempty"`  // what happened, in a line; of an issue its title
	Body   string `json:"body,omitempty"`   // text of the issue when it was found
	Text   string `json:"text,omitempty"`   // a comment, the log of a check, the data of an event
	Author string `json:"author,omitempty"` // who did it, as far as the source says so
	Person string `json:"person,omitempty"` // who wants the run or wrote what it is about: an author of its change
	URL    string `json:"url,omitempty"`    // where people can read about it
	Commit string `json:"commit,omitempty"` // of a check
}

// Add stores a delivery. It returns false, and changes nothing, if it is known already.
func Add(ctx context.Context, st *store.Store, d Delivery) (fresh bool, err error) {
	payload, err := rowconv.Encode(d.Payload)
	if err != nil {
		return false, err
	}
	n, err := st.Queries().AddTriggerFiring(ctx, db.AddTriggerFiringParams{
		Trigger: d.Trigger, Forge: d.At.Forge, Repository: d.At.Repository, Delivery: rowconv.Text(d.Key), Payload: payload, OccurredAt: d.OccurredAt,
	})
	return n > 0, dberr.Explain(err, "store what fired the trigger %s", d.Trigger)
}
