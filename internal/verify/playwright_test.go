package verify

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// withPlaywright is an Env with Playwright and the browser of this machine.
func withPlaywright(t testing.TB, s checks.Settings) Env {
	t.Helper()
	needs(t, "npm")
	needs(t, "chromium")
	env := isolated(t, s)
	const script = "../../examples/node-packages.sh"
	out, err := exec.Command(script).CombinedOutput()
	if err != nil {
		t.Skipf("Playwright cannot be installed: %v\n%s", err, out)
	}
	where, err := exec.Command(script, "--where").Output()
	require.NoError(t, err)
	env.NodeModules = strings.TrimSpace(string(where))
	env.Limits.Timeout = 2 * time.Minute
	return env
}

const (
	playwrightCJS = "const { test, expect } = require('@playwright/test');\n"
	playwrightESM = "import { test, expect } from '@playwright/test';\n"

	// pageTests open a page: one passes, one fails.
	pageTests = `test('good', async ({ page }) => {
  await page.setContent('<h1>Hello</h1>');
  await expect(page.locator('h1')).toHaveText('Hello');
});
test('bad', async ({ page }) => {
  await page.setContent('<h1>Hello</h1>');
  await expect(page.locator('h1')).toHaveText('Bye', { timeout: 100 });
});
`
	keepsNothing = `trace: 'off', screenshot: 'off', video: 'off'`
)

// kept are the types of the artifacts of a test, by the name of its directory.
func kept(o Outcome) map[string][]contract.ArtifactType {
	out := map[string][]contract.ArtifactType{}
	for _, a := range o.Artifacts {
		if slices.Contains([]contract.ArtifactType{contract.ArtifactScreenshot, contract.ArtifactVideo, contract.ArtifactTrace}, a.Type) {
			out[path.Dir(a.Name)] = append(out[path.Dir(a.Name)], a.Type)
		}
	}
	for _, types := range out {
		slices.Sort(types)
	}
	return out
}

// requireKept checks that the failed test, and only that one, left a screenshot, a trace, and a
// video if this machine can record one.
func requireKept(t *testing.T, o Outcome) {
	t.Helper()
	require.Equal(t, contract.TestSummary{Passed: 1, Failed: 1}, withoutTime(o.Summary), "%s", o.Log)
	want := []contract.ArtifactType{contract.ArtifactScreenshot, contract.ArtifactTrace}
	if _, err := exec.LookPath("ffmpeg"); err == nil {
		want = append(want, contract.ArtifactVideo)
	} else {
		require.Contains(t, strings.Join(located(o), "\n"), "minor : No videos of failed tests: ffmpeg is not installed")
	}
	folders := kept(o)
	require.Len(t, folders, 1, "%v\n%s", folders, o.Log)
	for _, types := range folders {
		require.Equal(t, want, slices.Compact(types), "%s", o.Log) // each run takes a screenshot
	}
}

func TestAFailedBrowserTestKeepsItsEvidenceWhateverItsConfigurationSays(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"no configuration": {"package.json": "{}", "tests/a.spec.js": playwrightCJS + pageTests},
		"CommonJS": {
			"package.json":         "{}",
			"playwright.config.js": "module.exports = { testDir: 'e2e', outputDir: 'elsewhere', preserveOutput: 'never', reporter: 'dot', use: { " + keepsNothing + " } };\n",
			"e2e/a.spec.js":        playwrightCJS + pageTests,
		},
		"TypeScript with projects": {
			"package.json": "{}",
			"playwright.config.ts": "import { defineConfig, devices } from '@playwright/test';\nexport default defineConfig({ testDir: './e2e', use: { trace: 'retain-on-failure' },\n" +
				"  projects: [{ name: 'desktop', outputDir: './mine', use: { ...devices['Desktop Chrome'], " + keepsNothing + " } }] });\n",
			"e2e/a.spec.ts": playwrightESM + pageTests,
		},
		"ES module": {
			"package.json":         `{"type":"module"}`,
			"playwright.config.ts": "import { defineConfig } from '@playwright/test';\nimport { dir } from './settings';\nexport default defineConfig({ testDir: dir, use: { " + keepsNothing + " } });\n",
			"settings.ts":          "export const dir: string = './e2e';\n",
			"e2e/a.spec.ts":        playwrightESM + pageTests,
		},
		"mjs": {"package.json": "{}", "playwright.config.mjs": "export default { testDir: 'e2e', use: { trace: { mode: 'off' }, video: { mode: 'on-first-retry', size: { width: 640, height: 480 } } } };\n", "e2e/a.spec.mjs": playwrightESM + pageTests},
		"named by the script of a package": {
			"package.json":                       `{"workspaces":["apps/*"]}`,
			"apps/web/package.json":              `{"type":"module","scripts":{"test":"npm run e2e","e2e":"playwright test -c config/browser.config.cjs"}}`,
			"apps/web/config/browser.config.cjs": "module.exports = { testDir: '../e2e', use: { " + keepsNothing + " } };\n",
			"apps/web/e2e/a.spec.js":             playwrightESM + pageTests,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := withPlaywright(t, rerunning(1))
			root := checkout(t, files)
			o := runWith(t, root, "test-playwright-1", env)
			requireKept(t, o)
			hidden, err := filepath.Glob(filepath.Join(root, "*", "*", "*", ".rgpt-*.config.*"))
			require.NoError(t, err)
			top, err := filepath.Glob(filepath.Join(root, ".rgpt-*.config.*"))
			require.NoError(t, err)
			require.Empty(t, append(hidden, top...), "the generated configuration is removed")
		})
	}
}

