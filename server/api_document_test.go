package server_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	verb   = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE)( |$)`)
)

// documented returns the operations in the first column of the tables of docs/API.md:
// `GET`, `POST /api/a`; `DELETE /api/a/{id}`, where `/b` alone replaces the last part
// of the path before it.
func documented(t *testing.T) (operations []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/API.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		var verbs []string
		var last string
		complete := false // the verbs belong to a path already
		for _, m := range quoted.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			s, _, _ := strings.Cut(m[1], "?")
			if v := verb.FindStringSubmatch(s); v != nil {
				if complete {
					verbs, complete = nil, false
				}
				verbs, s = append(verbs, v[1]), strings.TrimPrefix(s, v[0])
			}
			if s == "" || len(verbs) == 0 {
				continue
			}
			if !strings.HasPrefix(s, "/api/") {
				s = path.Dir(last) + s
			}
			last, complete = s, true
			for _, v := range verbs {
				operations = append(operations, v+" "+s)
			}
		}
	}
	return operations
}

func TestTheAPIDocumentListsExactlyTheOperationsOfTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	description := b.document(t)
	// Files and streams are no JSON, and therefore not in the description.
	want := []string{"GET /api/runs/{id}/artifacts/{artifact}", "GET /api/runs/{id}/zip", "GET /api/pipelines/{id}/stream"}
	for p, item := range description.Paths {
		for method := range item {
			if m := strings.ToUpper(method); verb.MatchString(m) {
				want = append(want, m+" "+p)
			}
		}
	}
	got := documented(t)
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, slices.Compact(got))
}
