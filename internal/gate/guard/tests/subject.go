package tests

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// The limits of the search for the code that a test tests.
const (
	maxTestFiles = 200       // changed test files
	maxSubjects  = 4         // files with the name of one subject
	maxBytes     = 256 << 10 // of a file
	maxLines     = 400       // of a definition
	// minCopied is the number of lines of a definition from which on a copy is one, and copied the part
	// of them that it has.
	minCopied = 3
	copied    = 0.7
)

// testName matches the names of test files, and what they test: x_test.go, test_x.py, x.spec.ts, XTest.java.
var testName = regexp.MustCompile(`^(?:test_(\w+)|(\w[\w.-]*?)(?:_test|_spec|\.test|\.spec|-test))\.(\w+)$|^(\w+?)(?:Tests?|TestCase|IT|Spec)\.(java|kt|cs|php)$`)

// subjectName returns the name, without its extension, of the file that a test file tests, or "".
func subjectName(p string) string {
	m := testName.FindStringSubmatch(path.Base(p))
	if m == nil {
		return ""
	}
	return m[1] + m[2] + m[4]
}

func withoutExtension(p string) string {
	base := path.Base(p)
	return strings.TrimSuffix(base, path.Ext(base))
}

// subjects knows which code of a change is tested by which tests.
type subjects struct {
	change  change.Change
	tests   []change.File            // that exist after the change
	code    map[string][]change.File // by name without extension
	removed map[string]definition    // definitions that the change removes from the code
	paths   map[string][]string      // of the new tree, by name without extension
}

// definition is a function or a type, and its lines.
type definition struct {
	path  string
	lines []string
}

func subjectsOf(c change.Change) *subjects {
	s := &subjects{change: c, code: map[string][]change.File{}}
	for _, f := range c.Files {
		if f.Before.Exists() && !readable(f.Before) || f.After.Exists() && !readable(f.After) {
			continue
		}
		switch {
		case pin.OfTests(f.Path):
			if f.After.Regular() && testName.MatchString(path.Base(f.Path)) && len(s.tests) < maxTestFiles {
				s.tests = append(s.tests, f)
			}
		case f.Before.Regular() && pin.IsCode(f.OldPath()):
			n := withoutExtension(f.OldPath())
			s.code[n] = append(s.code[n], f)
		}
	}
	return s
}

// deletedWith reports whether the change deletes the file that a deleted test file tests.
func (s *subjects) deletedWith(test string) bool {
	n := subjectName(test)
	if n == "" {
		return false
	}
	files := s.code[n]
	return len(files) > 0 && !slices.ContainsFunc(files, func(f change.File) bool { return !f.Deleted() || path.Ext(f.Path) != path.Ext(test) })
}

// lost returns findings about tests that no longer test the code.
func (s *subjects) lost(ctx context.Context) (found []change.Finding, err error) {
	for _, t := range s.tests {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := subjectName(t.Path)
		after := extract.File(t.Path, t.After.Content)
		if f := s.replaced(t, after, n); f != nil {
			found = append(found, *f)
			continue
		}
		added := addedDefinitions(t, after)
		if len(added) == 0 {
			continue
		}
		f, err := s.copy(ctx, t, added, n)
		if err != nil {
			return nil, err
		}
		if f != nil {
			found = append(found, *f)
		}
	}
	return found, nil
}

// replaced recognizes a test file whose subject is deleted, and that used its definitions but no longer
// does.
func (s *subjects) replaced(t change.File, after extract.Extract, subject string) *change.Finding {
	if t.Added() || subject == "" {
		return nil
	}
	before := refs(extract.File(t.OldPath(), t.Before.Content))
	now := refs(after)
	for _, f := range s.code[subject] {
		if !f.Deleted() || path.Ext(f.Path) != path.Ext(t.Path) {
			continue
		}
		var used []string
		for _, d := range extract.File(f.Path, f.Before.Content).Symbols {
			if d.Parent == "" && len(d.Name) > 3 && before[d.Name] && !slices.Contains(used, d.Name) {
				used = append(used, d.Name)
			}
		}
		if len(used) > 0 && !slices.ContainsFunc(used, func(n string) bool { return now[n] }) {
			x := finding(RuleLostSubject, contract.SeverityMedium, t.Path, 0, fmt.Sprintf(
				"%s tested %s of %s, which is deleted, and now tests something else; delete the test with its subject, and name the new one after what it tests",
				change.Clean(t.Path), change.Clean(used[0]), change.Clean(f.Path)))
			return &x
		}
	}
	return nil
}

func refs(x extract.Extract) map[string]bool {
	out := make(map[string]bool, len(x.Refs))
	for _, r := range x.Refs {
		out[r.Name] = true
	}
	return out
}