func TestAFailedBrowserTestThatDoesNotRunAgainKeepsItsEvidence(t *testing.T) {
	t.Parallel()
	always := rerunning(1)
	always.Recordings = checks.RecordAlways
	for name, s := range map[string]checks.Settings{"no re-runs": detected(), "recorded always": always} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireKept(t, runWith(t, checkout(t, map[string]string{
				"package.json": "{}", "e2e/a.spec.js": playwrightCJS + pageTests,
				"playwright.config.js": "module.exports = { testDir: 'e2e', preserveOutput: 'never', projects: [{ name: 'p', use: { " + keepsNothing + " } }] };\n",
			}), "test-playwright-1", withPlaywright(t, s)))
		})
	}
}

// keptModes is a test that compares the settings that it runs with.
func keptModes(trace, screenshot, preserve string) string {
	return playwrightCJS + fmt.Sprintf(`test('modes', ({}, info) => {
  const { trace, screenshot } = info.project.use;
  expect({ trace, screenshot, preserve: info.config.preserveOutput }).toEqual({ trace: %s, screenshot: %s, preserve: '%s' });
});
`, trace, screenshot, preserve)
}

func TestWithoutRerunsWhatARepositoryKeepsBeyondFailuresIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ use, trace, screenshot string }{
		"nothing":       {"", "'retain-on-failure'", "'only-on-failure'"},
		"everything":    {"trace: 'on', screenshot: 'on'", "'on'", "'on'"},
		"retries":       {"trace: 'on-first-retry'", "'retain-on-failure-and-retries'", "'only-on-failure'"},
		"old spelling":  {"trace: 'retry-with-trace'", "'retain-on-failure-and-retries'", "'only-on-failure'"},
		"first failure": {"trace: 'retain-on-first-failure', screenshot: 'on-first-failure'", "'retain-on-first-failure'", "'on-first-failure'"},
		"with options":  {"trace: { mode: 'off', sources: false }, screenshot: { mode: 'off', fullPage: true }", "{ mode: 'retain-on-failure', sources: false }", "{ mode: 'only-on-failure', fullPage: true }"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := runWith(t, checkout(t, map[string]string{
				"package.json": "{}", "playwright.config.js": "module.exports = { use: { " + c.use + " } };\n", "tests/a.spec.js": keptModes(c.trace, c.screenshot, "always"),
			}), "test-playwright-1", withPlaywright(t, detected()))
			require.True(t, o.OK, "%s", o.Log)
			require.Empty(t, o.Findings)
		})
	}
}

