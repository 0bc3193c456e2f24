package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

const greenJUnit = `<testsuite name="s"><testcase name="a"/><testcase name="b"/></testsuite>`

// writing returns a runner whose command leaves files and ends with a code.
func writing(root string, code int, files map[string]string) *cannedRunner {
	return &cannedRunner{answer: func(int, sandbox.Command) (sandbox.Result, error) {
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
				return sandbox.Result{}, err
			}
		}
		return sandbox.Result{ExitCode: code}, nil
	}}
}

func TestAGreenReportDoesNotOutweighARedExitCode(t *testing.T) {
	t.Parallel()
	root := checkout(t, nil)
	o := runWith(t, root, "test-configured-1", Env{
		Runner: writing(root, 1, map[string]string{"r.xml": greenJUnit}), Settings: testCommand("x", output.FormatJUnit, "*.xml"),
	})
	require.False(t, o.OK)
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, 2, o.Summary.Passed)
	require.Equal(t, "`x` exited with code 1 although no test failed", o.Message)
}

func TestARedReportOutweighsAGreenExitCode(t *testing.T) {
	t.Parallel()
	root := checkout(t, nil)
	o := runWith(t, root, "test-configured-1", Env{
		Runner:   writing(root, 0, map[string]string{"r.xml": `<testsuite name="s"><testcase name="a"><failure message="no"/></testcase></testsuite>`}),
		Settings: testCommand("x", "", "*.xml"),
	})
	require.False(t, o.OK)
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, "s.a failed: no", o.Message)
}

func TestACommittedReportDoesNotCount(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"r.xml": greenJUnit, "fixtures/r2.xml": greenJUnit})
	s := testCommand("true", output.FormatJUnit, "**/*.xml")
	s.RequireTests = true
	o := runCheck(t, root, "test-configured-1", s)
	require.False(t, o.OK)
	require.Equal(t, contract.CodeNoTests, o.Code)
	require.Zero(t, o.Summary.Passed)
	require.FileExists(t, filepath.Join(root, "fixtures/r2.xml"))

	o = runCheck(t, root, "test-configured-1", testCommand("echo ' ' >> r.xml", output.FormatJUnit, "**/*.xml"))
	require.True(t, o.OK, "%+v", o)
	require.Equal(t, 2, o.Summary.Passed)
}

func TestReportsAreReadFromRegularFilesOnly(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "secret.xml")
	require.NoError(t, os.WriteFile(outside, []byte(greenJUnit), 0o644))
	root := checkout(t, nil)
	o := runCheck(t, root, "test-configured-1", testCommand(
		fmt.Sprintf("ln -s %s link.xml && mkfifo pipe.xml && mkdir dir.xml && ln -s %s linked && exit 0", outside, filepath.Dir(outside)), output.FormatJUnit, "**/*.xml"))
	require.Zero(t, o.Summary.Passed, "%+v", o)
	require.Contains(t, located(o), "minor : the command did not write the report **/*.xml")
}

func TestAReportThatIsTooLargeOrBrokenIsAFinding(t *testing.T) {
	t.Parallel()
	root := checkout(t, nil)
	o := runWith(t, root, "test-configured-1", Env{
		Runner:   writing(root, 0, map[string]string{"a.xml": "<testsuite>" + strings.Repeat(" ", output.MaxReportBytes), "b.xml": "<testsuite><testcase"}),
		Settings: testCommand("x", output.FormatJUnit, "*.xml"),
	})
	require.Len(t, o.Findings, 3, "%v", located(o))
	require.Contains(t, located(o)[0]+located(o)[1], "report a.xml was not read: it is larger than 8 MiB")
	require.Contains(t, strings.Join(located(o), "\n"), "report b.xml could not be parsed")
}

