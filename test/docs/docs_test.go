// Package docs holds the documents to the code: what they name exists.
package docs

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/version"
)

const (
	root      = "../.."
	lineWidth = 100
	maxWords  = 25 // of the glossary
)

// documents returns the text of each document of the repository by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			out[name] = string(text)
		}
	}
	require.Greater(t, len(out), 20)
	return out
}

var (
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	span  = regexp.MustCompile("`([^`\n]+)`")
)

// prose returns a document without its blocks of code, with as many lines.
func prose(text string) string {
	return fence.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) })
}

// spans returns what a document has in backticks outside of blocks of code.
func spans(text string) (out []string) {
	for _, m := range span.FindAllStringSubmatch(prose(text), -1) {
		out = append(out, m[1])
	}
	return out
}

// eachSpan checks what documents have in backticks and match a pattern. At least one does.
func eachSpan(t *testing.T, pattern string, wrong func(m []string) string) {
	t.Helper()
	re, seen := regexp.MustCompile(pattern), 0
	var problems []string
	for name, text := range documents(t) {
		for _, s := range spans(text) {
			if m := re.FindStringSubmatch(s); m != nil {
				seen++
				if why := wrong(m); why != "" {
					problems = append(problems, name+": `"+s+"` "+why)
				}
			}
		}
	}
	slices.Sort(problems)
	require.Positive(t, seen)
	require.Empty(t, slices.Compact(problems), "say what is true, or leave it out")
}

// files returns the paths of the repository's own files.
func files(t *testing.T) (out []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := d.Name(); {
		case d.IsDir() && (name == ".git" || name == "bin" || name == "node_modules" || name == "histories" || strings.HasPrefix(name, ".rgpt")):
			return filepath.SkipDir
		case !d.IsDir():
			out = append(out, path)
		}
		return nil
	}))
	return out
}

func TestLinesOfProseAreWrapped(t *testing.T) {
	t.Parallel()
	var problems []string
	for name, text := range documents(t) {
		if name == "docs/CONFIGURATION.md" {
			continue // generated
		}
		for i, line := range strings.Split(prose(text), "\n") {
			whole := !strings.Contains(strings.TrimSpace(line), " ") || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "!") || strings.HasPrefix(line, "<!--")
			if !whole && utf8.RuneCountInString(line) > lineWidth {
				problems = append(problems, fmt.Sprintf("%s:%d", name, i+1))
			}
		}
	}
	require.Empty(t, problems, "wrap these lines at %d columns", lineWidth)
}

// anchors returns the anchors of a document's headings, as Git hosts make them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(text), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out[strings.ReplaceAll(kept, " ", "-")] = true
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	seen, problems := 0, []string(nil)
	for name, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(prose(text), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			seen++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(root, filepath.Dir(name), path)
			if path == "" {
				target = filepath.Join(root, name)
			}
			switch content, err := os.ReadFile(target); {
			case anchor != "" && (err != nil || !anchors(string(content))[anchor]):
				problems = append(problems, name+": "+m[1])
			case err != nil:
				if _, err := os.Stat(target); err != nil {
					problems = append(problems, name+": "+m[1])
				}
			}
		}
	}
	require.Greater(t, seen, 50)
	require.Empty(t, problems)
}

func TestPathsInDocumentsExist(t *testing.T) {
	t.Parallel()
	eachSpan(t, `^(?:contract|workflows|activities|internal|server|starter|workers|migrations|devserver|test|docs|examples|deploy|scripts|tools|\.ci|\.devcontainer)/[\w./*-]*$`, func(m []string) string {
		if found, err := filepath.Glob(filepath.Join(root, m[0])); err != nil || len(found) == 0 {
			return "does not exist"
		}
		return ""
	})
}

func TestSourceFilesInDocumentsExist(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, path := range files(t) {
		names[filepath.Base(path)] = true
	}
	eachSpan(t, `^[\w-]+\.(?:go|templ|sql|sh|js)$`, func(m []string) string {
		if !names[m[0]] {
			return "is no file of the repository"
		}
		return ""
	})
}

func TestMakeTargetsInDocumentsExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := map[string]bool{"check": true, "deps": true} // of projects that rgpt builds
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	call := regexp.MustCompile("(?m)(?:^\\$ |`|[A-Z_]+=\\S+ |&& )make((?: +[a-z0-9-]+)+)")
	seen, problems := 0, []string(nil)
	for name, text := range documents(t) {
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			for _, target := range strings.Fields(m[1]) {
				if seen++; !targets[target] {
					problems = append(problems, name+": make "+target)
				}
			}
		}
	}
	require.Greater(t, seen, 20)
	require.Empty(t, problems)
}

