package dependencies_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
)

// sources returns what a change adds, as "name version source".
func sources(t testing.TB, before, after gatetest.Tree) []string {
	all, err := dependencies.Added(t.Context(), gatetest.Between(before, after))
	require.NoError(t, err)
	out := []string{}
	for _, d := range all {
		out = append(out, strings.TrimSpace(d.Name+" "+d.Version+" "+d.Source))
	}
	return out
}

func TestAnotherRegistryThatAManifestNamesIsNotTakenForTheUsualOne(t *testing.T) {
	t.Parallel()
	const index = "[[tool.poetry.source]]\nname='corp'\nurl='https://pip.corp.example/simple'\n[[tool.poetry.source]]\nname='mirror'\nurl='https://pypi.org/simple'\n"
	for name, c := range map[string]struct {
		path, content string
		want          []string
	}{
		"Cargo":              {"Cargo.toml", "[dependencies]\na = {version='1', registry='corp'}\nb = {version='1', registry='crates-io'}\n", []string{"a 1 registry:corp", "b 1"}},
		"Poetry":             {"pyproject.toml", "[tool.poetry.dependencies]\na = {version='1', source='corp'}\nb = {version='1', source='mirror'}\nc = {version='1', source='PyPI'}\nd = {version='1', source='x'}\n" + index, []string{"a 1 https://pip.corp.example/simple", "b 1", "c 1", "d 1 registry:x"}},
		"a list of Poetry":   {"pyproject.toml", "[tool.poetry.dependencies]\na = [{version='1', source='corp'}, {version='2'}]\n" + index, []string{"a 1 https://pip.corp.example/simple", "a 2"}},
		"Pipenv":             {"Pipfile", "[[source]]\nname='pypi'\nurl='https://pypi.org/simple'\n[[source]]\nname='corp'\nurl='https://pip.corp.example'\n[packages]\na = {version='==1', index='corp'}\nb = '==1'\n", []string{"a 1 https://pip.corp.example", "b 1"}},
		"first of Pipenv":    {"Pipfile", "[[source]]\nname='corp'\nurl='https://pip.corp.example'\n[packages]\na = '==1'\n", []string{"a 1 https://pip.corp.example"}},
		"uv":                 {"pyproject.toml", "[project]\ndependencies=['a==1','b==1','c==1']\n[tool.uv.sources]\na = {index='corp'}\nc = {index='pypi'}\n[[tool.uv.index]]\nname='corp'\nurl='https://pip.corp.example'\n", []string{"a 1 https://pip.corp.example", "b 1", "c 1"}},
		"an index of pip":    {"requirements.txt", "-i https://pip.corp.example\na==1\n", []string{"a 1 https://pip.corp.example"}},
		"a gem":              {"Gemfile", "source 'https://rubygems.org'\ngem 'a', '1', source: 'https://gems.corp.example'\ngem 'b', '1', :source => 'https://rubygems.org'\n", []string{"a 1 https://gems.corp.example", "b 1"}},
		"a block of gems":    {"Gemfile", "source 'https://rubygems.org'\nsource 'https://gems.corp.example' do\n  group :test do\n    gem 'a', '1'\n  end\n  gem 'b', '1'\nend\ngem 'c', '1'\n", []string{"a 1 https://gems.corp.example", "b 1 https://gems.corp.example", "c 1"}},
		"a source of gems":   {"Gemfile", "source 'https://gems.corp.example'\ngem 'a', '1'\n", []string{"a 1 https://gems.corp.example"}},
		"members of Cargo":   {"Cargo.toml", "[dependencies]\ncore = {workspace=true}\nserde = '1'\n", []string{"serde 1"}},
		"an alias of npm":    {"package.json", `{"dependencies":{"lodash":"npm:evil","x":"npm:@s/y"}}`, []string{"evil", "@s/y"}},
		"an alias of Yarn":   {"yarn.lock", "lodash@npm:evil@^1.0.0:\n  version \"1.0.0\"\n\"x@npm:y\":\n  version: 2.0.0\n  resolution: \"@s/y@npm:2.0.0\"\n", []string{"evil 1.0.0", "@s/y 2.0.0"}},
		"an alias in a lock": {"package-lock.json", lock(`"node_modules/lodash":{"name":"evil","version":"1.0.0"}`), []string{"evil 1.0.0"}},
	} {
		require.ElementsMatch(t, c.want, sources(t, gatetest.Tree{}, gatetest.Tree{c.path: c.content}), name)
	}
	require.Equal(t, []string{"a 1"}, sources(t, gatetest.Tree{"Cargo.toml": "[dependencies]\na = {version='1', registry='corp'}\n"},
		gatetest.Tree{"Cargo.toml": "[dependencies]\na = '1'\n"}), "the same version now comes from the usual registry")
}

func TestAReplacedModuleIsLookedUpAsItIsUsed(t *testing.T) {
	t.Parallel()
	for replace, want := range map[string][]string{
		"e.org/e => e.org/e v1.0.1":        {"e.org/e v1.0.1"},
		"e.org/e v1.9.9 => d.org/d v1.0.0": {"e.org/e v1.0.0", "d.org/d v1.0.0"},
		"e.org/e v1.0.0 => d.org/d v1.0.0": {"d.org/d v1.0.0"},
	} {
		require.Equal(t, want, sources(t, gatetest.Tree{"go.mod": "module a\n"}, gatetest.Tree{"go.mod": "module a\n\nrequire e.org/e v1.0.0\nreplace " + replace + "\n"}), replace)
	}
	for _, found := range in(t, "go.mod", "module a\n", "module a\n\nreplace e.org/e => e.org/e v1.0.1\n") {
		require.NotContains(t, found, "replace medium", "it is the same module")
	}
}

