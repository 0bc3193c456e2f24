package environment

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// needs are the test requirements besides the project's own dependencies.
type needs struct {
	extras   []string
	groups   []string
	files    []string // of requirements, relative to the root
	packages []string
	named    bool // the project itself declares its test requirements
}

func (n *needs) add(more needs) {
	n.extras = appendNew(n.extras, more.extras...)
	n.groups = appendNew(n.groups, more.groups...)
	n.files = appendNew(n.files, more.files...)
	n.packages = appendNew(n.packages, more.packages...)
}

func appendNew(list []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) && len(list) < maxWords {
			list = append(list, s)
		}
	}
	return list
}

func (n needs) empty() bool {
	return len(n.extras)+len(n.groups)+len(n.files)+len(n.packages) == 0
}

// Names of extras and groups for tests, and for development.
var (
	testNames = map[string]bool{"test": true, "tests": true, "testing": true, "unittest": true, "unit": true, "pytest": true, "ci": true}
	devNames  = map[string]bool{"dev": true, "develop": true, "development": true, "devel": true}
)

// pythonNeeds determines the test requirements: from the packages that the workflows, tox and nox
// install before they run tests; from the usual names; and, if no name is for tests, from the names
// for development.
func (f *finder) pythonNeeds(p pythonProject) needs {
	var n needs
	n.add(f.fromWorkflows(p))
	n.add(f.fromTox(p))
	n.add(f.fromNox(p))
	n.add(fromHatch(p))
	f.keepKnown(p, &n)
	n.named = !n.empty()
	tested := n.named
	for _, name := range p.extras() {
		if testNames[normal(name)] {
			n.extras, tested = appendNew(n.extras, name), true
		}
	}
	for _, name := range p.toml.names("dependency-groups") {
		if testNames[normal(name)] {
			n.groups, tested = appendNew(n.groups, name), true
		}
	}
	if len(n.files) == 0 {
		n.files = f.conventionalFiles(p.Dir)
		tested = tested || slices.ContainsFunc(n.files, func(file string) bool { return path.Base(file) != "requirements.txt" })
	}
	if !tested {
		for _, name := range p.extras() {
			if devNames[normal(name)] {
				n.extras = appendNew(n.extras, name)
			}
		}
		for _, name := range p.toml.names("dependency-groups") {
			if devNames[normal(name)] {
				n.groups = appendNew(n.groups, name)
			}
		}
	}
	n.packages = appendNew(n.packages, testsRequire(p.setup)...)
	f.selfInstalled(&n)
	return n
}

// keepKnown drops names that the project does not have: a name in a workflow can belong to another
// project.
func (f *finder) keepKnown(p pythonProject, n *needs) {
	extras, groups := p.extras(), p.toml.names("dependency-groups")
	unknown := func(known []string) func(string) bool {
		return func(name string) bool { return !slices.Contains(known, name) && !slices.Contains(known, normal(name)) }
	}
	if p.setup == "" { // whose extras may be computed
		n.extras = slices.DeleteFunc(n.extras, unknown(extras))
	}
	n.groups = slices.DeleteFunc(n.groups, unknown(groups))
	n.groups = slices.DeleteFunc(n.groups, func(name string) bool { return notForTests[normal(name)] })
	n.files = slices.DeleteFunc(n.files, func(file string) bool { return !f.t.has(file) || !inside(file, p.Dir) })
	n.extras = slices.DeleteFunc(n.extras, func(name string) bool { return !groupName.MatchString(name) })
}

var (
	groupName   = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,60}$`)
	requirement = regexp.MustCompile(`^[A-Za-z0-9][\w.-]{0,80}(?:\[[\w., -]{1,80}\])?\s*(?:\(?[<>=!~][\w.*,<>=!~+ ]{0,80}\)?)?\s*(?:;[^\x00-\x1f]{1,200})?$`)
	nameStart   = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*`)
	notName     = regexp.MustCompile(`[-_.]+`)
)

// normal normalizes a name as package indexes do to compare names.
func normal(name string) string { return strings.ToLower(notName.ReplaceAllString(name, "-")) }

// named returns the name of the package in a requirement.
func named(req string) string { return normal(nameStart.FindString(strings.TrimSpace(req))) }

var (
	extrasBlock  = regexp.MustCompile(`(?s)extras_require\s*=\s*(?:dict\()?\{(.*?)\}`)
	extrasKey    = regexp.MustCompile(`["']([\w.-]+)["']\s*:`)
	requireBlock = regexp.MustCompile(`(?s)tests_require\s*=\s*\[(.*?)\]`)
	stringInCode = regexp.MustCompile(`"([^"\n]*)"|'([^'\n]*)'`)
)