// addedDefinitions returns the definitions outside tests that a test file has and had not.
func addedDefinitions(t change.File, after extract.Extract) map[string]extract.Symbol {
	out := map[string]extract.Symbol{}
	for _, d := range after.Symbols {
		if d.Parent == "" && isDefinition(d) && d.EndLine-d.Line+1 >= minCopied && !strings.HasPrefix(strings.ToLower(d.Name), "test") {
			out[d.Name] = d
		}
	}
	if len(out) > 0 && !t.Added() {
		for _, d := range extract.File(t.OldPath(), t.Before.Content).Symbols {
			delete(out, d.Name)
		}
	}
	return out
}

func isDefinition(d extract.Symbol) bool {
	switch d.Kind {
	case extract.KindFunction, extract.KindClass, extract.KindStruct:
		return true
	default:
		return false
	}
}

// copy recognizes a test file that contains a copy of a definition that the change removes from the
// code, or that its subject has.
func (s *subjects) copy(ctx context.Context, t change.File, added map[string]extract.Symbol, subject string) (*change.Finding, error) {
	own := lines(t.After.Content)
	removed := s.removedDefinitions()
	for _, name := range slices.Sorted(maps.Keys(added)) {
		of := added[name]
		if d, ok := removed[name]; ok && sameLines(d.lines, linesOf(own, of)) {
			x := finding(RuleLostSubject, contract.SeverityMedium, t.Path, of.Line, fmt.Sprintf(
				"%s contains a copy of %s, which was in %s and is deleted there; test the code, not a copy of it",
				change.Clean(t.Path), change.Clean(name), change.Clean(d.path)))
			return &x, nil
		}
	}
	if subject == "" {
		return nil, nil
	}
	if err := s.listTree(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.paths[subject] {
		if path.Ext(p) != path.Ext(t.Path) || pin.OfTests(p) {
			continue
		}
		content, ok, err := s.change.Tree.Read(ctx, p, maxBytes)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		its := lines(content)
		for _, d := range extract.File(p, content).Symbols {
			if of, ok := added[d.Name]; ok && d.Parent == "" && isDefinition(d) && sameLines(linesOf(its, d), linesOf(own, of)) {
				x := finding(RuleLostSubject, contract.SeverityMedium, t.Path, of.Line, fmt.Sprintf(
					"%s contains a copy of %s of %s; test the code, not a copy of it",
					change.Clean(t.Path), change.Clean(d.Name), change.Clean(p)))
				return &x, nil
			}
		}
	}
	return nil, nil
}

// listTree lists the paths of the new tree once.
func (s *subjects) listTree(ctx context.Context) error {
	if s.paths != nil || s.change.Tree == nil {
		return nil
	}
	all, err := s.change.Tree.Paths(ctx)
	if err != nil {
		return err
	}
	s.paths = map[string][]string{}
	for _, p := range all {
		if n := withoutExtension(p); len(s.paths[n]) < maxSubjects {
			s.paths[n] = append(s.paths[n], p)
		}
	}
	return nil
}

// removedDefinitions returns the definitions that the change removes from the code.
func (s *subjects) removedDefinitions() map[string]definition {
	if s.removed != nil {
		return s.removed
	}
	s.removed = map[string]definition{}
	kept := map[string]bool{}
	for _, f := range s.change.Files {
		if !readable(f.Before) || !pin.IsCode(f.OldPath()) {
			continue
		}
		all := lines(f.Before.Content)
		for _, d := range extract.File(f.OldPath(), f.Before.Content).Symbols {
			if d.Parent == "" && isDefinition(d) {
				s.removed[d.Name] = definition{f.OldPath(), linesOf(all, d)}
			}
		}
	}
	for _, f := range s.change.Files {
		if !readable(f.After) || !pin.IsCode(f.Path) {
			continue
		}
		for _, d := range extract.File(f.Path, f.After.Content).Symbols {
			kept[d.Name] = true
		}
	}
	for n := range kept {
		delete(s.removed, n)
	}
	return s.removed
}

func readable(v change.Version) bool {
	return v.Regular() && !v.Binary() && len(v.Content) <= maxBytes
}

func lines(content []byte) []string {
	all := strings.Split(string(content), "\n")
	for i, l := range all {
		all[i] = strings.TrimSpace(l)
	}
	return all
}

// linesOf returns the significant lines of a definition, without its first one.
func linesOf(all []string, d extract.Symbol) (significant []string) {
	from := min(d.Line, len(all))
	for _, l := range all[from:max(from, min(d.EndLine, len(all), from+maxLines))] {
		if len(l) > 2 {
			significant = append(significant, l)
		}
	}
	return significant
}

// sameLines reports whether most of the lines of a definition are in another one.
func sameLines(of, in []string) bool {
	if len(of) < minCopied {
		return false
	}
	have := map[string]int{}
	for _, l := range in {
		have[l]++
	}
	same := 0
	for _, l := range of {
		if have[l] > 0 {
			have[l]--
			same++
		}
	}
	return float64(same) >= copied*float64(len(of))
}
