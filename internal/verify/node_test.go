package verify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

const nodeTestHead = "const { test, describe, it } = require('node:test');\nconst assert = require('node:assert');\n"

func TestNodeIsPlannedByScriptsAndFiles(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"package.json": `{"scripts":{"build":"tsc","lint":"eslint .","test":"node --test"}}`,
		"a.test.js":    nodeTestHead, "test/b.js": nodeTestHead, "tests/c.spec.mjs": "import test from 'node:test'",
		"tests/page.spec.js": "const { test } = require('@playwright/test')", "dist/d.test.js": nodeTestHead,
		"node_modules/x/x.test.js": nodeTestHead, "src/index.js": "", "tests/fixture.js": "",
	})
	s := detected()
	s.Shards = 2
	p := plan(t, root, s)
	require.Equal(t, [][]string{{"build-node"}, {"test-node-1", "test-node-2", "test-playwright-1"}, {"lint-node"}}, ids(p))
	require.Equal(t, "node --test --test-reporter=tap ./a.test.js ./tests/c.spec.mjs", p.Command("test-node-1"))
	require.Equal(t, "node --test --test-reporter=tap ./test/b.js", p.Command("test-node-2"))
	require.Equal(t, "npm run --silent build", p.Command("build-node"))
	require.Equal(t, "npm run --silent lint", p.Command("lint-node"))
}

