package pin

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
)

var (
	iniSection = regexp.MustCompile(`^\s*\[+([^\]]+)\]+`)
	iniKey     = regexp.MustCompile(`^([A-Za-z_][\w.-]*)\s*[=:]\s*(.*)$`)
)

// pytestSections hold settings of pytest.
var pytestSections = map[string]bool{"pytest": true, "tool:pytest": true, "tool.pytest.ini_options": true, "tool.pytest": true}

// iniFile is what an INI or TOML file says of tests: settings of pytest, and
// commands of tox and the like.
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

// readIni reads INI and TOML files alike: keys, and values with their further
// lines.
func readIni(data []byte) *iniFile {
	f := &iniFile{pytest: map[string]*strings.Builder{}}
	section, key := "", ""
	depth := 0
	for _, line := range uncommented(data, "#") {
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
func pytestConfig(c *settingsChange) {
	before, after := readIni(c.before), readIni(c.after)
	if why := silenced(before.value("addopts"), after.value("addopts")); why != "" {
		c.exclude("addopts", "addopts: "+why)
	}
	for _, k := range []string{"testpaths", "python_files", "python_classes", "python_functions"} {
		narrowed(c, k, before, after)
	}
	for _, k := range []string{"norecursedirs", "collect_ignore", "collect_ignore_glob"} {
		was := set(strings.Join(before.words(k), " "))
		for _, v := range after.words(k) {
			if !was[v] && !noTests.MatchString(v) {
				c.exclude(k, k+" leaves out "+v)
				break
			}
		}
	}
	was, is := before.commands.String(), after.commands.String()
	if why := silenced(was, is); why != "" {
		c.exclude("commands", "commands: "+why)
	} else if len(runner.FindAllString(was, -1)) > len(runner.FindAllString(is, -1)) {
		c.exclude("commands", "tests that it ran are not run any more")
	}
}

// pytestDefaults are what settings mean that are not there.
var pytestDefaults = map[string][]string{
	"python_files": {"test_*.py", "*_test.py"}, "python_classes": {"Test"}, "python_functions": {"test"},
}

// narrowed judges a setting that picks tests: what it picked must still be
// picked.
func narrowed(c *settingsChange, k string, before, after *iniFile) {
	was, is := before.words(k), after.words(k)
	if len(was) == 0 {
		was = pytestDefaults[k]
	}
	if len(is) == 0 {
		is = pytestDefaults[k]
	}
	if len(is) == 0 { // all of the repository is looked through
		return
	}
	if len(was) == 0 {
		if c.existed {
			c.edit(k, k+" says now where tests are")
		}
		return
	}
	picked := set(strings.Join(is, " "))
	for _, v := range was {
		wider := k != "testpaths" && (picked[v+"_"] || picked[v+"*"] || picked[v+"_*"] || picked["*"])
		if !picked[v] && !wider {
			c.exclude(k, k+" does not pick "+v+" any more")
			return
		}
	}
}

// conftestHooks are words by which a conftest.py keeps tests from running or
// failing.
var conftestHooks = set(`skip skipif xfail deselected collect_ignore collect_ignore_glob pytest_ignore_collect exitstatus outcome
	pytest_pyfunc_call pytest_runtest_protocol pytest_runtestloop pytest_collection_modifyitems wasxfail`)

// conftest judges what a conftest.py does to the tests around it.
func conftest(c *settingsChange) {
	count := func(data []byte) map[string]int {
		f := &pyFile{source: &source{}, suite: &suite{}}
		f.scan(data)
		out := map[string]int{}
		for _, l := range f.lines {
			for _, t := range f.tokens[l.from:l.to] {
				if t.kind == word && conftestHooks[t.text] {
					out[t.text]++
				}
				if t.kind == word && strings.HasPrefix(f.tokens[l.from].text, "collect_ignore") {
					out["collect_ignore"]++
				}
			}
			if strings.HasPrefix(f.tokens[l.from].text, "collect_ignore") {
				out["collect_ignore"] += l.to - l.from
			}
		}
		return out
	}
	before, after := count(c.before), count(c.after)
	for _, w := range slices.Sorted(maps.Keys(after)) {
		if after[w] > before[w] {
			c.exclude(w, w+" keeps tests from running or failing")
			return
		}
	}
}

var (
	makeTarget = regexp.MustCompile(`^([\w./%-]+(?:\s+[\w./%-]+)*)\s*::?\s*([^=].*)?$`)
	makeTests  = regexp.MustCompile(`^(tests?|check|ci|verify|tests?[-_/].*|.*[-_/]tests?|e2e|unit|integration)$`)
)

// maxTargets is how many targets of one rule are looked at.
const maxTargets = 64

// makeRule is a target of a Makefile.
type makeRule struct{ needs, recipe strings.Builder }

func makeRules(data []byte) map[string]*makeRule {
	out := map[string]*makeRule{}
	var current []string
	for _, line := range uncommented(data, "#") {
		if recipe, ok := strings.CutPrefix(line, "\t"); ok {
			for _, t := range current {
				out[t].recipe.WriteString(recipe + "\n")
			}
			continue
		}
		m := makeTarget.FindStringSubmatch(line)
		if m == nil {
			if strings.TrimSpace(line) != "" {
				current = nil
			}
			continue
		}
		head, _, _ := strings.Cut(m[2], "#")
		needs, recipe, _ := strings.Cut(head, ";")
		current = current[:0:0]
		for _, t := range strings.Fields(m[1]) {
			if makeTests.MatchString(t) && len(current) < maxTargets {
				if out[t] == nil {
					out[t] = &makeRule{}
				}
				out[t].needs.WriteString(" " + needs)
				out[t].recipe.WriteString(recipe)
				current = append(current, t)
			}
		}
	}
	return out
}

// makefile judges the targets that run tests.
func makefile(c *settingsChange) {
	before, after := makeRules(c.before), makeRules(c.after)
	for _, t := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[t]; !ok {
			c.command("target "+t, "", after[t].recipe.String())
		}
	}
	for _, t := range slices.Sorted(maps.Keys(before)) {
		is, ok := after[t]
		if !ok {
			c.exclude("", "target "+t+" is gone")
			continue
		}
		target(c, t, before[t], is)
	}
	sign := regexp.MustCompile(`(?m)^\.IGNORE\s*:|^MAKEFLAGS\s*\+?=.*(-i\b|--ignore-errors)`)
	if sign.Match(c.after) && !sign.Match(c.before) {
		c.exclude("", "failures of recipes do not count")
	}
}

func target(c *settingsChange, name string, was, is *makeRule) {
	name = "target " + name
	needed, needs := strings.Fields(was.needs.String()), strings.Fields(is.needs.String())
	before, after := was.recipe.String(), is.recipe.String()
	has, mentions := set(is.needs.String()), set(after)
	for _, n := range needed {
		if !has[n] && !mentions[n] {
			c.exclude(after, name+" does not need "+n+" any more")
			return
		}
	}
	if dashes(after) > dashes(before) {
		c.exclude(after, name+": failures do not count")
		return
	}
	if strings.TrimSpace(after) == "" && len(needs) > len(needed) {
		after = "make " + is.needs.String()
	}
	c.command(name, before, after)
}

// dashes counts the lines of a recipe whose failure is ignored.
func dashes(recipe string) int {
	n := 0
	for line := range strings.Lines(recipe) {
		if strings.HasPrefix(strings.TrimLeft(line, "@ \t"), "-") {
			n++
		}
	}
	return n
}

// ownConfig judges what a repository says of its verification to this program.
func ownConfig(c *settingsChange) {
	before, after := leaves(c.before), leaves(c.after)
	if before == nil || after == nil && c.exists {
		c.edit("", "it cannot be read")
		return
	}
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if before[k] != after[k] {
			setting(c, k, before[k], after[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[k]; !ok {
			settingGone(c, k, before[k])
		}
	}
}

// setting judges one setting of ours.
func setting(c *settingsChange, k, was, is string) {
	last := k[strings.LastIndexByte(k, '.')+1:]
	switch last {
	case "enabled", "auto_detect":
		if is == "false" {
			c.exclude(last, k+" is turned off")
			return
		}
	case "require_tests":
		if was == "true" {
			c.exclude(last, k+" is turned off")
			return
		}
	case "command":
		c.command(k, was, is)
		return
	case "max_major", "max_medium":
		old, _ := strconv.Atoi(was)
		if limit, _ := strconv.Atoi(is); limit > old && (was != "" || last != "max_medium" || limit > 10) {
			c.exclude(last, k+" lets more findings pass")
			return
		}
	case "severity":
		if was == "" {
			was = defaultSeverity(k)
		}
		if slices.Index(contract.Severities(), contract.Severity(is)) > slices.Index(contract.Severities(), contract.Severity(was)) {
			c.exclude(last, k+" makes less of what is found")
			return
		}
	}
	if c.existed {
		c.edit(last, k+" is changed")
	}
}

// defaultSeverity is what findings of a stage are worth where nothing is said.
func defaultSeverity(k string) string {
	switch {
	case strings.HasPrefix(k, "verification.lint."):
		return string(contract.SeverityMinor)
	case strings.HasPrefix(k, "verification.security."):
		return string(contract.SeverityMedium)
	default:
		return string(contract.SeverityMajor)
	}
}

func settingGone(c *settingsChange, k, was string) {
	last := k[strings.LastIndexByte(k, '.')+1:]
	gone := last == "command" || was == "true" && (last == "require_tests" || last == "enabled") || last == "name" && strings.Contains(k, "custom")
	if gone {
		c.exclude("", k+" is gone: "+was)
		return
	}
	c.edit("", k+" is gone")
}

// leaves are the settings of verification and findings by their path; nil for
// what is no YAML. The file is read as a tree: made into values, a small one can take up
// any amount of memory, by repeated keys or by aliases of aliases.
func leaves(data []byte) map[string]string {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil {
		return nil
	}
	l := settingLeaves{out: map[string]string{}, left: maxSettingNodes}
	if len(doc.Content) == 0 { // an empty file
		return l.out
	}
	top := doc.Content[0].Content
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(top); i += 2 {
		name := top[i].Value
		l.wrong = l.wrong || seen[name] || name == mergeKey
		seen[name] = true
		if name == "verification" || name == "findings" {
			l.add(name, top[i+1], 0)
		}
	}
	if l.wrong {
		return nil
	}
	return l.out
}

// mergeKey brings the keys of another mapping, which the settings do not allow.
const mergeKey = "<<"

// maxSettings bounds how many settings of a file are compared.
const maxSettings = 500

// maxSettingNodes bounds how many values of a file of settings are looked at, those
// behind aliases each time.
const maxSettingNodes = 20_000

type settingLeaves struct {
	out   map[string]string
	left  int
	wrong bool // a key is there twice
}

func (l *settingLeaves) add(at string, n *yaml.Node, depth int) {
	l.left--
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || l.left < 0 || depth > 8 || len(l.out) > maxSettings {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			l.wrong = l.wrong || seen[key] || key == mergeKey
			seen[key] = true
			l.add(at+"."+key, n.Content[i+1], depth+1)
		}
	case yaml.SequenceNode:
		for i, x := range n.Content {
			id := strconv.Itoa(i)
			if name := nameIn(x); name != "" {
				id = name
			}
			l.add(at+"["+clean(id)+"]", x, depth+1)
		}
	case yaml.ScalarNode:
		if n.Tag != "!!null" {
			l.out[at] = n.Value
			if n.Tag == "!!bool" {
				l.out[at] = strings.ToLower(n.Value)
			}
		}
	case yaml.DocumentNode, yaml.AliasNode: // there are none within a document, and none of one that is followed
	}
}

// nameIn is what a mapping has under the key name.
func nameIn(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" {
			return n.Content[i+1].Value
		}
	}
	return ""
}
