package python

import (
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/settings"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// conftestHooks are words by which a conftest.py keeps tests from running or
// failing.
var conftestHooks = lexer.Set(`skip skipif xfail deselected collect_ignore collect_ignore_glob pytest_ignore_collect exitstatus outcome
	pytest_pyfunc_call pytest_runtest_protocol pytest_runtestloop pytest_collection_modifyitems wasxfail`)

// conftest judges what a conftest.py does to the tests around it.
func conftest(c *settings.Change) {
	count := func(data []byte) map[string]int {
		f := &file{Source: &lexer.Source{}, result: &testfile.File{}}
		f.scan(data)
		out := map[string]int{}
		for _, l := range f.lines {
			for _, t := range f.Tokens[l.from:l.to] {
				if t.Kind == lexer.Word && conftestHooks[t.Text] {
					out[t.Text]++
				}
				if t.Kind == lexer.Word && strings.HasPrefix(f.Tokens[l.from].Text, "collect_ignore") {
					out["collect_ignore"]++
				}
			}
			if strings.HasPrefix(f.Tokens[l.from].Text, "collect_ignore") {
				out["collect_ignore"] += l.to - l.from
			}
		}
		return out
	}
	before, after := count(c.Before), count(c.After)
	for _, w := range slices.Sorted(maps.Keys(after)) {
		if after[w] > before[w] {
			c.Exclude(w, w+" keeps tests from running or failing")
			return
		}
	}
}
