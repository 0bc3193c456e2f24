package views_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func BenchmarkRunDetails(b *testing.B) {
	s := storetest.Setup(b)
	for range 50 {
		s.Apply(b, contract.Record{Events: storetest.Drafts(4)})
	}
	for b.Loop() {
		_, err := s.RunDetails(b.Context(), s.First.ID)
		require.NoError(b, err)
	}
}
