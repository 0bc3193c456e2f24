package checks

import (
	"path"
	"regexp"
	"slices"
	"strconv"

	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

var playwrightConfigs = []string{
	"playwright.config.ts", "playwright.config.js", "playwright.config.mjs", "playwright.config.cjs", "playwright.config.mts",
}

var playwrightTest = regexp.MustCompile(`\.(spec|test)\.[cm]?[jt]sx?$`)

// playwrightCLI starts Playwright's CLI from the checkout, from the packages that the worker
// provides (see Env.NodeModules), or from an installation that npx finds.
const playwrightCLI = `cli=node_modules/@playwright/test/cli.js
if [ ! -e "$cli" ] && [ -n "$RGPT_NODE_MODULES" ]; then cli="$RGPT_NODE_MODULES/@playwright/test/cli.js"; fi
if [ -e "$cli" ]; then exec node "$cli" "$@"; fi
exec npx --no-install playwright "$@"`

// planPlaywright runs Playwright with its own sharding. Each shard is a check with its own worker
// and browsers.
func planPlaywright(t *checkout, p planning) []Job {
	dirs, tests := playwrightTests(t)
	if len(tests) == 0 {
		return nil
	}
	shards := max(1, min(p.shards, len(tests), maxShards))
	runs := make([][]Invocation, shards)
	for n := range runs {
		for _, dir := range dirs {
			runs[n] = append(runs[n], playwright(dir, tests, n+1, shards))
		}
	}
	return shardJobs("playwright", "Playwright", runs)
}

// playwrightTests lists the directories with a Playwright configuration, and the test files.
func playwrightTests(t *checkout) (dirs, tests []string) {
	dirs = t.projects(playwrightConfigs...)
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	tests = t.match(func(f string) bool {
		return playwrightTest.MatchString(f) && !inOutput(f) && usesPW.MatchString(t.read(f))
	})
	if !slices.ContainsFunc(playwrightConfigs, func(c string) bool { return t.has(path.Join(dirs[0], c)) }) {
		tests = slices.DeleteFunc(tests, func(f string) bool { return !output.Below(f, "tests") })
	}
	return dirs, tests
}

// playwright is one shard of the tests below a directory.
func playwright(dir string, known []string, shard, shards int) Invocation {
	var args []string
	if shards > 1 {
		args = append(args, "--shard="+strconv.Itoa(shard)+"/"+strconv.Itoa(shards))
	}
	run := playwrightRun(dir, scratch("playwright", dir, shard), args)
	// The second run writes elsewhere: traces and screenshots of the first explain a flaky test.
	again := scratch("playwright-again", dir, shard)
	run.RerunFailed = func(failed []output.Case) Invocation {
		var files []string
		for _, c := range failed {
			if c.File == "" {
				return playwrightRun(dir, again, args)
			}
			files = append(files, regexp.QuoteMeta(relTo(dir, c.File)))
		}
		slices.Sort(files)
		return playwrightRun(dir, again, slices.Compact(files))
	}
	run.Only = func(tests []pin.Added) (Invocation, []pin.Added) {
		covered, has := inFiles(tests, slices.DeleteFunc(slices.Clone(known), func(f string) bool { return !output.Below(f, dir) }))
		var files []string
		for _, f := range has {
			files = append(files, regexp.QuoteMeta(relTo(dir, f)))
		}
		return playwrightRun(dir, scratch("playwright", dir, shard), files), covered
	}
	return run
}

// playwrightRun writes its report to base.json and its other files to base.
func playwrightRun(dir, base string, args []string) Invocation {
	report := base + ".json"
	args = append([]string{"test", "--reporter=list,json", "--output=" + up(dir, base)}, args...)
	return Invocation{
		Args:  append([]string{"sh", "-c", playwrightCLI, "playwright"}, args...),
		typed: append([]string{"npx", "playwright"}, args...),
		Dir:   dir,
		Env: WithEnv(nodeEnv, map[string]string{
			"PLAYWRIGHT_JSON_OUTPUT_NAME": up(dir, report), "PLAYWRIGHT_JSON_OUTPUT_FILE": up(dir, report),
			"PLAYWRIGHT_HTML_OPEN": "never", "FORCE_COLOR": "0",
		}),
		Format: output.FormatPlaywright, Reports: []string{report}, Ended: mustReport("process.exit"),
	}
}
