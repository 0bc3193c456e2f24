package verify

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// sharded are settings with durations of earlier runs.
func sharded(shards int, d checks.Durations) checks.Settings {
	s := detected()
	s.Shards, s.Durations = shards, d
	return s
}

// specs are empty test files.
func specs(names ...string) map[string]string {
	files := map[string]string{"package.json": "{}", "playwright.config.js": ""}
	for _, name := range names {
		files[name] = playwrightCJS
	}
	return files
}

// commandsOf are the commands of each Playwright shard.
func commandsOf(t *testing.T, files map[string]string, s checks.Settings) []string {
	t.Helper()
	p := plan(t, checkout(t, files), s)
	var out []string
	for _, id := range slices.Concat(ids(p)...) {
		if strings.HasPrefix(id, "test-playwright-") {
			_, after, _ := strings.Cut(p.Command(id), "/playwright-root-")
			out = append(out, after[1:])
		}
	}
	return out
}

func TestPlaywrightShardsTakeAboutAsLongAccordingToEarlierRuns(t *testing.T) {
	t.Parallel()
	files := specs("tests/a.spec.js", "tests/b.spec.js", "tests/c.spec.js", "tests/d.spec.js", "tests/new.spec.js")
	// Reported relative to the directory of the tests. The new file counts 5000.
	durations := checks.Durations{"a.spec.js": 11000, "b.spec.js": 4000, "c.spec.js": 3000, "d.spec.js": 2000, "gone.spec.js": 90000}
	for range 3 {
		require.Equal(t, []string{
			` --pass-with-no-tests 'tests/a\.spec\.js' 'tests/d\.spec\.js'`,
			` --pass-with-no-tests '^(?!.*/(tests/a\.spec\.js|tests/d\.spec\.js)$)'`,
		}, commandsOf(t, files, sharded(2, durations)))
	}
	require.Equal(t, []string{
		` --pass-with-no-tests 'tests/a\.spec\.js'`,
		` --pass-with-no-tests 'tests/d\.spec\.js' 'tests/new\.spec\.js'`,
		` --pass-with-no-tests '^(?!.*/(tests/a\.spec\.js|tests/d\.spec\.js|tests/new\.spec\.js)$)'`,
	}, commandsOf(t, files, sharded(3, durations)))
}

func TestPlaywrightSplitsWhatFilesCannot(t *testing.T) {
	t.Parallel()
	byCount := []string{" --shard=1/2", " --shard=2/2"}
	durations := checks.Durations{"a.spec.js": 9000, "b.spec.js": 1000}
	require.Equal(t, byCount, commandsOf(t, specs("tests/a.spec.js", "tests/b.spec.js"), sharded(2, nil)), "nothing was measured")
	only := specs("tests/a.spec.js", "tests/b.spec.js")
	only["tests/a.spec.js"] += "test.only('x', () => {});\n"
	require.Equal(t, byCount, commandsOf(t, only, sharded(2, durations)), "test.only concerns all files")

	many := strings.Repeat("test('x', () => {});\n", 40)
	parallel := specs("tests/a.spec.js", "tests/b.spec.js")
	parallel["playwright.config.js"] = "module.exports = { fullyParallel: true };"
	parallel["tests/a.spec.js"] += many
	require.Equal(t, []string{
		` --shard=1/3 --pass-with-no-tests 'tests/a\.spec\.js'`,
		` --shard=2/3 --pass-with-no-tests 'tests/a\.spec\.js'`,
		` --shard=3/3 --pass-with-no-tests 'tests/a\.spec\.js'`,
		` --pass-with-no-tests '^(?!.*/(tests/a\.spec\.js)$)'`,
	}, commandsOf(t, parallel, sharded(4, durations)), "one file takes longer than a shard should")
	single := specs("tests/a.spec.js")
	single["tests/a.spec.js"] += "test.describe.configure({ mode: 'parallel' });\n" + many
	require.Equal(t, []string{" --shard=1/4", " --shard=2/4", " --shard=3/4", " --shard=4/4"}, commandsOf(t, single, sharded(4, durations)))
	require.Len(t, commandsOf(t, specs("tests/a.spec.js"), sharded(4, durations)), 1, "tests of one file run one after the other")
}

// names are the sorted names of the cases of shards.
func names(outcomes ...Outcome) (all []string) {
	for _, o := range outcomes {
		for _, c := range o.Cases {
			all = append(all, c.Name)
		}
	}
	slices.Sort(all)
	return all
}