func TestPathsInAPlaywrightConfigurationMeanWhatTheyMeantBefore(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"package.json": `{"type":"module"}`, "web/package.json": `{"type":"module"}`,
		"web/playwright.config.ts": `import { defineConfig } from '@playwright/test';
export default defineConfig({
  testDir: './e2e', snapshotDir: './shots', globalSetup: './setup.ts', preserveOutput: 'never',
  webServer: { command: 'node server.js', cwd: './server', url: 'http://127.0.0.1:4179/' },
});
`,
		"web/setup.ts":                 "export default () => { process.env.SET_UP = 'yes'; };\n",
		"web/server/server.js":         "import http from 'node:http';\nhttp.createServer((_, r) => r.end('served')).listen(4179, '127.0.0.1');\n",
		"web/shots/a.spec.ts/text.txt": "served",
		"web/e2e/a.spec.ts": playwrightESM + `import path from 'node:path';
test('paths', async ({ request }, info) => {
  expect(process.env.SET_UP).toBe('yes');
  expect(await (await request.get('http://127.0.0.1:4179/')).text()).toMatchSnapshot(['a.spec.ts', 'text.txt'].slice(1));
  expect(path.dirname(info.config.configFile)).toBe(path.join(process.cwd()));
  expect(path.relative(process.cwd(), info.project.testDir)).toBe('e2e');
  expect(info.config.preserveOutput).toBe('failures-only');
});
`,
	}
	files["web/playwright.config.ts"] = strings.Replace(files["web/playwright.config.ts"], "snapshotDir: './shots'", "snapshotPathTemplate: './shots/{testFilePath}/{arg}{ext}'", 1)
	o := runWith(t, checkout(t, files), "test-playwright-1", withPlaywright(t, detected()))
	require.True(t, o.OK, "%s", o.Log)
	require.Equal(t, 1, o.Summary.Passed)
}

func TestABrowserThatTheRepositoryNamesIsUsed(t *testing.T) {
	t.Parallel()
	o := runWith(t, checkout(t, map[string]string{
		"package.json": "{}", "playwright.config.js": "module.exports = { use: { launchOptions: { executablePath: '/opt/none/chromium' } } };\n",
		"tests/a.spec.js": playwrightCJS + pageTests,
	}), "test-playwright-1", withPlaywright(t, detected()))
	require.Equal(t, contract.TestSummary{Failed: 2}, withoutTime(o.Summary))
	require.Contains(t, string(o.Log), "/opt/none/chromium")
}

// onlyNode is an Env with Playwright whose PATH contains nothing but node.
func onlyNode(t *testing.T) Env {
	t.Helper()
	env := withPlaywright(t, detected())
	node, err := exec.LookPath("node")
	require.NoError(t, err)
	tools := t.TempDir()
	require.NoError(t, os.Symlink(node, filepath.Join(tools, "node")))
	env.Vars = checks.WithEnv(env.Vars, map[string]string{"PATH": "/opt/tools"})
	env.Mounts = append(env.Mounts, sandbox.Mount{Host: tools, Inside: "/opt/tools"})
	return env
}

func TestVideosThatCannotBeRecordedFailNoTest(t *testing.T) {
	t.Parallel()
	env := onlyNode(t)
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err)
	env.Vars = checks.WithEnv(env.Vars, map[string]string{"RGPT_CHROMIUM": chromium})
	o := runWith(t, checkout(t, map[string]string{
		"package.json": "{}", "tests/a.spec.js": playwrightCJS + pageTests,
		"playwright.config.js": "module.exports = { use: { video: 'on' }, projects: [{ name: 'p', use: { video: { mode: 'retain-on-failure' } } }] };\n",
	}), "test-playwright-1", env)
	require.Equal(t, contract.TestSummary{Passed: 1, Failed: 1}, withoutTime(o.Summary), "%s", o.Log)
	require.Contains(t, strings.Join(located(o), "\n"), "No videos of failed tests: ffmpeg is not installed")
}

func TestWithoutABrowserTheResultSaysWhatToDo(t *testing.T) {
	t.Parallel()
	env := onlyNode(t)
	o := runWith(t, checkout(t, map[string]string{"package.json": "{}", "tests/a.spec.js": playwrightCJS + pageTests}), "test-playwright-1", env)
	require.Equal(t, contract.TestSummary{Failed: 2}, withoutTime(o.Summary), "%s", o.Log)
	require.Contains(t, strings.Join(located(o), "\n"), "There is no Chromium for Playwright 1.")
	require.Contains(t, strings.Join(located(o), "\n"), "apt-get install chromium")
}

