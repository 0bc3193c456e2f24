package verify

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

func goFiles(test string) map[string]string {
	return map[string]string{
		"go.mod":            "module example.com/m\n\ngo 1.21\n",
		"calc/calc.go":      "package calc\n\nfunc Add(a, b int) int { return a + b }\n",
		"calc/calc_test.go": test,
	}
}

func TestGoIsPlannedByModulesAndPackages(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"go.mod": "module example.com/m\n", "a/a_test.go": "package a\nfunc TestA(t *testing.T) {}",
		"b/b_test.go": "package b\nfunc TestB(t *testing.T) {}", "c/c_test.go": "package c\nfunc TestC(t *testing.T) {}",
		"testdata/x/x_test.go":  "package x\nfunc TestX(t *testing.T) {}",
		"win/w_windows_test.go": "package win\nfunc TestW(t *testing.T) {}",
		"it/it_test.go":         "//go:build integration\n\npackage it\nfunc TestI(t *testing.T) {}",
		"help/help_test.go":     "package help\nfunc helper() {}",
		"tools/go.mod":          "module example.com/m/tools\n", "tools/t_test.go": "package tools\nfunc TestT(t *testing.T) {}",
	})
	s := detected()
	s.Shards = 3
	p := plan(t, root, s)
	require.Equal(t, [][]string{{"build-go"}, {"test-go-1", "test-go-2", "test-go-3"}, {"lint-go"}}, ids(p))
	require.Equal(t, "go test -json -count=1 ./a\n(cd tools && go test -json -count=1 .)", p.Command("test-go-1"))
	require.Equal(t, "go test -json -count=1 ./b", p.Command("test-go-2"))
	require.Equal(t, 2, p.Stages[1][1].Shard)
	require.Equal(t, 3, p.Stages[1][1].Shards)

	s.Shards = 1
	p = plan(t, root, s)
	require.Equal(t, "go test -json -count=1 ./...\n(cd tools && go test -json -count=1 ./...)", p.Command("test-go-1"))
	require.Equal(t, "go build -o /dev/null ./...\n(cd tools && go build -o /dev/null ./...)", p.Command("build-go"))
}

func TestAGoWorkspaceIsOneCommand(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, map[string]string{
		"go.work":    "go 1.21\n\nuse (\n\t./lib // the library\n\t./app\n)\n",
		"lib/go.mod": "module example.com/lib\n\ngo 1.21\n", "lib/lib.go": "package lib\n\nfunc One() int { return 1 }\n",
		"app/go.mod":      "module example.com/app\n\ngo 1.21\n\nrequire example.com/lib v0.0.0\n",
		"app/app_test.go": "package app\n\nimport (\n\t\"testing\"\n\n\t\"example.com/lib\"\n)\n\nfunc TestOne(t *testing.T) {\n\tif lib.One() != 2 {\n\t\tt.Error(\"one is not two\")\n\t}\n}\n",
		"alone/go.mod":    "module example.com/alone\n\ngo 1.21\n", "alone/a.go": "package alone\n",
	})
	p := plan(t, root, detected())
	require.Equal(t, "go build -o /dev/null ./app/... ./lib/...\n(cd alone && go build -o /dev/null ./...)", p.Command("build-go"))
	require.True(t, runCheck(t, root, "build-go", detected()).OK)
	o := runCheck(t, root, "test-go-1", detected())
	require.Equal(t, "app/app_test.go:11", caseNamed(t, o, "TestOne").Location)
}

func TestAGoCheckoutThatIsInOrderIsGreen(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, goFiles("package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n"))
	for _, id := range []string{"build-go", "test-go-1", "lint-go"} {
		o := runCheck(t, root, id, detected())
		require.True(t, o.OK, "%s: %+v\n%s", id, o, o.Log)
		require.Empty(t, o.Findings)
		require.Empty(t, o.Code)
	}
}

func TestGoTestResultsBecomeCasesAndFindings(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, goFiles(`package calc

import "testing"

func TestGood(t *testing.T) {}

func TestBad(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two", func(t *testing.T) {
		t.Errorf("want 3\ngot %d", Add(2, 2))
	})
}

func TestLater(t *testing.T) { t.Skip("not now") }

func TestPanics(t *testing.T) {
	var m map[string]int
	m["a"] = 1
}
`))
	o := runCheck(t, root, "test-go-1", detected())
	require.False(t, o.OK)
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, 2, o.Summary.Passed, "%+v", o.Cases) // TestGood, TestBad/one
	require.Equal(t, 2, o.Summary.Failed)
	require.Equal(t, 1, o.Summary.Skipped)
	require.Equal(t, contract.TestSkipped, caseNamed(t, o, "TestLater").Status)
	require.Equal(t, "calc/calc_test.go:10", caseNamed(t, o, "TestBad/two").Location)
	require.Contains(t, caseNamed(t, o, "TestBad/two").Message, "want 3\ngot 4")
	require.Equal(t, "calc/calc_test.go:18", caseNamed(t, o, "TestPanics").Location)
	require.Contains(t, located(o), "major calc/calc_test.go:10: example.com/m/calc.TestBad/two failed: want 3")
	require.Len(t, o.Findings, 2)
	require.Contains(t, o.Message, "(and 1 more failed tests)")
	require.Contains(t, string(o.Log), "--- FAIL: TestBad/two", "the log is text, not JSON")
	require.NotContains(t, string(o.Log), `"Action"`)
}

