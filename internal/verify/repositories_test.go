package verify

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// verified runs all checks of a repository as the tester does: stage by stage, each on
// its own checkout, and merges them.
func verified(t *testing.T, files map[string]string, env Env) (map[string]Outcome, contract.TestResult) {
	t.Helper()
	p := plan(t, checkout(t, files), env.Settings)
	found := map[string]Outcome{}
	var all []Outcome
	for _, stage := range p.Stages {
		for _, c := range stage {
			o := runWith(t, checkout(t, files), c.ID, env)
			found[c.ID] = o
			all = append(all, o)
			t.Logf("%s: ok=%v code=%q summary=%+v message=%q findings=%q", c.ID, o.OK, o.Code, o.Summary, o.Message, located(o))
		}
	}
	merged := Merge(all...)
	text, err := json.Marshal(merged)
	require.NoError(t, err)
	require.Contains(t, string(text), `{"summary":{"passed":`)
	require.Contains(t, string(text), `"results":[`)
	require.Contains(t, string(text), `"artifacts":[`)
	return found, merged
}

const goodGoTest = "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n"

func TestAModuleInASubfolderIsVerifiedThere(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := map[string]string{"README.md": "# x\n"}
	for name, text := range goFiles(goodGoTest) {
		files["services/api/"+name] = text
	}
	s := detected()
	s.Security.Enabled = checks.SwitchOff
	found, merged := verified(t, files, isolated(t, s))
	require.Len(t, found, 3)
	for id, o := range found {
		require.True(t, o.OK, "%s\n%s", id, o.Log)
		require.Empty(t, o.Findings)
	}
	require.Equal(t, 1, merged.Summary.Passed)
}

func TestAVendoredModuleIsVerifiedFromItsVendorFolder(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	found, merged := verified(t, vendored, isolated(t, detected()))
	for id, o := range found {
		require.True(t, o.OK, "%s\n%s", id, o.Log)
	}
	require.Equal(t, 1, merged.Summary.Passed)
}

// vendored needs a module that no module cache has.
var vendored = map[string]string{
	"go.mod":                              "module example.com/app\n\ngo 1.21\n\nrequire example.com/nowhere/dep v1.0.0\n",
	"app.go":                              "package app\n\nimport \"example.com/nowhere/dep\"\n\n// Answer is that of the dependency.\nfunc Answer() int { return dep.Answer }\n",
	"app_test.go":                         "package app\n\nimport \"testing\"\n\nfunc TestAnswer(t *testing.T) {\n\tif Answer() != 42 {\n\t\tt.Fatal()\n\t}\n}\n",
	"vendor/modules.txt":                  "# example.com/nowhere/dep v1.0.0\n## explicit; go 1.21\nexample.com/nowhere/dep\n",
	"vendor/example.com/nowhere/dep/d.go": "package dep\n\n// Answer is the answer.\nconst Answer = 42\n",
}

// workspace has two modules, one of which needs the other.
var workspace = map[string]string{
	"go.work":         "go 1.21\n\nuse (\n\t./lib\n\t./app\n)\n",
	"lib/go.mod":      "module example.com/lib\n\ngo 1.21\n",
	"lib/lib.go":      "package lib\n\n// One is 1.\nfunc One() int { return 1 }\n",
	"app/go.mod":      "module example.com/app\n\ngo 1.21\n\nrequire example.com/lib v0.0.0\n",
	"app/app_test.go": "package app\n\nimport (\n\t\"testing\"\n\n\t\"example.com/lib\"\n)\n\nfunc TestOne(t *testing.T) {\n\tif lib.One() != 1 {\n\t\tt.Fatal()\n\t}\n}\n",
}

func TestAWorkspaceOfTwoModulesIsVerified(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	found, merged := verified(t, workspace, isolated(t, detected()))
	for id, o := range found {
		require.True(t, o.OK, "%s\n%s", id, o.Log)
	}
	require.Equal(t, 1, merged.Summary.Passed)
}