func TestATestThatPrintsTAPDoesNotCoverItsExitCode(t *testing.T) {
	t.Parallel()
	o := runCheck(t, checkout(t, nil), "test-configured-1", testCommand("printf 'TAP version 13\\n1..2\\nok 1 - a\\nok 2 - b\\n'; exit 3", "", ""))
	require.False(t, o.OK)
	require.Equal(t, 2, o.Summary.Passed)
	require.Contains(t, o.Message, "exited with code 3 although no test failed")
}

func TestTAPThatATestPrintsDoesNotReplaceTheSumsOfItsRunner(t *testing.T) {
	t.Parallel()
	const vitest = ` RUN  v4.1.2 /workspace

 ✓ test/defu.test.ts (20 tests) 24ms
TAP version 13
# Subtest: isPlainObject
ok 1 - isPlainObject
  ---
  type: 'suite'
  ...
 ✓ test/utils.test.ts (2 tests) 5ms

 Test Files  2 passed (2)
      Tests  22 passed (22)
`
	runner := always(sandbox.Result{Stdout: []byte(vitest)})
	o := runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: testCommand("x", "", "")})
	require.True(t, o.OK, o.Message)
	require.Equal(t, 22, o.Summary.Passed)

	runner = always(sandbox.Result{Stdout: []byte("building\nTAP version 13\nok 1 - a\nok 2 - b # SKIP\n1..2\n# tests 2\n# pass 1\n# skip 1\n")})
	o = runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: testCommand("x", "", "")})
	require.Equal(t, []int{1, 1}, []int{o.Summary.Passed, o.Summary.Skipped})
}

func TestHowACommandEndedDecidesTheCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result  sandbox.Result
		code    contract.Code
		message string
	}{
		"time-out":  {sandbox.Result{ExitCode: 137, Signal: "killed", TimedOut: true}, contract.CodeTimeout, "`x` was stopped at the check's time limit of 50s"},
		"memory":    {sandbox.Result{ExitCode: 137, Signal: "killed", LimitExceeded: sandbox.LimitMemory}, contract.CodeCommandCrashed, "exceeded the limit of memory"},
		"signal":    {sandbox.Result{ExitCode: 139, Signal: "segmentation fault"}, contract.CodeCommandCrashed, "terminated by signal segmentation fault"},
		"in shell":  {sandbox.Result{ExitCode: 134, Stderr: []byte("Aborted\n")}, contract.CodeCommandCrashed, "crashed: exit code 134, which indicates signal 6: Aborted"},
		"not found": {sandbox.Result{ExitCode: 127, Stderr: []byte("bash: x: command not found\n")}, contract.CodeMissing, "x is not installed: bash: x: command not found"},
		"no exec":   {sandbox.Result{ExitCode: 126}, contract.CodeMissing, "is not executable"},
		"red":       {sandbox.Result{ExitCode: 1, Stderr: []byte("Error: no\nbye\n")}, contract.CodeCheckFailed, "`x` exited with code 1: Error: no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := checks.Settings{Build: checks.StageSettings{Command: "x"}}
			o := runWith(t, checkout(t, nil), "build-configured", Env{Runner: always(c.result), Settings: s})
			require.False(t, o.OK)
			require.Equal(t, c.code, o.Code)
			require.Contains(t, o.Message, c.message)
			require.Equal(t, contract.SeverityMajor, o.Findings[0].Severity)
			require.Len(t, o.Findings, 1)
		})
	}
}

func TestATimeLimitBoundsTheWholeCheck(t *testing.T) {
	t.Parallel()
	s := checks.Settings{Custom: []checks.Custom{{Name: "slow", Command: "echo begun; sleep 60", Timeout: 200 * time.Millisecond}}}
	started := time.Now()
	o := runCheck(t, checkout(t, nil), "custom-slow", s)
	require.Less(t, time.Since(started), 20*time.Second)
	require.Equal(t, contract.CodeTimeout, o.Code)
	require.Contains(t, o.Message, "200ms")
	require.Contains(t, string(o.Log), "begun")
}

