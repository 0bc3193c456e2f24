package javascript

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin/settings"
)

var testScript = regexp.MustCompile(`^(pre|post)?(test|tests|check|e2e|unit|integration)([:_-].*)?$`)

// packageJSON judges the scripts that run tests, and the settings of runners.
func packageJSON(c *settings.Change) {
	before, after := decode(c.Before), decode(c.After)
	if before != nil && after == nil {
		if len(before.tests()) > 0 {
			c.Exclude("", "it is gone or no valid JSON any more, so its test script cannot run")
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
	inner := &settings.Change{Before: before.runners(), After: after.runners(), Existed: before != nil, Exists: true}
	compareRunnerSettings(inner)
	c.Notices = append(c.Notices, inner.Notices...)
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

func decode(data []byte) packageFile {
	var p packageFile
	if json.Unmarshal(data, &p) != nil {
		return nil
	}
	return p
}
