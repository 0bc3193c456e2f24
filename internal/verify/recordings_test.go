package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// rerunning are settings with re-runs of failed tests.
func rerunning(n int) checks.Settings {
	s := detected()
	s.RerunFailed = n
	return s
}

// withRecords are settings with re-runs of failed tests, and when these are recorded.
func withRecords(n int, r checks.Recordings) checks.Settings {
	s := rerunning(n)
	s.Recordings = r
	return s
}

// noteRuns starts a test file whose tests call ran, which notes the title and the mode of the trace in
// a file, and returns how often the test was started.
const noteRuns = playwrightCJS + `const fs = require('fs');
function ran(info) {
  fs.appendFileSync('runs.txt', info.title + ' ' + (info.project.use.trace || 'unset') + '\n');
  return fs.readFileSync('runs.txt', 'utf8').split('\n').filter((line) => line.startsWith(info.title + ' ')).length;
}
`

// runs are the lines that the tests noted.
func runs(t *testing.T, root string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "runs.txt"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestPassingBrowserTestsAreRecordedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	const unset = "undefined"
	for name, c := range map[string]struct {
		settings          checks.Settings
		use, trace, video string
	}{
		"by default":                      {rerunning(1), "", unset, unset},
		"which the repository itself did": {rerunning(1), "trace: 'on', video: 'retain-on-failure'", "'on'", "'retain-on-failure'"},
		"in retries":                      {rerunning(1), "trace: 'on-first-retry'", "'on-first-retry'", unset},
		"with options":                    {rerunning(1), "trace: { mode: 'off', sources: false }", "{ mode: 'off', sources: false }", unset},
		"always":                          {withRecords(1, checks.RecordAlways), "", "'retain-on-failure'", "'retain-on-failure'"},
		"without re-runs":                 {rerunning(0), "", "'retain-on-failure'", "'retain-on-failure'"},
		"off":                             {withRecords(1, checks.RecordOff), "", unset, unset},
		"off without re-runs":             {withRecords(0, checks.RecordOff), "trace: 'on'", "'on'", unset},
	} {
		if _, err := exec.LookPath("ffmpeg"); err != nil {
			c.video = "'off'" // nothing can record videos here
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := runWith(t, checkout(t, map[string]string{
				"package.json": "{}", "playwright.config.js": "module.exports = { use: { " + c.use + " } };\n",
				"tests/a.spec.js": playwrightCJS + "test('modes', async ({ page }, info) => {\n  await page.setContent('x');\n  const { trace, screenshot, video } = info.project.use;\n" +
					"  expect({ trace, screenshot, video }).toEqual({ trace: " + c.trace + ", screenshot: 'only-on-failure', video: " + c.video + " });\n});\n",
			}), "test-playwright-1", withPlaywright(t, c.settings))
			require.True(t, o.OK, "%s", o.Log)
			if c.trace == "'on'" {
				require.Equal(t, map[string][]contract.ArtifactType{"tests-a-modes": {contract.ArtifactTrace}}, kept(o))
			} else {
				require.Empty(t, kept(o))
			}
		})
	}
}

func TestOnlyFailedBrowserTestsRunAgainAndAreRecorded(t *testing.T) {
	t.Parallel()
	needs(t, "ffmpeg")
	root := checkout(t, map[string]string{
		"package.json":         "{}",
		"playwright.config.js": "module.exports = { workers: 1, preserveOutput: 'failures-only' };\n",
		"tests/a.spec.js": noteRuns + `test('good', async ({ page }, info) => { ran(info); await page.setContent('x'); });
test('flaky', async ({ page }, info) => {
  await page.setContent('x');
  expect(ran(info)).toBe(2);
});
test('bad', async ({ page }, info) => {
  await page.setContent('x');
  expect(ran(info)).toBe(0);
});
`,
	})
	o := runWith(t, root, "test-playwright-1", withPlaywright(t, rerunning(1)))
	require.Equal(t, contract.TestSummary{Passed: 1, Flaky: 1, Failed: 1}, withoutTime(o.Summary), "%s", o.Log)
	require.Equal(t, []string{"good unset", "flaky unset", "bad unset", "flaky on", "bad on"}, runs(t, root))
	all := []contract.ArtifactType{contract.ArtifactScreenshot, contract.ArtifactScreenshot, contract.ArtifactTrace, contract.ArtifactVideo}
	require.Equal(t, map[string][]contract.ArtifactType{"tests-a-flaky": all, "tests-a-bad": all}, kept(o))
	for _, a := range o.Artifacts {
		require.True(t, a.failed, "%s is of a test that failed", a.Name)
	}
}