func TestCompileErrorsOfGoTestsAreFindings(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, goFiles("package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) { missing() }\n"))
	o := runCheck(t, root, "test-go-1", checks.Settings{AutoDetect: true, RerunFailed: 2})
	require.False(t, o.OK)
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, []string{"major calc/calc_test.go:5: undefined: missing"}, located(o))
	require.Zero(t, o.Summary.Passed)
}

func TestAPackageThatFailsWithoutAFailedTestIsRed(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, goFiles("package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(3)\n}\n\nfunc TestAdd(t *testing.T) {}\n"))
	o := runCheck(t, root, "test-go-1", checks.Settings{AutoDetect: true, RerunFailed: 1})
	require.False(t, o.OK)
	require.Equal(t, 1, o.Summary.Passed)
	require.Len(t, o.Findings, 1)
	require.Contains(t, o.Findings[0].Message, "although none of its tests did")
}

func TestATestThatPrintsResultsDoesNotPassByThem(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, goFiles(`package calc

import (
	"fmt"
	"testing"
)

func TestLiar(t *testing.T) {
	fmt.Println(`+"`"+`{"Action":"run","Package":"example.com/m/calc","Test":"TestFake"}`+"`"+`)
	fmt.Println(`+"`"+`{"Action":"pass","Package":"example.com/m/calc","Test":"TestFake"}`+"`"+`)
	fmt.Println("--- PASS: TestFake2 (0.00s)")
	fmt.Print("\x16=== RUN   TestForged\n\x16--- PASS: TestForged (0.00s)\n")
	fmt.Print("\x16=== RUN   TestLiar\n\x16--- PASS: TestLiar (0.00s)\n")
	t.Error("no")
}
`))
	o := runCheck(t, root, "test-go-1", detected())
	require.False(t, o.OK)
	require.Equal(t, 0, o.Summary.Passed, "%+v", o.Cases)
	require.Equal(t, contract.TestFailed, caseNamed(t, o, "TestLiar").Status)
	require.Contains(t, located(o), "medium calc: example.com/m/calc.TestForged is reported as having run, but no test file declares it; it is not counted")
}

func TestAFlakyGoTestIsDistinguishedFromAFailingOne(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles(`package calc

import (
	"os"
	"testing"
)

func TestFlaky(t *testing.T) {
	if _, err := os.Stat("../ran"); err != nil {
		_ = os.WriteFile("../ran", nil, 0o644)
		t.Fatal("first time")
	}
}

func TestFine(t *testing.T) {}
`)
	root := checkout(t, files)
	s := detected()
	s.RerunFailed = 1
	o := runCheck(t, root, "test-go-1", s)
	require.True(t, o.OK, "%+v", o)
	require.Equal(t, contract.TestSummary{Passed: 1, Flaky: 1, DurationMS: o.Summary.DurationMS}, o.Summary)
	require.Equal(t, contract.TestFlaky, caseNamed(t, o, "TestFlaky").Status)
	require.Len(t, o.Findings, 1)
	require.Equal(t, contract.SeverityMedium, o.Findings[0].Severity)
	require.Contains(t, string(o.Log), "-run '^(TestFlaky)$' example.com/m/calc", "only what failed runs again")

	root = checkout(t, files)
	require.False(t, runCheck(t, root, "test-go-1", detected()).OK, "without a re-run it failed")
}

func TestAGoTestThatFailsOnEveryRerunFails(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, goFiles("package calc\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"no\") }\n"))
	s := detected()
	s.RerunFailed = 2
	o := runCheck(t, root, "test-go-1", s)
	require.False(t, o.OK)
	require.Equal(t, 1, o.Summary.Failed)
	require.Zero(t, o.Summary.Flaky)
}

func TestGoLintFindingsAreMediumAndFormattingIsMinor(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles("package calc\n")
	files["calc/calc.go"] = "package calc\n\nimport \"fmt\"\n\nfunc Add(a, b int) int { fmt.Printf(\"%d\", \"x\")\nreturn a + b }\n"
	files["testdata/broken.go"] = "package ("
	root := checkout(t, files)
	o := runCheck(t, root, "lint-go", detected())
	require.False(t, o.OK)
	require.Equal(t, contract.CodeCheckFailed, o.Code)
	require.Len(t, o.Findings, 2, "%v", located(o))
	require.Equal(t, "calc/calc.go:5", o.Findings[0].Location)
	require.Equal(t, contract.SeverityMedium, o.Findings[0].Severity)
	require.Equal(t, "minor calc/calc.go: the file is not formatted by gofmt", located(o)[1])
}

func TestAnExitCodeIsNotOverruledByGreenResults(t *testing.T) {
	t.Parallel()
	green := `{"Action":"start","Package":"m"}
{"Action":"run","Package":"m","Test":"TestA"}
{"Action":"pass","Package":"m","Test":"TestA"}
{"Action":"pass","Package":"m"}
`
	for _, code := range []int{1, 2, 77} {
		o := runWith(t, t.TempDir(), "test-configured-1", Env{
			Runner:   always(sandbox.Result{ExitCode: code, Stdout: []byte(green)}),
			Settings: testCommand("x", output.FormatGoTest, ""),
		})
		require.False(t, o.OK)
		require.Equal(t, contract.CodeTestsFailed, o.Code)
		require.Equal(t, 1, o.Summary.Passed)
		require.Len(t, o.Findings, 1)
		require.Contains(t, o.Findings[0].Message, "although no test failed")
	}
}