func TestAnyCommandBuildsVendoredModulesAndWorkspaces(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	for name, c := range map[string]struct {
		files   map[string]string
		command string
	}{
		"vendor":    {vendored, "go build ./... && go test ./..."},
		"workspace": {workspace, "go build ./lib/... ./app/... && go test ./app/... && cd app && go vet ./..."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := runWith(t, checkout(t, c.files), "test-configured-1", isolated(t, testCommand(c.command, output.FormatExitCode, "")))
			require.True(t, o.OK, "%s", o.Log)
		})
	}
}

func TestARequirementThatGoModLacksIsSeen(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles(goodGoTest)
	files["calc/more.go"] = "package calc\n\nimport _ \"github.com/stretchr/testify/require\"\n"
	found, _ := verified(t, files, isolated(t, detected()))
	require.False(t, found["build-go"].OK, "the build changed go.mod, which nobody will commit")
	require.Contains(t, found["build-go"].Message, "calc/more.go:3")
	require.Contains(t, found["build-go"].Message, "no required module provides package")
}

func TestTwoPackagesOfAMonorepoAreBothTested(t *testing.T) {
	t.Parallel()
	needs(t, "npm")
	found, merged := verified(t, map[string]string{
		"packages/a/package.json": `{"name":"a","scripts":{"test":"node --test","build":"node -e 0"}}`, "packages/a/a.test.js": nodeTestHead + "test('in a', () => {});\n",
		"packages/b/package.json": `{"name":"b","scripts":{"test":"node --test"}}`, "packages/b/b.test.js": nodeTestHead + "test('in b', () => {\n  assert.equal(1, 2);\n});\n",
	}, isolated(t, detected()))
	require.True(t, found["build-node"].OK)
	require.Equal(t, contract.CodeTestsFailed, found["test-node-1"].Code)
	require.Equal(t, 1, merged.Summary.Passed)
	require.Equal(t, 1, merged.Summary.Failed)
	require.Contains(t, located(found["test-node-1"])[0], "packages/b/b.test.js:4")
}

// withoutPytest is an Env whose Python has no pytest.
func withoutPytest(t *testing.T) Env {
	t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "--version").Run() != nil || exec.Command(python, "-c", "import pytest").Run() == nil {
		t.Skip("needs a " + python + " without pytest")
	}
	env := isolated(t, detected())
	env.Vars = checks.WithEnv(env.Vars, map[string]string{"PATH": "/usr/bin:/bin"})
	return env
}

func TestWithoutPytestUnittestRunsWhatItCan(t *testing.T) {
	t.Parallel()
	found, merged := verified(t, map[string]string{
		"tests/test_a.py": "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_good(self):\n        pass\n",
	}, withoutPytest(t))
	require.True(t, found["test-python-1"].OK, "%s", found["test-python-1"].Log)
	require.Equal(t, 1, merged.Summary.Passed)
}

func TestTestsThatNeedPytestAreNotGreenWithoutIt(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"imports it": "import pytest\n\n\ndef test_good():\n    pass\n",
		"needs it":   "def test_good():\n    assert 1 + 1 == 2\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, merged := verified(t, map[string]string{"tests/test_a.py": text}, withoutPytest(t))
			o := found["test-python-1"]
			require.False(t, o.OK, "%s", o.Log)
			require.Contains(t, strings.Join(located(o), "\n"), "pytest, which is not installed")
			require.Zero(t, merged.Summary.Passed)
		})
	}
}

func TestARepositoryWithoutTestsSaysSo(t *testing.T) {
	t.Parallel()
	found, merged := verified(t, map[string]string{"README.md": "# x\n", "main.c": "int main(void) { return 0; }\n"}, isolated(t, detected()))
	o := found["test-none"]
	require.True(t, o.OK)
	require.Equal(t, []string{"minor : no tests were found"}, located(o))
	require.Equal(t, contract.TestSummary{}, contract.TestSummary{Passed: merged.Summary.Passed, Failed: merged.Summary.Failed})

	s := detected()
	s.RequireTests = true
	found, _ = verified(t, map[string]string{"README.md": "# x\n"}, isolated(t, s))
	require.False(t, found["test-none"].OK)
	require.Equal(t, contract.CodeNoTests, found["test-none"].Code)
}