func TestAFailedBrowserTestRunsAgainWithTheTestsThatItNeeds(t *testing.T) {
	t.Parallel()
	// Each second test fails in the first run, and needs the first one.
	steps := `test('first', async ({}, info) => { ran(info); global.step = 1; });
test('second', async ({}, info) => { expect([ran(info), global.step]).toEqual([2, 1]); });
`
	setup := "module.exports = { workers: 1, projects: [{ name: 'setup', testMatch: 'first.setup.js' }, { name: 'web', testMatch: '*.spec.js', dependencies: ['setup'] }] };\n"
	for name, c := range map[string]struct {
		files map[string]string
		runs  []string
	}{
		"serial tests": {
			map[string]string{"tests/a.spec.js": noteRuns + "test.describe.serial('group', () => {\n" + steps + "});\ntest('other', async ({}, info) => { ran(info); });\n"},
			[]string{"first unset", "second unset", "other unset", "first on", "second on", "other on"},
		},
		"serial tests of a helper": {
			map[string]string{
				"tests/steps.js":  "const { test } = require('@playwright/test');\nmodule.exports = (body) => test.describe('group', () => { test.describe.configure({ mode: 'serial' }); body(); });\n",
				"tests/a.spec.js": noteRuns + "require('./steps')(() => {\n" + steps + "});\n",
			},
			[]string{"first unset", "second unset", "first on", "second on"},
		},
		"a test that a helper defines": {
			map[string]string{
				"tests/define.js": noteRuns + "module.exports = () => {\n  test('second', async ({}, info) => { expect(ran(info)).toBe(2); });\n};\n",
				"tests/a.spec.js": playwrightCJS + "require('./define')();\n",
			},
			[]string{"second unset", "second on"},
		},
		"tests of one line": {
			map[string]string{"tests/a.spec.js": noteRuns + "for (const name of ['first', 'second', 'third'])\n  test(name, async ({}, info) => { expect(ran(info) === 1 && name === 'second').toBe(false); });\n"},
			[]string{"first unset", "second unset", "third unset", "first on", "second on", "third on"},
		},
		"a project that needs another": {
			map[string]string{
				"playwright.config.js": setup,
				"tests/first.setup.js": noteRuns + "test('first', async ({}, info) => { fs.writeFileSync('step.txt', String(ran(info))); });\n",
				"tests/a.spec.js":      noteRuns + "test('other', async ({}, info) => { ran(info); });\ntest('second', async ({}, info) => { expect([ran(info), fs.readFileSync('step.txt', 'utf8')]).toEqual([2, '2']); });\n",
			},
			[]string{"first unset", "other unset", "second unset", "first on", "second on"},
		},
		"a describe block in several projects": {
			map[string]string{
				"playwright.config.js": "module.exports = { workers: 1, projects: [{ name: 'one' }, { name: 'two' }] };\n",
				"tests/a.spec.js":      noteRuns + "test.describe('group', () => {\n  test('other', async ({}, info) => { ran(info); });\n  test('second', async ({}, info) => { expect(ran(info)).not.toBe(1); });\n});\n",
			},
			[]string{"other unset", "second unset", "other unset", "second unset", "second on", "second on"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"package.json": "{}", "playwright.config.js": "module.exports = { workers: 1 };\n"}
			for name, text := range c.files {
				files[name] = text
			}
			root := checkout(t, files)
			o := runWith(t, root, "test-playwright-1", withPlaywright(t, rerunning(1)))
			require.True(t, o.OK, "%s", o.Log)
			require.Equal(t, 1, o.Summary.Flaky, "%s", o.Log)
			require.Equal(t, c.runs, runs(t, root))
			for dir := range kept(o) {
				require.Contains(t, dir, "second", "tests that did not fail leave nothing")
			}
		})
	}
}

func TestRecordingMakesNoTestFailThatPassedWithoutIt(t *testing.T) {
	t.Parallel()
	// Both tests are on one line. The first cannot be recorded.
	root := checkout(t, map[string]string{
		"package.json": "{}", "playwright.config.js": "module.exports = { workers: 1 };\n",
		"tests/a.spec.js": noteRuns + "for (const name of ['fragile', 'flaky'])\n  test(name, async ({}, info) => { const n = ran(info); expect(name === 'fragile' ? info.project.use.trace !== 'on' : n > 1).toBe(true); });\n",
	})
	o := runWith(t, root, "test-playwright-1", withPlaywright(t, rerunning(1)))
	require.Equal(t, []string{"fragile unset", "flaky unset", "fragile on", "flaky on"}, runs(t, root))
	require.Equal(t, contract.TestSummary{Passed: 1, Flaky: 1}, withoutTime(o.Summary), "%s", o.Log)
	require.True(t, o.OK, "%s", o.Message)
	for dir := range kept(o) {
		require.Contains(t, dir, "flaky")
	}
}

func TestATestThatFailsAgainOnlyBecauseItIsRecordedCanPassTheSecondTime(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"package.json":    "{}",
		"tests/a.spec.js": noteRuns + "test('flaky', async ({ page }, info) => { await page.setContent('x'); expect(ran(info) > 1 && info.project.use.trace !== 'on').toBe(true); });\n",
	}
	root := checkout(t, files)
	o := runWith(t, root, "test-playwright-1", withPlaywright(t, rerunning(2)))
	require.Equal(t, []string{"flaky unset", "flaky on", "flaky unset"}, runs(t, root))
	require.True(t, o.OK, "%s", o.Message)
	require.Equal(t, contract.TestSummary{Flaky: 1}, withoutTime(o.Summary))
	require.Contains(t, kept(o)["tests-a-flaky"], contract.ArtifactTrace, "the recording of the first re-run is kept")

	o = runWith(t, checkout(t, files), "test-playwright-1", withPlaywright(t, rerunning(1)))
	require.Equal(t, contract.TestSummary{Failed: 1}, withoutTime(o.Summary), "it failed in both runs")
}

func TestANewBrowserTestIsNotProvenByBeingRecorded(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"package.json":    "{}",
		"tests/a.spec.js": playwrightCJS + "test('fragile', async ({}, info) => { expect(info.project.use.trace).toBeUndefined(); });\n",
	})
	added := pin.Added{Path: "tests/a.spec.js", Name: "fragile"}
	proof, err := Prove(t.Context(), root, []pin.Added{added}, withPlaywright(t, rerunning(1)))
	require.NoError(t, err)
	require.Equal(t, []Unproven{{added, passesAnyway}}, proof.Unproven, "%s", proof.Log)
}
