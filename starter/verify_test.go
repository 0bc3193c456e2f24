package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

// verified is a repository that a test verifies, with a data folder and a home of its own.
type verified struct {
	t          *testing.T
	repo, data string
	env        []string
}

func newVerified(t *testing.T, files map[string]string) *verified {
	t.Helper()
	sandboxtest.Executable(t) // it is put next to this program, where rgpt looks for it
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	v := &verified{t: t, repo: filepath.Join(top, "repo"), data: filepath.Join(top, "data")}
	v.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(top, "home"), "RGPT_VERIFICATION__SECURITY__ENABLED=false"}
	require.NoError(t, os.Mkdir(v.repo, 0o755))
	v.git("init", "-q", "-b", "main")
	v.commit(files)
	return v
}

func (v *verified) git(args ...string) string {
	v.t.Helper()
	cmd := exec.CommandContext(v.t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir, cmd.Env = v.repo, v.env
	out, err := cmd.CombinedOutput()
	require.NoError(v.t, err, "git %v: %s", args, out)
	return string(out)
}

func (v *verified) write(files map[string]string) {
	v.t.Helper()
	for name, text := range files {
		path := filepath.Join(v.repo, name)
		require.NoError(v.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(v.t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func (v *verified) commit(files map[string]string) {
	v.t.Helper()
	v.write(files)
	v.git("add", "-A")
	v.git("commit", "-qm", "More")
}

// state is everything in the repository, with its git directory.
func (v *verified) state() map[string]string {
	v.t.Helper()
	files := map[string]string{}
	require.NoError(v.t, filepath.WalkDir(v.repo, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	}))
	return files
}

// start runs the command with a context.
func (v *verified) start(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errs)
	a.env = v.env
	code := execute(ctx, a, append([]string{"verify", "--data-dir", v.data, "--repo", v.repo}, args...))
	return result{code, out.String(), errs.String()}
}

// verify runs the command, which must leave the repository unchanged and no working directory.
func (v *verified) verify(code int, args ...string) result {
	v.t.Helper()
	before := v.state()
	r := v.start(v.t.Context(), args...)
	require.Equal(v.t, code, r.code, "rgpt verify %v\n%s\n%s", args, r.out, r.errs)
	require.Equal(v.t, before, v.state(), "the repository changed")
	v.requireClean()
	return r
}

// requireClean fails if working directories or build caches of a verification remain.
func (v *verified) requireClean() {
	v.t.Helper()
	for _, dir := range []string{"cache/dirs", "cache/build/runs"} {
		left, err := filepath.Glob(filepath.Join(v.data, dir, "*"))
		require.NoError(v.t, err)
		require.Empty(v.t, left)
	}
}

// report runs the command with --json.
func (v *verified) report(code int, args ...string) standalone.Report {
	v.t.Helper()
	r := v.verify(code, append(args, "--json")...)
	var out standalone.Report
	strict := json.NewDecoder(strings.NewReader(r.out))
	strict.DisallowUnknownFields()
	require.NoError(v.t, strict.Decode(&out), r.out)
	return out
}

// printed returns a report as it is printed without --json.
func printed(r standalone.Report) string {
	var out bytes.Buffer
	newApp(strings.NewReader(""), &out, &out).printVerified(r, "")
	return out.String()
}

// outcomes returns the code of each failed check, and "" for each passed one.
func outcomes(r standalone.Report) map[string]contract.Code {
	out := map[string]contract.Code{}
	for _, c := range r.Checks {
		out[c.Check.ID] = c.Code
	}
	return out
}

const (
	goodCode = "package m\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n"
	goodTest = "package m\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal(\"wrong sum\")\n\t}\n}\n"
)

// TestVerifyJudgesGoCode uses one repository, because the standard library is compiled once for each.
func TestVerifyJudgesGoCode(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.21\n", "m.go": goodCode, "m_test.go": goodTest, ".gitignore": "*.tmp\n"})
	for _, c := range []struct {
		name string
		test func(*testing.T, *verified)
	}{
		{"of the work tree as it is, or of a commit", judgesTheWorkTreeOrACommit},
		{"compared with a base", comparesWithABase},
	} {
		require.True(t, t.Run(c.name, func(t *testing.T) {
			of := *v
			of.t = t
			c.test(t, &of)
		}))
	}
}

func judgesTheWorkTreeOrACommit(t *testing.T, v *verified) {
	t.Helper()
	r := v.verify(exitDone)
	require.Contains(t, r.out, "(no changes)")
	require.Regexp(t, `(?m)^test-go-1 +passed +1 passed +- `, r.out)
	require.Contains(t, r.out, "1 test: 1 passed; 0 major, 0 medium and 0 minor findings")
	require.True(t, strings.HasSuffix(r.out, "\nPassed.\n"), r.out)
	require.Empty(t, r.errs)

	// An uncommitted change, a new file, and one that is ignored.
	v.write(map[string]string{
		"m.go":       "package m\n\n// Add adds.\nfunc Add(a, b int) int { return a - b }\n",
		"unused.go":  "package m\n\nfunc  unformatted() {}\n",
		"broken.tmp": "", "new_test.go": "package m\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) {}\n",
	})
	report := v.report(exitFailed)
	out := printed(report)
	require.Regexp(t, `(?m)^test-go-1 +failed +1 passed, 1 failed +1 major `, out)
	require.Contains(t, out, "\nFailed tests\n  m_test.go:7: example.com/m.TestAdd\n    wrong sum\n")
	require.Contains(t, out, "\nFindings\n  minor   lint-go       unused.go: the file is not formatted by gofmt [gofmt]\n")
	require.Contains(t, out, "\nFailed: ASSERTION_ERROR (tests_failed): 1 of 2 tests failed")
	require.False(t, report.OK)
	require.True(t, report.WorkTree)
	require.Equal(t, 3, report.Changed)
	require.Equal(t, strings.TrimSpace(v.git("rev-parse", "HEAD")), report.Commit)
	require.Equal(t, map[string]contract.Code{"build-go": "", "test-go-1": contract.CodeTestsFailed, "lint-go": ""}, outcomes(report))
	require.Equal(t, contract.TestSummary{Passed: 1, Failed: 1, DurationMS: report.Summary.DurationMS}, report.Summary)
	require.Equal(t, []int{1, 0, 1}, []int{report.Major, report.Medium, report.Minor})
	require.Len(t, report.Findings, 2)
	require.Equal(t, "test-go-1", report.Findings[0].Check)
	require.Equal(t, "m_test.go:7", report.Findings[0].Location)
	require.Equal(t, contract.CodeTestsFailed, report.Failure.Code)

	// The commit is as good as before, and so is one of its stages.
	report = v.report(exitDone, "--commit", "main")
	require.True(t, report.OK)
	require.False(t, report.WorkTree)
	require.Equal(t, strings.TrimSpace(v.git("rev-parse", "main^{tree}")), report.Tree)
	require.Equal(t, map[string]contract.Code{"build-go": "", "lint-go": ""}, outcomes(v.report(exitDone, "--only", "build,lint-go")))
}

func comparesWithABase(t *testing.T, v *verified) {
	t.Helper()
	v.git("checkout", "-q", ".")
	v.git("clean", "-fdxq")
	v.commit(map[string]string{"old_test.go": "package m\n\nimport \"testing\"\n\nfunc TestBroken(t *testing.T) { t.Fatal(\"has always failed\") }\n\nfunc TestKept(t *testing.T) {\n\tif Add(2, 2) != 4 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n"})
	v.git("checkout", "-qb", "side")
	v.commit(map[string]string{
		"m.go":        goodCode + "\n// Sub subtracts.\nfunc Sub(a, b int) int { return a - b }\n",
		"sub_test.go": "package m\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) {\n\tif Sub(3, 1) != 2 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n",
	})
	v.git("checkout", "-q", "main")
	v.commit(map[string]string{"elsewhere_test.go": "package m\n\nimport \"testing\"\n\nfunc TestElsewhere(t *testing.T) {}\n"})
	v.git("checkout", "-q", "side")

	report := v.report(exitDone, "--base", "main")
	require.Equal(t, strings.TrimSpace(v.git("rev-parse", "side~")), report.Base, "what main did since then is not the change's")
	require.Equal(t, map[string]contract.Code{"pinned-tests": "", "build-go": "", "test-go-1": "", "lint-go": "", "new-tests": ""}, outcomes(report))
	require.Len(t, report.Baseline, 3)
	require.Zero(t, report.Major, "the only failed test is known")
	require.Equal(t, contract.FindingKnown, report.Findings[0].Status)
	require.Regexp(t, `(?m)^test-go-1 +passed \(as on the base\) +3 passed, 1 failed +1 known `, printed(report))

	// The change now removes tests, and adds one that proves nothing.
	require.NoError(t, os.Remove(filepath.Join(v.repo, "m_test.go")))
	v.write(map[string]string{
		"old_test.go": "package m\n\nimport \"testing\"\n\nfunc TestBroken(t *testing.T) { t.Fatal(\"has always failed\") }\n",
		"sub_test.go": "package m\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) {\n\tsum := 0\n\tfor _, n := range []int{1, 2, 3} {\n\t\tsum = Add(sum, n)\n\t}\n\tif sum == 7 {\n\t\tt.Errorf(\"the sum is %d\", sum)\n\t}\n}\n",
	})
	report = v.report(exitFailed, "--base", "main")
	require.Equal(t, contract.CodeFindings, report.Failure.Code)
	rules := map[string]string{}
	for _, f := range report.Findings {
		rules[f.Check] += f.Rule + " "
	}
	require.Equal(t, "pinned-tests/deleted pinned-tests/deleted ", rules["pinned-tests"])
	require.Contains(t, rules["new-tests"], "unproven")
	require.NotContains(t, rules["test-go-1"], "tests-missing", "a removed test is reported once")
	require.True(t, v.report(exitDone, "--base", "main", "--set", "verification.pinned_tests=report", "--set", "verification.prove_new_tests=warn").OK)
	require.Equal(t, map[string]contract.Code{"pinned-tests": contract.CodeFindings}, outcomes(v.report(exitFailed, "--base", "main", "--only", "pinned-tests")))
}

func TestVerifyPrintsTheResultThatRunsHaveAsJSON(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"Makefile": "test:\n\t@echo fine\n"})
	r := v.verify(exitDone, "--json")
	require.Contains(t, r.errs, "Verifying the work tree", "progress goes to standard error")
	var doc map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(r.out), &doc))
	require.Equal(t, []string{
		"artifacts", "changed_files", "checks", "commit", "duration_ms", "environment", "failure", "findings", "major", "medium", "minor", "ok", "repo",
		"results", "summary", "tree", "work_tree",
	}, slices.Sorted(maps.Keys(doc)))
	require.Regexp(t, `^\{\s*"passed": 1,\s*"failed": 0,\s*"skipped": 0,\s*"flaky": 0,\s*"duration": \d+\s*\}$`, string(doc["summary"]))
	require.Regexp(t, `^\[\s*\{\s*"test_case": "make test",\s*"status": "passed",\s*"duration_ms": \d+\s*\}\s*\]$`, string(doc["results"]))
	require.Equal(t, "[]", string(doc["artifacts"]))
	require.Equal(t, "[]", string(doc["findings"]))
	require.Equal(t, "null", string(doc["failure"]))
	require.Equal(t, "null", string(doc["environment"]))
}

