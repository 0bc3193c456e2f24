package tool

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A pattern of forty groups stands for 2^40 patterns: trying them all never ends.
var bomb = strings.Repeat("{,}", 40) + "Z"

func TestBracesInIgnoreRulesStandForThemselves(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{".gitignore": bomb + "\n{a,b}\n*.{x}\n", "a": "", "{a,b}": "", "y.{x}": "", "y.x": "", bomb: ""})
	require.Equal(t, ".gitignore\na\ny.x\n", b.call(ListFiles, args{}).Text)
	require.Equal(t, "[nothing matches]\n", b.call(Search, args{"pattern": "z"}).Text)
}

func TestExpensivePatternsAreRefusedBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"a": "a"})
	for _, c := range []struct {
		tool string
		args args
		says string
	}{
		{ListFiles, args{"glob": bomb}, "expands to more than 100 patterns"},
		{ListFiles, args{"glob": strings.Repeat("a", 2000)}, "is 2000 bytes long"},
		{Search, args{"pattern": "a", "path": bomb}, "expands to more than 100 patterns"},
		{Search, args{"pattern": strings.Repeat("a?", 600)}, "is 1200 bytes long"},
		{Search, args{"pattern": strings.Repeat("(a{30}){30}", 3)}, "too large because of repetitions"},
		{Search, args{"pattern": "(?i)" + strings.Repeat("(a|b){99}", 9)}, "too large because of repetitions"},
	} {
		result := b.call(c.tool, c.args)
		require.False(t, result.OK)
		require.Contains(t, result.Text, c.says)
		require.Less(t, len(result.Text), 500)
	}
	require.True(t, b.call(Search, args{"pattern": `(?i)\b(func|class|def)\s+\w{1,60}\(`}).OK)
}

func TestAnswersOfManyOrLongNamesAreBounded(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for n := range 400 {
		files[fmt.Sprintf("%s/%s-%d", strings.Repeat("d", 200), strings.Repeat("n", 200), n)] = "hit\n"
	}
	b := newToolFixture(t, files)
	for _, result := range []string{b.call(ListFiles, args{}).Text, b.call(Search, args{"pattern": "hit"}).Text} {
		require.LessOrEqual(t, len(result), DefaultLimits.AnswerBytes+1000)
		require.Contains(t, result, "narrow the ")
	}
}

func TestLookingAtFilesEndsInTime(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"a": "hit\n", "b/c": "hit\n"})
	b.env.Limits.WalkTime = time.Nanosecond
	for _, result := range []string{b.call(ListFiles, args{}).Text, b.call(Search, args{"pattern": "hit"}).Text, b.call(Search, args{"pattern": "hit", "path": "a"}).Text} {
		require.Contains(t, result, "to check in time")
	}
	f, err := openFiles(b.env)
	require.NoError(t, err)
	defer f.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.search(ctx, searchParams{Pattern: "hit"})
	require.ErrorIs(t, err, context.Canceled)
}
