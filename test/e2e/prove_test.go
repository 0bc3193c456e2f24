package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// language is how one language says what the runs about new tests need.
type language struct {
	repo                     map[string]string
	code, wrong, right       string // a file, and what its mistake is and should be
	tests                    string // the file of the new tests
	head, honest, vacuous    string // of that file
	vacuousTest, strictCheck string // what makes the second a test of the fix, from and to
	first, second            string // names of the two
	run                      string // the command that runs them
}

var (
	inGo = language{
		repo: map[string]string{
			"go.mod": "module example.com/sign\n\ngo 1.21\n", "sign.go": "package sign\n\n// Sign is the sign of a number.\nfunc Sign(n int) int {\n\treturn 1\n}\n",
			"sign_test.go": "package sign\n\nimport \"testing\"\n\nfunc TestPositive(t *testing.T) {\n\tif Sign(4) != 1 {\n\t\tt.Fatal(\"four\")\n\t}\n}\n",
		},
		code: "sign.go", wrong: "\treturn 1\n", right: "\tif n < 0 {\n\t\treturn -1\n\t}\n\treturn 1\n", tests: "negative_test.go",
		head:        "package sign\n\nimport \"testing\"\n",
		honest:      "\nfunc TestNegative(t *testing.T) {\n\tif Sign(-4) != -1 {\n\t\tt.Fatal(\"minus four\")\n\t}\n}\n",
		vacuous:     "\nfunc TestMinusOne(t *testing.T) {\n\tif Sign(1) != 1 {\n\t\tt.Fatal(\"one\")\n\t}\n}\n",
		vacuousTest: "Sign(1) != 1", strictCheck: "Sign(-1) != -1", first: "TestNegative", second: "TestMinusOne", run: "go test -json -count=1 -run",
	}
	inNode = language{
		repo: map[string]string{
			"package.json": "{\"name\": \"sign\", \"version\": \"1.0.0\"}\n", "sign.js": "exports.sign = (n) => 1;\n",
			"sign.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { sign } = require('./sign.js');\n\ntest('positive', () => assert.equal(sign(4), 1));\n",
		},
		code: "sign.js", wrong: "=> 1", right: "=> (n < 0 ? -1 : 1)", tests: "negative.test.js",
		head:        "const test = require('node:test');\nconst assert = require('node:assert');\nconst { sign } = require('./sign.js');\n\n",
		honest:      "test('negative', () => assert.equal(sign(-4), -1));\n",
		vacuous:     "test('minus one', () => assert.equal(sign(1), 1));\n",
		vacuousTest: "sign(1), 1", strictCheck: "sign(-1), -1", first: "negative", second: "minus one", run: "node --test --test-reporter=tap ./negative.test.js",
	}
)

func (l language) makes(tests string) harness.Call {
	return call("create_file", "path", l.tests, "content", l.head+tests)
}

func (l language) fix() harness.Call {
	return call("edit_file", "path", l.code, "old_text", l.wrong, "new_text", l.right)
}

func oneStep(calls ...harness.Call) harness.Rules {
	return harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{append(calls, harness.Finish("did it"))}})
}

// proofCase is a change with new tests, and what becomes of it.
type proofCase struct {
	rules    func(l language) harness.Rules
	args     []string
	status   contract.Status
	unproven []string // kinds of new tests in open findings: first or second
	severity contract.Severity
	heals    []string
	ran      bool // the new tests ran without the change
	nodeOnly bool
}

const enforced = "verification.prove_new_tests=enforce"