func TestAConfigurationThatPlaywrightRefusesIsReportedAsBefore(t *testing.T) {
	t.Parallel()
	o := runWith(t, checkout(t, map[string]string{
		"package.json": "{}", "playwright.config.js": "module.exports = () => ({});\n", "tests/a.spec.js": playwrightCJS + pageTests,
	}), "test-playwright-1", withPlaywright(t, detected()))
	require.False(t, o.OK)
	require.Contains(t, string(o.Log), "must export a single object")
}

func TestWithoutTheOverlayTheResultSaysSo(t *testing.T) {
	t.Parallel()
	o := runWith(t, checkout(t, map[string]string{
		"package.json": "{}", "tests/a.spec.js": playwrightCJS + pageTests, "playwright.config.js": "module.exports = {};\n",
		".rgpt-playwright.config.js/in-the-way.txt": "",
	}), "test-playwright-1", withPlaywright(t, detected()))
	require.Equal(t, 1, o.Summary.Failed+o.Summary.Passed-1, "%s", o.Log)
	require.Contains(t, strings.Join(located(o), "\n"), "Failed tests keep only what the repository's own configuration asks for")
}

func TestPlaywrightRunsTheConfigurationsThatTheTestScriptNames(t *testing.T) {
	t.Parallel()
	spec := "from '@playwright/test'"
	for name, c := range map[string]struct {
		files    map[string]string
		commands []string
	}{
		"one": {
			map[string]string{"package.json": `{"scripts":{"test":"playwright test --config=e2e/pw.ts"}}`, "e2e/pw.ts": "", "e2e/a.spec.ts": spec, "playwright.config.ts": ""},
			[]string{"--config=e2e/pw.ts"},
		},
		"several": {
			map[string]string{"package.json": `{"scripts":{"test":"playwright test -c a.config.ts && playwright test -c b.config.ts"}}`, "a.config.ts": "", "b.config.ts": "", "t/a.spec.ts": spec},
			[]string{"--config=a.config.ts", "--config=b.config.ts"},
		},
		"a directory": {
			map[string]string{"package.json": `{"scripts":{"test":"playwright test -c e2e"}}`, "e2e/playwright.config.ts": "", "e2e/a.spec.ts": spec},
			[]string{"--config=e2e"},
		},
		"one that is missing": {
			map[string]string{"package.json": `{"scripts":{"test":"playwright test -c gone.ts"}}`, "playwright.config.ts": "", "e2e/a.spec.ts": spec},
			[]string{"npx playwright test --reporter=list,json --output=.rgpt-verify/playwright-root-1"},
		},
		"one outside": {
			map[string]string{"package.json": `{"scripts":{"test":"playwright test -c ../../etc/x.ts"}}`, "playwright.config.ts": "", "e2e/a.spec.ts": spec},
			[]string{"npx playwright test --reporter=list,json --output=.rgpt-verify/playwright-root-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commands := strings.Split(plan(t, checkout(t, c.files), detected()).Command("test-playwright-1"), "\n")
			require.Len(t, commands, len(c.commands), "%s", commands)
			outputs := map[string]bool{}
			for n, command := range commands {
				require.Contains(t, command, c.commands[n])
				outputs[strings.SplitAfter(command, "--output=")[1]] = true
			}
			require.Len(t, slices.Collect(maps.Keys(outputs)), len(commands), "each has files of its own")
		})
	}
}

