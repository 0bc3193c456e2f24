package store

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// KeepRequests is how long the response to a request with an idempotency key is kept. After that,
// the key can be used again.
const KeepRequests = 24 * time.Hour

// Answer is the response to a request.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
}

// BeginRequest records a request with a key, and returns the response if the key already has one.
// Using the key for a different request is a HUMAN_ERROR with CodeConflict.
func (s *Store) BeginRequest(ctx context.Context, route, key, digest string) (*Answer, error) {
	known, err := s.q.BeginRequest(ctx, db.BeginRequestParams{Route: route, Key: key, Digest: digest, KeepSeconds: KeepRequests.Seconds()})
	switch {
	case err != nil:
		return nil, dberr.Explain(err, "find the response for the idempotency key")
	case known.Digest != digest:
		return nil, keyConflict()
	case known.Status == 0:
		return nil, nil
	default:
		return &Answer{Status: int(known.Status), ContentType: known.ContentType, Body: known.Answer}, nil
	}
}

func keyConflict() error {
	return fault.New(contract.ClassHuman, CodeConflict, "the idempotency key was already used for a different request; use a new key")
}

// AnswerRequest stores the response to a request.
func (s *Store) AnswerRequest(ctx context.Context, route, key string, a Answer) error {
	return dberr.Explain(s.q.AnswerRequest(ctx, db.AnswerRequestParams{Route: route, Key: key, Status: int32(a.Status), ContentType: a.ContentType, Answer: a.Body}),
		"store the response for the idempotency key")
}

// ForgetRequest removes a request that had no effect, so that its key can be used again.
func (s *Store) ForgetRequest(ctx context.Context, route, key string) error {
	return dberr.Explain(s.q.ForgetRequest(ctx, db.ForgetRequestParams{Route: route, Key: key}), "release the idempotency key")
}

// SweepRequests removes expired responses, and returns how many.
func (s *Store) SweepRequests(ctx context.Context) (int64, error) {
	return sweep(func() (int64, error) {
		n, err := s.q.SweepRequests(ctx, db.SweepRequestsParams{OlderThanSeconds: KeepRequests.Seconds(), Most: sweepPage})
		return n, dberr.Explain(err, "remove old responses")
	})
}
