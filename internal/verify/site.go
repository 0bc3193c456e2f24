package verify

import (
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// level is how bad a tool says that something is.
type level string

const (
	levelError   level = "error"
	levelWarning level = "warning"
	levelNote    level = "note"
)

// problem is what a tool complains about. path is relative to the checkout,
// "" when the place lies outside or is unknown.
type problem struct {
	level   level
	path    string
	line    int
	rule    string
	message string
}

func (p problem) location() string { return location(p.path, p.line) }

func location(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line <= 0:
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// testCase is a case with what is needed to run it again.
type testCase struct {
	contract.TestCase
	test  string // the runner's own name for it
	group string // Go: the package
	file  string // where it stands, relative to the checkout
	// frames are places by package, innermost last (Java).
	frames []problem
}

// parsed is what the output or a report of a command says.
type parsed struct {
	cases     []testCase
	problems  []problem
	artifacts []attachment
	// unexplained: something failed besides the failed cases, so that their
	// passing later does not make the command green.
	unexplained bool
	// sum is the runner's own account of its tests; nil where it gives none, and the
	// cases are all there is.
	sum *contract.TestSummary
	// noTAP: the account is that of a runner that writes no TAP.
	noTAP bool
}

// attachment is a file that a report names. The path is what the report says:
// hostile.
type attachment struct {
	name string
	path string
	kind contract.ArtifactType
}

func (p *parsed) add(more parsed) {
	p.cases = append(p.cases, more.cases...)
	p.problems = append(p.problems, more.problems...)
	p.artifacts = append(p.artifacts, more.artifacts...)
	p.unexplained = p.unexplained || more.unexplained
	p.noTAP = p.noTAP || more.noTAP
	switch {
	case more.sum == nil && p.sum != nil:
		*p.sum = p.sum.Add(summarise(more.cases))
	case more.sum != nil && p.sum == nil:
		sum := summarise(p.cases[:len(p.cases)-len(more.cases)]).Add(*more.sum)
		p.sum = &sum
	case more.sum != nil:
		*p.sum = p.sum.Add(*more.sum)
	}
}

// summary counts the tests: by the runner's own account where it gives one, but
// never less red than its cases. What failed first and passed later is flaky.
func (p *parsed) summary() contract.TestSummary {
	cases := summarise(p.cases)
	if p.sum == nil {
		return cases
	}
	sum := *p.sum
	sum.Flaky = cases.Flaky
	sum.Failed = max(cases.Failed, sum.Failed-cases.Flaky)
	return sum
}

func (p *parsed) failed() []testCase {
	var out []testCase
	for _, c := range p.cases {
		if c.Status == contract.TestFailed {
			out = append(out, c)
		}
	}
	return out
}

// site is where a command ran, by which paths in its output become paths in
// the checkout.
type site struct {
	root   string // on the host
	dir    string // working directory, relative to root
	goDirs map[string]string
}

// rel turns a path as a tool prints it into one relative to the checkout. It
// is "" for a path outside: a location is shown as one in the repository.
func (s site) rel(p string) string {
	p = strings.TrimSpace(p)
	if rest, ok := strings.CutPrefix(p, "file://"); ok {
		p = rest
		if plain, err := url.PathUnescape(rest); err == nil {
			p = plain
		}
	}
	if p == "" || len(p) > 1000 || strings.ContainsAny(p, "\n\x00") {
		return ""
	}
	if path.IsAbs(p) {
		inside, ok := s.inside(path.Clean(p))
		if !ok {
			return ""
		}
		p = inside
	} else {
		p = path.Join(s.dir, p)
	}
	if !filepath.IsLocal(p) || p == "." || below(p, scratchDir) {
		return ""
	}
	return name(p)
}

func (s site) inside(p string) (string, bool) {
	for _, root := range []string{sandbox.Workspace, s.root} {
		if rest, ok := strings.CutPrefix(p, root+"/"); ok && root != "" {
			return rest, true
		}
	}
	return "", false
}

// goDir is the directory of a Go package, relative to the checkout.
func (s site) goDir(importPath string) string {
	importPath, _, _ = strings.Cut(importPath, " ") // "m/pkg [m/pkg.test]"
	importPath = strings.TrimSuffix(importPath, "_test")
	best, dir := -1, ""
	for module, d := range s.goDirs {
		rest, ok := strings.CutPrefix(importPath, module)
		if ok && len(module) > best && (rest == "" || rest[0] == '/') {
			best, dir = len(module), path.Join(d, strings.TrimPrefix(rest, "/"))
		}
	}
	if best < 0 || !filepath.IsLocal(dir) {
		return ""
	}
	return dir
}
