// Package responses answers requests to models that are identical to an earlier one of the same
// project with the response to that one. It stores no responses, only which call got them.
package responses

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// Key identifies a request. Requests of different projects never have the same key.
type Key struct {
	Tenant, Project, Repo string
	Provider, Model       string
	Digest                string // of the complete request
}

// Response is an earlier response.
type Response struct {
	From   store.CachedResponse
	Answer json.RawMessage // as it was completed with
}

// Limits of what is kept.
type Limits struct {
	Age     time.Duration // after which a response is not used again
	Bytes   int64         // of one response, as JSON
	Entries int           // of the key's project; the oldest are removed first
}

// Find returns the response to an identical request that is not older than age. A response in a phase
// or step that failed, or that has not ended, is not returned.
func Find(ctx context.Context, st *store.Store, k Key, age time.Duration) (Response, bool, error) {
	row, err := st.Queries().CachedResponse(ctx, db.CachedResponseParams{
		Tenant: k.Tenant, Project: k.Project, Repo: k.Repo, Provider: k.Provider, Model: k.Model, Digest: k.Digest, AgeSeconds: age.Seconds(),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Response{}, false, nil
	}
	return Response{From: store.CachedResponse{RunID: row.RunID, CallID: row.ID}, Answer: row.Answer}, err == nil, dberr.Explain(err, "look up a cached response")
}

// Keep keeps the response to a completed call for identical requests, unless it is too large. Later
// responses take the place of earlier ones.
func Keep(ctx context.Context, st *store.Store, k Key, call int64, limits Limits) error {
	n, err := st.Queries().CacheResponse(ctx, db.CacheResponseParams{
		Tenant: k.Tenant, Project: k.Project, Repo: k.Repo, Provider: k.Provider, Model: k.Model, Digest: k.Digest,
		CallID: call, AgeSeconds: limits.Age.Seconds(), MostBytes: limits.Bytes,
	})
	if err == nil && n > 0 {
		_, err = st.Queries().TrimResponses(ctx, db.TrimResponsesParams{Tenant: k.Tenant, Project: k.Project, Repo: k.Repo, Others: int32(limits.Entries - 1)})
	}
	return dberr.Explain(err, "cache the response to model call %d", call)
}

// Expire removes the responses that are too old to be used, and returns their number. A dry run only
// counts them.
func Expire(ctx context.Context, st *store.Store, dry bool) (n int64, err error) {
	if dry {
		n, err = st.ListQueries().ExpiredResponses(ctx)
	} else {
		n, err = st.Queries().DropExpiredResponses(ctx)
	}
	return n, dberr.Explain(err, "remove cached responses that have expired")
}
