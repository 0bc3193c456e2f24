package telemetry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

func TestSecretsAreFoundWhereRedactRemovesThem(t *testing.T) {
	t.Parallel()
	text := "a " + github + " postgres://u:s3cr3t@h/d api_key: abc123XYZ " + slack
	tokens := telemetry.FindTokens(text)
	require.Len(t, tokens, 2)
	require.Equal(t, github, text[tokens[0].From:tokens[0].To])
	require.Equal(t, "ghp_", tokens[0].Prefix)
	require.Equal(t, slack, text[tokens[1].From:tokens[1].To])
	passwords := telemetry.FindPasswords(text)
	require.Len(t, passwords, 1)
	require.Equal(t, "s3cr3t", text[passwords[0].From:passwords[0].To])
	assigned := telemetry.FindAssignments(text)
	require.Len(t, assigned, 1)
	require.Equal(t, "api_key", assigned[0].Name)
	require.Equal(t, "abc123XYZ", text[assigned[0].From:assigned[0].To])
}

func TestTheVisibleTextHasNoHiddenCharacters(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\tb\r\nc", telemetry.Visible("a\u200b\tb\x00\r\nc\x1b[31m"))
	require.Equal(t, "plain", telemetry.Visible("plain"))
}