// extras lists the names of the project's extras.
func (p pythonProject) extras() []string {
	out := p.toml.names("project", "optional-dependencies")
	out = append(out, p.toml.names("tool", "poetry", "extras")...)
	for name := range p.cfg["options.extras_require"] {
		out = append(out, name)
	}
	if block := extrasBlock.FindStringSubmatch(p.setup); block != nil {
		for _, key := range extrasKey.FindAllStringSubmatch(block[1], maxWords) {
			out = append(out, key[1])
		}
	}
	out = slices.DeleteFunc(out, func(name string) bool { return !groupName.MatchString(name) })
	return unique(out)
}

// testsRequire returns the test requirements of an old setup.py.
func testsRequire(setup string) []string {
	block := requireBlock.FindStringSubmatch(setup)
	if block == nil {
		return nil
	}
	return requirementsIn(block[1])
}

func requirementsIn(code string) []string {
	var out []string
	for _, s := range stringInCode.FindAllStringSubmatch(code, maxWords) {
		if req := s[1] + s[2]; requirement.MatchString(req) {
			out = append(out, req)
		}
	}
	return out
}

// fromWorkflows reads the packages that jobs install before they run tests.
func (f *finder) fromWorkflows(p pythonProject) needs {
	var n needs
	for _, c := range f.beforeTests() {
		if c.dir == p.Dir || c.dir == "." && p.Dir == "." {
			f.installed(c.command, p.Dir, &n)
		}
	}
	return n
}

// fromTox reads the environments that run tests.
func (f *finder) fromTox(p pythonProject) needs {
	tox := f.t.ini(path.Join(p.Dir, "tox.ini"))
	if text := p.toml.str("tool", "tox", "legacy_tox_ini"); len(tox) == 0 && text != "" {
		tox = parseINI(text)
	}
	var n needs
	for _, section := range []string{"testenv", "testenv:test", "testenv:tests", "testenv:unit", "testenv:py"} {
		env := tox[section]
		for line := range strings.Lines(env["deps"]) {
			f.toxDependency(strings.TrimSpace(line), p.Dir, &n)
		}
		n.extras = appendNew(n.extras, toxNames(env["extras"])...)
		n.groups = appendNew(n.groups, toxNames(env["dependency_groups"])...)
		for line := range strings.Lines(env["commands"]) {
			f.installed(strings.TrimSpace(line), p.Dir, &n)
		}
	}
	return n
}

// toxNames returns the names in a setting: names for all environments, and names for the test
// environments ("tests: cov").
func toxNames(value string) []string {
	var out []string
	for line := range strings.Lines(value) {
		if factor := toxFactor.FindString(line); factor != "" {
			if !strings.Contains(factor, "test") {
				continue
			}
			line = line[len(factor):]
		}
		out = append(out, strings.FieldsFunc(line, isSeparator)...)
	}
	return out
}

func isSeparator(r rune) bool { return r == '\n' || r == ',' || r == ' ' || r == '\t' }

var toxFactor = regexp.MustCompile(`^[\w.{},!-]+:\s+`)

func (f *finder) toxDependency(line, dir string, n *needs) {
	if strings.ContainsAny(line, "{}") || toxFactor.MatchString(line) {
		return // for some environments only
	}
	if file, ok := strings.CutPrefix(line, "-r"); ok {
		n.files = appendNew(n.files, path.Join(dir, strings.TrimSpace(file)))
		return
	}
	if requirement.MatchString(line) {
		n.packages = appendNew(n.packages, line)
	}
}

var (
	noxTests   = regexp.MustCompile(`(?m)^def (?:tests?|unit\w*|pytest|test_\w+)\(`)
	noxEnd     = regexp.MustCompile(`\n\S`)
	noxInstall = regexp.MustCompile(`session\.(?:install|run_install)\(([^()]*)\)`)
	notLiteral = regexp.MustCompile(`[^\s,]`)
)