func TestTheRgptYamlOfTheBaseDecides(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"rgpt.yaml": "verification: {test: {command: 'test -f needed'}}\n", "needed": ""})
	v.verify(exitDone)
	require.NoError(t, os.Remove(filepath.Join(v.repo, "needed")))
	v.verify(exitFailed)
	v.write(map[string]string{"rgpt.yaml": "verification: {test: {command: 'true'}}\n"})
	v.verify(exitDone)
	r := v.report(exitFailed, "--base", "HEAD", "--only", "test-configured-1")
	require.Equal(t, map[string]contract.Code{"test-configured-1": contract.CodeTestsFailed}, outcomes(r), "the changed settings decided")
}

func TestVerifyRefusesWhatARepositoryMayNotSet(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"rgpt.yaml": "verification: {test: {command: 'true'}}\n"})
	for _, settings := range []string{
		"execution: {sandbox: {allow_unisolated: true}}", "execution: {sandbox: {network: [evil.example]}}", "environment: {network: {hosts: [evil.example]}}", "findings: {max_major: 100}",
	} {
		v.write(map[string]string{"rgpt.yaml": settings + "\n"})
		r := v.verify(exitInput)
		require.Contains(t, r.errs, "rgpt.yaml")
		require.Contains(t, r.errs, "a repository may")
	}
}

