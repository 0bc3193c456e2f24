package python

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/buildfiles"
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

var (
	iniSection = regexp.MustCompile(`^\s*\[+([^\]]+)\]+`)
	iniKey     = regexp.MustCompile(`^([A-Za-z_][\w.-]*)\s*[=:]\s*(.*)$`)
)

// pytestSections contain settings of pytest.
var pytestSections = map[string]bool{"pytest": true, "tool:pytest": true, "tool.pytest.ini_options": true, "tool.pytest": true}

// iniFile contains the test settings of an INI or TOML file: settings of pytest, and commands of
// tox and similar tools.
type iniFile struct {
	pytest   map[string]*strings.Builder
	commands strings.Builder
}

func (f *iniFile) value(key string) string {
	if b := f.pytest[key]; b != nil {
		return b.String()
	}
	return ""
}

func (f *iniFile) words(key string) []string { return wordsInValue.FindAllString(f.value(key), -1) }

// readIni reads INI and TOML files alike: keys, and values with their continuation lines.
func readIni(data []byte) *iniFile {
	f := &iniFile{pytest: map[string]*strings.Builder{}}
	section, key := "", ""
	depth := 0
	for _, line := range buildfiles.Uncommented(data, "#") {
		if m := iniSection.FindStringSubmatch(line); m != nil && depth <= 0 {
			section, key = strings.TrimSpace(m[1]), ""
			continue
		}
		if m := iniKey.FindStringSubmatch(line); m != nil && depth <= 0 {
			key, line = m[1], m[2]
			if strings.HasPrefix(key, "ignore_") && strings.HasPrefix(strings.ToLower(line), "true") {
				f.commands.WriteString(key + "\n")
			}
		}
		depth += strings.Count(line, "[") - strings.Count(line, "]")
		switch {
		case pytestSections[section] && key != "":
			if f.pytest[key] == nil {
				f.pytest[key] = &strings.Builder{}
			}
			f.pytest[key].WriteString(" " + line)
		case key == "commands" || key == "commands_pre" || strings.Contains(section, "scripts"):
			f.commands.WriteString(line + "\n")
		}
	}
	return f
}

var wordsInValue = regexp.MustCompile(`[^\s\[\]"',]+`)

// pytestConfig judges the settings of pytest and the commands of tox.
func pytestConfig(c *buildfiles.Change) {
	before, after := readIni(c.Before), readIni(c.After)
	if why := buildfiles.Suppressed(before.value("addopts"), after.value("addopts")); why != "" {
		c.Exclude("addopts", "addopts: "+why)
	}
	for _, k := range []string{"testpaths", "python_files", "python_classes", "python_functions"} {
		compareSelection(c, k, before, after)
	}
	for _, k := range []string{"norecursedirs", "collect_ignore", "collect_ignore_glob"} {
		was := lexer.Set(strings.Join(before.words(k), " "))
		for _, v := range after.words(k) {
			if !was[v] && !buildfiles.NoTests.MatchString(v) {
				c.Exclude(k, k+" excludes "+v)
				break
			}
		}
	}
	was, is := before.commands.String(), after.commands.String()
	if why := buildfiles.Suppressed(was, is); why != "" {
		c.Exclude("commands", "commands: "+why)
	} else if len(buildfiles.TestRunner.FindAllString(was, -1)) > len(buildfiles.TestRunner.FindAllString(is, -1)) {
		c.Exclude("commands", "it no longer runs some of the tests that it ran before")
	}
}

// pytestDefaults are the values of missing settings.
var pytestDefaults = map[string][]string{
	"python_files": {"test_*.py", "*_test.py"}, "python_classes": {"Test"}, "python_functions": {"test"},
}

// compareSelection judges a setting that selects tests: previously selected tests must still be
// selected.
func compareSelection(c *buildfiles.Change, k string, before, after *iniFile) {
	was, is := before.words(k), after.words(k)
	if len(was) == 0 {
		was = pytestDefaults[k]
	}
	if len(is) == 0 {
		is = pytestDefaults[k]
	}
	if len(is) == 0 { // the whole repository is searched
		return
	}
	if len(was) == 0 {
		if c.Existed {
			c.Edit(k, k+" now restricts where to look for tests")
		}
		return
	}
	picked := lexer.Set(strings.Join(is, " "))
	for _, v := range was {
		wider := k != "testpaths" && (picked[v+"_"] || picked[v+"*"] || picked[v+"_*"] || picked["*"])
		if !picked[v] && !wider {
			c.Exclude(k, k+" no longer selects "+v)
			return
		}
	}
}

// conftestHooks are words with which a conftest.py can prevent tests from running or failing.
var conftestHooks = lexer.Set(`skip skipif xfail deselected collect_ignore collect_ignore_glob pytest_ignore_collect exitstatus outcome
	pytest_pyfunc_call pytest_runtest_protocol pytest_runtestloop pytest_collection_modifyitems wasxfail`)

// conftest judges the effect of a conftest.py on the tests in and below its directory.
func conftest(c *buildfiles.Change) {
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
			c.Exclude(w, w+" prevents tests from running or failing")
			return
		}
	}
}