func TestWithoutTestsThereIsAFinding(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"README.md": "hello"})
	p := plan(t, root, detected())
	require.Equal(t, [][]string{{"test-none"}}, ids(p))
	o := runCheck(t, root, "test-none", detected())
	require.True(t, o.OK)
	require.Equal(t, contract.TestSummary{DurationMS: o.Summary.DurationMS}, o.Summary)
	require.Equal(t, []string{"minor : no tests were found"}, located(o))

	s := detected()
	s.RequireTests = true
	o = runCheck(t, root, "test-none", s)
	require.False(t, o.OK)
	require.Equal(t, contract.CodeNoTests, o.Code)
	require.Equal(t, contract.SeverityMajor, o.Findings[0].Severity)

	s.Test.Enabled = checks.SwitchOff
	require.Empty(t, ids(plan(t, root, s)))
}

func TestSkippedTestsAreNoTests(t *testing.T) {
	t.Parallel()
	runner := always(sandbox.Result{Stdout: []byte("TAP version 13\nok 1 - a # SKIP\nok 2 - b # TODO\n1..2\n")})
	s := testCommand("x", output.FormatTAP, "")
	o := runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: s})
	require.True(t, o.OK)
	require.Equal(t, []string{"medium : no tests were run: all 2 were skipped"}, located(o))
	require.Zero(t, o.Summary.Passed)
	s.RequireTests = true
	o = runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: s})
	require.Equal(t, contract.CodeNoTests, o.Code)
}

func TestAConfiguredCommandIsShardedWhenItAsks(t *testing.T) {
	t.Parallel()
	root := checkout(t, nil)
	s := testCommand("echo {{shard}} of {{shards}} is $RGPT_SHARD/$RGPT_SHARDS", "", "")
	s.Shards = 3
	require.Equal(t, [][]string{{"test-configured-1", "test-configured-2", "test-configured-3"}}, ids(plan(t, root, s)))
	o := runCheck(t, root, "test-configured-2", s)
	require.Contains(t, string(o.Log), "2 of 3 is 2/3")
	require.Equal(t, 1, o.Summary.Passed, "the command itself is the case")

	s.Test.Command = "make check"
	require.Equal(t, [][]string{{"test-configured-1"}}, ids(plan(t, root, s)))
}

func TestMakeIsTheLastResort(t *testing.T) {
	t.Parallel()
	needs(t, "make")
	root := checkout(t, map[string]string{"Makefile": "test := 1\nbuild: ; @echo built\ntest:\n\t@echo tested\nlint:\n\t@echo 'a.c:3:4: warning: odd'\n"})
	p := plan(t, root, detected())
	require.Equal(t, [][]string{{"build-make"}, {"test-make-1"}, {"lint-make"}}, ids(p))
	require.True(t, runCheck(t, root, "build-make", detected()).OK)
	require.Equal(t, 1, runCheck(t, root, "test-make-1", detected()).Summary.Passed)

	root = checkout(t, map[string]string{"Makefile": "build:\ntest:\nlint:\n", "go.mod": "module m\n", "a_test.go": "package m\nfunc TestA(t *testing.T) {}\n"})
	require.Equal(t, [][]string{{"build-go"}, {"test-go-1"}, {"lint-go"}}, ids(plan(t, root, detected())))
}

func TestStagesComeInOrderAndPlansAreStable(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"go.mod": "module m\n", "a_test.go": "package m\nfunc TestA(t *testing.T) {}\n", "package.json": `{"scripts":{"build":"b","lint":"l"}}`,
		"a.test.js": "", "Cargo.toml": "", "pom.xml": "", "main.py": "", "test_main.py": "",
	})
	s := detected()
	s.Security.Command = "scan"
	s.Custom = []checks.Custom{{Name: "Licence check!", Command: "x"}, {Name: "other", Command: "y"}}
	want := [][]string{
		{"build-go", "build-node", "build-rust", "build-java"},
		{"test-go-1", "test-node-1", "test-python-1", "test-rust-1", "test-java-1"},
		{"lint-go", "lint-node", "lint-python"},
		{"security-configured"},
		{"custom-licence-check", "custom-other"},
	}
	for range 5 {
		require.Equal(t, want, ids(plan(t, root, s)))
	}
}

func TestWrongSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]checks.Settings{
		"verification.build.enabled":     {Build: checks.StageSettings{Enabled: "maybe"}},
		"verification.test.format":       {Test: checks.StageSettings{Format: "xml"}},
		"verification.lint.severity":     {Lint: checks.StageSettings{Severity: "huge"}},
		"verification.test.report":       {Test: checks.StageSettings{Report: "../*.xml"}},
		"verification.security.report":   {Security: checks.StageSettings{Report: "/etc/*"}},
		"verification.custom[0].command": {Custom: []checks.Custom{{Name: "a"}}},
		"verification.custom[0].name":    {Custom: []checks.Custom{{Command: "a"}}},
		"verification.custom[1].name":    {Custom: []checks.Custom{{Name: "a b", Command: "a"}, {Name: "A-B", Command: "a"}}},
	} {
		_, err := checks.Plan(t.TempDir(), s)
		require.ErrorContains(t, err, want)
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	}
}

func TestAStageThatIsSwitchedOnMustHaveSomethingToDo(t *testing.T) {
	t.Parallel()
	root := checkout(t, nil)
	s := checks.Settings{Security: checks.StageSettings{Enabled: checks.SwitchOn}, Test: checks.StageSettings{Enabled: checks.SwitchOff}}
	o := runCheck(t, root, "security-none", s)
	require.False(t, o.OK)
	require.Contains(t, o.Message, "verification.security.command")
}

func TestSeveritiesFollowCategoryAndSettings(t *testing.T) {
	t.Parallel()
	log := `{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"s"}},"results":[
		{"ruleId":"E","level":"error","message":{"text":"e"}},{"ruleId":"W","level":"warning","message":{"text":"w"}},{"ruleId":"N","level":"note","message":{"text":"n"}}]}]}`
	runner := always(sandbox.Result{Stdout: []byte(log)})
	severities := func(id string, s checks.Settings) []contract.Severity {
		s.Test.Enabled = checks.SwitchOff
		o := runWith(t, checkout(t, nil), id, Env{Runner: runner, Settings: s})
		var out []contract.Severity
		for _, f := range o.Findings {
			out = append(out, f.Severity)
		}
		return out
	}
	major, medium, minor := contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor
	require.Equal(t, []contract.Severity{major, medium, minor}, severities("security-configured", checks.Settings{Security: checks.StageSettings{Command: "x"}}))
	require.Equal(t, []contract.Severity{medium, minor, minor}, severities("lint-configured", checks.Settings{Lint: checks.StageSettings{Command: "x", Format: output.FormatSARIF}}))
	require.Equal(t, []contract.Severity{major, minor, minor}, severities("custom-c", checks.Settings{Custom: []checks.Custom{{Name: "c", Command: "x"}}}))
	require.Equal(t, []contract.Severity{minor, minor, minor}, severities("custom-c", checks.Settings{Custom: []checks.Custom{{Name: "c", Command: "x", Severity: minor}}}))
}

func TestAMajorFindingIsRedWhateverTheExitCode(t *testing.T) {
	t.Parallel()
	runner := always(sandbox.Result{Stdout: []byte(`{"version":"2.1.0","runs":[{"results":[{"level":"error","message":{"text":"secret"}}]}]}`)})
	o := runWith(t, checkout(t, nil), "security-configured", Env{Runner: runner, Settings: checks.Settings{Security: checks.StageSettings{Command: "x"}, Test: checks.StageSettings{Enabled: checks.SwitchOff}}})
	require.False(t, o.OK)
	require.Equal(t, contract.CodeCheckFailed, o.Code)
	require.Equal(t, "secret", o.Message)
}

