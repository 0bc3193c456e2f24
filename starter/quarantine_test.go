package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestFlakyTestsAreListedAndQuarantinedOnTheCommandLine(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	require.Contains(t, p.ok(t, "flaky").out, "No flaky tests are known.")
	require.Contains(t, p.ok(t, "quarantine", "list").out, "No test is quarantined.")
	for _, state := range []string{"a", "b"} {
		require.NoError(t, flaky.New(p.Store).Record(t.Context(), flaky.Recording{
			Source: state, Repo: repo, Check: contract.Check{ID: "test-go-1", Category: contract.CategoryTest}, RunID: 1, State: state, Window: time.Hour,
			Cases: []contract.TestCase{{Name: "m.TestA/\u202eevil", Status: contract.TestFlaky}},
		}))
	}
	require.Regexp(t, `FLAKY +RERUNS +FAILED +PASSED +LAST +QUARANTINE +CHECK +TEST +REPOSITORY\n2 +2 +0 +0 +\S+ ago +suggested +test-go +m\.TestA/evil +\S+app\n`, p.ok(t, "flaky", "--repo", repo).out)

	out := p.ok(t, "quarantine", "add", "m.TestA/\u202eevil", "--repo", repo, "--reason", "slow disks", "--for", "90m").out
	require.Regexp(t, `^Quarantined m\.TestA/evil of \S+app until \S+Z \(entry 1\)\n$`, out)
	out = p.ok(t, "quarantine", "list", "--repo", repo).out
	require.Regexp(t, `\n1 +quarantined +\d{4}-\d\d-\d\d +\S+ +2 +0 +any +m\.TestA/evil +slow disks +\S+app\n`, out)
	require.Regexp(t, `until \d{4}-\d\d-\d\d`, p.ok(t, "flaky").out)
	require.Equal(t, "Removed quarantine entry 1\n", p.ok(t, "quarantine", "remove", "1").out)
	require.Contains(t, p.ok(t, "quarantine", "list").out, "No test is quarantined.")
	require.Contains(t, p.ok(t, "quarantine", "list", "--all").out, "removed by ")

	for want, args := range map[string][]string{
		"was already removed by":     {"remove", "1"},
		"entry 7 not found":          {"remove", "7"},
		`"x" is not the ID`:          {"remove", "x"},
		"and a reason (--reason)":    {"add", "m.A", "--repo", repo},
		"no repository given":        {"add", "m.A", "--reason", "slow"},
		"must be at least 1h":        {"add", "m.A", "--repo", repo, "--reason", "slow", "--for", "1m"},
		"the maximum is 2160 hours":  {"add", "m.A", "--repo", repo, "--reason", "slow", "--for", "9000h"},
		"needs the name of one test": {"add", "--repo", repo, "--reason", "slow"},
	} {
		r := p.run(t, append([]string{"quarantine"}, args...)...)
		require.NotZero(t, r.code, args)
		require.Contains(t, r.errs, want, args)
	}
}

// quarantineFile writes a file like the output of `quarantine list --json`.
func quarantineFile(t *testing.T, entries ...flaky.Entry) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{"quarantine": entries})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "quarantine.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func TestVerifyAppliesAQuarantineThatTheUserPasses(t *testing.T) {
	t.Parallel()
	files := map[string]string{"go.mod": "module example.com/m\n\ngo 1.21\n", "m_test.go": `package m

import (
	"os"
	"testing"
)

func TestLate(t *testing.T) {
	if _, err := os.Stat("late"); err == nil {
		t.Fatal("too late")
	}
}

func TestFine(t *testing.T) {}
`}
	v := newVerified(t, files)
	v.write(map[string]string{"late": "1"})
	day := time.Now().Add(24 * time.Hour)
	entry := flaky.Entry{ID: 1, Test: "example.com/m.TestLate", Reason: "slow", ExpiresAt: day}
	expired := entry
	expired.ExpiresAt = time.Now().Add(-time.Hour)
	require.Equal(t, 1, v.report(exitFailed, "--base", "main", "--only", "test", "--quarantine", quarantineFile(t, expired)).Summary.Failed)

	r := v.verify(exitDone, "--base", "main", "--only", "test", "--quarantine", quarantineFile(t, entry))
	require.Regexp(t, `test-go-1 +passed +1 passed, 1 quarantined`, r.out)
	require.Contains(t, r.out, "m_test.go:10: example.com/m.TestLate (quarantined)\n    too late\n")
	require.Contains(t, r.out, "2 tests: 1 passed, 1 quarantined; 0 major, 0 medium and")
	require.Contains(t, r.out, "Warning: test-go-1: a quarantined test passed on the base commit, but failed in each attempt with this change: example.com/m.TestLate")
	require.Contains(t, r.out, "Passed.")

	v.write(map[string]string{"m_test.go": files["m_test.go"] + "\nfunc TestMore(t *testing.T) { t.Fatal(\"more\") }\n"})
	more := entry
	more.Test = "example.com/m.TestMore"
	report := v.report(exitFailed, "--base", "main", "--only", "test", "--quarantine", quarantineFile(t, entry, more))
	require.Equal(t, []int{1, 1}, []int{report.Summary.Failed, report.Summary.Quarantined}, "a new test is not quarantined")
	require.Contains(t, report.Warning, "example.com/m.TestMore: the change adds a test with this name")

	for content, want := range map[string]string{"": "is not the output of rgpt quarantine list --json", "{}": "it has no list with the name quarantine", `{"quarantine": 1}`: "cannot unmarshal number"} {
		path := filepath.Join(t.TempDir(), "broken.json")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.Contains(t, v.verify(exitInput, "--quarantine", path).errs, want)
	}
	require.Contains(t, v.verify(exitInput, "--quarantine", filepath.Join(v.repo, "absent")).errs, fmt.Sprintf("cannot read the quarantine from %s", filepath.Join(v.repo, "absent")))
}