func TestVerifyUsesATrustedFileInTheCurrentDirectoryAndTheUsersCache(t *testing.T) {
	v := newVerified(t, map[string]string{"rgpt.yaml": "verification: {test: {command: 'true'}}\nfindings: {max_major: 100}\n"})
	t.Chdir(v.repo)
	run := func(code int, args ...string) result {
		t.Helper()
		before := v.state()
		var out, errs bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &errs)
		a.env = v.env
		require.Equal(t, code, execute(t.Context(), a, args), "%s\n%s", out.String(), errs.String())
		require.Equal(t, before, v.state())
		return result{code, out.String(), errs.String()}
	}
	require.Contains(t, run(exitInput, "verify").errs, "a repository may")
	run(exitDone, "trust")
	run(exitDone, "verify")
	require.DirExists(t, filepath.Join(v.repo, "../home/.cache/rgpt/cache/repos"))

	// The local file applies only if it is trusted as well.
	v.write(map[string]string{"rgpt.local.yaml": "verification: {test: {command: 'false'}}\n"})
	require.Contains(t, run(exitDone, "verify").out, "rgpt.local.yaml is not trusted, so it is ignored")
	run(exitDone, "trust")
	run(exitFailed, "verify")
}

func TestAVerificationWithoutAVerdictIsNeitherPassedNorFailed(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"rgpt.yaml": "verification: {test: {command: 'no-such-program --all'}}\n"})
	report := v.report(exitError)
	require.False(t, report.OK)
	require.Equal(t, contract.CodeMissing, report.Failure.Code)
	require.Contains(t, v.verify(exitError).out, "\nNo verdict: CONFIG_ERROR (missing_dependency): test-configured-1 could not run")

	// A failure that is certain counts more.
	v.write(map[string]string{"rgpt.yaml": "verification: {build: {command: 'no-such-program'}, test: {command: 'exit 1'}}\n"})
	require.Equal(t, map[string]contract.Code{"build-configured": contract.CodeMissing}, outcomes(v.report(exitError)))

	v.write(map[string]string{"rgpt.yaml": "environment: {setup: ['echo no registry; exit 3']}\nverification: {test: {command: 'true'}}\n"})
	report = v.report(exitError, "--artifacts", filepath.Join(v.data, "../kept"))
	require.Contains(t, report.Failure.Message, "`echo no registry; exit 3` failed (exit code 3)")
	require.Equal(t, []string{"environment/setup.log"}, report.Artifacts)
	require.Empty(t, report.Checks)
	r := v.verify(exitError)
	require.Contains(t, r.out, "\n  output  no registry\n")
	require.Contains(t, r.out, "\n  to do   specify the setup in the repository's rgpt.yaml")
	v.verify(exitDone, "--env", "none")
	given := filepath.Join(v.data, "environment.yaml")
	require.NoError(t, os.WriteFile(given, []byte("environment: {setup: ['echo fine']}\n"), 0o600))
	report = v.report(exitDone, "--env", given)
	require.False(t, report.Environment.Kept)
	require.True(t, v.report(exitDone, "--env", given).Environment.Kept, "the next verification uses it again")
	require.NoError(t, os.WriteFile(given, []byte("environment: {setup: ['head -c 20000000 /dev/urandom >large']}\n"), 0o600))
	require.Contains(t, v.verify(exitError, "--env", given, "--set", "environment.disk=16MiB").errs, "(environment.disk)")
}

