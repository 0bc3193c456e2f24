package main

import (
	"regexp"
	"strings"
)

// kind is a kind of question made from a commit.
type kind string

// The kinds of questions.
const (
	kindMessage kind = "message" // the whole message, without trailers
	kindSubject kind = "subject" // its first line
	kindIssue   kind = "issue"   // the message without what a reporter could not know, see issueLike
)

var kinds = []kind{kindMessage, kindSubject, kindIssue}

var (
	trailer = regexp.MustCompile(`(?im)\n[ \t]*([a-z][a-z-]*-by|change-id|cc|git-svn-id|piperorigin-revid|issue-url|merged-on|reviewed-on|pull-request|gh-pr): .*`)
	number  = regexp.MustCompile(`\(?#\d+\)?|\bgh-\d+|https?://\S+`)
	scope   = regexp.MustCompile(`^\s*(\w+(\([^)]*\))?!?:\s+|\[[^\]]*\]\s*|[\w./,{}* -]{1,40}:\s+)`)
	word    = regexp.MustCompile(`\S+`)
	inner   = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// message returns a commit's message without trailers, numbers of issues and addresses.
func message(text string) string {
	return strings.TrimSpace(number.ReplaceAllString(trailer.ReplaceAllString(text, ""), ""))
}

// question returns the question of a kind, or "" if the commit gives none. diff is what the commit
// changes.
func question(k kind, text, diff string) string {
	text = message(text)
	switch k {
	case kindMessage:
	case kindSubject:
		text, _, _ = strings.Cut(text, "\n")
	case kindIssue:
		text = issueLike(text, diff)
	}
	if len(strings.Fields(text)) < minWords {
		return ""
	}
	return text
}

// issueLike makes of a message what a user could have written who does not know the code. It removes
//   - the scope in front of the subject ("fix(parser): ", "net/http: ", "[FrameworkBundle] "),
//   - words with a slash, a dot inside, or between backquotes, and names of changed files,
//   - words that are code by their form (a capital after a small letter, an underscore, ::, ->, ()) and
//     that occur in the diff.
func issueLike(text, diff string) string {
	text = scope.ReplaceAllString(text, "")
	used := map[string]bool{}
	for _, w := range inner.FindAllString(diff, -1) {
		used[w] = true
	}
	files := map[string]bool{}
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ") {
			for _, w := range inner.FindAllString(line, -1) {
				files[strings.ToLower(w)] = strings.ContainsAny(w, "_") || w != strings.ToLower(w)
			}
		}
	}
	return strings.TrimSpace(word.ReplaceAllStringFunc(text, func(w string) string {
		bare := strings.Trim(w, ".,:;!?\"'()[]{}*")
		switch {
		case strings.ContainsAny(w, "`/\\") || strings.Contains(bare, ".") || files[strings.ToLower(bare)]:
			return ""
		case codeForm(w):
			for _, name := range inner.FindAllString(w, -1) {
				if used[name] {
					return ""
				}
			}
		}
		return w
	}))
}

var codeShape = regexp.MustCompile(`[a-z0-9][A-Z]|_|::|->|\(\)|[@$]\w`)

func codeForm(w string) bool { return codeShape.MatchString(w) }
