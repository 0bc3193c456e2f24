package pin

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var testScript = regexp.MustCompile(`^(pre|post)?(test|tests|check|e2e|unit|integration)([:_-].*)?$`)

// packageJSON judges the scripts that run tests, and the settings of runners.
func packageJSON(c *settingsChange) {
	before, after := decode(c.before), decode(c.after)
	if before != nil && after == nil {
		if len(before.tests()) > 0 {
			c.exclude("", "it is gone or no valid JSON any more, so its test script cannot run")
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
		c.command("script "+n, was[n], is[n])
	}
	inner := &settingsChange{before: before.runners(), after: after.runners(), existed: before != nil, exists: true}
	runnerConfig(inner)
	c.notices = append(c.notices, inner.notices...)
}

type packageFile map[string]json.RawMessage

func decode(data []byte) packageFile {
	var p packageFile
	if json.Unmarshal(data, &p) != nil {
		return nil
	}
	return p
}

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

// runners are the settings of test runners, as JSON.
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

var (
	// leavesOut are settings that name tests which do not run.
	leavesOut = set("testIgnore testPathIgnorePatterns exclude ignore grepInvert modulePathIgnorePatterns excludeSpecPattern excludes")
	// picks are settings that name the tests which run.
	picks = set("testMatch testRegex include testDir grep specPattern spec roots testNamePattern testPathPattern files specs")
	// unrelated are sections whose settings of the same names are about
	// something else.
	unrelated = set("coverage optimizeDeps plugins build resolve server deps use webServer preview css esbuild")
	// flags keep a run from failing.
	flags = set("passWithNoTests dangerouslyIgnoreUnhandledErrors failZero allowEmpty")
	// noTests are folders that hold no tests of a project's own.
	noTests = regexp.MustCompile(`node_modules|dist|build|\.git|coverage|\.next|\.cache|/out/|vendor|\.turbo|target|\.\{|^\*\*/\.|__snapshots__|fixtures`)
)

// runnerSettings are the settings of a test runner that say which tests run.
type runnerSettings struct {
	values map[string]map[string]bool
	flags  map[string]bool
}

// runnerConfig judges the settings of a JavaScript test runner. They are read as
// tokens: a configuration is a program, and is not run.
func runnerConfig(c *settingsChange) {
	before, after := runnerSettingsOf(c.before), runnerSettingsOf(c.after)
	if !c.exists {
		if c.existed {
			c.edit("", "it is gone, so other tests may run than before")
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(after.flags)) {
		if !before.flags[key] {
			c.exclude(key, key+": a run that should fail passes")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(leavesOut)) {
		for _, v := range slices.Sorted(maps.Keys(after.values[key])) {
			if !before.values[key][v] && !noTests.MatchString(v) {
				c.exclude(key, key+" leaves out "+v)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(picks)) {
		picked(c, key, before.values[key], after.values[key])
	}
}

// picked judges a setting that names the tests which run.
func picked(c *settingsChange, key string, before, after map[string]bool) {
	narrow := key == "grep" || key == "testNamePattern" || key == "testPathPattern"
	switch {
	case before == nil && after == nil:
	case before == nil && (narrow || c.existed):
		c.exclude(key, key+" picks some tests where all ran before")
	case before == nil || after == nil:
	default:
		for v := range before {
			if !after[v] {
				c.exclude(key, key+" picks other tests than before")
				return
			}
		}
	}
}

func runnerSettingsOf(data []byte) runnerSettings {
	out := runnerSettings{values: map[string]map[string]bool{}, flags: map[string]bool{}}
	src := scanScript(data)
	if src.deep {
		return out
	}
	for i := 0; i < len(src.tokens); i++ {
		key := src.at(i)
		if !src.at(i+1).is(":") || key.kind == punct || key.kind == number {
			continue
		}
		switch {
		case unrelated[key.text] && src.pair[min(i+2, len(src.tokens)-1)] > i:
			i = src.close(i + 2)
		case flags[key.text] && src.at(i+2).is("true"):
			out.flags[key.text] = true
		case leavesOut[key.text] || picks[key.text]:
			out.add(src, key.text, i+2)
		}
	}
	return out
}

// add notes the texts of a value.
func (r *runnerSettings) add(src *source, key string, i int) {
	if r.values[key] == nil {
		r.values[key] = map[string]bool{}
	}
	end := i + 1
	if src.at(i).kind == punct && src.pair[min(i, len(src.pair)-1)] > i {
		end = src.close(i)
	}
	for ; i < end; i++ {
		if t := src.at(i); t.kind == text && !src.at(i+1).is(":") {
			r.values[key][strings.TrimSpace(t.text)] = true
		}
	}
}
