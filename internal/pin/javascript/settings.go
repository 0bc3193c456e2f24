package javascript

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

var (
	// exclusions are settings that name excluded tests.
	exclusions = lexer.Set("testIgnore testPathIgnorePatterns exclude ignore grepInvert modulePathIgnorePatterns excludeSpecPattern excludes")
	// selections are settings that name the tests to run.
	selections = lexer.Set("testMatch testRegex include testDir grep specPattern spec roots testNamePattern testPathPattern files specs")
	// unrelatedSections are sections in which settings of the same names have another meaning.
	unrelatedSections = lexer.Set("coverage optimizeDeps plugins build resolve server deps use webServer preview css esbuild")
	// permissiveFlags prevent a run from failing.
	permissiveFlags = lexer.Set("passWithNoTests dangerouslyIgnoreUnhandledErrors failZero allowEmpty")
)

// runnerSettings are the settings of a test runner that select tests.
type runnerSettings struct {
	values map[string]map[string]bool
	flags  map[string]bool
}

// compareRunnerSettings judges the settings of a JavaScript test runner. They are read as tokens,
// because a configuration is a program and must not run.
func compareRunnerSettings(c *buildfiles.Change) {
	before, after := runnerSettingsOf(c.Before), runnerSettingsOf(c.After)
	if !c.Exists {
		if c.Existed {
			c.Edit("", "it was removed, so a different set of tests may run")
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(after.flags)) {
		if !before.flags[key] {
			c.Exclude(key, key+": runs that should fail may now pass")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(exclusions)) {
		for _, v := range slices.Sorted(maps.Keys(after.values[key])) {
			if !before.values[key][v] && !buildfiles.NoTests.MatchString(v) {
				c.Exclude(key, key+" excludes "+v)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(selections)) {
		compareSelection(c, key, before.values[key], after.values[key])
	}
}

// compareSelection judges a setting that names the tests to run.
func compareSelection(c *buildfiles.Change, key string, before, after map[string]bool) {
	narrow := key == "grep" || key == "testNamePattern" || key == "testPathPattern"
	switch {
	case before == nil && after == nil:
	case before == nil && (narrow || c.Existed):
		c.Exclude(key, key+" now selects only some tests; previously, all of them ran")
	case before == nil || after == nil:
	default:
		for v := range before {
			if !after[v] {
				c.Exclude(key, key+" now selects different tests")
				return
			}
		}
	}
}

func runnerSettingsOf(data []byte) runnerSettings {
	out := runnerSettings{values: map[string]map[string]bool{}, flags: map[string]bool{}}
	src := scan(data)
	if src.TooDeep {
		return out
	}
	for i := 0; i < len(src.Tokens); i++ {
		key := src.At(i)
		if !src.At(i+1).Is(":") || key.Kind == lexer.Punct || key.Kind == lexer.Number {
			continue
		}
		switch {
		case unrelatedSections[key.Text] && src.Pairs[min(i+2, len(src.Tokens)-1)] > i:
			i = src.Close(i + 2)
		case permissiveFlags[key.Text] && src.At(i+2).Is("true"):
			out.flags[key.Text] = true
		case exclusions[key.Text] || selections[key.Text]:
			out.add(src, key.Text, i+2)
		}
	}
	return out
}

// add records the texts of a value.
func (r *runnerSettings) add(src *lexer.Source, key string, i int) {
	if r.values[key] == nil {
		r.values[key] = map[string]bool{}
	}
	end := i + 1
	if src.At(i).Kind == lexer.Punct && src.Pairs[min(i, len(src.Pairs)-1)] > i {
		end = src.Close(i)
	}
	for ; i < end; i++ {
		if t := src.At(i); t.Kind == lexer.Text && !src.At(i+1).Is(":") {
			r.values[key][strings.TrimSpace(t.Text)] = true
		}
	}
}

var testScript = regexp.MustCompile(`^(pre|post)?(test|tests|check|e2e|unit|integration)([:_-].*)?$`)

// packageJSON judges the scripts that run tests, and the settings of runners.
func packageJSON(c *buildfiles.Change) {
	before, after := decode(c.Before), decode(c.After)
	if before != nil && after == nil {
		if len(before.tests()) > 0 {
			c.Exclude("", "it was removed or is no longer valid JSON, so its test script cannot run")
		}
		return
	}
	if after == nil {
		return
	}
	was, is := before.tests(), after.tests()
	names := slices.Collect(maps.Keys(is))
	for n := range was {
		if _, ok := is[n]; !ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		c.Command("script "+n, was[n], is[n])
	}
	inner := &buildfiles.Change{Before: before.runners(), After: after.runners(), Existed: before != nil, Exists: true}
	compareRunnerSettings(inner)
	c.Excluded, c.Edited = append(c.Excluded, inner.Excluded...), append(c.Edited, inner.Edited...)
}

type packageFile map[string]json.RawMessage

func (p packageFile) tests() map[string]string {
	var scripts map[string]any
	out := map[string]string{}
	if json.Unmarshal(p["scripts"], &scripts) != nil {
		return out
	}
	for name, command := range scripts {
		if text, ok := command.(string); ok && testScript.MatchString(name) {
			out[name] = text
		}
	}
	return out
}

// runners returns the settings of test runners as JSON.
func (p packageFile) runners() []byte {
	out := map[string]json.RawMessage{}
	for _, key := range []string{"jest", "vitest", "mocha", "ava", "tap"} {
		if v, ok := p[key]; ok {
			out[key] = v
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return data
}

func decode(data []byte) packageFile {
	var p packageFile
	if json.Unmarshal(data, &p) != nil {
		return nil
	}
	return p
}
