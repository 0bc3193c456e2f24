package checks

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Durations are the milliseconds that test files took in earlier runs, by their paths relative to
// any directory above them, because runners report paths relative to their own.
type Durations map[string]int64

// MaxDurations limits the test files whose durations are kept.
const MaxDurations = 2000

// PlaywrightChecks is the beginning of the IDs of checks that run Playwright.
const PlaywrightChecks = "test-playwright-"

// PlaywrightDurations adds up the durations of the tests of each file. The name of a test is that of
// its project in brackets, if any, its file, and its titles; see package output.
func PlaywrightDurations(tests map[string]int64) Durations {
	files := Durations{}
	for name, ms := range tests {
		if strings.HasPrefix(name, "[") {
			_, name, _ = strings.Cut(name, "] ")
		}
		file, _, found := strings.Cut(name, " › ")
		if found && scriptSource.MatchString(file) {
			files[file] += ms
		}
	}
	if len(files) <= MaxDurations {
		return files
	}
	longest := slices.SortedFunc(maps.Keys(files), func(a, b string) int { return cmp.Or(cmp.Compare(files[b], files[a]), cmp.Compare(a, b)) })
	for _, file := range longest[MaxDurations:] {
		delete(files, file)
	}
	return files
}

// of returns the duration of a file, 0 if it is unknown.
func (d Durations) of(file string) int64 {
	for rest := file; ; {
		if ms, ok := d[rest]; ok {
			return max(1, ms)
		}
		_, after, found := strings.Cut(rest, "/")
		if !found {
			return 0
		}
		rest = after
	}
}

// playwrightPart is what one shard runs of a suite.
type playwrightPart struct {
	files  []string // relative to the root
	except bool     // run all test files but these
	// Playwright splits the part further, as it does with --shard: by tests where the repository
	// lets them run in parallel, else by files.
	slice, slices int
}

var (
	// Tests of one file may run in parallel, so Playwright can split them.
	parallelConfig = regexp.MustCompile(`fullyParallel\s*:\s*true`)
	parallelMode   = regexp.MustCompile(`mode\s*:\s*['"\x60]parallel['"\x60]`)
	pwTestCall     = regexp.MustCompile(`(?m)\btest(?:\.(?:fail|fixme|skip|slow|only))?\s*\(`)
	// With test.only, the tests of one file decide whether those of other files run.
	pwOnly = regexp.MustCompile(`\.only\s*\(`)
)

// parallelFiles returns the files of a suite that Playwright can split.
func (s playwrightSuite) parallelFiles(t *checkout, tests []string) map[string]bool {
	all := parallelConfig.MatchString(t.read(s.configFile(t)))
	parallel := map[string]bool{}
	for _, f := range tests {
		if output.Below(f, s.dir) && (all || parallelMode.MatchString(t.read(f))) {
			parallel[f] = true
		}
	}
	return parallel
}

// playwrightShards returns the number of shards that get at least one test, as far as the files
// show.
func playwrightShards(t *checkout, suites []playwrightSuite, tests []string, wanted int) int {
	units := len(tests)
	for _, s := range suites {
		for f := range s.parallelFiles(t, tests) {
			units += max(0, len(pwTestCall.FindAllString(t.read(f), maxShards))-1)
		}
	}
	return max(1, min(wanted, units, maxShards))
}

