package store

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
)

// IsUsual reports whether Record tries RecordUsual.
func IsUsual(r contract.Record) bool { return isUsual(r) }

// RecordReporting is Record, and reports whether RecordUsual applied the record.
func (s *Store) RecordReporting(ctx context.Context, from Source, r contract.Record) (contract.RecordResult, bool, error) {
	return s.record(ctx, from, r, isUsual(r))
}

// RecordInFull is Record without RecordUsual.
func (s *Store) RecordInFull(ctx context.Context, from Source, r contract.Record) (contract.RecordResult, error) {
	result, _, err := s.record(ctx, from, r, false)
	return result, err
}
