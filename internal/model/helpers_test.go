package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// requireFault checks class and code of an error and returns the fault.
func requireFault(t *testing.T, err error, class contract.Class, code contract.Code) *fault.Error {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, string(class)+"/"+string(code), string(f.Class)+"/"+string(f.Code), "%v", err)
	return f
}