// settings returns the keys of all settings: those of the reference, which a test of
// the configuration holds to the code.
func settings(t *testing.T) (keys []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/CONFIGURATION.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z][^`]+)` ").FindAllStringSubmatch(string(text), -1) {
		keys = append(keys, m[1])
	}
	require.Greater(t, len(keys), 100)
	return keys
}

// ledgerActions returns the actions of the audit ledger: the triggers that append them name them.
func ledgerActions(t *testing.T) (actions []string) {
	t.Helper()
	migrations, err := filepath.Glob("../../migrations/*ledger*.sql")
	require.NoError(t, err)
	for _, path := range migrations {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`'([a-z_]+\.[a-z_]+)'`).FindAllStringSubmatch(string(text), -1) {
			actions = append(actions, m[1])
		}
	}
	require.Contains(t, actions, "policies.changed")
	return actions
}

func TestSettingsInDocumentsExist(t *testing.T) {
	t.Parallel()
	var keys, sections []string
	for _, key := range settings(t) {
		keys = append(keys, key)
		section, _, _ := strings.Cut(key, ".")
		sections = append(sections, section)
	}
	slices.Sort(sections)
	var events strings.Builder // and other names of the contract
	for _, path := range files(t) {
		if filepath.Base(filepath.Dir(path)) == "contract" {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			events.Write(text)
		}
	}
	for _, action := range ledgerActions(t) {
		fmt.Fprintf(&events, "%q\n", action)
	}
	wild := regexp.MustCompile(`<[a-z]+>|\[\]`)
	eachSpan(t, `^((?:`+strings.Join(slices.Compact(sections), "|")+`)\.[a-z_.*]+)(?:[:=] ?\S.*)?$`, func(m []string) string {
		key := regexp.QuoteMeta(strings.TrimSuffix(m[1], ".*"))
		key = strings.ReplaceAll(key, `\*`, `[^.]+`)
		named := regexp.MustCompile(`^` + key + `(\.|$)`)
		for _, k := range keys {
			if named.MatchString(wild.ReplaceAllString(k, "x")) || named.MatchString(strings.ReplaceAll(k, ".<name>", "")) {
				return ""
			}
		}
		for _, agent := range []string{"planner", "builder", "repair", "alpha"} {
			if m[1] == "models.phases."+agent {
				return ""
			}
		}
		if strings.Contains(events.String(), strconv.Quote(m[1])) || strings.HasSuffix(m[1], ".go") || m[1] == "temporal.db" {
			return ""
		}
		return "is no setting and no event"
	})
}

func TestVariablesInDocumentsAreRead(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, path := range files(t) {
		switch filepath.Ext(path) {
		case ".go", ".sh", ".js", ".yaml", ".yml", "":
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			code.Write(text)
		}
	}
	for _, key := range settings(t) {
		code.WriteString("\nRGPT_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_")) + "\n")
	}
	all := code.String()
	eachSpan(t, `^(RGPT(?:_[A-Z]+)+)(?:=.*)?$`, func(m []string) string {
		if !strings.Contains(all, m[1]) {
			return "is read nowhere"
		}
		return ""
	})
}

func TestEveryPackageIsInTheTableOfArchitecture(t *testing.T) {
	t.Parallel()
	text := documents(t)["docs/ARCHITECTURE.md"]
	_, table, found := strings.Cut(text, "## Code structure")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	named := map[string]bool{}
	for _, s := range spans(table) {
		named[filepath.Base(s)] = true
	}
	var missing []string
	for _, path := range files(t) {
		dir, err := filepath.Rel(root, filepath.Dir(path))
		require.NoError(t, err)
		top, _, _ := strings.Cut(dir, "/")
		if filepath.Ext(path) == ".go" && slices.Contains([]string{"internal", "server", "workflows"}, top) && !strings.Contains(dir, "testdata") && !named[filepath.Base(dir)] {
			missing = append(missing, dir)
		}
	}
	slices.Sort(missing)
	require.Empty(t, slices.Compact(missing), "say in docs/ARCHITECTURE.md what these hold")
}

// rows returns the cells of the rows of tables whose first cell is in backticks.
func rows(text string) (out [][]string) {
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "| `") {
			var cells []string
			for _, cell := range strings.Split(strings.Trim(line, "| "), "|") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			out = append(out, cells)
		}
	}
	return out
}

func TestTheTableOfHealsIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	_, text, found := strings.Cut(documents(t)["docs/SELF_HEALING.md"], "## Actions for each failure")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "| Action |")
	seen := 0
	for _, row := range rows(text) {
		for _, name := range spans(row[0]) {
			var said []contract.HealAction
			if len(row) > 1 {
				for _, action := range spans(row[1]) {
					said = append(said, contract.HealAction(action))
				}
			}
			class, code := contract.Class(name), contract.Code("")
			if name == strings.ToLower(name) {
				class, code = contract.ClassRuntime, contract.Code(name)
			}
			if len(row) > 1 && strings.HasPrefix(row[1], "none") {
				said = nil
			}
			seen++
			require.Equal(t, append(said, contract.HealAskPerson), fault.HealOf(class, code), name)
		}
	}
	require.Greater(t, seen, 20)
}