func TestArtifactsAreFilesOfTheCheckout(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"playwright.config.js": "", "tests/a.spec.js": "require('@playwright/test')"})
	outside := filepath.Join(t.TempDir(), "secret.png")
	require.NoError(t, os.WriteFile(outside, []byte("x"), 0o644))
	report := `{"config":{"rootDir":"/workspace/tests"},"suites":[{"title":"a.spec.js","file":"a.spec.js","specs":[{"title":"t","file":"a.spec.js","line":3,"tests":[{"status":"unexpected","results":[{"status":"failed","duration":5,
"errors":[{"message":"boom","location":{"file":"/workspace/tests/a.spec.js","line":4}}],"attachments":[
{"name":"trace","contentType":"application/zip","path":"/workspace/.rgpt-verify/playwright-root-1/a-t/trace.zip"},
{"name":"video","contentType":"video/webm","path":".rgpt-verify/playwright-root-1/a-t/video.webm"},
{"name":"shot","contentType":"image/png","path":"../../../../etc/passwd"},
{"name":"shot","contentType":"image/png","path":"/etc/passwd"},
{"name":"shot","contentType":"image/png","path":"` + outside + `"},
{"name":"shot","contentType":"image/png","path":"/workspace/link.png"},
{"name":"shot","contentType":"image/png","path":"/workspace/linked/secret.png"},
{"name":"shot","contentType":"image/png","path":"/workspace/pipe.png"},
{"name":"shot","contentType":"image/png","path":"/workspace/gone.png"}]}]}]}]}]}`
	runner := &cannedRunner{answer: func(_ int, c sandbox.Command) (sandbox.Result, error) {
		dir := filepath.Join(root, ".rgpt-verify/playwright-root-1/a-t")
		return sandbox.Result{ExitCode: 1}, errors.Join(
			os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "trace.zip"), []byte("zip"), 0o644), os.WriteFile(filepath.Join(dir, "video.webm"), nil, 0o644),
			os.Symlink(outside, filepath.Join(root, "link.png")), os.Symlink(filepath.Dir(outside), filepath.Join(root, "linked")),
			syscall.Mkfifo(filepath.Join(root, "pipe.png"), 0o644),
			os.WriteFile(filepath.Join(root, reportOf(c)), []byte(report), 0o644))
	}}
	o := runWith(t, root, "test-playwright-1", Env{Runner: runner, Settings: detected()})
	require.Equal(t, []ArtifactFile{
		{Name: "a-t/trace.zip", Path: ".rgpt-verify/playwright-root-1/a-t/trace.zip", Type: contract.ArtifactTrace, Size: 3, failed: true},
		{Name: "a-t/video.webm", Path: ".rgpt-verify/playwright-root-1/a-t/video.webm", Type: contract.ArtifactVideo, failed: true},
	}, o.Artifacts)
	require.Equal(t, []string{"major tests/a.spec.js:4: a.spec.js › t failed: boom"}, located(o))
}

func TestACommittedScratchDirectoryLeadsNowhere(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	root := checkout(t, map[string]string{"test_a.py": "def test_a():\n    pass\n"})
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(root, ".rgpt-verify")))
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "pytest-root-1.xml"), []byte(greenJUnit), 0o644))
	o := runWith(t, root, "test-python-1", Env{Runner: always(sandbox.Result{}), Settings: detected()})
	require.Zero(t, o.Summary.Passed, "%+v", o)
	require.FileExists(t, filepath.Join(elsewhere, "pytest-root-1.xml"))
	info, err := os.Lstat(filepath.Join(root, ".rgpt-verify"))
	require.NoError(t, err)
	require.True(t, info.IsDir())
}