func TestAMakefileIsEnough(t *testing.T) {
	t.Parallel()
	needs(t, "make")
	found, merged := verified(t, map[string]string{
		"Makefile": "build:\n\t@echo built\ntest:\n\t@echo 'src/a.c:3: error: wrong' >&2; exit 2\nlint:\n\t@true\n",
	}, isolated(t, detected()))
	require.True(t, found["build-make"].OK, "%s", found["build-make"].Log)
	require.True(t, found["lint-make"].OK)
	o := found["test-make-1"]
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, 1, merged.Summary.Failed)
	require.Equal(t, "make test", merged.Results[0].Name)
}

func TestATestThatPrintsWithoutEndKeepsItsResultAndABoundedLog(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles("package calc\n\nimport (\n\t\"fmt\"\n\t\"strings\"\n\t\"testing\"\n)\n\nfunc TestLoud(t *testing.T) {\n\tfor range 50_000 {\n\t\tfmt.Println(strings.Repeat(\"x\", 1000))\n\t}\n}\n\nfunc TestBad(t *testing.T) { t.Error(\"wrong\") }\n")
	files["go.mod"] = "module example.com/m\n\ngo 1.22\n"
	found, _ := verified(t, files, isolated(t, detected()))
	o := found["test-go-1"]
	require.False(t, o.OK)
	require.LessOrEqual(t, len(o.Log), maxLog+200)
	require.Contains(t, string(o.Log), "bytes omitted")
	require.Contains(t, strings.Join(located(o), "\n"), "TestBad failed: wrong")
}

func TestATestThatHangsEndsAtTheTimeLimit(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	env := isolated(t, detected())
	env.Limits.Timeout = 8 * time.Second
	root := checkout(t, goFiles("package calc\n\nimport \"testing\"\n\nfunc TestHangs(t *testing.T) {\n\tselect {}\n}\n\nfunc TestAfter(t *testing.T) {\n\tfor {\n\t}\n}\n"))
	o := runWith(t, root, "test-go-1", env)
	t.Logf("%+v", o)
	require.False(t, o.OK)
	require.Less(t, o.Duration, 12*time.Second)
	require.Contains(t, strings.Join(located(o), "\n"), "TestHangs")
}

func TestAFlakyTestIsReportedAndDoesNotFail(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	s := detected()
	s.RerunFailed = 1
	found, merged := verified(t, goFiles("package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFlaky(t *testing.T) {\n\tif _, err := os.Stat(\"seen\"); err != nil {\n\t\t_ = os.WriteFile(\"seen\", nil, 0o600)\n\t\tt.Error(\"the first time\")\n\t}\n}\n"), isolated(t, s))
	require.True(t, found["test-go-1"].OK, "%s", found["test-go-1"].Log)
	require.Equal(t, 1, merged.Summary.Flaky)
	require.Zero(t, merged.Summary.Failed)
	require.Contains(t, located(found["test-go-1"])[0], "medium calc/calc_test.go:11: example.com/m/calc.TestFlaky is flaky")
}

func TestGoVetsComplaintsAreFindings(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles(goodGoTest)
	files["calc/calc.go"] = "package calc\n\nimport \"fmt\"\n\nfunc Add(a, b int) int {\n\tfmt.Printf(\"%d\\n\", \"text\")\n\treturn a + b\n}\n"
	found, _ := verified(t, files, isolated(t, detected()))
	require.False(t, found["lint-go"].OK)
	require.Equal(t, contract.CodeCheckFailed, found["lint-go"].Code)
	require.Contains(t, located(found["lint-go"])[0], "medium calc/calc.go:6: ")
	require.True(t, found["build-go"].OK)
}

func TestPlaywrightIsShownAsAPersonWouldTypeIt(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"package.json": "{}", "tests/a.spec.js": "const { test } = require('@playwright/test');\ntest('a', () => {});\n"})
	s := detected()
	require.Equal(t, "npx playwright test --reporter=list,json --output=.rgpt-verify/playwright-root-1", plan(t, root, s).Command("test-playwright-1"))
	needs(t, "npx")
	o := runWith(t, root, "test-playwright-1", isolated(t, s))
	require.False(t, o.OK)
	require.NotContains(t, o.Message+string(o.Log), "sh -c")
	require.NotEqual(t, contract.CodeTimeout, o.Code, "npm waited for a network that is not there")
	require.Contains(t, string(o.Log), "$ npx playwright test ")
}