func TestBrowserTestsRunAfterABuildUnlessTheirServerCompiles(t *testing.T) {
	t.Parallel()
	const scripts = `"build":"vite build","dev":"vite","start":"node server.mjs","site":"npm run build && serve dist"`
	for config, builds := range map[string]bool{
		"webServer: { command: 'npm run start', port: 3000 }":                                  true,
		"webServer: { command: \"npx vite preview\" }":                                         true,
		"webServer: {\n command: `yarn start`,\n}":                                             true,
		"webServer: { command: process.env.CI ? 'vite preview' : 'vite dev' }":                 true,
		"webServer: [{ command: 'npm run dev' }, { command: 'npm start -- --port 1' }]":        true,
		"webServer: {\n command: process.env.CI\n ? 'vite preview'\n : 'vite dev', url: 'x' }": true,
		"webServer: { command: 'npm run dev', url: 'http://localhost:3000' }":                  false,
		"webServer: serverFromElsewhere":                                                       true,
		"use: {}":                                                                              true,
		"webServer: { command: 'npm run dev -- --port 3000' }":                                 false,
		"webServer: { command: 'npm run site' }":                                               false,
		"webServer: { command: 'pnpm build && pnpm start' }":                                   false,
		"webServer: [{ command: 'npm run dev' }, { command: 'next dev --turbo' }]":             false,
		"// import { defineConfig } from '@playwright/experimental-ct-react'\nuse: {}":         false,
	} {
		s := detected()
		s.Shards = 2
		p := plan(t, checkout(t, map[string]string{
			"package.json": `{"scripts":{` + scripts + `}}`, "playwright.config.ts": config,
			"tests/a.spec.ts": playwrightESM, "tests/b.spec.ts": playwrightESM,
		}), s)
		for _, id := range []string{"test-playwright-1", "test-playwright-2"} {
			require.Equal(t, builds, strings.HasPrefix(p.Command(id), "npm run --silent build\nnpx playwright test"), "%s: %s", config, p.Command(id))
		}
	}
	p := plan(t, checkout(t, map[string]string{
		"package.json": `{"scripts":{"build":"x"}}`, "e2e/package.json": "{}", "e2e/playwright.config.ts": "", "e2e/a.spec.ts": playwrightESM,
	}), detected())
	require.Contains(t, p.Command("test-playwright-1"), "npm run --silent build\n(cd e2e &&", "the package around the tests is built")
}

func TestTestsOfPlaywrightAreFoundByWhatTheyAreWrittenFor(t *testing.T) {
	t.Parallel()
	const (
		fixtures = "import { test } from '../fixtures';\ntest('a', async ({ page }) => {})\n"
		unit     = "import { test } from 'vitest';\ntest('a', () => {})\n"
		helper   = "import { expect } from '@playwright/test';\n"
	)
	for name, c := range map[string]struct {
		files  map[string]string
		shards int
	}{
		"names of its own":         {map[string]string{"playwright.config.ts": "testMatch: /_tests\\.js/", "t/a_tests.js": playwrightESM + "test('a', () => {})", "t/b_tests.js": playwrightESM + "test('b', () => {})"}, 2},
		"helpers":                  {map[string]string{"playwright.config.ts": "testMatch: /_tests\\.js/", "t/a_tests.js": playwrightESM + "test('a', () => {})", "t/h.js": helper}, 1},
		"no testMatch":             {map[string]string{"playwright.config.ts": "", "t/a_tests.js": playwrightESM + "test('a', () => {})"}, 0},
		"a fixture of its own":     {map[string]string{"playwright.config.ts": "", "t/a.spec.ts": fixtures, "t/b.spec.ts": fixtures, "src/c.test.ts": unit}, 2},
		"without a configuration":  {map[string]string{"t/a.spec.ts": fixtures}, 0},
		"outside of the directory": {map[string]string{"e2e/playwright.config.ts": "", "t/a.spec.ts": fixtures}, 0},
	} {
		s := detected()
		s.Shards = 4
		p := plan(t, checkout(t, c.files), s)
		_, last := p.Job(fmt.Sprintf("test-playwright-%d", c.shards))
		_, beyond := p.Job(fmt.Sprintf("test-playwright-%d", c.shards+1))
		require.Equal(t, c.shards > 0, last, name)
		require.False(t, beyond, name)
	}
}

func TestAPageThatABuildWritesIsThereForBrowserTests(t *testing.T) {
	t.Parallel()
	env := withPlaywright(t, detected())
	o := runWith(t, checkout(t, map[string]string{
		"package.json":          `{"scripts":{"build":"mkdir dist && cp src/index.html dist/","test":"npm run e2e","e2e":"playwright test"}}`,
		"src/index.html":        "<h1>Hello</h1>",
		"playwright.config.cjs": "module.exports = { testDir: 'tests' }",
		"tests/a.spec.js":       playwrightCJS + "test('built', async ({ page }) => { await page.goto('file://' + require('path').resolve('dist/index.html')); await expect(page.locator('h1')).toHaveText('Hello') })",
	}), "test-playwright-1", env)
	require.True(t, o.OK, o.Message)
	require.Equal(t, 1, o.Summary.Passed)
}