func TestALockFileSaysOnlyAboutItsDirectoryAndVersionsWherePackagesComeFrom(t *testing.T) {
	t.Parallel()
	const foreign = "https://npm.corp.example/evil.tgz"
	entry := func(version, from string) string {
		return lock(`"node_modules/evil":{"version":"` + version + `","resolved":"` + from + `"}`)
	}
	const exact, wide = `{"dependencies":{"evil":"1.0.1"}}`, `{"dependencies":{"evil":"^1.0.0"}}`
	for name, c := range map[string]struct {
		manifest, at, lock string
		foreign            bool
	}{
		"its own":           {exact, "web/package-lock.json", entry("1.0.1", foreign), true},
		"one above":         {exact, "package-lock.json", entry("1.0.1", foreign), true},
		"another directory": {exact, "testdata/package-lock.json", entry("1.0.1", foreign), false},
		"another version":   {exact, "web/package-lock.json", entry("0.0.1", foreign), false},
		"a range":           {wide, "web/package-lock.json", entry("1.0.9", foreign), true},
		"both":              {wide, "web/package-lock.json", lock(`"node_modules/evil":{"version":"1.0.9"},"node_modules/x/node_modules/evil":{"version":"0.1.0","resolved":"` + foreign + `"}`), false},
	} {
		all := sources(t, gatetest.Tree{}, gatetest.Tree{"web/package.json": c.manifest, c.at: c.lock})
		require.Equal(t, c.foreign, strings.Contains(all[0], foreign), "%s: %v", name, all)
	}
}

func TestAChangeCannotPassAPackageOffAsOneOfTheRepository(t *testing.T) {
	t.Parallel()
	const uses = `{"dependencies":{"evil":"1.0.0"}}`
	base := gatetest.Tree{"other/package.json": `{"name":"other"}`}
	for name, c := range map[string]struct {
		before, after gatetest.Tree
		status        change.Status
		severity      contract.Severity
	}{
		"a new manifest":     {base, gatetest.Tree{"package.json": uses, "testdata/x/package.json": `{"name":"evil"}`}, change.StatusLocal, contract.SeverityMedium},
		"a new name":         {base, gatetest.Tree{"package.json": uses, "other/package.json": `{"name":"evil"}`}, change.StatusLocal, contract.SeverityMedium},
		"a package of its":   {gatetest.Tree{"b/package.json": `{"name":"evil"}`}, gatetest.Tree{"package.json": uses, "b/package.json": `{"name":"evil"}`}, change.StatusLocal, contract.SeverityMinor},
		"a changed manifest": {gatetest.Tree{"b/package.json": `{"name":"evil"}`}, gatetest.Tree{"package.json": uses, "b/package.json": `{"name":"evil","version":"2"}`}, change.StatusLocal, contract.SeverityMinor},
		"a moved package":    {gatetest.Tree{"b/package.json": `{"name":"evil"}`}, gatetest.Tree{"package.json": uses, "c/package.json": `{"name":"evil"}`}, change.StatusLocal, contract.SeverityMinor},
		"a deleted package":  {gatetest.Tree{"b/package.json": `{"name":"evil"}`}, gatetest.Tree{"package.json": uses}, "", ""},
	} {
		ch := gatetest.Between(c.before, c.after)
		var err error
		ch.Dependencies, err = dependencies.Added(t.Context(), ch)
		require.NoError(t, err)
		require.Len(t, ch.Dependencies, 1, name)
		require.Equal(t, c.status, ch.Dependencies[0].Status, name)
		if c.status == "" {
			continue
		}
		found, err := dependencies.Guard.Judge(t.Context(), ch)
		require.NoError(t, err)
		var severities []contract.Severity
		for _, f := range found {
			if f.Rule == dependencies.RuleLocal {
				severities = append(severities, f.Severity)
			}
		}
		require.Equal(t, []contract.Severity{c.severity}, severities, name)
	}
}

func TestCratesAndPythonPackagesOfTheRepositoryAreRecognised(t *testing.T) {
	t.Parallel()
	own := gatetest.Tree{"a/Cargo.toml": "[package]\nname = 'own_a'\n", "b/pyproject.toml": "[project]\nname = 'Own.B'\n", "c/pyproject.toml": "[tool.poetry]\nname = 'own-c'\n"}
	after := gatetest.Tree{"Cargo.toml": "[dependencies]\nown-a = '1'\n", "requirements.txt": "own_b==1\nown_c==1\n"}
	for p, content := range own {
		after[p] = content
	}
	all, err := dependencies.Added(t.Context(), gatetest.Between(own, after))
	require.NoError(t, err)
	require.Len(t, all, 3)
	for _, d := range all {
		require.Equal(t, change.StatusLocal, d.Status, d.Name)
	}
}

func TestVersionsBeyondTheLimitAreOneUnknownAge(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range dependencies.MaxAdded + 500 {
		fmt.Fprintf(&text, "boto3==1.%d\n", i)
	}
	all, err := dependencies.Added(t.Context(), gatetest.Between(gatetest.Tree{}, gatetest.Tree{"requirements.txt": text.String()}))
	require.NoError(t, err)
	require.Len(t, all, dependencies.MaxAdded+1)
	last := all[dependencies.MaxAdded]
	require.Equal(t, change.StatusUnknown, last.Status)
	require.Contains(t, last.Reason, "this one and 499 others")
}