// fromNox reads the packages that the test sessions of a noxfile install, if they are literals.
func (f *finder) fromNox(p pythonProject) needs {
	var n needs
	code := f.t.text(path.Join(p.Dir, "noxfile.py"))
	for _, at := range noxTests.FindAllStringIndex(code, 10) {
		body := code[at[1]:]
		if end := noxEnd.FindStringIndex(body); end != nil {
			body = body[:end[0]]
		}
		for _, call := range noxInstall.FindAllStringSubmatch(body, maxWords) {
			if notLiteral.MatchString(stringInCode.ReplaceAllString(call[1], "")) {
				continue
			}
			list := []string{"pip", "install"}
			for _, s := range stringInCode.FindAllStringSubmatch(call[1], maxWords) {
				list = append(list, s[1]+s[2])
			}
			f.installed(sandbox.Quote(list...), p.Dir, &n)
		}
	}
	return n
}

// fromHatch reads the environments of Hatch that run tests.
func fromHatch(p pythonProject) needs {
	var n needs
	for _, name := range []string{"default", "test", "tests", "hatch-test", "testing"} {
		env := []string{"tool", "hatch", "envs", name}
		for _, key := range []string{"dependencies", "extra-dependencies"} {
			for _, req := range p.toml.list(append(env, key)...) {
				if requirement.MatchString(req) {
					n.packages = appendNew(n.packages, req)
				}
			}
		}
		n.extras = appendNew(n.extras, p.toml.list(append(env, "features")...)...)
		n.groups = appendNew(n.groups, p.toml.list(append(env, "dependency-groups")...)...)
	}
	return n
}

// notForTests are packages that workflows install for their own use.
var notForTests = map[string]bool{
	"pip": true, "wheel": true, "tox": true, "tox-uv": true, "tox-gh-actions": true, "tox-gh": true, "nox": true, "build": true, "twine": true,
	"pre-commit": true, "codecov": true, "coveralls": true, "uv": true, "poetry": true, "pdm": true, "hatch": true, "pipenv": true, "virtualenv": true,
}

// installed reads an install command: pip, uv, poetry or pdm.
func (f *finder) installed(command, dir string, n *needs) {
	list, ok := split(command)
	if !ok {
		return
	}
	for len(list) > 2 && (list[0] == "python" || list[0] == "python3" || list[0] == "uv") && (list[1] == "-m" || list[1] == "pip") {
		list = list[1:]
		if list[0] == "-m" {
			list = list[1:]
		}
	}
	switch {
	case len(list) < 2:
	case (list[0] == "pip" || list[0] == "pip3") && list[1] == "install":
		f.pipArguments(list[2:], dir, n)
	case list[0] == "uv" && (list[1] == "sync" || list[1] == "run"), (list[0] == "poetry" || list[0] == "pdm") && list[1] == "install":
		lockedArguments(list[2:], n)
	}
}

func (f *finder) pipArguments(args []string, dir string, n *needs) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch file, joined := strings.CutPrefix(arg, "--requirement="); {
		case joined:
			n.files = appendNew(n.files, path.Join(dir, file))
		case arg == "-r" || arg == "--requirement":
			n.files = appendNew(n.files, path.Join(dir, next))
			i++
		case strings.HasPrefix(arg, "-r") && len(arg) > 2:
			n.files = appendNew(n.files, path.Join(dir, arg[2:]))
		case arg == "--group":
			n.groups = appendNew(n.groups, next)
			i++
		case arg == "-e" || arg == "--editable":
		case slices.Contains([]string{"-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--python", "-t", "--target"}, arg):
			i++
		case strings.HasPrefix(arg, "-"):
		case strings.HasPrefix(arg, ".["):
			n.extras = appendNew(n.extras, extrasOf(arg)...)
		case requirement.MatchString(arg) && !notForTests[named(arg)]:
			n.packages = appendNew(n.packages, arg)
		}
	}
}

// lockedArguments reads the flags for managers with a lock file to install more than the default.
func lockedArguments(args []string, n *needs) {
	for i := 0; i+1 < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		switch args[i] {
		case "--group", "--only-group", "--with":
			n.groups = appendNew(n.groups, strings.Split(args[i+1], ",")...)
			i++
		case "--extra", "-E", "--extras", "-G":
			n.extras = appendNew(n.extras, strings.FieldsFunc(args[i+1], isSeparator)...)
			i++
		}
	}
}

// extrasOf returns the names in brackets: for ".[a,b]" a and b.
func extrasOf(req string) []string {
	_, rest, _ := strings.Cut(req, "[")
	list, _, _ := strings.Cut(rest, "]")
	return strings.FieldsFunc(list, isSeparator)
}

func increment(number string) string {
	n, err := strconv.Atoi(number)
	if err != nil {
		return number
	}
	return strconv.Itoa(n + 1)
}
