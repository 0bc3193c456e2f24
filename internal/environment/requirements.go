package environment

import (
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxIncludes limits the number of requirements files that are read for one project.
const maxIncludes = 40

var conventional = regexp.MustCompile(`^(?:requirements?[-_.](?:dev|develop|development|tests?|testing|ci)|(?:dev|development|tests?|testing|ci)[-_.]requirements?|requirements/(?:dev|develop|development|tests?|testing|ci|local)|tests?/requirements|requirements|test[-_]requirements)\.txt$`)

// conventionalFiles returns the requirements files of a directory that, judging by their names,
// list its own and its test requirements.
func (f *finder) conventionalFiles(dir string) []string {
	var out []string
	for _, file := range f.t.below(dir) {
		if rel := relativeTo(dir, file); strings.Count(rel, "/") < 2 && conventional.MatchString(rel) {
			out = append(out, file)
		}
	}
	if len(out) == 0 {
		if file := f.t.first(dir, "requirements/base.txt", "requirements/requirements.txt"); file != "" {
			out = append(out, file)
		}
	}
	return out
}

// relativeTo returns p relative to dir, for p inside dir.
func relativeTo(dir, p string) string {
	if dir == "." {
		return p
	}
	return strings.TrimPrefix(p, dir+"/")
}

// requirements reads requirements files and the files that they include. A file that includes
// itself is read once.
func (f *finder) requirements(files []string) (lines []string) {
	queue, seen := slices.Clone(files), map[string]bool{}
	for len(queue) > 0 && len(seen) < maxIncludes {
		file := queue[0]
		queue = queue[1:]
		if seen[file] || !filepath.IsLocal(file) {
			continue
		}
		seen[file] = true
		f.input(file)
		for line := range strings.Lines(f.t.text(file)) {
			line = strings.TrimSpace(line)
			option, rest, _ := strings.Cut(strings.Replace(line, "=", " ", 1), " ")
			switch option {
			case "-r", "--requirement", "-c", "--constraint":
				queue = append(queue, path.Join(path.Dir(file), strings.TrimSpace(rest)))
			default:
				if strings.HasPrefix(line, "-r") {
					queue = append(queue, path.Join(path.Dir(file), strings.TrimSpace(line[2:])))
				} else if line != "" && len(lines) < 5000 {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}

var selfEditable = regexp.MustCompile(`^(?:-e|--editable)[ =]\s*\.(?:\[([^\]]*)\])?\s*(?:#.*)?$`)

// selfInstalled adds the extras with which requirements files install the project itself.
func (f *finder) selfInstalled(n *needs) {
	for _, line := range f.requirements(n.files) {
		if found := selfEditable.FindStringSubmatch(line); found != nil {
			for name := range strings.FieldsFuncSeq(found[1], isSeparator) {
				if groupName.MatchString(name) {
					n.extras = appendNew(n.extras, name)
				}
			}
		}
	}
}

var pythonTest = regexp.MustCompile(`(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$`)

// usesPytest reports whether a directory has tests that pytest would find.
func (f *finder) usesPytest(dir string) bool {
	return slices.ContainsFunc(f.t.below(dir), func(file string) bool {
		return pythonTest.MatchString(file) && !isSideDir(path.Dir(relativeTo(dir, file)))
	})
}

// pytestPlugins are detected by their options in pytest's settings.
var pytestPlugins = []struct {
	plugin string
	sign   *regexp.Regexp
}{
	{"pytest-cov", regexp.MustCompile(`--(?:no-)?cov\b`)},
	{"pytest-xdist", regexp.MustCompile(`(?:^|[\s"'=])(?:-n[ =]?(?:auto|logical|\d+)|--numprocesses|--dist[ =])`)},
	{"pytest-asyncio", regexp.MustCompile(`\basyncio_(?:mode|default_\w+)|--asyncio-mode`)},
	{"pytest-timeout", regexp.MustCompile(`--timeout\b|(?m:^timeout(?:_method|_func_only)?\s*=)`)},
	{"pytest-rerunfailures", regexp.MustCompile(`--reruns\b`)},
	{"pytest-benchmark", regexp.MustCompile(`--benchmark-`)},
	{"pytest-randomly", regexp.MustCompile(`--randomly-|-p no:randomly`)},
	{"pytest-django", regexp.MustCompile(`\bDJANGO_SETTINGS_MODULE\b|--ds=|--reuse-db`)},
	{"pytest-env", regexp.MustCompile(`(?m:^env\s*=)`)},
	{"pytest-mock", regexp.MustCompile(`\bmock_use_standalone_module\b`)},
	{"pytest-html", regexp.MustCompile(`--html=`)},
	{"pytest-sugar", regexp.MustCompile(`-p no:sugar`)},
	{"pytest-socket", regexp.MustCompile(`--(?:disable|allow)-(?:socket|hosts)`)},
	{"pytest-mypy", regexp.MustCompile(`--mypy\b`)},
	{"pytest-trio", regexp.MustCompile(`\btrio_mode\b`)},
}

// missingTestPackages returns pytest and the plugins that its settings use, if there are tests for
// pytest and nothing else installs them. lock is the text of the lock file.
func (f *finder) missingTestPackages(p pythonProject, n needs, lock string) []string {
	if !f.usesPytest(p.Dir) {
		return nil
	}
	brought := map[string]bool{}
	for _, req := range slices.Concat(p.required(n), f.requirements(n.files), n.packages) {
		brought[named(req)] = true
	}
	settings := f.pytestSettings(p)
	wanted := []string{"pytest"}
	for _, plugin := range pytestPlugins {
		if plugin.sign.MatchString(settings) {
			wanted = append(wanted, plugin.plugin)
		}
	}
	for _, req := range strings.Fields(requiredPlugins(settings)) {
		if requirement.MatchString(req) {
			wanted = appendNew(wanted, req)
		}
	}
	for line := range strings.Lines(lock) {
		if requirement.MatchString(strings.TrimSpace(line)) {
			brought[named(line)] = true // a list of requirements instead of a lock file
		}
	}
	return slices.DeleteFunc(wanted, func(req string) bool {
		return brought[named(req)] || strings.Contains(lock, `name = "`+named(req)+`"`) || strings.Contains(lock, `"`+named(req)+`": {`)
	})
}

var pluginsSetting = regexp.MustCompile(`(?m)^required_plugins\s*=\s*(.*)$`)

func requiredPlugins(settings string) string {
	if found := pluginsSetting.FindStringSubmatch(settings); found != nil {
		return found[1]
	}
	return ""
}

// pytestSettings returns all settings for pytest, as lines of name = value.
func (f *finder) pytestSettings(p pythonProject) string {
	var b strings.Builder
	for _, section := range []map[string]string{
		f.t.ini(path.Join(p.Dir, "pytest.ini"))["pytest"], f.t.ini(path.Join(p.Dir, "tox.ini"))["pytest"], p.cfg["tool:pytest"],
	} {
		for _, name := range slices.Sorted(maps.Keys(section)) {
			b.WriteString(name + " = " + strings.ReplaceAll(section[name], "\n", " ") + "\n")
		}
	}
	for _, section := range [][]string{{"tool", "pytest", "ini_options"}, {"tool", "pytest"}} {
		for _, name := range slices.Sorted(maps.Keys(p.toml.table(section...))) {
			values := p.toml.list(append(section, name)...)
			b.WriteString(name + " = " + strings.Join(values, " ") + "\n")
		}
	}
	return b.String()
}

// required returns the requirements of the project itself, its extras and groups.
func (p pythonProject) required(n needs) []string {
	out := p.toml.list("project", "dependencies")
	for _, name := range n.extras {
		out = append(out, p.toml.list("project", "optional-dependencies", name)...)
		for line := range strings.Lines(p.cfg.value("options.extras_require", name)) {
			out = append(out, line)
		}
	}
	queue, seen := slices.Clone(n.groups), map[string]bool{}
	for len(queue) > 0 && len(seen) < maxIncludes {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		list, _ := p.toml.table("dependency-groups")[name].([]any)
		for _, item := range list {
			switch item := item.(type) {
			case string:
				out = append(out, item)
			case map[string]any:
				group, _ := item["include-group"].(string)
				queue = append(queue, group)
			}
		}
	}
	return out
}
