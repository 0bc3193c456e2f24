package change_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
)

func TestLinesAreNumberedInTheVersionThatHasThem(t *testing.T) {
	t.Parallel()
	f := change.File{
		Path: "a", Before: gatetest.File("one\ntwo\nthree\nfour\n"), After: gatetest.File("zero\none\n2\nthree\r\nfour"),
	}
	added, removed := f.Lines()
	require.Equal(t, []change.Line{{1, "zero"}, {3, "2"}, {4, "three"}, {5, "four"}}, added)
	require.Equal(t, []change.Line{{2, "two"}, {3, "three"}, {4, "four"}}, removed)
}

func TestBinaryUnreadAndLinkedContentHasNoLines(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]change.Version{
		"binary": gatetest.File("a\x00b\n"),
		"unread": {Mode: change.ModeFile, Size: 1 << 30, Unread: true},
		"link":   gatetest.Entry(change.ModeLink, "/etc/passwd"),
	} {
		require.Empty(t, change.File{Path: "a", After: v}.AddedLines(), name)
	}
}

// Every added line is in the new version under its number, and what is neither added nor removed is
// the same in both.
func TestLinesAccountForBothVersions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 0, 12)
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		f := change.File{Before: gatetest.File(join(before)), After: gatetest.File(join(after))}
		added, removed := f.Lines()
		require.Equal(t, without(before, removed), without(after, added))
		for _, l := range added {
			require.Equal(t, after[l.Number-1], l.Text)
		}
	})
}

func join(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

func without(lines []string, gone []change.Line) []string {
	drop := map[int]bool{}
	for _, l := range gone {
		drop[l.Number-1] = true
	}
	kept := []string{}
	for i, l := range lines {
		if !drop[i] {
			kept = append(kept, l)
		}
	}
	return kept
}

func TestNamesInMessagesCannotHideOrForgeText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a?b??c?", change.Clean("a\nb\u202e\u200bc\xff"))
	require.Len(t, []rune(change.Clean(strings.Repeat("x", 1000))), 201)
}
