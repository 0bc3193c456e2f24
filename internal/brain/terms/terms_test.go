package terms_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

func split(text string) []string {
	var all []string
	terms.Split([]byte(text), func(t []byte) { all = append(all, string(t)) })
	return all
}

func TestAnIdentifierGivesItsPartsAndItself(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"parseHTTPRequest":   {"pars", "http", "request", "parsehttprequest"},
		"parse_http_request": {"pars", "http", "request", "parsehttprequest"},
		"ParseHTTPRequest":   {"pars", "http", "request", "parsehttprequest"},
		"PARSE_HTTP_REQUEST": {"pars", "http", "request", "parsehttprequest"},
		"userIDs":            {"user", "ids", "userids"},
		"--dry-run":          {"dry", "run"},
		"sha256Sum":          {"sha256", "sha", "sum", "sha256sum"},
		"__init__":           {"init"},
		"x":                  nil,
		"the of and":         nil,
		"HTTP 404":           {"http", "404"},
		"1699999999":         nil,
		"größe Überlauf":     {"größe", "überlauf"},
		"a.b->c":             nil,
		"don't":              nil,
	} {
		require.Equal(t, want, split(text), text)
	}
}

func TestFormsOfAWordShareAStem(t *testing.T) {
	t.Parallel()
	for _, forms := range []string{
		"cache caches cached caching",
		"parse parses parsed parsing parser parsers",
		"query queries",
		"validate validates validating validation validator",
		"stop stopped stopping stops",
		"match matches matched matching matcher",
		"deploy deploys deployed deployment",
		"class classes",
		"retry retries retried",
		"index indexes indexing indexed",
		"action actions",
	} {
		words := strings.Fields(forms)
		for _, w := range words[1:] {
			require.Equal(t, split(words[0]), split(w), w)
		}
	}
	for _, pair := range []string{"string stream", "sing sign", "process product", "status stat"} {
		a, b, _ := strings.Cut(pair, " ")
		require.NotEqual(t, split(a), split(b), pair)
	}
}

func TestTermsHaveBoundedLength(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9_é]{0,300}`)).Draw(t, "text")
		terms.Split([]byte(text), func(term []byte) {
			if len(term) < terms.MinLength || len(term) > terms.MaxLength {
				t.Fatalf("term %q has %d bytes", term, len(term))
			}
			if bytes.ContainsAny(term, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
				t.Fatalf("term %q is not in lower case", term)
			}
		})
	})
}

func TestSplitAllocatesNothingPerTerm(t *testing.T) {
	text := []byte(strings.Repeat("func parseHTTPRequest(userIDs []string) error { return caches }\n", 1000))
	n := 0
	emit := func([]byte) { n++ }
	allocations := testing.AllocsPerRun(5, func() { terms.Split(text, emit) })
	require.Positive(t, n)
	require.LessOrEqual(t, allocations, 2.0)
}

func TestAQuestionNamesFilesAndCode(t *testing.T) {
	t.Parallel()
	q := terms.Query("Fix crash in Parser.parse_args()\n\n" +
		"`ArgumentError` is raised from src/cli/parser.py and core\\util.cs, see https://example.com/a/b.\n" +
		"  File \"/home/me/project/src/cli/main.py\", line 42, in main\n" +
		"panic at ./internal/x/y.go:17 and django.core.mail\n")
	require.Equal(t, []terms.Frame{{Path: "home/me/project/src/cli/main.py", Line: 42}, {Path: "internal/x/y.go", Line: 17}}, q.Frames)
	require.Contains(t, q.Paths, "src/cli/parser.py")
	require.Contains(t, q.Paths, "core/util.cs")
	require.Subset(t, q.Identifiers, []string{"ArgumentError", "Parser", "parse_args"})
	require.Equal(t, []string{"ArgumentError"}, q.Quoted)
	require.NotContains(t, q.Identifiers, "crash")
	i := slices.IndexFunc(q.Terms, func(t terms.Term) bool { return t.Text == "crash" })
	require.GreaterOrEqual(t, i, 0)
	require.True(t, q.Terms[i].Head)
}

func TestAHugeQuestionIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 100_000 {
		b.WriteString("word" + strings.Repeat("x", i%30) + "Name" + string(rune('a'+i%26)) + " a/b" + string(rune('a'+i%26)) + ".go:12 ")
	}
	q := terms.Query(b.String())
	require.LessOrEqual(t, len(q.Terms), terms.MaxTerms)
	require.LessOrEqual(t, len(q.Identifiers), terms.MaxNamed)
	require.LessOrEqual(t, len(q.Paths), terms.MaxNamed)
	require.LessOrEqual(t, len(q.Frames), terms.MaxNamed)
}

func FuzzQuery(f *testing.F) {
	f.Add("fix `a.b` in x/y.go:3")
	f.Fuzz(func(t *testing.T, text string) {
		first := terms.Query(text)
		require.Equal(t, first, terms.Query(text), "the same each time")
	})
}

func BenchmarkSplit(b *testing.B) {
	text, err := os.ReadFile("../../store/store.go")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		terms.Split(text, func([]byte) {})
	}
}
