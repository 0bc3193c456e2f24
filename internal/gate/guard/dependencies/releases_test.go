package dependencies_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
)

// asked is when registries were asked.
var asked = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// told returns the findings about what a registry said about a dependency, as "rule severity".
func told(t testing.TB, d change.Dependency, minAge time.Duration) (out []string) {
	c := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"package.json": "{\n\"dependencies\":{\"thing\":\"1.2.3\"}}"})
	d.Path, d.Ecosystem, d.Name = "package.json", "npm", "thing"
	c.Dependencies, c.Asked, c.Limits.MinAge = []change.Dependency{d}, asked, minAge
	found, err := dependencies.Guard.Judge(t.Context(), c)
	require.NoError(t, err)
	for _, f := range found {
		require.Equal(t, "package.json", f.Path)
		require.Equal(t, 2, f.Line)
		if f.Rule != dependencies.RuleNew {
			out = append(out, f.Rule+" "+string(f.Severity))
		}
	}
	return out
}

func TestAVersionOrPackageThatIsTooYoungIsFound(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	before := func(age time.Duration) time.Time { return asked.Add(-age) }
	for name, c := range map[string]struct {
		published, first time.Time
		minAge           time.Duration
		want             []string
	}{
		"old":                            {before(10 * day), before(20 * day), 3 * day, nil},
		"exactly old enough":             {before(3 * day), before(20 * day), 3 * day, nil},
		"a second too young":             {before(3*day - time.Second), before(20 * day), 3 * day, []string{"young major"}},
		"a new package":                  {before(day), before(2 * day), 3 * day, []string{"young major"}},
		"published in the future":        {before(-day), before(20 * day), 3 * day, []string{"young major"}},
		"any age":                        {before(time.Hour), before(time.Hour), 0, nil},
		"its age is not known":           {time.Time{}, before(20 * day), 3 * day, []string{"age-unknown medium"}},
		"the package's age is not known": {before(10 * day), time.Time{}, 3 * day, nil},
	} {
		d := change.Dependency{Version: "1.2.3", Exact: true, Status: change.StatusFound, Published: c.published, First: c.first}
		require.Equal(t, c.want, told(t, d, c.minAge), name)
	}
	for minAge, says := range map[time.Duration]string{72 * time.Hour: "72h ago", 10 * time.Hour: "10h ago", 90 * time.Minute: "1h30m ago", 30 * time.Minute: "30m ago", 30 * time.Second: "30s ago"} {
		c := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"go.mod": "module a\n"})
		c.Asked, c.Limits.MinAge = asked, minAge
		c.Dependencies = []change.Dependency{{Path: "go.mod", Ecosystem: "Go", Name: "b.org/c", Version: "v1.0.0", Exact: true, Status: change.StatusFound, Published: asked, First: before(day * 99)}}
		found, err := dependencies.Guard.Judge(t.Context(), c)
		require.NoError(t, err)
		require.Contains(t, found[0].Message, "b.org/c v1.0.0 of Go was published on 2026-11-26 12:00 UTC, less than "+says)
	}
	someRange := change.Dependency{Version: "1", Status: change.StatusFound, First: before(20 * day)}
	require.Empty(t, told(t, someRange, 3*day), "a range has no version of its own")
}

func TestWhatARegistryDoesNotHaveIsFoundWithoutAMinimumAge(t *testing.T) {
	t.Parallel()
	for status, want := range map[change.Status][]string{
		change.StatusNotFound: {"not-found major"}, change.StatusNoVersion: {"no-version major"}, change.StatusUnknown: {"age-unknown medium"},
		change.StatusLocal: {"local minor"}, change.StatusPrivate: nil, change.StatusOff: nil, "": {"age-unknown medium"},
	} {
		require.Equal(t, want, told(t, change.Dependency{Version: "1.2.3", Exact: true, Status: status}, 0), status)
	}
}

func TestUnknownAgesWithOneReasonAreOneFinding(t *testing.T) {
	t.Parallel()
	c := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"yarn.lock": "a@1:\n"})
	for i := range 40 {
		c.Dependencies = append(c.Dependencies, change.Dependency{Path: "yarn.lock", Ecosystem: "npm", Name: fmt.Sprint("a", i), Status: change.StatusUnknown, Reason: "it rains"})
	}
	found, err := dependencies.Guard.Judge(t.Context(), c)
	require.NoError(t, err)
	var messages []string
	for _, f := range found {
		if f.Rule == dependencies.RuleAgeUnknown {
			messages = append(messages, f.Message)
		}
	}
	require.Equal(t, []string{"it is not known when 40 dependencies, such as a0 of npm, were published (it rains): check them"}, messages)
}

// added returns what a change of one file adds, as "name version", with "!" if it is exact.
func added(t testing.TB, path, before, after string) []string {
	tree := gatetest.Tree{}
	if before != "" {
		tree[path] = before
	}
	all, err := dependencies.Added(t.Context(), gatetest.Between(tree, gatetest.Tree{path: after}))
	require.NoError(t, err)
	out := []string{}
	for _, d := range all {
		text := d.Name + " " + d.Version
		if d.Exact {
			text += "!"
		}
		out = append(out, text)
	}
	return out
}

