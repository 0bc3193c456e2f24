// Package syntax finds files that a change breaks: they were valid, or are new, and no longer parse.
//
// It parses Go, JSON, YAML, TOML, XML and shell scripts with the libraries for them, and the brackets,
// texts and comments of Java, Kotlin, C# and Rust. Other languages are left to the linters and compilers
// that the environment runs. Only new errors are found: a file that was broken before may stay so.
//
//	rule                  severity  meaning, and what to do
//	syntax/invalid        major     the file does not parse: correct it at this line
//	                      minor     the same in a test fixture, an example of an error or a template
//	syntax/conflict       major     the file has the markers of a merge conflict: resolve it
//	                      medium    it has only one kind of them: delete the line
//	                      minor     the same in tests and prose, which may describe conflicts
//	syntax/duplicate_key  medium    a key occurs twice in one JSON or YAML object, and most readers
//	                                ignore the first: delete one of them
//	                      minor     the same in a test fixture
//	syntax/not_text       medium    source code contains zero bytes: save it as UTF-8
//	syntax/unreadable     minor     the file is too large or nested too deeply to parse
package syntax

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/pin/language"
)

// name is the value of Finding.Guard.
const name = "syntax"

// The rules.
const (
	RuleInvalid      = "invalid"
	RuleConflict     = "conflict"
	RuleDuplicateKey = "duplicate_key"
	RuleNotText      = "not_text"
	RuleUnreadable   = "unreadable"
)

// maxTotal is the number of bytes that are parsed of a change. What is more is only searched for
// conflict markers.
const maxTotal = 24 << 20

// Guard finds files that a change breaks.
var Guard change.Guard = guard{}

type guard struct{}

// Name returns "syntax".
func (guard) Name() string { return name }

// Judge returns what it found, in order of path and line.
func (guard) Judge(ctx context.Context, c change.Change) (found []change.Finding, err error) {
	total, left := 0, 0
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !f.After.Regular() || f.After.Digest == f.Before.Digest && path.Ext(f.Path) == path.Ext(f.OldPath()) {
			continue
		}
		p := checkOf(f.Path)
		switch {
		case f.After.Unread:
			if p != nil && !f.Before.Unread {
				found = append(found, finding(f, RuleUnreadable, contract.SeverityMinor, 0, "it is too large to parse; split it"))
			}
			continue
		case f.After.Binary():
			if p != nil && !f.Before.Binary() && !utf16(f.After.Content) && !onPurpose(f.Path) {
				found = append(found, finding(f, RuleNotText, contract.SeverityMedium, 0, "it contains zero bytes, so it is not text; save it as UTF-8"))
			}
			continue
		}
		found = append(found, conflicts(f)...)
		if p == nil {
			continue
		}
		if total += len(f.After.Content); total > maxTotal {
			left++
			continue
		}
		found = append(found, judge(f, p)...)
	}
	if left > 0 {
		found = append(found, change.Finding{
			Guard: name, Rule: RuleUnreadable, Severity: contract.SeverityMinor,
			Message: fmt.Sprintf("%d files of the change were not parsed, because it is too large; split it", left),
		})
	}
	slices.SortStableFunc(found, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return found, nil
}

// judge parses the new version of a file and, if it is broken, the old one.
func judge(f change.File, p check) []change.Finding {
	after := p(f.Path, f.After.Content)
	if after == nil {
		return nil
	}
	if after.rule != RuleUnreadable && f.Before.Regular() && !f.Before.Binary() {
		if old := checkOf(f.OldPath()); old != nil {
			if before := old(f.OldPath(), f.Before.Content); before != nil && (before.rule == after.rule || before.rule == RuleInvalid) {
				return nil
			}
		}
	}
	severity, what := contract.SeverityMajor, "it is no longer valid: "+after.text+"; correct it"
	if f.Added() {
		what = "it is not valid: " + after.text + "; correct it"
	}
	switch after.rule {
	case RuleDuplicateKey:
		severity, what = contract.SeverityMedium, after.text+"; most readers ignore the first, so delete one of them"
	case RuleUnreadable:
		severity, what = contract.SeverityMinor, after.text
	}
	if after.doubtful || onPurpose(f.Path) || isTemplate(f) {
		severity = contract.SeverityMinor
	}
	return []change.Finding{finding(f, after.rule, severity, after.line, what)}
}

