package activities

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommitMessagesCloseNoIssuesAndMentionNobody(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Fixes #12":                       "Fixes: see #12",
		"This closes: o/r#3 and fix gh-4": "This closes: see o/r#3 and fix: see gh-4",
		"Resolving https://git.example.com/o/r/issues/2": "Resolving: see https://git.example.com/o/r/issues/2",
		"closes\n!5":                         "closes: see\n!5",
		"Closes issue #4":                    "Closes: see issue #4",
		"Implements #9":                      "Implements: see #9",
		"thanks @ann, (@org/team) @types/":   "thanks @ ann, (@ org/team) @ types/",
		"@ann":                               "@ ann",
		"Reopens #4":                         "Reopens: see #4",
		"Add x [skip ci] [CI-Skip]":          "Add x skip ci CI-Skip",
		"***NO_CI*** x\n\nskip-checks: true": "NO_CI x\n\nskip-checks true",
		"[skip azurepipelines]":              "skip azurepipelines",
		"Fix the parser, see #12":            "Fix the parser, see #12",
		"Mail ann@example.com":               "Mail ann@example.com",
		"Fix 12 bugs; prefix #7":             "Fix 12 bugs; prefix #7",
		"Use the decorator\n@property":       "Use the decorator\n@ property",
	} {
		require.Equal(t, want, defused(text))
		require.Equal(t, want, defused(defused(text)), "once more")
	}
}
