package checks

import (
	_ "embed"
	"encoding/json"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

var playwrightConfigs = []string{
	"playwright.config.ts", "playwright.config.js", "playwright.config.mjs", "playwright.config.cjs", "playwright.config.mts",
}

var (
	playwrightTest = regexp.MustCompile(`\.(spec|test)\.[cm]?[jt]sx?$`)
	usesPW         = regexp.MustCompile(`['"\x60]@playwright/test['"\x60]`)
	// usesFixtures matches a test with Playwright's fixtures, whose function test may be the
	// repository's own.
	usesFixtures = regexp.MustCompile(`\btest(?:\.\w+)*\s*\([^\n]*\(\s*\{[^}\n]*\b(?:page|context|browser|request)\b`)
	testMatch    = regexp.MustCompile(`\btestMatch\s*:`)
)

// playwrightStart starts Playwright with the repository's configuration and additions that keep what
// explains a failed test; see its own comment.
//
//go:embed playwright.cjs
var playwrightStart string

// playwrightStartName is its name in ScratchDir.
const playwrightStartName = "playwright.cjs"

// playwrightSuite is one run of Playwright.
type playwrightSuite struct {
	dir    string
	config string // relative to dir; empty: Playwright's default
}

// Recordings specifies when trace and video of browser tests are recorded (verification.recordings).
// A failed test always leaves a screenshot, and what the repository itself records stays as it is.
type Recordings string

// The values of Recordings. Empty means rerun.
const (
	RecordRerun  Recordings = "rerun"  // when a failed test runs again; if it does not, from the first run on
	RecordAlways Recordings = "always" // from the first run on
	RecordOff    Recordings = "off"    // never
)

// recordMode specifies what playwright.cjs adds to the repository's recordings.
type recordMode string

const (
	recordNothing  recordMode = "nothing"  // but the screenshot of a failed test
	recordFailures recordMode = "failures" // records all tests, keeps the recordings of failed ones
	recordTests    recordMode = "tests"    // records all tests, keeps everything
)

// recording are the modes of the first run and of the re-runs of failed tests.
type recording struct {
	first recordMode
	again []recordMode // the last one also applies to all further re-runs
}

// recording chooses the modes. Recording can disturb a test, so only the first re-run does it: a test
// that fails only then can still pass in a second one, which keeps the recordings of the first.
func (s Settings) recording() recording {
	switch {
	case s.Recordings == RecordOff:
		return recording{recordNothing, []recordMode{recordNothing}}
	case s.Recordings == RecordAlways, s.RerunFailed == 0:
		return recording{recordFailures, []recordMode{recordFailures}}
	}
	return recording{recordNothing, []recordMode{recordTests, recordNothing}}
}

// attempt returns the mode of a re-run; attempts count from 1.
func (r recording) attempt(n int) recordMode { return r.again[min(n, len(r.again))-1] }

// planPlaywright distributes the tests over shards. Each shard is a check with its own worker and
// browsers.
func planPlaywright(t *checkout, p planning) []Job {
	suites, tests := playwrightTests(t)
	if len(tests) == 0 {
		return nil
	}
	shards := playwrightShards(t, suites, tests, p.shards)
	runs := make([][]Invocation, shards)
	selectable := separateTests(t, tests)
	for _, suite := range suites {
		build := suite.buildSetup(t, p.network)
		for n, part := range suite.split(t, tests, p.durations, shards) {
			runs[n] = append(withSetup(runs[n], build), suite.shard(tests, n+1, part, selectable, p.recording))
		}
	}
	return shardJobs("playwright", "Playwright", runs)
}

// playwrightTests lists the runs of Playwright and the test files.
func playwrightTests(t *checkout) (suites []playwrightSuite, tests []string) {
	suites = playwrightSuites(t)
	tests = t.match(func(f string) bool { return isPlaywrightTest(t, suites, f) })
	if len(suites) == 0 {
		suites = []playwrightSuite{{dir: "."}}
		tests = slices.DeleteFunc(tests, func(f string) bool { return !output.Below(f, "tests") })
	}
	return suites, tests
}

// isPlaywrightTest reports whether Playwright would find a file by its name, or a configuration sets
// testMatch, and the file is recognizably written for Playwright. Files beyond these run as well, but
// do not count when the tests are divided.
func isPlaywrightTest(t *checkout, suites []playwrightSuite, f string) bool {
	if !scriptSource.MatchString(f) || inOutput(f) {
		return false
	}
	named := playwrightTest.MatchString(f)
	configured := func(s playwrightSuite) bool {
		return output.Below(f, s.dir) && (named || testMatch.MatchString(t.read(s.configFile(t))))
	}
	inSuite := slices.ContainsFunc(suites, configured)
	if !named && !inSuite {
		return false
	}
	text := t.read(f)
	if usesPW.MatchString(text) {
		return named || pwTestCall.MatchString(text)
	}
	return inSuite && usesFixtures.MatchString(text)
}

// playwrightSuites lists the configurations that the test scripts name, and those with a default
// name in other directories.
func playwrightSuites(t *checkout) []playwrightSuite {
	var suites []playwrightSuite
	named := map[string]bool{} // directories of the scripts and of the configurations
	manifests := t.match(func(f string) bool {
		return path.Base(f) == "package.json" && !inOutput(f) && !inFixture(path.Dir(f))
	})
	for _, file := range manifests[:min(len(manifests), maxManifests)] {
		var m manifest
		_ = json.Unmarshal([]byte(t.read(file)), &m) // the package manager reports a broken one
		dir := path.Dir(file)
		for _, call := range runnersOf(m.Scripts, "test").calls {
			suite := playwrightSuite{dir: dir, config: call.playwrightConfig()}
			if suite.config == "" || !suite.exists(t) || slices.Contains(suites, suite) {
				continue
			}
			suites = append(suites, suite)
			at := path.Join(dir, suite.config)
			named[dir], named[path.Dir(at)], named[at] = true, true, true
		}
	}
	for _, dir := range t.projects(playwrightConfigs...) {
		if !named[dir] {
			suites = append(suites, playwrightSuite{dir: dir})
		}
	}
	return suites
}

// maxManifests limits the packages of a monorepo that are read.
const maxManifests = 100

// playwrightConfig returns the configuration that a call of Playwright names, or "".
func (c runnerCall) playwrightConfig() string {
	if c.runner != "playwright" {
		return ""
	}
	for n, arg := range c.args {
		for _, option := range []string{"--config", "-c"} {
			switch {
			case arg == option && n+1 < len(c.args):
				return path.Clean(c.args[n+1])
			case strings.HasPrefix(arg, option+"="):
				return path.Clean(strings.TrimPrefix(arg, option+"="))
			}
		}
	}
	return ""
}

// exists reports whether the configuration is a file of the checkout, or a directory with a default
// one.
func (s playwrightSuite) exists(t *checkout) bool {
	return filepath.IsLocal(path.Join(s.dir, s.config)) && s.configFile(t) != ""
}

// scratch returns a path in ScratchDir for the files of one shard.
func (s playwrightSuite) scratch(kind string, shard int) string {
	if s.config != "" {
		kind += "-" + slug(s.config)
	}
	return scratch(kind, s.dir, shard)
}

// separateTests returns the files whose tests can run without those before them in the file.
func separateTests(t *checkout, tests []string) map[string]bool {
	separate := map[string]bool{}
	for _, f := range tests {
		separate[f] = !pwSerial.MatchString(t.read(f))
	}
	return separate
}

// pwSerial matches what test.describe.serial and the mode serial have in common.
var pwSerial = regexp.MustCompile(`\bserial\b`)

// maxSelected limits the tests that a command names one by one.
const maxSelected = 500

// patterns select failed tests: each by its line where it can run separately, otherwise by its file.
// It returns nil if the file of a test is unknown.
func (s playwrightSuite) patterns(failed []output.Case, separate map[string]bool) []string {
	var out []string
	for _, c := range failed {
		if c.File == "" {
			return nil
		}
		pattern := regexp.QuoteMeta(relTo(s.dir, c.File))
		if c.Line > 0 && separate[c.File] && len(failed) <= maxSelected {
			pattern = output.Location(pattern, c.Line)
		}
		out = append(out, pattern)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// shard is one shard of the tests of a suite.
func (s playwrightSuite) shard(known []string, shard int, part playwrightPart, separate map[string]bool, rec recording) Invocation {
	whole := func(kind string, mode recordMode) Invocation {
		options, patterns, selection := part.args(s.dir)
		run := s.run(s.scratch(kind, shard), mode, slices.Concat(options, patterns))
		if selection != "" {
			run = run.selected(selection, len(patterns))
		}
		return run
	}
	run := whole("playwright", rec.first)
	// Each run writes elsewhere: what the others left explains a flaky test.
	run.RerunFailed = func(failed []output.Case, attempt int) Invocation {
		kind, mode := "playwright-again", rec.attempt(attempt)
		if attempt > 1 {
			kind += "-" + strconv.Itoa(attempt)
		}
		again := whole(kind, mode)
		if patterns := s.patterns(failed, separate); patterns != nil {
			again = s.run(s.scratch(kind, shard), mode, patterns)
		}
		again.Recorded = mode != rec.first && mode != recordNothing
		return again
	}
	run.Only = func(tests []pin.Added) (Invocation, []pin.Added) {
		covered, has := inFiles(tests, slices.DeleteFunc(slices.Clone(known), func(f string) bool { return !output.Below(f, s.dir) }))
		var files []string
		for _, f := range has {
			files = append(files, regexp.QuoteMeta(relTo(s.dir, f)))
		}
		return s.run(s.scratch("playwright", shard), rec.first, files), covered
	}
	return run
}

// run writes its report to base.json and its other files to base.
func (s playwrightSuite) run(base string, mode recordMode, args []string) Invocation {
	report := base + ".json"
	options := []string{"test", "--reporter=list,json", "--output=" + up(s.dir, base)}
	if s.config != "" {
		options = append(options, "--config="+s.config)
	}
	args = slices.Concat(options, args)
	return Invocation{
		Args:  append([]string{"node", up(s.dir, path.Join(output.ScratchDir, playwrightStartName)), "--record=" + string(mode)}, args...),
		typed: append([]string{"npx", "playwright"}, args...),
		files: map[string]string{playwrightStartName: playwrightStart},
		Dir:   s.dir,
		Env: WithEnv(nodeEnv, map[string]string{
			"PLAYWRIGHT_JSON_OUTPUT_NAME": up(s.dir, report), "PLAYWRIGHT_JSON_OUTPUT_FILE": up(s.dir, report),
			"PLAYWRIGHT_HTML_OPEN": "never", "FORCE_COLOR": "0",
		}),
		Format: output.FormatPlaywright, Reports: []string{report}, Ended: playwrightEnded,
	}
}

// selected replaces the patterns at the end of the arguments by a file with the exact selection.
func (i Invocation) selected(selection string, patterns int) Invocation {
	const name = "playwright-files.json"
	i.files = WithEnv(i.files, map[string]string{name: selection})
	i.Args = append(slices.Clone(i.Args[:len(i.Args)-patterns]), "--files="+up(i.Dir, path.Join(output.ScratchDir, name)))
	return i
}

// playwrightNote matches what playwright.cjs could not do.
var playwrightNote = regexp.MustCompile(`(?m)^RocketGPT: (.{1,1000})$`)

// maxPlaywrightNotes limits the notes of one run. Tests can print such lines too, so they are only
// minor findings.
const maxPlaywrightNotes = 5

// playwrightEnded requires a report, and says why a failed test has no screenshot, video or trace.
func playwrightEnded(f *Finished, s output.Paths) {
	mustReport("process.exit")(f, s)
	if f.Result.OK() {
		return
	}
	for _, m := range playwrightNote.FindAllSubmatch(f.Result.Stderr, maxPlaywrightNotes) {
		f.Parsed.Problems = append(f.Parsed.Problems, output.Problem{Level: output.Note, Message: output.Message(string(m[1]))})
	}
}