func TestAMachineThatCannotIsolateCommandsGivesNoVerdict(t *testing.T) {
	v := newVerified(t, map[string]string{"Makefile": "test:\n\t@true\n"})
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	programs := t.TempDir()
	require.NoError(t, os.Symlink(git, filepath.Join(programs, "git")))
	t.Setenv("PATH", programs) // without bubblewrap
	r := v.start(t.Context())
	require.Equal(t, exitError, r.code, r.out+r.errs)
	require.Contains(t, r.errs, "isolat")
}

func TestVerifyKeepsFilesOnlyOnRequest(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"Makefile": "test:\n\t@echo 'token=ghp_abcdefghijklmnopqrstuvwxyz0123456789'; echo seen; test ! -e out\n"})
	out := filepath.Join(v.repo, "out")
	args := []string{"--artifacts", out, "--json"}
	// It is in the work tree, so it must not become part of what is verified.
	require.NoError(t, os.MkdirAll(filepath.Join(out, "test-make-1"), 0o755))
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("untouched"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(out, "test-make-1", "output.log")))
	r := v.start(t.Context(), args...)
	require.Equal(t, exitDone, r.code, r.out+r.errs)
	require.Contains(t, r.out, `"test-make-1/output.log"`)
	text, err := os.ReadFile(filepath.Join(out, "test-make-1/output.log"))
	require.NoError(t, err)
	require.Contains(t, string(text), "seen")
	require.NotContains(t, string(text), "ghp_")
	text, err = os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "untouched", string(text), "a link was followed")
}