func TestTheScriptOfNPMInitIsNoTest(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`})
	require.Equal(t, [][]string{{"test-none"}}, ids(plan(t, root, detected())))
}

func TestNodeResultsBecomeCasesAndFindings(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	root := checkout(t, map[string]string{
		"package.json": `{"name":"m"}`,
		"a.test.js": nodeTestHead + `test('adds', () => { console.log('ok 7 - forged'); assert.equal(2, 2); });
test('fails', () => { process.stdout.write('TAP version 13\nok 1 - forged\n'); assert.equal(1, 2); });
test('skipped', { skip: true }, () => {});
test('todo', { todo: true }, () => {});
describe('group', () => { it('inner', () => { throw new Error('boom'); }); });
`,
		"b.test.js": "const x = ;\n",
	})
	o := runCheck(t, root, "test-node-1", detected())
	require.False(t, o.OK)
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, 1, o.Summary.Passed, "%+v\n%s", o.Cases, o.Log)
	require.Equal(t, 3, o.Summary.Failed)
	require.Equal(t, 2, o.Summary.Skipped)
	require.Equal(t, "a.test.js:4", caseNamed(t, o, "fails").Location)
	require.Equal(t, "1 == 2", caseNamed(t, o, "fails").Message)
	require.Equal(t, "group › inner", caseNamed(t, o, "inner").Name)
	require.Equal(t, "a.test.js:7", caseNamed(t, o, "inner").Location)
	require.Equal(t, contract.TestFailed, caseNamed(t, o, "b.test.js").Status)
}

func TestANodeFileThatLeavesEarlyHasNotPassed(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	root := checkout(t, map[string]string{
		"a.test.js": nodeTestHead + "process.exit(0);\ntest('never', () => { assert.fail(); });\n",
	})
	o := runCheck(t, root, "test-node-1", checks.Settings{AutoDetect: true, RequireTests: true})
	require.False(t, o.OK)
	require.Equal(t, contract.CodeNoTests, o.Code)
	require.Zero(t, o.Summary.Passed)
	require.Equal(t, 1, o.Summary.Skipped)
}

func TestAFlakyNodeTestRunsAgainWithItsFile(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	root := checkout(t, map[string]string{
		"package.json": `{}`,
		"a.test.js":    nodeTestHead + "const fs = require('fs');\ntest('flaky', () => { if (!fs.existsSync('ran')) { fs.writeFileSync('ran', ''); assert.fail('first'); } });\ntest('fine', () => {});\n",
		"b.test.js":    nodeTestHead + "test('other', () => {});\n",
	})
	s := detected()
	s.RerunFailed = 1
	o := runCheck(t, root, "test-node-1", s)
	require.True(t, o.OK, "%+v\n%s", o, o.Log)
	require.Equal(t, 1, o.Summary.Flaky)
	require.Equal(t, 2, o.Summary.Passed)
	require.Contains(t, string(o.Log), "$ node --test --test-reporter=tap ./a.test.js\n")
}

func TestTheTestScriptOfNPMRuns(t *testing.T) {
	t.Parallel()
	needs(t, "npm")
	root := checkout(t, map[string]string{
		"package.json":    `{"scripts":{"test":"node --test check/"}}`,
		"check/a.test.js": nodeTestHead + "test('adds', () => {});\ntest('bad', () => assert.fail('no'));\n",
	})
	o := runCheck(t, root, "test-node-1", detected())
	require.Equal(t, 1, o.Summary.Passed, "%s", o.Log)
	require.Equal(t, "check/a.test.js:4", caseNamed(t, o, "bad").Location)
}

func TestAScriptWithoutAReporterIsOneCase(t *testing.T) {
	t.Parallel()
	needs(t, "npm")
	root := checkout(t, map[string]string{"package.json": `{"scripts":{"test":"node check.js"}}`, "check.js": "function f() {\n  throw new Error('broken');\n}\nf();\n"})
	o := runCheck(t, root, "test-node-1", detected())
	require.False(t, o.OK)
	require.Equal(t, 1, o.Summary.Failed)
	require.Contains(t, located(o), "major check.js:2: Error: broken")
}

func TestScriptsAreRunByTheProjectsOwnPackageManager(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ manifest, lock, want string }{
		"none":              {`{"scripts":{"test":"vitest run"}}`, "", "npm run --silent test -- --reporter=default --reporter=json --outputFile.json=.rgpt-verify/node-root-1.json"},
		"a lock of pnpm":    {`{"scripts":{"test":"mocha"}}`, "pnpm-lock.yaml", "pnpm --silent run test --reporter=tap"},
		"a lock of yarn":    {`{"scripts":{"test":"jest"}}`, "yarn.lock", "yarn run test --json --outputFile=.rgpt-verify/node-root-1.json"},
		"a lock of bun":     {`{"scripts":{"test":"bun test"}}`, "bun.lock", "bun run test --reporter=junit --reporter-outfile=.rgpt-verify/node-root-1.xml"},
		"a name in words":   {`{"packageManager":"yarn@4.4.1+sha224.x","scripts":{"test":"ava"}}`, "package-lock.json", "yarn run test --tap"},
		"an unknown one":    {`{"packageManager":"rm -rf /","scripts":{"test":"tape test"}}`, "", "npm run --silent test"},
		"no package at all": {`{"packageManager":"pnpm@9","scripts":{"test":"node check.js"},"dependencies":{"x":"1"}}`, "", "pnpm --silent run test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"package.json": c.manifest}
			if c.lock != "" {
				files[c.lock] = ""
			}
			require.Equal(t, c.want, plan(t, checkout(t, files), detected()).Command("test-node-1"))
		})
	}
}

func TestAReporterIsAskedForWhereArgumentsReachTheOneRunner(t *testing.T) {
	t.Parallel()
	const tap, jest, none = " -- --reporter=tap", " -- --json --outputFile=.rgpt-verify/node-root-1.json", ""
	for _, c := range []struct{ scripts, args string }{
		{`"test":"mocha --reporter spec test/"`, tap},
		{`"test":"npm run lint && mocha","lint":"eslint ."`, tap},
		{`"test":"cross-env NODE_ENV=test c8 --reporter lcov mocha -r ts-node/register 'test/**/*.ts'"`, tap},
		{`"test":"NODE_ENV=test nyc node ./node_modules/mocha/bin/mocha.js"`, tap},
		{`"test":"npm run unit","unit":"jest --coverage"`, " -- -- --json --outputFile=.rgpt-verify/node-root-1.json"},
		{`"test":"npm run lint && yarn unit","unit":"npx jest"`, jest},
		{`"test":"mocha && npm run types","types":"tsd"`, none},      // what follows would get the arguments
		{`"test":"mocha; mocha other"`, none},                        // two runs
		{`"test":"mocha || true"`, none},                             // true would get them
		{`"test":"mocha | tee out"`, none},                           // and tee here
		{`"test":"(mocha)"`, none},                                   // a parenthesis is in between
		{`"test":"mocha > out.txt"`, none},                           // nobody would see it
		{`"test":"pnpm -r test"`, none},                              // other packages
		{`"test":"npm run test"`, none},                              // itself
		{`"test":"npm run a","a":"npm run b","b":"npm run a"`, none}, // in a circle
		{`"test":"mocha $(cat list) ${X} \"$Y\""`, tap},
		{`"test":"if mocha"`, none}, // no shell reads this
		{`"test":"vitest bench"`, none},
		{`"test":"vitest --outputFile=mine.json"`, none},
		{`"test":"pytest && jest"`, none}, // the other one's tests count too
		{`"test":"cross-env CI=1 pytest && jest"`, none},
		{`"test":"npx karma start && npm run unit","unit":"jest"`, none},
		{`"test":"npm run e2e && jest","e2e":"cypress run"`, none},
		{`"test":"pnpm exec cypress run && jest"`, none},
		{`"test":"./scripts/check.sh && jest"`, none},
		{`"test":"$CHECK && jest"`, none},
		{`"test":"node scripts/check && jest"`, none},
		{`"test":"node -r dotenv/config -e 'build()' && node --version && jest"`, jest},
		{`"test":"rimraf out && mkdir -p out && cd . && xo && npx tsc -p . && cross-env CI=1 eslint . && jest"`, jest},
		{`"test":"yarn install --frozen-lockfile && npx --yes prettier --check . && yarn build && jest","build":"tsc && cp a b"`, jest},
		{`"test":"echo starting; test -d dist || npm run build; npm run lint --if-present; mocha","build":"tsup"`, tap},
	} {
		p := plan(t, checkout(t, map[string]string{"package.json": `{"scripts":{` + c.scripts + `}}`}), detected())
		require.Equal(t, "npm run --silent test"+c.args, p.Command("test-node-1"), c.scripts)
	}
}

func TestAScriptOfPlaywrightAndAnotherRunnerIsRun(t *testing.T) {
	t.Parallel()
	p := plan(t, checkout(t, map[string]string{
		"package.json": `{"scripts":{"test":"playwright test && cypress run"}}`, "tests/a.spec.ts": "from '@playwright/test'",
	}), detected())
	require.Equal(t, [][]string{{"test-node-1", "test-playwright-1"}}, ids(p))
}

func TestAScriptOfPlaywrightAloneIsNotRunTwice(t *testing.T) {
	t.Parallel()
	p := plan(t, checkout(t, map[string]string{
		"package.json": `{"scripts":{"test":"npm run e2e","e2e":"playwright test"}}`, "tests/a.spec.ts": "from '@playwright/test'",
	}), detected())
	require.Equal(t, [][]string{{"test-playwright-1"}}, ids(p))
}

func TestScriptsOfOtherRunnersRunWithoutPlaywright(t *testing.T) {
	t.Parallel()
	const report = ".rgpt-verify/node-unit-root-1.json"
	const whole = "npm run --silent test"
	for scripts, want := range map[string]string{
		`"test":"npm run unit && npm run e2e","unit":"jest","e2e":"npx playwright test"`:                     "npm run --silent unit -- --json --outputFile=" + report,
		`"test":"npm run unit -- --ci && npm run e2e","unit":"jest","e2e":"playwright test"`:                 "npm run --silent unit -- --ci --json --outputFile=" + report,
		`"test":"yarn lint && yarn unit && yarn e2e","unit":"./u","e2e":"playwright test","lint":"x"`:        "npm run --silent lint\nnpm run --silent unit",
		`"pretest":"npm run gen","test":"pnpm run e2e && bun run unit","unit":"./u","e2e":"playwright test"`: "npm run --silent pretest\nnpm run --silent unit",
		`"test":"npm run unit && npm run e2e","unit":"./u","e2e":"cypress run"`:                              whole,
		`"test":"npm run unit && playwright test","unit":"./u"`:                                              whole,
		`"test":"npm run unit || npm run e2e","unit":"./u","e2e":"playwright test"`:                          whole,
		`"test":"npm run unit & npm run e2e","unit":"./u","e2e":"playwright test"`:                           whole,
		`"test":"A=1 npm run unit && npm run e2e","unit":"./u","e2e":"playwright test"`:                      whole,
		`"test":"npm run unit && npm run e2e","posttest":"x","unit":"./u","e2e":"playwright test"`:           whole,
		`"test":"npm --prefix a run unit && npm run e2e","unit":"./u","e2e":"playwright test"`:               whole,
	} {
		p := plan(t, checkout(t, map[string]string{
			"package.json": `{"scripts":{` + scripts + `}}`, "tests/a.spec.ts": "from '@playwright/test'",
		}), detected())
		require.Equal(t, want, p.Command("test-node-1"), scripts)
		require.Contains(t, slices.Concat(ids(p)...), "test-playwright-1", scripts)
	}
}

func TestTestsOfBuildOutputAreRunAfterABuild(t *testing.T) {
	t.Parallel()
	const cli = "import '../dist/cli.js'"
	for name, c := range map[string]struct {
		manifest, test string
		builds         bool
	}{
		"the script does not build":     {`"bin":"./dist/cli.js","scripts":{"build":"tsc","test":"mocha"}`, cli, true},
		"a path of parts":               {`"exports":{".":{"import":["./dist/a.mjs"]}},"scripts":{"build":"tsc","test":"mocha"}`, "join(root, 'dist', 'a.mjs')", true},
		"tests of sources":              {`"bin":"./dist/cli.js","scripts":{"build":"tsc","test":"mocha"}`, "import '../src/cli.js'", false},
		"an entry point in the sources": {`"main":"dist/cli.js","scripts":{"build":"tsc","test":"mocha"}`, "import '../src/dist.js'", false},
		"the script builds":             {`"bin":"./dist/cli.js","scripts":{"build":"tsc","test":"npm run build && mocha"}`, cli, false},
		"the script compiles":           {`"bin":"./dist/cli.js","scripts":{"build":"tsc","test":"tsc -p . && mocha"}`, cli, false},
		"the script checks types":       {`"bin":"./dist/cli.js","scripts":{"build":"tsc","test":"tsc --noEmit && mocha"}`, cli, true},
		"npm builds before":             {`"bin":"./dist/cli.js","scripts":{"build":"tsc","pretest":"npm run build","test":"mocha"}`, cli, false},
		"no script build":               {`"bin":"./dist/cli.js","scripts":{"test":"mocha"}`, cli, false},
		"an entry point outside":        {`"bin":"../dist/cli.js","scripts":{"build":"tsc","test":"mocha"}`, "'../..//'", false},
		"something broken":              {`"bin":7,"main":null,"scripts":{"build":"tsc","test":"mocha"}`, cli, false},
	} {
		p := plan(t, checkout(t, map[string]string{"package.json": "{" + c.manifest + "}", "test/a.js": c.test, "src/cli.js": ""}), detected())
		require.Equal(t, c.builds, strings.HasPrefix(p.Command("test-node-1"), "npm run --silent build\n"), "%s: %s", name, p.Command("test-node-1"))
	}
	p := plan(t, checkout(t, map[string]string{
		"package.json": `{"main":"dist/cli.js","scripts":{"build":"tsc"}}`, "test/a.test.js": cli, "test/b.test.js": cli, "dist/.keep": "",
	}), checks.Settings{AutoDetect: true, Shards: 2})
	for _, check := range []string{"test-node-1", "test-node-2"} {
		require.Contains(t, p.Command(check), "npm run --silent build\nnode --test ", "each shard of node's runner")
	}
	p = plan(t, checkout(t, map[string]string{
		"package.json": `{"main":"dist/cli.js","scripts":{"build":"tsc","test":"mocha"}}`, "test/a.js": cli, "dist/cli.js": "",
	}), detected())
	require.NotContains(t, p.Command("test-node-1"), "build", "the entry point is in the checkout")
}

func TestATestOfBuildOutputPasses(t *testing.T) {
	t.Parallel()
	needs(t, "npm")
	files := map[string]string{
		"package.json":    `{"main":"dist/a.cjs","scripts":{"build":"mkdir dist && cp src/a.cjs dist/","test":"node --test test/"}}`,
		"src/a.cjs":       "module.exports = 3",
		"test/a.test.cjs": "const test = require('node:test'), assert = require('node:assert')\ntest('three', () => assert.equal(require('../dist/a.cjs'), 3))",
	}
	o := runWith(t, checkout(t, files), "test-node-1", isolated(t, detected()))
	require.True(t, o.OK, o.Message)
	require.Equal(t, contract.TestPassed, caseNamed(t, o, "three").Status)
	files["package.json"] = strings.Replace(files["package.json"], "mkdir dist", "echo no compiler; false", 1)
	o = runWith(t, checkout(t, files), "test-node-1", isolated(t, detected()))
	require.False(t, o.OK)
	require.Zero(t, o.Summary.Passed+o.Summary.Failed, "without a build, no test is judged")
}

// printing answers the script of a project with an output.
func printing(t *testing.T, script, stdout, stderr string, exit int) Outcome {
	t.Helper()
	root := checkout(t, map[string]string{"package.json": `{"scripts":{"lint":"x","test":` + script + `}}`})
	return runWith(t, root, "test-node-1", Env{Runner: always(sandbox.Result{ExitCode: exit, Stdout: []byte(stdout), Stderr: []byte(stderr)}), Settings: detected()})
}

func recorded(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("output", "testdata", file))
	require.NoError(t, err)
	return string(data)
}

func TestCompoundScriptsCountWhatTheirRunnersPrint(t *testing.T) {
	t.Parallel()
	o := printing(t, `"vitest run && tsd"`, recorded(t, "runners/vitest.txt"), "", 1)
	require.Equal(t, contract.TestSummary{Passed: 4, Failed: 2, Skipped: 3}, withoutTime(o.Summary))
	require.Equal(t, contract.TestFailed, caseNamed(t, o, "calc › inner › throws").Status)
	named, sums, _ := strings.Cut(recorded(t, "runners/vitest.txt"), " Test Files ")
	o = printing(t, `"vitest run && tsd"`, " Test Files "+sums, named, 1)
	require.Equal(t, contract.TestFailed, caseNamed(t, o, "calc › fails").Status, "vitest names failures on stderr")
	o = printing(t, `"vitest run && jest && tsd"`, recorded(t, "runners/vitest.txt"), recorded(t, "runners/jest.txt"), 1)
	require.Equal(t, contract.TestSummary{Passed: 7, Failed: 5, Skipped: 5}, withoutTime(o.Summary), "two runners in one script add up")
	o = printing(t, `"pnpm -r test"`, prefixed("packages/a test: ", recorded(t, "runners/mocha-spec.txt"))+prefixed("packages/b test: ", recorded(t, "runners/uvu.txt")), "", 1)
	require.Equal(t, contract.TestSummary{Passed: 5, Failed: 5, Skipped: 3}, withoutTime(o.Summary), "as do the packages of a workspace")
	require.False(t, o.OK)
}

func prefixed(prefix, text string) string {
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
}

func withoutTime(s contract.TestSummary) contract.TestSummary {
	s.DurationMS = 0
	return s
}

func TestALintThatFailsBeforeTheTestsIsNoTest(t *testing.T) {
	t.Parallel()
	o := printing(t, `"npm run lint && vitest run"`, "", "src/a.ts: bad\n", 1)
	require.False(t, o.OK)
	require.Equal(t, contract.TestSummary{}, withoutTime(o.Summary))
	require.Contains(t, o.Message, "without running a test")
	o = printing(t, `"vitest run && tsd"`, "      Tests  4 passed (4)\n", "tsd failed\n", 1)
	require.False(t, o.OK, "what fails after the tests makes the check fail")
	require.Equal(t, contract.TestSummary{Passed: 4}, withoutTime(o.Summary))
	require.Contains(t, o.Message, "although no test failed")
}

func TestTheReportOfARunnerSaysWhichTestsItsSumsAreOf(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"package.json": `{"scripts":{"test":"vitest"}}`})
	runner := &cannedRunner{answer: func(_ int, c sandbox.Command) (sandbox.Result, error) {
		return sandbox.Result{ExitCode: 1}, os.WriteFile(filepath.Join(root, reportOf(c)), []byte(recorded(t, "jest/vitest.json")), 0o600)
	}}
	o := runWith(t, root, "test-node-1", Env{Runner: runner, Settings: detected()})
	require.Equal(t, contract.TestSummary{Passed: 4, Failed: 2, Skipped: 3}, withoutTime(o.Summary))
	require.Equal(t, "a.test.js:4", caseNamed(t, o, "calc › fails").Location)
	require.Contains(t, located(o), "major b.test.js: the test file failed outside of its tests: Expression expected")

	o = runWith(t, root, "test-node-1", Env{Runner: always(sandbox.Result{ExitCode: 1, Stdout: []byte(recorded(t, "runners/vitest.txt"))}), Settings: detected()})
	require.Equal(t, contract.TestSummary{Passed: 4, Failed: 2, Skipped: 3}, withoutTime(o.Summary), "without a report, what is printed counts")
}

func TestGivenNodePackagesAreReadOnlyAndFound(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"playwright.config.js": "", "tests/a.spec.js": "require('@playwright/test')", "package.json": "{}"})
	runner := always(sandbox.Result{ExitCode: 1})
	runWith(t, root, "test-playwright-1", Env{
		Runner: runner, Settings: detected(), NodeModules: "/srv/worker/packages",
		Vars: map[string]string{"PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH": "/usr/bin/chromium"},
	})
	c := runner.commands[0]
	require.Equal(t, []sandbox.Mount{{Host: "/srv/worker/packages", Inside: "/opt/node_modules"}}, c.Mounts)
	require.Equal(t, "/opt/node_modules", c.Env["NODE_PATH"])
	require.Equal(t, "/opt/node_modules", c.Env["RGPT_NODE_MODULES"])
	require.Equal(t, "/usr/bin/chromium", c.Env["PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH"])
	target, err := os.Readlink(filepath.Join(root, "node_modules"))
	require.NoError(t, err)
	require.Equal(t, "/opt/node_modules", target)
}

func TestPackagesOfTheCheckoutCountBeforeGivenOnes(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"a.test.js": nodeTestHead, "node_modules/own/index.js": ""})
	runWith(t, root, "test-node-1", Env{Runner: always(sandbox.Result{}), Settings: detected(), NodeModules: "/opt/node_modules"})
	info, err := os.Lstat(filepath.Join(root, "node_modules"))
	require.NoError(t, err)
	require.True(t, info.IsDir())
}

func TestPlaywrightShardsByItself(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"playwright.config.ts": "", "package.json": `{"scripts":{"test":"playwright test"}}`,
		"tests/a.spec.ts": "from '@playwright/test'", "tests/b.spec.ts": "from '@playwright/test'",
	})
	s := detected()
	s.Shards = 4
	p := plan(t, root, s)
	require.Equal(t, [][]string{{"test-playwright-1", "test-playwright-2"}}, ids(p))
	require.Contains(t, p.Command("test-playwright-2"), "--shard=2/2")
	require.Contains(t, p.Command("test-playwright-2"), "--output=.rgpt-verify/playwright-root-2")
}