var proofCases = map[string]proofCase{
	"honest": {
		rules:  func(l language) harness.Rules { return oneStep(l.fix(), l.makes(l.honest)) },
		args:   []string{"--set", enforced},
		status: contract.StatusDone, ran: true,
	},
	"vacuous": {
		rules:  func(l language) harness.Rules { return oneStep(l.fix(), l.makes(l.honest+l.vacuous)) },
		status: contract.StatusDone, unproven: []string{"second"}, severity: contract.SeverityMedium, ran: true,
	},
	"vacuous-mended": {
		rules: func(l language) harness.Rules {
			return first(oneStep(l.fix(), l.makes(l.honest+l.vacuous)), rule(on("agent", "repair"),
				calls(call("edit_file", "path", l.tests, "old_text", l.vacuousTest, "new_text", l.strictCheck), harness.Finish("it fails without the fix now")), 300))
		},
		args:   []string{"--set", enforced},
		status: contract.StatusDone, heals: []string{"ASSERTION_ERROR findings repair success"}, ran: true, nodeOnly: true,
	},
	"vacuous-stays": {
		rules: func(l language) harness.Rules {
			return first(oneStep(l.fix(), l.makes(l.vacuous)), rule(on("agent", "repair"), calls(call("delete_file", "path", l.tests), harness.Finish("gone")), 300))
		},
		args:   []string{"--set", enforced, "--set", helpInTime},
		status: contract.StatusFailed, unproven: []string{"second"}, severity: contract.SeverityMajor, ran: true,
		heals: []string{"ASSERTION_ERROR findings repair failed", "ASSERTION_ERROR findings ask_person failed"},
	},
	"only-tests": {
		rules:  func(l language) harness.Rules { return oneStep(l.makes(l.vacuous)) },
		args:   []string{"--set", enforced},
		status: contract.StatusDone,
	},
	"off": {
		rules:  func(l language) harness.Rules { return oneStep(l.fix(), l.makes(l.vacuous)) },
		args:   []string{"--set", "verification.prove_new_tests=off"},
		status: contract.StatusDone, nodeOnly: true,
	},
}

// TestANewTestForAFixMustFailWithoutIt runs changes with honest and with vacuous
// new tests on one real stack.
func TestANewTestForAFixMustFailWithoutIt(t *testing.T) {
	t.Parallel()
	languages := map[string]language{"go": inGo, "node": inNode}
	var rules harness.Rules
	for lang, l := range languages {
		for name, c := range proofCases {
			rules = append(rules, c.rules(l).Named("prove-"+lang+"-"+name)...)
		}
	}
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	t.Run("side by side", func(t *testing.T) {
		for lang, l := range languages {
			for name, c := range proofCases {
				if lang == "go" && c.nodeOnly {
					continue // takes long, and differs in nothing
				}
				t.Run(lang+"-"+name, parallel(func(t *testing.T) { w.proves(t, "prove-"+lang+"-"+name, l, c) }))
			}
		}
	})
	slices.Sort(w.runs)
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

func (w *stackTests) proves(t *testing.T, name string, l language, c proofCase) {
	t.Helper()
	id := w.startIn(t, harness.Repo(t, filepath.Join(w.Dir, "repo-"+name), l.repo), name, c.args...)
	// Each run compiles twice what Go brings along; beside other work that takes long.
	ended := w.AwaitEnd(t, w.Store(t), id, 5*longest)
	require.Equal(t, c.status, ended.Status, "%v", ended.Failure)
	run := w.Inspect(t, id)
	require.Equal(t, c.heals, healsOf(run))
	named := map[string]string{"first": l.first, "second": l.second}
	var open []store.Finding
	for _, f := range run.Findings {
		if f.Rule == pin.RuleUnproven && !f.Resolved {
			open = append(open, f)
		}
	}
	require.Len(t, open, len(c.unproven), "%v", open)
	for i, f := range open {
		require.Contains(t, f.Message, named[c.unproven[i]]+" also passes without the change")
		require.Equal(t, c.severity, f.Severity)
		require.Equal(t, contract.CategoryTest, f.Category)
		require.Contains(t, f.Location, l.tests+":")
	}
	log := slices.IndexFunc(run.Artifacts, func(a contract.Artifact) bool { return a.Name == "tester/1/new-tests/output.log" })
	require.Equal(t, c.ran, log >= 0)
	if c.ran {
		text := w.OK(t, "run", "artifacts", arg(id), "--get", "tester/1/new-tests/output.log").Stdout
		require.Contains(t, text, "$ "+l.run, "only the new tests run")
	}
}
