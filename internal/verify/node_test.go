package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
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
	o := runCheck(t, root, "test-node-1", Settings{AutoDetect: true, RequireTests: true})
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

func TestMissingDependenciesSayWhatToAllow(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"package.json":      `{"dependencies":{"left-pad":"1"},"scripts":{"test":"node --test"}}`,
		"package-lock.json": "{}", "a.test.js": nodeTestHead,
	})
	o := runCheck(t, root, "build-node", detected())
	require.True(t, o.OK)
	require.Len(t, o.Findings, 1)
	require.Equal(t, contract.SeverityMedium, o.Findings[0].Severity)
	require.Contains(t, o.Findings[0].Message, "set verification.build.network to the hosts")

	s := detected()
	s.Build.Network = Hosts{"registry.npmjs.org"}
	p := plan(t, root, s)
	require.Equal(t, "npm ci --prefer-offline", p.Command("build-node"))
	require.Equal(t, "npm ci --prefer-offline\nnode --test --test-reporter=tap ./a.test.js", p.Command("test-node-1"))

	runner := always(sandbox.Result{ExitCode: 1, Stderr: []byte("npm error code EUSAGE\n")})
	o = runWith(t, root, "test-node-1", Env{Runner: runner, Settings: s, Proxy: noting(nil)})
	require.False(t, o.OK)
	require.Len(t, runner.commands, 1, "tests do not run when the installation failed")
	require.NotNil(t, runner.commands[0].Proxy)
	require.Contains(t, o.Message, "EUSAGE")
}

func TestGivenPackagesNeedNoInstallation(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"package.json": `{"dependencies":{"left-pad":"1"}}`, "package-lock.json": "{}"})
	for _, network := range []Hosts{nil, {"registry.npmjs.org"}} {
		s := detected()
		s.Build.Network = network
		runner := always(sandbox.Result{})
		o := runWith(t, root, "build-node", Env{Runner: runner, Settings: s, NodeModules: "/opt/node_modules"})
		require.True(t, o.OK)
		require.Empty(t, o.Findings)
		require.Empty(t, runner.commands)
	}
}

func TestOnlyTheInstallationGetsTheNetworkOfTheBuild(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"package.json":      `{"dependencies":{"left-pad":"1"}}`,
		"package-lock.json": "{}", "a.test.js": nodeTestHead,
	})
	s := detected()
	s.Build.Network = Hosts{"registry.npmjs.org"}
	runner := always(sandbox.Result{Stdout: []byte("TAP version 13\nok 1 - a\n1..1\n")})
	var asked [][]string
	o := runWith(t, root, "test-node-1", Env{Runner: runner, Settings: s, Proxy: noting(&asked), CACertificates: []byte("pem")})
	require.True(t, o.OK)
	require.NotNil(t, runner.commands[0].Proxy)
	require.Equal(t, "pem", string(runner.commands[0].CACertificates))
	require.Nil(t, runner.commands[1].Proxy)
	require.Equal(t, [][]string{{"registry.npmjs.org"}}, asked)
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