// split distributes the tests of a suite over shards, so that each takes about as long according
// to earlier runs. Without any, Playwright splits by the number of tests. Files that are unknown
// here, such as those that only the configuration finds, are in the last shard.
func (s playwrightSuite) split(t *checkout, tests []string, d Durations, shards int) []playwrightPart {
	n := shards
	tests = slices.DeleteFunc(slices.Clone(tests), func(f string) bool { return !output.Below(f, s.dir) })
	files := weigh(tests, d)
	if n < 2 || files == nil || slices.ContainsFunc(tests, func(f string) bool { return pwOnly.MatchString(t.read(f)) }) {
		return sliced(playwrightPart{except: true}, n)
	}
	parallel := s.parallelFiles(t, tests)
	total := 0.0
	for _, f := range files {
		total += f.ms
	}
	var groups [][]playwrightPart
	// A parallel file that takes longer than a shard should gets several shards of its own.
	for len(files) > 0 && n > 1 {
		heavy, share := files[0], total/float64(n)
		if !parallel[heavy.path] || heavy.ms < 1.5*share {
			break
		}
		own := min(int(math.Round(heavy.ms/share)), n-1)
		if len(files) == 1 {
			own = n
		}
		groups = append(groups, sliced(playwrightPart{files: []string{heavy.path}}, own))
		files, n, total = files[1:], n-own, total-heavy.ms
	}
	switch {
	case len(files) == 0:
		return withRest(groups)
	case n > len(files): // only Playwright can split what is left
		return sliced(playwrightPart{except: true}, shards)
	}
	for _, bin := range pack(files, n) {
		groups = append(groups, []playwrightPart{{files: bin}})
	}
	return withRest(groups)
}

// withRest lets the last group run all files that no other group runs.
func withRest(groups [][]playwrightPart) []playwrightPart {
	var parts []playwrightPart
	var others []string
	for n, group := range groups {
		if n == len(groups)-1 {
			slices.Sort(others)
			for i := range group {
				group[i].files, group[i].except = others, true
			}
		}
		others = append(others, group[0].files...)
		parts = append(parts, group...)
	}
	return parts
}

// sliced lets Playwright split a part.
func sliced(p playwrightPart, n int) []playwrightPart {
	parts := make([]playwrightPart, n)
	for i := range parts {
		parts[i] = p
		if n > 1 {
			parts[i].slice, parts[i].slices = i+1, n
		}
	}
	return parts
}

// weighed is a file with the time that it probably takes.
type weighed struct {
	path string
	ms   float64
}

// weigh returns the files, the longest first, or nil if none was ever measured. A new file counts
// as an average one.
func weigh(tests []string, d Durations) []weighed {
	var known int
	var sum float64
	for _, f := range tests {
		if ms := d.of(f); ms > 0 {
			known++
			sum += float64(ms)
		}
	}
	if known == 0 {
		return nil
	}
	files := make([]weighed, len(tests))
	for i, f := range tests {
		files[i] = weighed{f, float64(d.of(f))}
		if files[i].ms == 0 {
			files[i].ms = sum / float64(known)
		}
	}
	slices.SortFunc(files, func(a, b weighed) int { return cmp.Or(cmp.Compare(b.ms, a.ms), cmp.Compare(a.path, b.path)) })
	return files
}

// pack puts each file, the longest first, into the bin that is emptiest so far.
func pack(files []weighed, n int) [][]string {
	bins, loads := make([][]string, n), make([]float64, n)
	for _, f := range files {
		least := slices.Index(loads, slices.Min(loads))
		bins[least] = append(bins[least], f.path)
		loads[least] += f.ms
	}
	for _, bin := range bins {
		slices.Sort(bin)
	}
	return bins
}

// args returns the options that select the part, the patterns that do so if a person types them, and
// the exact selection for playwright.cjs: a pattern also matches other files that end like it.
func (p playwrightPart) args(dir string) (options, patterns []string, selection string) {
	if p.slices > 1 {
		options = append(options, "--shard="+strconv.Itoa(p.slice)+"/"+strconv.Itoa(p.slices))
	}
	if len(p.files) == 0 {
		return options, nil, ""
	}
	var exact struct {
		Files  []string `json:"files"`
		Except bool     `json:"except"`
	}
	exact.Except = p.except
	for _, f := range p.files {
		exact.Files = append(exact.Files, relTo(dir, f))
		patterns = append(patterns, regexp.QuoteMeta(relTo(dir, f)))
	}
	if p.except {
		patterns = []string{"^(?!.*/(" + strings.Join(patterns, "|") + ")$)"}
	}
	// The configuration may ignore all files of a part.
	options = append(options, "--pass-with-no-tests")
	doc, err := json.Marshal(exact)
	if err != nil {
		return options, patterns, ""
	}
	return options, patterns, string(doc)
}