func TestAFlakyResultNeedsAGreenExitCode(t *testing.T) {
	t.Parallel()
	red := "TAP version 13\nnot ok 1 - a\nok 2 - b\n1..2\n"
	green := "TAP version 13\nok 1 - a\nok 2 - b\n1..2\n"
	again := func(second sandbox.Result) Outcome {
		runner := &cannedRunner{answer: func(n int, _ sandbox.Command) (sandbox.Result, error) {
			if n == 1 {
				return sandbox.Result{ExitCode: 1, Stdout: []byte(red)}, nil
			}
			return second, nil
		}}
		s := testCommand("x", output.FormatTAP, "")
		s.RerunFailed = 1
		return runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: runner, Settings: s})
	}
	require.True(t, again(sandbox.Result{Stdout: []byte(green)}).OK)
	for name, second := range map[string]sandbox.Result{
		"exit code":   {ExitCode: 1, Stdout: []byte(green)},
		"crash":       {ExitCode: 137, Signal: "killed", Stdout: []byte(green)},
		"time-out":    {TimedOut: true, Stdout: []byte(green)},
		"left out":    {Stdout: []byte("TAP version 13\nok 2 - b\n1..1\n")},
		"skipped":     {Stdout: []byte("TAP version 13\nok 1 - a # SKIP\nok 2 - b\n1..2\n")},
		"other fails": {ExitCode: 1, Stdout: []byte("TAP version 13\nok 1 - a\nnot ok 2 - b\n1..2\n")},
	} {
		o := again(second)
		require.False(t, o.OK, name)
		require.Equal(t, contract.CodeTestsFailed, o.Code)
	}
}

func TestManyFindingsAndCasesAreBounded(t *testing.T) {
	t.Parallel()
	var tap strings.Builder
	tap.WriteString("TAP version 13\n")
	for n := range 700 {
		fmt.Fprintf(&tap, "not ok %d - bad %d\n", n, n)
	}
	for n := range output.MaxCases {
		fmt.Fprintf(&tap, "ok %d - good %d\n", n, n)
	}
	o := runWith(t, checkout(t, nil), "test-configured-1", Env{Runner: always(sandbox.Result{ExitCode: 1, Stdout: []byte(tap.String())}), Settings: testCommand("x", "", "")})
	require.LessOrEqual(t, len(o.Findings), output.MaxFindings+1)
	require.Len(t, o.Cases, output.MaxCases)
	require.Equal(t, 700, o.Summary.Failed)
	require.Equal(t, output.MaxCases, o.Summary.Passed)
	require.Contains(t, o.Findings[len(o.Findings)-1].Message, "more findings are not listed")
}

func TestTheSandboxFailingIsAnError(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"main.py": ""})
	broken := errors.New("no namespaces left")
	for name, c := range map[string]struct {
		err   error
		class contract.Class
	}{
		"unknown": {broken, contract.ClassInfra},
		"invalid": {fmt.Errorf("x: %w", sandbox.ErrInvalid), contract.ClassConfig},
		"full":    {fmt.Errorf("x: %w", syscall.ENOSPC), contract.ClassInfra},
		"machine": {&sandbox.IsolationError{}, contract.ClassConfig},
	} {
		runner := &cannedRunner{answer: func(int, sandbox.Command) (sandbox.Result, error) { return sandbox.Result{}, c.err }}
		_, err := Run(t.Context(), root, contract.Check{ID: "lint-python"}, Env{Runner: runner, Settings: detected()})
		require.Error(t, err, name)
		require.Equal(t, c.class, fault.Of(err).Class, name)
	}
	_, err := Run(t.Context(), root, contract.Check{ID: "test-go-1"}, Env{Runner: plainRunner{}, Settings: detected()})
	require.Equal(t, contract.CodeInvalidConfig, fault.Of(err).Code)
	_, err = Run(t.Context(), filepath.Join(root, "gone"), contract.Check{}, Env{Runner: plainRunner{}})
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
	_, err = Run(t.Context(), root, contract.Check{}, Env{})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
}

func TestACancelledCheckKeepsWhatItPrinted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	env := Env{Runner: plainRunner{}, Settings: testCommand("echo begun; exec sleep 60", "", "")}
	env.OnOutput = func(_ sandbox.Stream, chunk []byte) {
		if strings.Contains(string(chunk), "begun") {
			cancel()
		}
	}
	o, err := Run(ctx, checkout(t, nil), contract.Check{ID: "test-configured-1"}, env)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, contract.CodeCancelled, fault.Of(err).Code)
	require.Contains(t, string(o.Log), "begun")
}

