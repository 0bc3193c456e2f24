package deploy

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// documented returns the metrics of the table in docs/OPERATIONS.md, with their labels.
func documented(tb testing.TB) map[string][]string {
	tb.Helper()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	require.NoError(tb, err)
	out := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(rgpt_\\w+)` \\| ([^|]*)\\|").FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = regexp.MustCompile(`\w+`).FindAllString(m[2], -1)
	}
	require.Greater(tb, len(out), 15)
	return out
}

// requireKnown sees that an expression uses metrics and labels that there are.
func requireKnown(tb testing.TB, known map[string][]string, expr string) {
	tb.Helper()
	names := regexp.MustCompile(`rgpt_\w+`).FindAllString(expr, -1)
	require.NotEmpty(tb, names, expr)
	labels := []string{"le"}
	for _, name := range names {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if _, ok := known[name]; !ok {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		require.Contains(tb, known, name, expr)
		labels = append(labels, known[name]...)
	}
	for _, m := range regexp.MustCompile(`(\w+)\s*=~?"|(\w+)\s*!~?"|by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		for _, label := range regexp.MustCompile(`\w+`).FindAllString(m[1]+" "+m[2]+" "+m[3], -1) {
			require.True(tb, slices.Contains(labels, label), "%s has no label %s", expr, label)
		}
	}
}

func TestAlertsAndPanelsUseMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	known := documented(t)
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &rules))
	require.NotEmpty(t, rules.Groups)
	for _, r := range rules.Groups[0].Rules {
		requireKnown(t, known, r.Expr)
		require.NotEmpty(t, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
	}
	text, err = os.ReadFile("../../deploy/grafana/rgpt.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			GridPos struct{ X, W int }
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	require.NotEmpty(t, board.Panels)
	for _, p := range board.Panels {
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, target := range p.Targets {
			requireKnown(t, known, target.Expr)
		}
	}
}