func TestTheTableOfRetriesIsThatOfTheCode(t *testing.T) {
	t.Parallel()
	_, text, found := strings.Cut(documents(t)["docs/ARCHITECTURE.md"], "## Failures and retries")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	said := rows(text)
	require.Len(t, said, 8)
	for _, row := range said {
		require.Equal(t, strconv.Itoa(fault.RetryOf(contract.Class(strings.Trim(row[0], "`"))).Attempts), row[2], row[0])
	}
}

func TestTheGlossaryStaysSmall(t *testing.T) {
	t.Parallel()
	words := regexp.MustCompile(`(?m)^\| [a-z]`).FindAllString(documents(t)["docs/GLOSSARY.md"], -1)
	require.NotEmpty(t, words)
	require.LessOrEqual(t, len(words), maxWords)
}

func TestEveryDecisionIsInTheIndex(t *testing.T) {
	t.Parallel()
	all := documents(t)
	for name := range all {
		if filepath.Dir(name) == "docs/decisions" && filepath.Base(name) != "README.md" {
			require.Contains(t, all["docs/decisions/README.md"], "("+filepath.Base(name)+")")
			for _, heading := range []string{"## Context", "## Decision", "## Consequences"} {
				require.Contains(t, all[name], heading, name)
			}
		}
	}
}

func TestTheDevelopmentContainerHasWhatTheModuleNeeds(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(module)
	require.NotNil(t, version)
	text, err := os.ReadFile(filepath.Join(root, ".devcontainer", "devcontainer.json"))
	require.NoError(t, err)
	var container struct {
		Image, PostCreateCommand string
		Features                 map[string]struct{ Version, Username string }
		RemoteUser               string
	}
	require.NoError(t, json.Unmarshal(regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAll(text, nil), &container))
	require.Equal(t, "golang:"+string(version[1])+"-bookworm", container.Image)
	require.Equal(t, "20", container.Features["ghcr.io/devcontainers/features/node:1"].Version)
	require.Equal(t, container.RemoteUser, container.Features["ghcr.io/devcontainers/features/common-utils:2"].Username)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	command := strings.Fields(container.PostCreateCommand)
	require.Equal(t, "make", command[0])
	for _, target := range command[1:] {
		require.Regexp(t, `(?m)^`+target+`:`, string(makefile))
	}
}

func TestTheReleaseOfTheProgramsIsTheNewestOneInTheChangelog(t *testing.T) {
	t.Parallel()
	newest := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`).FindStringSubmatch(documents(t)["CHANGELOG.md"])
	require.NotNil(t, newest)
	require.Equal(t, version.Release, newest[1])
}

// defaults returns the default of each setting by its key.
func defaults(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/CONFIGURATION.md")
	require.NoError(t, err)
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z][^`]+)` \\|[^|]*\\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = strings.Trim(m[2], " `")
	}
	require.Greater(t, len(out), 100)
	return out
}

// amount returns a number or a duration in one form: 30 s and 30s, 7 days and 168h.
func amount(text string) (string, bool) {
	text = strings.NewReplacer(" ", "", "min", "m").Replace(text)
	if days, ok := strings.CutSuffix(text, "days"); ok {
		n, err := strconv.Atoi(days)
		return (time.Duration(n) * 24 * time.Hour).String(), err == nil
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return strconv.FormatFloat(n, 'g', -1, 64), true
	}
	d, err := time.ParseDuration(text)
	return d.String(), err == nil
}

func TestDefaultsInDocumentsAreThoseOfTheSettings(t *testing.T) {
	t.Parallel()
	all := defaults(t)
	said := []*regexp.Regexp{
		regexp.MustCompile("`([a-z_.]+)`,?(?: [a-z]+){0,6} \\(([0-9][^()]*)\\)"), // `key` of something (8)
		regexp.MustCompile("\\(`([a-z_.]+)`, ([0-9][^()]*)\\)"),                  // (`key`, 24 h)
		regexp.MustCompile("\\| `([a-z_]+\\.[a-z_.]+)` \\| ([0-9][^|]*) \\|"),    // a row of a table
	}
	seen, problems := 0, []string(nil)
	for name, text := range documents(t) {
		if name == "docs/CONFIGURATION.md" {
			continue
		}
		text = strings.Join(strings.Fields(prose(text)), " ")
		for _, re := range said {
			for _, m := range re.FindAllStringSubmatch(text, -1) {
				value, ok := amount(m[2])
				if !ok {
					continue
				}
				var wants []string
				for key, d := range all {
					if key == m[1] || !strings.Contains(m[1], ".") && strings.HasSuffix(key, "."+m[1]) {
						if want, ok := amount(d); ok {
							wants = append(wants, want)
						}
					}
				}
				if d, ok := all["deliberation."+m[1]]; ok && name == "docs/DELIBERATION.md" {
					want, _ := amount(d)
					wants = []string{want}
				}
				if len(wants) == 0 {
					continue // not a setting
				}
				if seen++; !slices.Contains(wants, value) {
					problems = append(problems, fmt.Sprintf("%s: `%s` is %s, not %s", name, m[1], wants, m[2]))
				}
			}
		}
	}
	require.Greater(t, seen, 20)
	require.Empty(t, problems)
}

