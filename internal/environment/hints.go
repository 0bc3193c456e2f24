package environment

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxHints     = 200 // of a recipe
	maxFileHints = 40  // of one file
	maxHintText  = 300 // bytes of one
	maxWorkflows = 20
)

// ciCommand is one line that a workflow runs.
type ciCommand struct {
	file    string
	line    int
	job     string // the file and the job in it
	dir     string
	command string
}

// readHints reads the files in which authors describe their setup.
func (f *finder) readHints() {
	workflows := 0
	for _, p := range f.t.files {
		switch {
		case path.Dir(p) == ".github/workflows" && (strings.HasSuffix(p, ".yml") || strings.HasSuffix(p, ".yaml")):
			if workflows++; workflows <= maxWorkflows {
				f.readWorkflow(p)
			}
		case strings.HasPrefix(p, ".devcontainer/") && path.Base(p) == "devcontainer.json" || p == ".devcontainer.json":
			f.lines(p, devcontainerLine)
		}
	}
	for _, h := range hintFiles {
		if f.t.has(h.file) {
			f.lines(h.file, h.line)
		}
	}
}

// hintFiles are read line by line: a line that matches is a hint.
var (
	devcontainerLine = regexp.MustCompile(`"(?:image|onCreateCommand|updateContentCommand|postCreateCommand|postStartCommand|features|version|ghcr\.io/[^"]*)"\s*:`)
	installLine      = regexp.MustCompile(`\b(?:apt-get|apt|apk|dnf|yum|brew|pip3?|pipx|uv|poetry|pdm|pipenv|npm|npx|pnpm|yarn|bun|cargo|rustup|go|mvnw?|gradlew?|make|cmake|corepack|tox|nox|pytest)\s+\S`)
	valueLine        = regexp.MustCompile(`^\s*[\w."-]+\s*[=\s]\s*\S`)
	hintFiles        = []struct {
		file string
		line *regexp.Regexp
	}{
		{"mise.toml", valueLine}, {".mise.toml", valueLine}, {".config/mise.toml", valueLine}, {".tool-versions", valueLine},
		{"Dockerfile", regexp.MustCompile(`(?i)^\s*(?:FROM|RUN|ENV|ARG)\s|` + installLine.String())},
		{"AGENTS.md", installLine}, {"CLAUDE.md", installLine}, {"CONTRIBUTING.md", installLine}, {".github/CONTRIBUTING.md", installLine},
		{"tox.ini", regexp.MustCompile(`^\s*(?:deps|extras|dependency_groups|commands|\[testenv.*|-r\s?\S+)\b`)},
		{"noxfile.py", regexp.MustCompile(`\bsession\.(?:install|run)\(`)},
		{".gitmodules", regexp.MustCompile(`^\s*(?:path|url)\s*=`)}, // a checkout lacks their content
		{"Makefile", installLine}, {"justfile", installLine}, {"Taskfile.yml", installLine},
	}
)

func (f *finder) lines(file string, wanted *regexp.Regexp) {
	n, found := 0, 0
	for line := range strings.Lines(f.t.text(file)) {
		n++
		if len(line) < 2000 && found < maxFileHints && wanted.MatchString(line) {
			f.hint(file, n, line)
			found++
		}
	}
}

func (f *finder) hint(file string, line int, text string) {
	if len(f.r.Hints) < maxHints {
		f.r.Hints = append(f.r.Hints, Hint{File: file, Line: line, Text: clip(strings.TrimSpace(text), maxHintText)})
	}
}

// readWorkflow records the commands in the steps of a workflow. Aliases are not followed, because
// they can make a small file huge.
func (f *finder) readWorkflow(p string) {
	var doc yaml.Node
	if yaml.Unmarshal([]byte(f.t.text(p)), &doc) != nil || len(doc.Content) == 0 {
		return
	}
	before := len(f.r.Hints)
	jobs := field(doc.Content[0], "jobs")
	each(jobs, func(name string, job *yaml.Node) {
		steps := field(job, "steps")
		if steps == nil || steps.Kind != yaml.SequenceNode {
			return
		}
		for _, step := range steps.Content {
			if len(f.r.Hints)-before < maxFileHints {
				f.readStep(p, p+" "+name, step)
			}
		}
	})
}

func (f *finder) readStep(file, job string, step *yaml.Node) {
	if uses := scalar(field(step, "uses")); strings.Contains(uses, "setup-") {
		each(field(step, "with"), func(name string, value *yaml.Node) {
			if strings.Contains(name, "version") && value.Kind == yaml.ScalarNode {
				f.hint(file, value.Line, uses+" "+name+": "+value.Value)
			}
		})
	}
	run := field(step, "run")
	if run == nil || run.Kind != yaml.ScalarNode {
		return
	}
	dir := scalar(field(step, "working-directory"))
	text := strings.ReplaceAll(run.Value, "\\\n", " ")
	offset := 0
	if run.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		offset = 1
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && len(f.ci) < 10*maxHints {
			f.ci = append(f.ci, ciCommand{file: file, line: run.Line + offset, job: job, dir: path.Clean(dir), command: clip(line, 2000)})
			if installLine.MatchString(line) {
				f.hint(file, run.Line+offset, line)
			}
		}
		offset++
	}
}

// field returns the value of a key in a mapping, or nil if the key is missing.
func field(n *yaml.Node, key string) *yaml.Node {
	var found *yaml.Node
	each(n, func(name string, value *yaml.Node) {
		if name == key {
			found = value
		}
	})
	return found
}

func each(n *yaml.Node, do func(name string, value *yaml.Node)) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		do(n.Content[i].Value, n.Content[i+1])
	}
}

func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// ciHas reports whether a workflow installs with a flag, using one of the programs, in
// a job that runs tests.
func (f *finder) ciHas(flag string, programs ...string) bool {
	return slices.ContainsFunc(f.beforeTests(), func(c ciCommand) bool {
		list, ok := split(c.command)
		return ok && slices.Contains(programs, list[0]) && slices.Contains(list, flag)
	})
}

var runsTests = regexp.MustCompile(`^(?:(?:uv|poetry|pdm|pipenv|hatch) run (?:-\S+ )*|coverage run -m |python3? -m )*(?:pytest|unittest|tox|nox|ava|mocha|jest|vitest)\b|` +
	`^(?:npm|pnpm|yarn|bun)(?: run)? (?:test|t\b|vitest|jest)|^hatch (?:run )?test|^(?:go|cargo) test\b|^(?:mvn|\./mvnw|gradle|\./gradlew)\b.*\b(?:test|verify|check|build|install|package)\b|^make (?:test|check)\b|^bash \S*test\S*$`)

// beforeTests lists the commands that jobs run before their first test command, for the jobs that
// have one.
func (f *finder) beforeTests() []ciCommand {
	var out, pending []ciCommand
	job := ""
	for _, c := range f.ci {
		if c.job != job {
			job, pending = c.job, nil
		}
		pending = append(pending, c)
		if runsTests.MatchString(c.command) {
			out = append(out, pending...)
			pending = nil
		}
	}
	return out
}
