package injection

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// Guard is the guard. It is safe for concurrent use.
var Guard change.Guard = guard{}

type guard struct{}

const name = "injection"

func (guard) Name() string { return name }

// Judge returns the places in a change that try to instruct agents or hide something.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	var out []change.Finding
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !f.Deleted() {
			out = append(out, inFile(f)...)
		}
	}
	for _, t := range c.Texts {
		for _, h := range Flag(t.Content) {
			h.Line = 0
			out = append(out, finding(h, "", "the "+change.Clean(t.Name)+" ", false))
		}
	}
	return slices.Compact(out), nil
}

// inFile returns what a change of a file adds.
func inFile(f change.File) (out []change.Finding) {
	about := about(f.Path)
	if !f.Before.Exists() || f.From != "" && f.From != f.Path {
		for _, h := range Flag(strings.NewReplacer("_", " ", "-", " ", "/", " ").Replace(f.Path)) {
			h.Line = 0
			out = append(out, finding(h, change.Clean(f.Path), "the path of this file ", false))
		}
	}
	var lines []line
	size := 0
	for _, l := range f.AddedLines() {
		if size += len(l.Text); size > MaxText {
			out = append(out, finding(Hit{Class: Unexamined, Line: l.Number}, f.Path, "this line ", false))
			break
		}
		lines = append(lines, line{l.Number, l.Text})
	}
	for _, h := range flag(lines) {
		if h.Class != Terminal || !recorded(f.Path) {
			out = append(out, finding(h, f.Path, "this line ", about))
		}
	}
	return out
}

var meanings = map[Class]string{
	Override:   "asks a reader to ignore its instructions or gives it new ones",
	Exfiltrate: "asks for secrets or instructions to be read out or sent away",
	Role:       "has the markers of a chat's roles",
	Agent:      "addresses AI agents",
	Evade:      "asks to hide something from people, or to report success regardless",
	Tags:       "has Unicode tag characters, which only machines read",
	Bidi:       "has characters that reorder text, so that it may read otherwise than it runs",
	Invisible:  "has invisible characters within words",
	Homoglyph:  "has a name that mixes scripts with letters that look the same",
	Encoded:    "encodes text that tries to instruct agents",
	Terminal:   "has escape sequences of terminals",
	Unexamined: "is too long to be examined completely",
}

// finding describes a hit.
func finding(h Hit, path, where string, about bool) change.Finding {
	return change.Finding{
		Guard: name, Rule: string(h.Class), Path: path, Line: h.Line, Severity: severity(h, about),
		Message: where + meanings[h.Class] + ": read it, and remove it if it has no good reason",
	}
}

// severity grades a hit. about says that the file is a test or a document, which may be about such texts.
func severity(h Hit, about bool) contract.Severity {
	grades := contract.Severities()
	at := 0
	switch h.Class {
	case Role, Agent, Evade, Invisible, Homoglyph:
		at = 1
	case Terminal, Unexamined:
		at = 2
	default:
	}
	switch h.Class {
	case Override, Exfiltrate, Role, Agent, Evade:
		if h.Quoted {
			at++
		}
		if about {
			at++
		}
		if h.Mild {
			at++
		}
	case Bidi, Invisible, Homoglyph:
		if about {
			at++
		}
	default:
	}
	return grades[min(at, len(grades)-1)]
}

var (
	documents = []string{".md", ".mdx", ".rst", ".adoc", ".txt", ".po", ".pot", ".xliff", ".xlf", ".strings", ".arb"}
	testDirs  = []string{"test", "tests", "testdata", "spec", "specs", "__tests__", "fixtures", "fixture", "docs", "doc", "examples", "locale", "locales", "i18n", "l10n", "translations", "lang"}
	testName  = regexp.MustCompile(`(?i)(?:^test[_.-]|[_.-](?:test|tests|spec)\.[a-z0-9]+$)|(?:Test|Tests|Spec)\.(?:java|kt|cs|scala|swift|php)$`)
)

// about reports whether a file is a test, a document or a translation by its path.
func about(file string) bool {
	dir, base := path.Split(file)
	for part := range strings.SplitSeq(strings.ToLower(dir), "/") {
		if slices.Contains(testDirs, part) {
			return true
		}
	}
	return slices.Contains(documents, strings.ToLower(path.Ext(base))) || testName.MatchString(base)
}

// recorded reports whether a file records the output of programs, which has escape sequences.
func recorded(file string) bool {
	return strings.HasSuffix(file, ".snap") || strings.HasSuffix(file, ".cast") || strings.HasSuffix(file, ".ansi") || strings.Contains(file, "testdata/") || strings.Contains(file, "__snapshots__/")
}