func TestMissingModulesSayWhatToAllow(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.21\n", "main.go": "package main\n\nimport _ \"example.org/nowhere/pkg\"\n\nfunc main() {}\n"})
	o := runCheck(t, root, "build-go", detected())
	require.False(t, o.OK)
	require.Equal(t, "main.go:3", o.Findings[0].Location, "%v\n%s", located(o), o.Log)
	require.Contains(t, strings.Join(located(o), "\n"), "list the hosts in verification.build.network")
}

func TestCompileErrorsOfRealToolsAreLocated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool    string
		files   map[string]string
		command string
		want    string
	}{
		"go build":  {"go", map[string]string{"go.mod": "module m\n\ngo 1.21\n", "a/a.go": "package a\n\nvar x int = \"s\"\n"}, "go build ./...", "major a/a.go:3: "},
		"go syntax": {"go", map[string]string{"go.mod": "module m\n\ngo 1.21\n", "a/a.go": "package a\n\nfunc {\n"}, "go vet ./...", "major a/a.go:3: "},
		"go.mod":    {"go", map[string]string{"go.mod": "module m\n\ngo 1.21\nnonsense\n", "a.go": "package a\n"}, "go build ./...", "major go.mod:4: unknown directive: nonsense"},
		"node":      {"node", map[string]string{"src/a.js": "let a = 1;\nlet b = ;\n"}, "node src/a.js", "major src/a.js:2: SyntaxError: Unexpected token ';'"},
		"node run":  {"node", map[string]string{"src/a.js": "function f() {\n  nope();\n}\nf();\n"}, "node src/a.js", "major src/a.js:2: ReferenceError: nope is not defined"},
		"python":    {"python3", map[string]string{"src/a.py": "def f():\n    raise ValueError('no')\n\n\nf()\n"}, "python3 src/a.py", "major src/a.py:2: ValueError: no"},
		"syntax":    {"python3", map[string]string{"src/a.py": "x = 1\ndef f(:\n"}, "python3 src/a.py", "major src/a.py:2: SyntaxError: invalid syntax"},
		"make":      {"make", map[string]string{"Makefile": "all:\n  echo spaces\n"}, "make", "major Makefile:2: *** missing separator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs(t, c.tool)
			o := runCheck(t, checkout(t, c.files), "build-configured", checks.Settings{Build: checks.StageSettings{Command: c.command}})
			require.False(t, o.OK)
			require.Equal(t, contract.CodeCheckFailed, o.Code)
			require.Contains(t, strings.Join(located(o), "\n"), c.want, "%s", o.Log)
		})
	}
}

func TestMessagesCarryNoTerminalCodes(t *testing.T) {
	t.Parallel()
	runner := always(sandbox.Result{ExitCode: 1, Stderr: []byte("\x1b[31mError\x1b[0m: bad \xff byte\n")})
	o := runWith(t, checkout(t, nil), "build-configured", Env{Runner: runner, Settings: checks.Settings{Build: checks.StageSettings{Command: "x"}}})
	require.Equal(t, "`x` exited with code 1: Error: bad � byte", o.Message)
	require.NotContains(t, string(o.Log), "\x1b")
}

func TestAnOutcomeCountsItsFindings(t *testing.T) {
	t.Parallel()
	o := Outcome{OK: true, Duration: 1500 * time.Millisecond, Findings: []contract.Finding{
		{Severity: contract.SeverityMajor}, {Severity: contract.SeverityMedium}, {Severity: contract.SeverityMedium}, {Severity: contract.SeverityMinor},
	}}
	r := o.Result(contract.Check{ID: "x"})
	require.Equal(t, contract.CheckResult{Check: contract.Check{ID: "x"}, OK: true, Major: 1, Medium: 2, Minor: 1, DurationMS: 1500}, r)
}