func TestAddedAndRaisedVersionsAreLookedUp(t *testing.T) {
	t.Parallel()
	entry := `"node_modules/x":{"version":"1.0.1","resolved":"https://registry.npmjs.org/x/-/x-1.0.1.tgz"}`
	for name, c := range map[string]struct {
		path, before, after string
		want                []string
	}{
		"a raised module":     {"go.mod", "module a\n\nrequire b.org/c v1.0.0\n", "module a\n\nrequire b.org/c v1.1.0\n", []string{"b.org/c v1.1.0!"}},
		"the same module":     {"go.mod", "module a\n\nrequire b.org/c v1.0.0\n", "module a\n\nrequire b.org/c v1.0.0 // x\n", []string{}},
		"a replaced module":   {"go.mod", "module a\n", "module a\n\nrequire b.org/c v1.0.0\nreplace b.org/c => d.org/e v1.2.0\n", []string{"d.org/e v1.2.0!"}},
		"a local replacement": {"go.mod", "module a\n", "module a\n\nrequire b.org/c v1.0.0\nreplace b.org/c => ./c\n", []string{}},
		"another group":       {"package.json", `{"dependencies":{"x":"1.0.0"}}`, `{"devDependencies":{"x":"1.0.0"}}`, []string{}},
		"a range":             {"package.json", `{}`, `{"dependencies":{"x":"^1.0.0"}}`, []string{"x 1.0.0"}},
		"a part":              {"package.json", `{}`, `{"dependencies":{"x":"1.2"}}`, []string{"x 1.2"}},
		"a wildcard":          {"package.json", `{}`, `{"dependencies":{"x":"1.2.x"}}`, []string{"x 1.2.x"}},
		"any":                 {"package.json", `{}`, `{"dependencies":{"x":"*"}}`, []string{"x "}},
		"an alias":            {"package.json", `{}`, `{"dependencies":{"a":"npm:x@1.0.0"}}`, []string{"x 1.0.0!"}},
		"other sources":       {"package.json", `{}`, `{"dependencies":{"a":"workspace:*","b":"file:../b","c":"github:c/c","d":"https://e.org/d.tgz"}}`, []string{}},
		"a lock entry":        {"package-lock.json", lock(`"node_modules/y":{"version":"1.0.0"}`), lock(`"node_modules/y":{"version":"1.0.0"},` + entry), []string{"x 1.0.1!"}},
		"lock of Yarn":        {"yarn.lock", "", "\"@own/w@workspace:w\":\n  version: 0.0.0-use.local\n\"x@npm:^1.0.0\":\n  version: 1.0.5\n", []string{"x 1.0.5!"}},
		"pinned by pip":       {"requirements.txt", "", "a==1.0\nb>=2\nc == 3.*\nd @ https://e.org/d.whl\n", []string{"a 1.0!", "b 2", "c 3"}},
		"sources of uv":       {"pyproject.toml", "", "[project]\ndependencies = ['a==1.0', 'b==1.0']\n[tool.uv.sources]\nb = {workspace = true}\n", []string{"a 1.0!"}},
		"crates":              {"Cargo.toml", "", "[dependencies]\na = '1.0.0'\nb = '=1.0.0'\nc = {path = '../c'}\n", []string{"a 1.0.0", "b 1.0.0!"}},
		"Gradle":              {"build.gradle", "", "id 'x.y' version '1.0'\nimplementation 'g:a:1.+'\nimplementation 'g:b:1.2'\n", []string{"g:a 1", "g:b 1.2!"}},
	} {
		require.Equal(t, c.want, added(t, c.path, c.before, c.after), name)
	}
}

func TestALockFileMakesTheVersionOfItsManifestExact(t *testing.T) {
	t.Parallel()
	all, err := dependencies.Added(t.Context(), gatetest.Between(gatetest.Tree{}, gatetest.Tree{
		"package.json": `{"dependencies":{"x":"^1.0.0","y":"^1.0.0"}}`, "package-lock.json": lock(`"node_modules/x":{"version":"1.0.0"},"node_modules/y":{"version":"1.0.9","resolved":"https://npm.corp.example/y.tgz"}`),
	}))
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.True(t, all[0].Exact)
	require.Equal(t, "https://npm.corp.example/y.tgz", all[1].Source, "the manifest does not say where y comes from")
	require.Equal(t, "1.0.9", all[2].Version)
}

func TestTheRepositorysOwnPackagesAreRecognised(t *testing.T) {
	t.Parallel()
	all, err := dependencies.Added(t.Context(), gatetest.Between(gatetest.Tree{}, gatetest.Tree{
		"go.mod": "module own.org/a\n\nrequire own.org/b v0.0.0\n", "b/go.mod": "module own.org/b\n",
		"pom.xml":   "<project><groupId>g</groupId><artifactId>a</artifactId><dependencies><dependency><groupId>g</groupId><artifactId>b</artifactId><version>1</version></dependency></dependencies></project>",
		"b/pom.xml": "<project><parent><groupId>g</groupId></parent><artifactId>b</artifactId></project>",
	}))
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, d := range all {
		require.Equal(t, change.StatusLocal, d.Status, d.Name)
		require.Contains(t, d.Reason, "b/")
	}
}
