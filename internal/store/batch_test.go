package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestWhatPrecedesATurnIsTheSameInOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	require.NoError(t, b.OpenConversation(t.Context(), execution.ID, []store.Message{{Role: "user", Content: raw(`"divide"`)}}))
	reserved, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), reserved.ID, used(10), 0, raw(`{"text": "done"}`), []store.Message{{Role: "assistant", Content: raw(`"done"`)}}))

	transcript, err := b.Transcript(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Len(t, transcript, 2)
	apart, err := b.CallBasis(t.Context(), execution, 2)
	require.NoError(t, err)
	basis, rows, err := b.BeforeTurn(t.Context(), execution, 2)
	require.NoError(t, err)
	require.Equal(t, transcript, rows)
	require.JSONEq(t, `{"text": "done"}`, string(basis.Answer))
	require.Equal(t, []string{apart.Tenant, apart.Repo, apart.Model}, []string{basis.Tenant, basis.Repo, basis.Model})
	require.WithinDuration(t, apart.Now(), basis.Now(), time.Minute)

	pending, rows, err := b.PendingInputSince(t.Context(), execution, time.Now())
	require.NoError(t, err)
	require.Equal(t, store.PendingInput{}, pending)
	require.Equal(t, transcript, rows)
}

func TestReadsThatShareARoundTripReportTheFirstThatFailsAndTheirConnectionRemainsUsable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, err := store.Open(t.Context(), b.URL, store.Options{MaxConns: 1})
	require.NoError(t, err)
	defer one.Close()
	nobody := contract.ExecutionRef{ID: 4711, RunID: 4711}
	for range 3 {
		_, _, err = one.BeforeTurn(t.Context(), nobody, 1)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, _, err = one.PendingInputSince(t.Context(), nobody, time.Now())
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = one.Baseline(t.Context(), "none")
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	_, err = one.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
}

func TestReadsOfAllStagesAreAsOfOneMoment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 2 { // its connection remains usable, also for writes
		before, err := b.Run(t.Context(), b.First.ID)
		require.NoError(t, err)
		var first, second store.Run
		var events []contract.Event
		err = b.SnapshotTogether(t.Context(),
			func() []store.Read {
				return []store.Read{func(s *store.Store) (err error) { first, err = s.Run(t.Context(), b.First.ID); return err }}
			},
			func() []store.Read {
				require.Equal(t, before, first, "a stage knows what earlier ones have read")
				b.Apply(t, contract.Record{Events: storetest.Drafts(3)})
				return nil
			},
			func() []store.Read {
				return []store.Read{
					func(s *store.Store) (err error) { second, err = s.Run(t.Context(), b.First.ID); return err },
					func(s *store.Store) (err error) { events, err = s.Events(t.Context(), b.First.ID, 0, 0); return err },
				}
			},
		)
		require.NoError(t, err)
		require.Equal(t, first, second)
		require.Len(t, events, int(first.EventSeq))
		after, err := b.Run(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Equal(t, first.EventSeq+3, after.EventSeq)
	}
}

func TestASnapshotInOneRoundTripEndsWithItsOnlyStage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, err := store.Open(t.Context(), b.URL, store.Options{MaxConns: 1})
	require.NoError(t, err)
	defer one.Close()
	var run store.Run
	for _, reads := range [][]store.Read{nil, {func(s *store.Store) (err error) { run, err = s.Run(t.Context(), b.First.ID); return err }}} {
		require.NoError(t, one.SnapshotTogether(t.Context(), func() []store.Read { return reads }))
		require.NoError(t, one.AppendOutput(t.Context(), b.First.ID, "x", "y"), "the next transaction may write")
	}
	require.Equal(t, b.First.ID, run.ID)
}

func TestAReadThatSharesARoundTripGetsNoResultOfAnotherQuery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, err := store.Open(t.Context(), b.URL, store.Options{MaxConns: 1})
	require.NoError(t, err)
	defer one.Close()
	id := b.First.ID
	calls := 0
	for name, read := range map[string]store.Read{
		"two queries, of which the second one follows the first": func(s *store.Store) error {
			if _, err := s.RunStatus(t.Context(), id); err != nil {
				return err
			}
			_, err := s.RunStatus(t.Context(), id)
			return err
		},
		"another query than before": func(s *store.Store) error {
			calls++
			if calls == 1 {
				_, err := s.RunStatus(t.Context(), id)
				return err
			}
			_, err := s.Findings(t.Context(), id)
			return err
		},
		"none any more": func(s *store.Store) error {
			calls++
			if calls == 3 {
				_, err := s.RunStatus(t.Context(), id)
				return err
			}
			return nil
		},
	} {
		calls = map[string]int{"none any more": 2}[name]
		last := func(s *store.Store) error {
			_, err := s.RunStatus(t.Context(), id)
			return err
		}
		err := one.SnapshotTogether(t.Context(), func() []store.Read { return []store.Read{read, last} })
		require.ErrorContains(t, err, "made other queries than when it was asked for them", name)
		require.NoError(t, one.AppendOutput(t.Context(), id, "x", "y"), "the connection remains usable")
	}
}

func TestASnapshotCannotWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	write := func(s *store.Store) error { return s.AppendOutput(t.Context(), b.First.ID, "x", "y") }
	err := b.SnapshotTogether(t.Context(), func() []store.Read { return []store.Read{write} }, func() []store.Read { return nil })
	require.ErrorContains(t, err, "read-only")
	require.NoError(t, write(b.Store))
}