func TestAnInterruptedVerificationEndsAndCleansUp(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"Makefile": "test:\n\t@touch started; sleep 100000\n"})
	before := v.state()
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan result, 1)
	go func() { done <- v.start(ctx) }()
	await.Until(t, "the test to start", func() bool {
		found, err := filepath.Glob(filepath.Join(v.data, "cache/dirs/*/work/started"))
		require.NoError(t, err)
		return len(found) > 0
	})
	interrupt()
	r := <-done
	require.Equal(t, exitStopped, r.code, r.out+r.errs)
	require.Contains(t, r.errs, "interrupted")
	require.NotContains(t, r.out, "Passed")
	require.Equal(t, before, v.state())
	v.requireClean()
}

func TestVerifyRejectsInvalidInput(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"Makefile": "test:\n\t@true\n"})
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--only", "lint"}, "nothing to run for --only lint; planned checks: test-make-1"},
		{[]string{"--commit", "nope"}, `no branch, tag or commit "nope"`},
		{[]string{"--base", "nope"}, `no branch, tag or commit "nope"`},
		{[]string{"--set", "x"}, "must have the form key=value"},
		{[]string{"--set", "verification.shards=many"}, "verification.shards"},
		{[]string{"--env", filepath.Join(v.repo, "absent")}, "cannot read"},
		{[]string{"--artifacts", filepath.Join(v.repo, "Makefile")}, "cannot write to the directory"},
		{[]string{"--repo", filepath.Join(v.repo, "..")}, "is not a git repository"},
		{[]string{"--repo", ""}, "--repo is empty"},
		{[]string{"--server", "http://127.0.0.1:1"}, "works only on this machine"},
		{[]string{"extra"}, "takes no arguments"},
	} {
		require.Contains(t, v.verify(exitInput, c.args...).errs, c.says, c.args)
	}
}

