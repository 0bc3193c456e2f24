package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

// policyRepo is a repository with two commits: the second changes a file.
func policyRepo(t *testing.T, own string) (dir string, git func(args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	git = func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	put := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	git("init", "-q", "-b", "main")
	put("a.txt", "one\n")
	put(".rgpt/policies/own.rego", own)
	git("add", "-A")
	git("commit", "-qm", "First")
	put("a.txt", "two\n")
	put("frozen/b.txt", "new\n")
	git("add", "-A")
	git("commit", "-qm", "Second")
	return dir, git
}

const frozen = `package repository

deny contains {"text": "frozen until the release; ask the owners", "path": f.path} if {
	some f in input.change.files
	startswith(f.path, "frozen/")
	input.stage == "release"
}

needs_approval contains "a person must look at steps" if input.stage == "step"
`

func TestPolicyCheckJudgesAPatchOrADifferenceAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir, git := policyRepo(t, frozen)
	p := empty(t)
	p.env = append(p.env, "HOME="+t.TempDir())
	patch := filepath.Join(t.TempDir(), "x.patch")
	require.NoError(t, os.WriteFile(patch, []byte(git("diff", "--binary", "HEAD~1", "HEAD")), 0o600))
	git("reset", "-q", "--hard", "HEAD~1")
	git("branch", "second", "ORIG_HEAD")
	before := git("status", "--porcelain") + git("rev-parse", "HEAD")

	r := p.run(t, "policy", "check", "--repo", dir, "--patch", patch, "--stage", "release")
	require.Equal(t, exitFailed, r.code, r.out+r.errs)
	require.Contains(t, r.out, "Denied\n  deny: frozen/b.txt: frozen until the release")
	require.Contains(t, r.out, "repository sha256:")

	r = p.run(t, "policy", "check", "--repo", dir, "--diff", "main..second", "--stage", "release", "--json")
	require.Equal(t, exitFailed, r.code, r.out+r.errs)
	var v policy.Verdict
	require.NoError(t, json.Unmarshal([]byte(r.out), &v))
	require.Equal(t, policy.Deny, v.Decision)
	require.Len(t, v.Bundles, 2)

	require.Equal(t, exitApproval, p.run(t, "policy", "check", "--repo", dir, "--diff", "main..second", "--stage", "step").code)
	require.Contains(t, p.ok(t, "policy", "check", "--repo", dir, "--diff", "main..second", "--stage", "check", "--policy", "strict").out, "Allowed")
	require.Contains(t, p.ok(t, "policy", "check", "--repo", dir, "--diff", "second..main").out, "Allowed")
	r = p.run(t, "policy", "check", "--repo", dir, "--diff", "main..main", "--label", "blocked")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "the label blocked forbids that the change is applied")
	require.Equal(t, before, git("status", "--porcelain")+git("rev-parse", "HEAD"))
}

func TestPolicyCheckRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	dir, _ := policyRepo(t, frozen)
	p := empty(t)
	p.env = append(p.env, "HOME="+t.TempDir())
	for _, c := range []struct {
		args string
		says string
	}{
		{"", "either --patch FILE or --diff"},
		{"--patch x --diff a..b", "either --patch FILE or --diff"},
		{"--diff main...second", "BASE..REV"},
		{"--diff main..nothing", "no branch, tag or commit"},
		{"--diff main..main --stage end", "not a stage"},
		{"--diff main..main --author king", "not an author"},
		{"--diff main..main --policy lax", "not a built-in policy"},
		{"--patch /does/not/exist", "no such file"},
		{"--patch -", "does not apply"},
	} {
		r := p.run(t, append([]string{"policy", "check", "--repo", dir}, strings.Fields(c.args)...)...)
		require.Equal(t, exitInput, r.code, c.args+r.errs)
		require.Contains(t, r.errs, c.says)
	}
}

func TestPolicyShowPrintsTheEffectivePolicies(t *testing.T) {
	t.Parallel()
	own := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(own, "ours.rego"), []byte("package operator\n\ndeny contains \"no\" if input.run.pushes\n"), 0o600))
	p := empty(t)
	p.env = append(p.env, "HOME="+t.TempDir(), "RGPT_GATE_POLICIES="+own)
	out := p.ok(t, "policy", "show", "--policy", "strict").out
	require.Regexp(t, `(?m)^# strict sha256:[0-9a-f]{64}\n# operator sha256:[0-9a-f]{64}$`, out)
	require.Contains(t, out, "package rgpt.strict")
	require.Contains(t, out, "package rgpt.defaults")
	require.Contains(t, out, `deny contains "no" if input.run.pushes`)
	var shown shownPolicies
	require.NoError(t, json.Unmarshal([]byte(p.ok(t, "policy", "show", "--json").out), &shown))
	require.Equal(t, "default", shown.Policy)
	require.Len(t, shown.Files, 3)
	require.Equal(t, exitInput, p.run(t, "policy", "show", "--policy", "lax").code)
	p.env = append(p.env, "RGPT_GATE_POLICY=none")
	require.Contains(t, p.run(t, "policy", "show").errs, "turns the gate off")
}

func TestPolicyTestRunsTheTestsOfADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := empty(t)
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put("own.rego", frozen)
	put("own_test.rego", "package repository_test\nimport data.repository\ntest_steps if count(repository.needs_approval) == 1 with input as {\"stage\": \"step\"}\n")
	require.Contains(t, p.ok(t, "policy", "test", dir).out, "PASS: 1/1")
	put("more_test.rego", "package more_test\nimport data.repository\ntest_wrong if count(repository.needs_approval) == 1 with input as {\"stage\": \"plan\"}\n")
	r := p.run(t, "policy", "test", dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "test_wrong: FAIL")
	require.Equal(t, exitInput, p.run(t, "policy", "test", t.TempDir()).code)
}

func TestPolicyCheckAsksRegistriesIfTheConfigurationAllowsIt(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path == "/thing" {
			fmt.Fprint(w, `{"time":{"1.0.0":"2020-01-01T00:00:00Z"}}`)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(registry.Close)
	dir, git := policyRepo(t, frozen)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"dependencies":{"thing":"1.0.0","invented-thing":"1.0.0"}}`), 0o600))
	git("add", "-A")
	git("commit", "-qm", "Third")
	p := empty(t)
	p.env = append(p.env, "HOME="+t.TempDir())
	args := []string{"policy", "check", "--repo", dir, "--diff", "main~1..main"}
	require.NotContains(t, p.ok(t, args...).out, "has no package")
	require.Zero(t, asked.Load())

	p.env = append(p.env, "RGPT_GATE_DEPENDENCIES_LOOKUP=true", "RGPT_GATE_DEPENDENCIES_REGISTRIES_NPM="+registry.URL)
	r := p.run(t, args...)
	require.Equal(t, exitApproval, r.code, r.out+r.errs)
	require.Contains(t, r.out, "the registry of npm has no package invented-thing")
	require.EqualValues(t, 2, asked.Load())
}
