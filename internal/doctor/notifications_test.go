package doctor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/doctor"
)

func TestEachChannelHasALine(t *testing.T) {
	t.Parallel()
	probe := func(_ context.Context, name string) (string, error) {
		if name == "b" {
			return "", errors.New("no password")
		}
		return "50% of mail.example.com responds", nil
	}
	results := doctor.Channels(t.Context(), []string{"a", "b"}, probe)
	require.Equal(t, doctor.Result{Check: "notifications: a", Status: doctor.OK, Message: "50% of mail.example.com responds"}, results[0])
	require.Equal(t, "notifications: b", results[1].Check)
	require.Equal(t, doctor.Fail, results[1].Status)
	require.Contains(t, results[1].Remedy, "rgpt notification test b")
	require.Equal(t, doctor.OK, doctor.Channels(t.Context(), nil, probe)[0].Status)
}