func TestVerifySaysWhyScansAreSkipped(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"Gemfile.lock": "GEM\n  remote: https://rubygems.org/\n  specs:\n    rack (1.0.0)\n"})
	args := []string{"--set", "verification.security.enabled=auto", "--only", "security-osv"}
	r := v.verify(exitDone, args...)
	require.Regexp(t, `(?m)^security-osv +skipped +\d.* osv-scanner .*`, r.out, "the progress says why")
	require.Regexp(t, `(?m)^security-osv +skipped +- +- +`, r.out)
	require.Regexp(t, `\nSkipped\n  security-osv: .*osv-scanner .*(is not installed where checks run|cannot be reached)`, "\n"+r.out[strings.Index(r.out, "Skipped\n"):])
	require.Contains(t, r.out, "\nPassed.\n", "it does not fail a verification")
	report := v.report(exitDone, args...)
	require.Len(t, report.Checks, 1)
	require.True(t, report.Checks[0].Skipped)
	require.Contains(t, report.Checks[0].Message, "osv-scanner")

	// With a base, a check without a scanner runs on it alone.
	compared := v.report(exitDone, append(args, "--base", "HEAD")...)
	require.Len(t, compared.Baseline, 1)
	require.True(t, compared.Baseline[0].Skipped)
	if compared.Baseline[0].Code == contract.CodeMissing {
		require.Empty(t, compared.Checks)
		require.Contains(t, printed(compared), "\nNothing could be checked.\n")
	}
	require.Contains(t, printed(compared), "\nSkipped\n  security-osv: ")
}

// TestVerifyComparesSecretsWithThoseOfTheBase splits its secrets, which are none, so that they are not
// in this file.
func TestVerifyComparesSecretsWithThoseOfTheBase(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH"))
	sandboxtest.UseBuiltTools()
	if _, err := exec.LookPath("gitleaks"); err != nil {
		t.Skip("gitleaks is not installed")
	}
	const old, added = "AKIAQWERTZU" + "IOP234567", "xoxb-781236542736" + "-2364535789652-GkwFDQoHqzXDVsC6GzqYUypD"
	v := newVerified(t, map[string]string{"deploy.env": "AWS_KEY=" + old + "\n"})
	args := []string{"--set", "verification.security.enabled=auto", "--only", "security-secrets"}
	v.report(exitFailed, args...)
	args = append(args, "--base", "HEAD", "--artifacts", filepath.Join(v.data, "../kept"))
	report := v.report(exitDone, args...)
	require.True(t, report.Checks[0].KnownOnly)
	require.Len(t, report.Findings, 1)
	require.Equal(t, []any{contract.FindingKnown, "deploy.env:1"}, []any{report.Findings[0].Status, report.Findings[0].Location})

	v.write(map[string]string{"notify.py": "token = \"" + added + "\"\n"})
	r := v.verify(exitFailed, args...)
	require.Contains(t, r.out, "\n  major   security-secrets  notify.py:1: Identified a Slack Bot token")
	require.Contains(t, r.out, "1 major, 0 medium and 0 minor findings")
	log, err := os.ReadFile(filepath.Join(v.data, "../kept/security-secrets/output.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "notify.py:1")
	for _, text := range []string{r.out, r.errs, string(log)} {
		require.NotContains(t, text, added)
		require.NotContains(t, text, old)
	}
}

func TestVerifyTakesTheAddressOfARepository(t *testing.T) {
	t.Parallel()
	v := newVerified(t, map[string]string{"Makefile": "test:\n\t@test ! -e new\n"})
	v.write(map[string]string{"new": ""})
	v.verify(exitFailed)
	report := v.report(exitDone, "--repo", "file://"+v.repo)
	require.False(t, report.WorkTree, "an address has commits, but no work tree")
}
