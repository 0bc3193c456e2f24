package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestARepositoryMayMakeTheGateOnlyStricter(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Gate.Allowed = []string{"src/**", "docs/**"}
	base.Gate.Limits.Lines = 0
	for _, text := range []string{
		"gate: {policy: strict}", "gate: {limits: {files: 10, lines: 100}}", "gate: {allowed: [\"src/**\"]}",
		"gate: {review: policy}", "gate: {review: on}", "gate: {dependencies: {min_age: 240h}}",
		"gate: {labels: {blocked: [blocked, do-not-merge, frozen], automerge: [], review: [needs-review, x], allowed: [docs]}}",
	} {
		_, err := config.LoadRepository(base, []byte(text), "rgpt.yaml")
		require.NoError(t, err, text)
	}
	for text, says := range map[string]string{
		"gate: {policy: permissive}":                        "less strict",
		"gate: {policies: /tmp}":                            "the gate protects the operator",
		"gate: {timeout: 1m}":                               "the gate protects the operator",
		"gate: {limits: {files: 1000}}":                     "not raise",
		"gate: {review_model: a/b}":                         "the gate protects the operator",
		"gate: {review_rounds: 0}":                          "the gate protects the operator",
		"gate: {dependencies: {min_age: 1h}}":               "not lower it",
		"gate: {dependencies: {lookup: true}}":              "the gate protects the operator",
		"gate: {dependencies: {private: [\"*\"]}}":          "the gate protects the operator",
		"gate: {dependencies: {registries: {npm: \"\"}}}":   "the gate protects the operator",
		"gate: {limits: {deletions: 0}}":                    "0 means no limit",
		"gate: {allowed: [\"**\"]}":                         "not in the operator's list: **",
		"gate: {allowed: []}":                               "not allow everything",
		"gate: {labels: {blocked: [blocked]}}":              "missing: do-not-merge",
		"gate: {labels: {review: []}}":                      "missing: needs-review",
		"gate: {labels: {automerge: [automerge, ship-it]}}": "not in the operator's list: ship-it",
		"git: {protected: []}":                              "only the operator decides",
	} {
		_, err := config.LoadRepository(base, []byte(text), "rgpt.yaml")
		require.ErrorContains(t, err, says, text)
	}
	for key, value := range map[string]string{"gate.limits.files": "1000", "gate.policy": "permissive", "gate.labels.blocked": "[]"} {
		_, err := config.LoadRequest(base, map[string]string{key: value})
		require.Error(t, err, "a request may not weaken the gate either: %s", key)
	}
}

func TestAReminderHasOneTimeAndKnownReceivers(t *testing.T) {
	t.Parallel()
	load := func(text string) (*config.Config, error) {
		return config.LoadText("execution: {approval: {reminders: [" + text + "]}}")
	}
	c, err := load(`{after: 1h, to: [page]}, {before: 30m, to: ["webhook:team"], escalate: true}`)
	require.NoError(t, err)
	require.Equal(t, []config.Reminder{
		{After: time.Hour, To: []string{"page"}}, {Before: 30 * time.Minute, To: []string{"webhook:team"}, Escalate: true},
	}, c.Execution.Approval.Reminders)
	for text, says := range map[string]string{
		`{to: [page]}`:                        "needs either after or before",
		`{after: 1h, before: 1h, to: [page]}`: "needs either after or before",
		`{after: 1h, to: [mail]}`:             "expected page, or webhook: or channel: and a name",
		`{after: 1h, to: ["webhook:A b"]}`:    "expected page, or webhook: or channel: and a name",
	} {
		_, err := load(text)
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestARepositoryCannotTurnAReviewOff(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Gate.Review = "on"
	for _, value := range []string{"policy", "off"} {
		_, err := config.LoadRepository(base, []byte("gate: {review: "+value+"}"), "rgpt.yaml")
		require.ErrorContains(t, err, "less strict", value)
	}
}

func TestRegistriesAndPrivateNamesAreChecked(t *testing.T) {
	t.Parallel()
	load := func(text string) (*config.Config, error) {
		return config.LoadText("gate: {dependencies: {" + text + "}}")
	}
	c, err := load(`lookup: true, min_age: 0s, private: ["@acme/*", "corp.example/*"], registries: {npm: "", go: "https://proxy.example/go/"}`)
	require.NoError(t, err)
	require.Empty(t, c.Gate.Dependencies.Registries.NPM)
	require.Equal(t, "https://pypi.org", c.Gate.Dependencies.Registries.PyPI)
	for text, says := range map[string]string{
		`registries: {npm: "ftp://a.example"}`:                 "an http or https URL",
		`registries: {npm: "https://user:secret@npm.example"}`: "without credentials",
		`registries: {npm: "https://npm.example/?x=y"}`:        "without credentials, a query",
		`private: ["@acme/[x"]`:                                "a pattern such as",
		`private: ["a,b"]`:                                     "a pattern such as",
	} {
		_, err := load(text)
		require.ErrorContains(t, err, says, text)
	}
}
