package activities

import (
	"regexp"
	"strings"
)

// closing matches the words with which a commit message closes an issue or merge request on GitHub,
// GitLab and Gitea, and what it closes.
var closing = regexp.MustCompile(`(?i)\b((?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?|reopen(?:s|ed|ing)?)):?(\s+)((?:(?:issues?|gh)[ -]?)?[\w./-]*[#!]\d|gh-\d|https?://)`)

// mention matches the beginning of a person's or team's name.
var mention = regexp.MustCompile(`(^|[^\w.+-])@(\w)`)

// skipping matches what makes CI systems skip a commit.
var skipping = regexp.MustCompile(`(?i)\[(?:skip[ -](?:ci|actions)|(?:ci|actions)[ -]skip|no[ -]ci)\]|\*\*\*no_ci\*\*\*|\bskip-checks:|\[skip [^\]]*\]`)

// defused returns a text for a commit message that is pushed, or for the title of a pull request, which
// may become one. Models and strangers write these texts, so they must not close or reopen issues when
// the commit is merged, notify people, or make CI skip the commit.
func defused(text string) string {
	text = skipping.ReplaceAllStringFunc(text, func(s string) string { return strings.Trim(strings.ReplaceAll(s, ":", ""), "[]*") })
	return mention.ReplaceAllString(closing.ReplaceAllString(text, "$1: see$2$3"), "$1@ $2")
}