func TestEventsInDocumentsExist(t *testing.T) {
	t.Parallel()
	events, first := map[string]bool{}, map[string]bool{}
	add := func(name string) {
		events[name] = true
		kind, _, _ := strings.Cut(name, ".")
		first[kind] = true
	}
	for _, path := range files(t) {
		if filepath.Base(filepath.Dir(path)) != "contract" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`EventType += "([a-z_.]+)"`).FindAllStringSubmatch(string(text), -1) {
			add(m[1])
		}
	}
	for _, p := range contract.Phases() {
		for _, e := range []contract.EventType{p.Started(), p.CompletedEvent(), p.ErrorEvent()} {
			add(string(e))
		}
	}
	require.Greater(t, len(events), 50)
	for _, action := range ledgerActions(t) {
		events[action] = true
	}
	keys := settings(t)
	eachSpan(t, `^([a-z]+)\.([a-z_]+)$`, func(m []string) string {
		setting := slices.ContainsFunc(keys, func(key string) bool { return key == m[0] || strings.HasPrefix(key, m[0]+".") })
		kind := first[m[1]] && !setting
		if kind && !events[m[0]] && !slices.Contains([]string{"go", "md", "js", "templ", "zip", "json", "patch"}, m[2]) {
			return "is not an event"
		}
		return ""
	})
	_, pipelines, found := strings.Cut(documents(t)["docs/DELIBERATION.md"], "## API, events and workflow messages")
	require.True(t, found)
	for _, row := range rows(pipelines) {
		for _, name := range spans(row[0]) {
			require.True(t, events[name], "%s is not an event", name)
		}
	}
}

func TestClassesAndHealActionsInDocumentsExist(t *testing.T) {
	t.Parallel()
	eachSpan(t, `^[A-Z]+_ERROR$`, func(m []string) string {
		if !slices.Contains(contract.Classes(), contract.Class(m[0])) {
			return "is not a class of errors"
		}
		return ""
	})
	_, table, found := strings.Cut(documents(t)["docs/SELF_HEALING.md"], "| Action |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var said []contract.HealAction
	for _, row := range rows(table) {
		said = append(said, contract.HealAction(strings.Trim(row[0], "`")))
	}
	require.ElementsMatch(t, contract.HealActions(), said)
}

func TestEveryPageIsInTheTableOfTheDashboard(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(root, "server/pages/pages.go"))
	require.NoError(t, err)
	named, before := map[string]bool{}, ""
	for _, row := range regexp.MustCompile("(?m)^\\| (`/[^|]*) \\|").FindAllStringSubmatch(documents(t)["docs/DASHBOARD.md"], -1) {
		for _, name := range spans(row[1]) {
			if named[name] = true; strings.Count(name, "/") > 1 {
				before = filepath.Dir(name)
			}
			named[before+name] = true
		}
	}
	seen := 0
	for _, m := range regexp.MustCompile(`get\("(/[^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		path := strings.NewReplacer("/runs/{id}", "/runs/42", "/pipelines/{id}", "/pipelines/7", "{other}", "41").Replace(m[1])
		if !strings.Contains(path, "{") { // else it shows one row of a page
			seen++
			require.True(t, named[path], "docs/DASHBOARD.md does not have the page %s", path)
		}
	}
	require.Greater(t, seen, 15)
}

func TestEveryMeasurementHasADateAndACommand(t *testing.T) {
	t.Parallel()
	bench, err := os.ReadFile(filepath.Join(root, "test/bench/main.go"))
	require.NoError(t, err)
	seen := 0
	for _, line := range strings.Split(documents(t)["docs/PERFORMANCE.md"], "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| What") || strings.HasPrefix(line, "| ---") {
			continue
		}
		seen++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, cells, 4, line)
		require.Regexp(t, `^20\d\d-\d\d-\d\d$`, cells[2], line)
		require.True(t, strings.HasPrefix(cells[3], "`") || strings.HasPrefix(cells[3], "the same, "), line)
		for _, m := range regexp.MustCompile(`-only ([a-z]+)`).FindAllStringSubmatch(cells[3], -1) {
			require.Contains(t, string(bench), strconv.Quote(m[1]), line)
		}
	}
	require.Greater(t, seen, 10)
}