func finding(f change.File, rule string, severity contract.Severity, line int, what string) change.Finding {
	return change.Finding{
		Guard: name, Rule: rule, Path: f.Path, Line: line, Severity: severity,
		Message: change.Clean(f.Path) + ": " + change.Clean(what),
	}
}

// utf16 recognizes the mark at the beginning of a text in UTF-16, which contains zero bytes.
func utf16(content []byte) bool {
	return strings.HasPrefix(string(content[:min(len(content), 2)]), "\xff\xfe") || strings.HasPrefix(string(content[:min(len(content), 2)]), "\xfe\xff")
}

// purposeFolder matches the names of folders whose files may be broken on purpose.
var purposeFolder = regexp.MustCompile(`(?i)^(.*[-_.])?(invalid|broken|bad|malformed|errors?|fails?|failures?|fuzz|corpus|corpora|golden|goldens|snapshots?|cases|examples?|samples?|playground|ui|resources)([-_.].*)?$`)

// onPurpose reports whether a file may be broken on purpose: it is data of tests, or an example of an
// error. Test code must parse.
func onPurpose(p string) bool {
	folders := strings.Split(path.Dir(p), "/")
	inTests := language.InFolder(p, language.TestFolders)
	if language.InFolder(p, language.RecordedFolders) || strings.Contains(p, "/testdata/") {
		return true
	}
	if inTests && slices.ContainsFunc(folders, purposeFolder.MatchString) {
		return true
	}
	if slices.ContainsFunc(folders, func(f string) bool {
		f = strings.ToLower(f)
		return f == "invalid" || f == "broken" || f == "malformed" || f == "fuzz" || f == "corpus"
	}) {
		return true
	}
	return inTests && !isCode(p)
}

func isCode(p string) bool {
	switch strings.ToLower(path.Ext(p)) {
	case ".go", ".java", ".kt", ".cs", ".rs":
		return true
	}
	return false
}

// templateMark matches what fills in templates of other formats: {{ x }}, {% if %}, <% x %>, ${x}, @x@.
var templateMark = regexp.MustCompile(`\{\{|\{%|<%|<#|@[A-Za-z_.]+@|\$\{[A-Za-z_]|__[A-Z_]+__`)

// isTemplate reports whether a program fills in a file before it is valid.
func isTemplate(f change.File) bool {
	if isCode(f.Path) {
		return strings.Contains(strings.ToLower(f.Path), "template") && templateMark.Match(f.After.Content)
	}
	if strings.HasPrefix(f.Path, ".github/") {
		return false // its marks are between quotes, or where any text is valid
	}
	return templateMark.Match(f.After.Content) || slices.ContainsFunc(strings.Split(strings.ToLower(f.Path), "/"), func(s string) bool {
		return strings.Contains(s, "template") || strings.Contains(s, "skeleton") || strings.Contains(s, "boilerplate")
	})
}

var proseFile = regexp.MustCompile(`(?i)\.(md|mdx|markdown|rst|adoc|txt|patch|diff|snap|html?)$`)

// conflicts finds the markers that git leaves for a conflict which was not resolved.
func conflicts(f change.File) []change.Finding {
	ours, theirs := marker(string(f.After.Content), "<<<<<<< "), marker(string(f.After.Content), ">>>>>>> ")
	if ours == 0 && theirs == 0 || f.Before.Regular() && !f.Before.Binary() && (marker(string(f.Before.Content), "<<<<<<< ") > 0 || marker(string(f.Before.Content), ">>>>>>> ") > 0) {
		return nil
	}
	severity := contract.SeverityMajor
	if ours == 0 || theirs < ours {
		severity = contract.SeverityMedium
	}
	if proseFile.MatchString(f.Path) || pin.OfTests(f.Path) || language.InFolder(f.Path, language.TestFolders) || onPurpose(f.Path) {
		severity = contract.SeverityMinor
	}
	line := ours
	if ours == 0 {
		line = theirs
	}
	return []change.Finding{finding(f, RuleConflict, severity, line, "it has markers of a merge conflict that is not resolved; resolve it")}
}

// marker returns the number of the first line that begins with a marker and continues with a name, or 0.
func marker(text, mark string) int {
	at := 0
	for {
		i := strings.Index(text[at:], mark)
		if i < 0 {
			return 0
		}
		i += at
		rest := text[i+len(mark):]
		if (i == 0 || text[i-1] == '\n') && rest != "" && rest[0] != ' ' && rest[0] != '\n' && rest[0] != '\r' {
			return strings.Count(text[:i], "\n") + 1
		}
		at = i + len(mark)
	}
}
