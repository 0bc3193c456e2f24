package docs

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A wording is what texts for people avoid, and what they say instead.
type wording struct {
	avoid   *regexp.Regexp
	instead string
}

// wordings are those that readers stumbled over.
var wordings = []wording{
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix, repair"},
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\bthose (who|whose)\b`), "name them: users, callers, clients"},
	{regexp.MustCompile(`(?i)\bwhoever\b`), "name them: anyone who, the caller, the client"},
	{regexp.MustCompile(`(?i)\bno such thing\b`), "not found"},
	{regexp.MustCompile(`(?i)\bgoes on already\b`), "is already running"},
	{regexp.MustCompile(`(?i)\b(that|it|this|what|which|%q|%s|%d|%v) (is|are) no ([^l]|l[^o])`), `is not a …`},
	{regexp.MustCompile(`(?i)^(is|are) no ([^l]|l[^o])`), `is not a …`},
	{regexp.MustCompile(`(?i)\bis nothing (that|to)\b`), "is not …; cannot be …"},
	{regexp.MustCompile(`(?i)\bsays nothing (of|about)\b`), "does not say"},
	{regexp.MustCompile(`(?i)\b(was|is|are|were|been|be) told\b`), "receives, is notified, is instructed"},
	{regexp.MustCompile(`(?i)\bsomebody\b`), "someone, or name them"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|turns?|stays?|stayed) (red|green)\b`), "failed, passed"},
	{regexp.MustCompile(`(?i)\b(red|green) (check|test|build|run|baseline|case)s?\b`), "failed, passed"},
	{regexp.MustCompile(`(?i)\bnot be there\b`), "not exist"},
	{regexp.MustCompile(`(?i)\bwhat (it|they|he) (is|are) (made of|good for)\b`), "say it directly"},
	{regexp.MustCompile(`(?i)\bby this name\b`), "named …"},
	{regexp.MustCompile(`(?i)\bcome again\b`), "reconnect, retry"},
	{regexp.MustCompile(`(?i)\b(has|have|had) come to\b`), "say it directly"},
	{regexp.MustCompile(`(?i)\bwhat came of\b`), "the result of, the outcome of"},
	{regexp.MustCompile(`(?i)\bwho may\b`), "say who can do what"},
	{regexp.MustCompile(`(?i)\bhow (it|they|agents|queues|runs|webhooks) (is|are)\b`), "status, state"},
	{regexp.MustCompile(`(?i)\bnot known here\b`), "unknown, not allowed"},
}

// A text is one that a person reads, and where it stands.
type text struct{ at, value string }

// texts returns the strings, comments and documents of the project that are
// written by hand and are not tests.
func texts(t *testing.T) (out []text) {
	t.Helper()
	for _, path := range files(t) {
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		if strings.Contains(name, "testdata") || strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "internal/store/db/") ||
			strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_templ.go") {
			continue
		}
		switch filepath.Ext(name) {
		case ".go":
			out = append(out, goTexts(t, path, name)...)
		case ".md", ".sql", ".templ", ".tmpl", ".yaml", ".js":
			source, err := os.ReadFile(path)
			require.NoError(t, err)
			value := string(source)
			if filepath.Ext(name) == ".md" {
				value = prose(value)
			}
			for i, line := range strings.Split(value, "\n") {
				out = append(out, text{fmt.Sprintf("%s:%d", name, i+1), line})
			}
		}
	}
	return out
}

// goTexts returns the strings of several words and the comments of a Go file.
func goTexts(t *testing.T, path, name string) (out []text) {
	t.Helper()
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(path, -1, len(source))
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, kind, value := s.Scan()
		if kind == token.EOF {
			return out
		}
		if kind == token.COMMENT || kind == token.STRING && strings.Contains(value, " ") {
			out = append(out, text{fmt.Sprintf("%s:%d", name, file.Line(pos)), strings.Trim(value, "\"`")})
		}
	}
}

func TestTextsAvoidWordsThatNeedASecondReading(t *testing.T) {
	t.Parallel()
	all := texts(t)
	require.Greater(t, len(all), 20_000)
	var problems []string
	for _, x := range all {
		for _, w := range wordings {
			if found := w.avoid.FindString(x.value); found != "" {
				problems = append(problems, fmt.Sprintf("%s: %q: %s\n", x.at, found, w.instead))
			}
		}
	}
	slices.Sort(problems)
	require.Empty(t, problems)
}