// allShards runs the shards of a plan one after the other.
func allShards(t *testing.T, files map[string]string, env Env) (out []Outcome) {
	t.Helper()
	for _, id := range slices.Concat(ids(plan(t, checkout(t, files), env.Settings))...) {
		o := runWith(t, checkout(t, files), id, env)
		require.True(t, o.OK, "%s: %v\n%s", id, located(o), o.Log)
		out = append(out, o)
	}
	return out
}

func TestShardsOfPlaywrightRunEachTestOnce(t *testing.T) {
	t.Parallel()
	test := func(names ...string) string {
		var b strings.Builder
		for _, name := range names {
			fmt.Fprintf(&b, "test('%s', () => {});\n", name)
		}
		return b.String()
	}
	files := map[string]string{
		"package.json":               "{}",
		"playwright.config.js":       "module.exports = { testDir: 'tests', testIgnore: '**/ignored.spec.js', projects: [{ name: 'one' }, { name: 'two', testIgnore: ['**/b.spec.js', '**/ignored.spec.js'] }] };\n",
		"tests/a.spec.js":            playwrightCJS + test("a1", "a2"),
		"tests/b.spec.js":            playwrightCJS + "test.describe.serial('steps', () => {\n" + test("b1", "b2", "b3") + "});\n",
		"tests/deep/tests/a.spec.js": playwrightCJS + test("deep"), // ends like another one
		"tests/A.spec.js":            playwrightCJS + test("capital"),
		"tests/new.spec.js":          playwrightCJS + test("new"),
		"tests/ignored.spec.js":      playwrightCJS + test("ignored"),
		"tests/fixtures.js":          "module.exports = require('@playwright/test');\n",
		"tests/hidden.spec.js":       "const { test } = require('./fixtures');\n" + test("hidden"), // planning does not see it
		"tests/parallel.spec.js":     playwrightCJS + "test.describe.configure({ mode: 'parallel' });\n" + test("p1", "p2", "p3", "p4"),
	}
	env := withPlaywright(t, detected())
	whole := names(allShards(t, files, env)...)
	require.Len(t, whole, 2*(2+1+1+1+1+4)+3, "%s", whole)
	for name, durations := range map[string]checks.Durations{
		"measured":     {"a.spec.js": 900, "b.spec.js": 300, "deep/tests/a.spec.js": 400, "ignored.spec.js": 5000, "parallel.spec.js": 9000},
		"not measured": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := withPlaywright(t, sharded(4, durations))
			outcomes := allShards(t, files, env)
			require.Len(t, outcomes, 4)
			require.Equal(t, whole, names(outcomes...))
		})
	}
}

// BenchmarkPlaywrightShards compares the time of 40 tests that wait in four shards with that in one.
func BenchmarkPlaywrightShards(b *testing.B) {
	files := map[string]string{"package.json": "{}", "playwright.config.js": "module.exports = { workers: 1 };\n"}
	durations := checks.Durations{}
	for n := range 8 {
		name := fmt.Sprintf("tests/%d.spec.js", n)
		files[name] = playwrightCJS
		for i := range 5 {
			ms := 100 + 150*n // the files take 0.5 to 5.75 s
			files[name] += fmt.Sprintf("test('waits %d', async ({ page }) => { await page.setContent('x'); await page.waitForTimeout(%d); });\n", i, ms)
			durations[fmt.Sprintf("%d.spec.js", n)] += int64(ms)
		}
	}
	for b.Loop() {
		one := measured(b, files, sharded(1, nil))
		byCount := measured(b, files, sharded(4, nil))
		byDuration := measured(b, files, sharded(4, durations))
		b.ReportMetric(one.Seconds(), "s/one-shard")
		b.ReportMetric(byCount.Seconds()/one.Seconds(), "ratio-by-count")
		b.ReportMetric(byDuration.Seconds()/one.Seconds(), "ratio-by-duration")
	}
}

// measured runs the shards at the same time and returns how long the last one took.
func measured(b *testing.B, files map[string]string, s checks.Settings) time.Duration {
	b.Helper()
	env := withPlaywright(b, s)
	p, err := checks.Plan(checkout(b, files), s)
	require.NoError(b, err)
	var wait sync.WaitGroup
	started := time.Now()
	var passed [64]int
	for n, c := range slices.Concat(p.Stages...) {
		if c.Category != contract.CategoryTest {
			continue
		}
		root := checkout(b, files)
		wait.Go(func() {
			o, err := Run(b.Context(), root, c, env)
			if err == nil {
				passed[n] = o.Summary.Passed
			}
		})
	}
	wait.Wait()
	took := time.Since(started)
	sum := 0
	for _, n := range passed {
		sum += n
	}
	require.Equal(b, 40, sum)
	return took
}
