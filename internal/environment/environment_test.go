package environment

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/rocketgpt/orchestrator/internal/config"
)

// worker has what a worker usually has.
var worker = Tools{
	"go": "1.26.8", "node": "20.20.2", "npm": "11.19.1", "python": "3.11.7", "cargo": "1.95.0",
	"java": "17.0.15", "maven": "3.8.7", "make": "4.3", "gcc": "12.2.0",
}

// checkout writes files in the form of txtar and opens their folder.
func checkout(t testing.TB, files string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for _, file := range txtar.Parse([]byte(files)).Files {
		p := filepath.Join(dir, file.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, file.Data, 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func find(t testing.TB, files string) Recipe {
	t.Helper()
	return findWith(t, files, Settings{})
}

func findWith(t testing.TB, files string, s Settings) Recipe {
	t.Helper()
	r, err := Find(checkout(t, files), s, worker, Facts{})
	require.NoError(t, err)
	return r
}

// lines are the commands as rgpt.yaml has them.
func (r Recipe) lines() []string {
	var out []string
	for _, c := range r.Setup {
		out = append(out, c.line())
	}
	return out
}

const (
	createVenv = "python3 -m venv /home/sandbox/.venv"
	pipInstall = "/home/sandbox/.venv/bin/python -m pip install "
)

// managerCases are repositories, each with the manager and the commands that install what it needs.
var managerCases = []struct {
	name, files string
	manager     string
	commands    []string // that the set-up begins with, in order; each may be cut off
}{
	{"go", "-- go.mod --\nmodule m\ngo 1.22\nrequire example.com/x v1.0.0\n", "go", []string{goOnline + "go mod download"}},
	{"go without requirements", "-- go.mod --\nmodule m\ngo 1.22\n", "go", nil},
	{"go vendored", "-- go.mod --\nmodule m\nrequire example.com/x v1.0.0\n-- vendor/modules.txt --\n", "go", nil},
	{"go workspace", "-- go.work --\ngo 1.22\nuse (\n./a\n./b\n)\n-- a/go.mod --\nmodule a\nrequire x.y/z v1.0.0\n-- b/go.mod --\nmodule b\n-- c/go.mod --\nmodule c\nrequire x.y/z v1.0.0\n", "go",
		[]string{goOnline + "go mod download", "(cd c && { GOWORK=off " + goOnline + "go mod download"}},
	{"npm with a lock file", "-- package.json --\n{}\n-- package-lock.json --\n{}\n", "npm", []string{"npm ci || "}},
	{"npm with a shrinkwrap", "-- package.json --\n{}\n-- npm-shrinkwrap.json --\n{}\n", "npm", []string{"npm ci || "}},
	{"npm without a lock file", "-- package.json --\n{\"devDependencies\": {\"mocha\": \"1\"}}\n", "npm", []string{"npm install --no-package-lock || "}},
	{"npm without dependencies", "-- package.json --\n{\"scripts\": {\"test\": \"node --test\"}}\n", "npm", nil},
	{"pnpm of a field", "-- package.json --\n{\"packageManager\": \"pnpm@10.28.0+sha512.abc\"}\n-- pnpm-lock.yaml --\nlockfileVersion: '9.0'\n", "pnpm",
		[]string{"npm install --global --prefix /home/sandbox/.local pnpm@10.28.0", "pnpm install --frozen-lockfile || "}},
	{"pnpm of a lock file of version 6", "-- package.json --\n{}\n-- pnpm-lock.yaml --\nlockfileVersion: '6.0'\n", "pnpm",
		[]string{"npm install --global --prefix /home/sandbox/.local pnpm@8"}},
	{"pnpm that this Node cannot run", "-- package.json --\n{\"packageManager\": \"pnpm@11.1.0\"}\n-- pnpm-lock.yaml --\nlockfileVersion: '9.0'\n", "pnpm",
		[]string{"npm install --global --prefix /home/sandbox/.local pnpm@10"}},
	{"pnpm of devEngines", "-- package.json --\n{\"devEngines\": {\"packageManager\": {\"name\": \"pnpm\", \"version\": \"9.1.0\"}}}\n-- pnpm-lock.yaml --\n", "pnpm",
		[]string{"npm install --global --prefix /home/sandbox/.local pnpm@9.1.0"}},
	{"yarn 1", "-- package.json --\n{}\n-- yarn.lock --\n# yarn lockfile v1\n", "yarn",
		[]string{"npm install --global --prefix /home/sandbox/.local yarn@1", "yarn install --frozen-lockfile"}},
	{"yarn 4 of a field", "-- package.json --\n{\"packageManager\": \"yarn@4.4.1\"}\n-- yarn.lock --\n__metadata:\n", "yarn-berry",
		[]string{"npm install --global --prefix /home/sandbox/.local @yarnpkg/cli-dist@4.4.1", berryOnline + "yarn install --immutable"}},
	{"yarn 3 of yarnPath", "-- package.json --\n{}\n-- .yarnrc.yml --\nyarnPath: .yarn/releases/yarn-3.6.4.cjs\n-- yarn.lock --\n", "yarn-berry",
		[]string{"npm install --global --prefix /home/sandbox/.local @yarnpkg/cli-dist@3.6.4"}},
	{"bun", "-- package.json --\n{}\n-- bun.lock --\n{}\n", "bun",
		[]string{"npm install --global --prefix /home/sandbox/.local bun@1", "bun install --frozen-lockfile || "}},
	{"as workflows do without scripts", "-- package.json --\n{}\n-- package-lock.json --\n{}\n-- .github/workflows/ci.yml --\njobs:\n  test:\n    steps:\n      - run: npm ci --ignore-scripts\n      - run: npm test\n", "npm",
		[]string{"npm ci --ignore-scripts || "}},
	{"uv", "-- pyproject.toml --\n[project]\nname = 'x'\n[dependency-groups]\ntests = ['pytest']\ndocs = ['sphinx']\n-- uv.lock --\n", "uv",
		[]string{createVenv, "python3 -m venv /home/sandbox/.local/lib/uv && ", "uv sync --inexact --group tests --all-extras --frozen || uv sync --inexact --group tests --frozen || "}},
	{"poetry", "-- pyproject.toml --\n[tool.poetry]\nname = 'x'\n[tool.poetry.dependencies]\npython = '^3.8'\n[tool.poetry.group.test]\noptional = true\n-- poetry.lock --\n", "poetry",
		[]string{createVenv, "python3 -m venv /home/sandbox/.local/lib/poetry && ", "poetry install --with test --all-extras || "}},
	{"poetry without a lock file", "-- pyproject.toml --\n[tool.poetry]\nname = 'x'\n[tool.poetry.dependencies]\npython = '^3.8'\n", "poetry", []string{createVenv}},
	{"pdm", "-- pyproject.toml --\n[project]\nname = 'x'\n-- pdm.lock --\n", "pdm", []string{createVenv, "python3 -m venv /home/sandbox/.local/lib/pdm && ", "pdm install --frozen-lockfile"}},
	{"pipenv", "-- Pipfile --\n-- Pipfile.lock --\n{}\n", "pipenv", []string{createVenv, "python3 -m venv /home/sandbox/.local/lib/pipenv && ", "pipenv sync --dev || "}},
	{"pip with extras for tests", "-- pyproject.toml --\n[project]\nname = 'x'\n[project.optional-dependencies]\ntest = ['pytest']\ndocs = ['sphinx']\n-- tests/test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e '.[test]'"}},
	{"pip with groups", "-- pyproject.toml --\n[project]\nname = 'x'\n[dependency-groups]\ndev = ['pytest']\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "'pip>=25.1'", pipInstall + "-e . --group dev || "}},
	{"requirements", "-- requirements.txt --\nflask\n-- requirements-dev.txt --\npytest\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-r requirements-dev.txt -r requirements.txt || "}},
	{"requirements in a folder", "-- requirements/test.txt --\npytest\n-- setup.py --\nsetup()\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e . -r requirements/test.txt || "}},
	{"requirements of a workflow", "-- requirements.txt --\n-r requirements-docs.txt\n-- requirements-tests.txt --\npytest\n-- .github/workflows/t.yml --\njobs:\n  t:\n    steps:\n      - run: pip install -r requirements-tests.txt\n      - run: pytest\n-- test_x.py --\n", "pip",
		[]string{createVenv, pipInstall + "-r requirements-tests.txt"}},
	{"setup.py with extras", "-- setup.py --\nsetup(extras_require={'pg': ['x'], 'tests': ['pytest']})\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e '.[tests]' pytest || "}},
	{"setup.cfg with extras", "-- setup.cfg --\n[metadata]\nname = x\n[options.extras_require]\ntest =\n    pytest\n    hypothesis\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e '.[test]'"}},
	{"extras by which requirements install the project", "-- setup.py --\nsetup()\n-- requirements.txt --\n-e .[pg]\npytest\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e '.[pg]' -r requirements.txt || "}},
	{"tox", "-- setup.py --\nsetup()\n-- tox.ini --\n[testenv]\nextras = socks\ndeps =\n  pytest>=7\n  mypy: mypy\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e '.[socks]' 'pytest>=7' || "}},
	{"nox", "-- setup.py --\nsetup()\n-- noxfile.py --\n@nox.session\ndef tests(session):\n    session.install('-e', '.[speed]', 'pytest')\n    session.install(*deps)\ndef docs(session):\n    session.install('sphinx')\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e '.[speed]' pytest || "}},
	{"hatch", "-- pyproject.toml --\n[project]\nname = 'x'\n[tool.hatch.envs.default]\ndependencies = ['pytest', 'anyio']\n-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "-e . anyio pytest || "}},
	{"pytest that nothing brings, with its plugins", "-- pyproject.toml --\n[project]\nname = 'x'\n[tool.pytest.ini_options]\naddopts = '--cov=x -n auto'\nasyncio_mode = 'auto'\n-- tests/test_x.py --\n", "pip",
		[]string{createVenv, pipInstall + "-e . pytest pytest-asyncio pytest-cov pytest-xdist || "}},
	{"tests without a manifest", "-- test_x.py --\n", "pip", []string{createVenv, pipInstall + "pytest"}},
	{"cargo with a lock file", "-- Cargo.toml --\n[package]\nname='x'\n-- Cargo.lock --\n", "cargo", []string{`CARGO_NET_OFFLINE=false cargo fetch --target "$(rustc -vV | sed -n 's/^host: //p')" --locked || `}},
	{"cargo without one", "-- Cargo.toml --\n[workspace]\nmembers=['a']\n-- a/Cargo.toml --\n[package]\nname='a'\n", "cargo", []string{`CARGO_NET_OFFLINE=false cargo fetch --target "$(rustc -vV | sed -n 's/^host: //p')"`}},
	{"maven", "-- pom.xml --\n<project/>\n", "maven", []string{javaOnline + "mvn --batch-mode --no-transfer-progress '-Dtest=*#noSuchTest'"}},
	{"gradle with a wrapper", "-- settings.gradle.kts --\n-- gradlew --\n-- app/build.gradle.kts --\n", "gradle", []string{javaOnline + "init=$(mktemp"}},
	{"make", "-- Makefile --\ntest:\n\ttrue\n-- x.c --\n", "make", nil},
	{"cmake", "-- CMakeLists.txt --\n-- x.c --\n", "cmake", nil},
}

func TestEachManagerInstallsInItsWay(t *testing.T) {
	t.Parallel()
	for _, c := range managerCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := find(t, c.files)
			require.NotEmpty(t, r.Projects)
			require.Equal(t, c.manager, r.Projects[0].Manager)
			lines := r.lines()
			require.GreaterOrEqual(t, len(lines), len(c.commands), "%q", lines)
			for n, want := range c.commands {
				require.True(t, strings.HasPrefix(lines[n], want), "%s\nwant %s", lines[n], want)
			}
			if c.commands == nil {
				require.Empty(t, lines)
			}
			require.Equal(t, unique(append([]string{}, config.RegistryHosts()[r.Projects[0].Ecosystem]...)), append([]string{}, r.Hosts...))
		})
	}
}

func TestTheBrowserComesWithTheVersionOfPlaywrightThatIsInstalled(t *testing.T) {
	t.Parallel()
	const download = "env -u PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD "
	for name, c := range map[string]struct{ files, dir, command string }{
		"npm":           {"-- package.json --\n{\"devDependencies\": {\"@playwright/test\": \"^1.50\"}}\n-- package-lock.json --\n{}\n", ".", download + "npx --no-install playwright install --only-shell chromium || " + download + "npx --no-install playwright install chromium"},
		"pnpm":          {"-- package.json --\n{\"dependencies\": {\"playwright\": \"1\"}}\n-- pnpm-lock.yaml --\nlockfileVersion: '9.0'\n", ".", download + "pnpm exec playwright install --only-shell chromium || "},
		"yarn 4":        {"-- package.json --\n{\"packageManager\": \"yarn@4.4.1\", \"devDependencies\": {\"@playwright/test\": \"1\"}}\n-- yarn.lock --\n", ".", download + "yarn playwright install --only-shell chromium || "},
		"in the member": {"-- package.json --\n{\"workspaces\": [\"apps/*\"]}\n-- package-lock.json --\n{}\n-- apps/web/package.json --\n{\"devDependencies\": {\"@playwright/test\": \"1\"}}\n", "apps/web", download + "npx --no-install playwright install --only-shell chromium || "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := find(t, c.files)
			last := r.Setup[len(r.Setup)-1]
			require.Equal(t, c.dir, last.Dir)
			require.True(t, strings.HasPrefix(last.Shell, c.command), last.Shell)
			require.True(t, last.Optional, "without it, the worker's browser is used")
			require.Contains(t, r.Hosts, "cdn.playwright.dev")
		})
	}
	for _, other := range find(t, "-- package.json --\n{\"devDependencies\": {\"mocha\": \"1\"}}\n-- package-lock.json --\n{}\n").Setup {
		require.NotContains(t, other.Shell, "playwright")
	}
}

func TestMembersOfAWorkspaceComeWithItsRoot(t *testing.T) {
	t.Parallel()
	r := find(t, `
-- package.json --
{"workspaces": {"packages": ["packages/*", "./apps/web"]}, "devDependencies": {"x": "1"}}
-- package-lock.json --
{}
-- packages/a/package.json --
{}
-- packages/a/package-lock.json --
{}
-- apps/web/package.json --
{}
-- other/package.json --
{}
-- other/yarn.lock --
-- website/package.json --
{}
-- website/yarn.lock --
`)
	require.Len(t, r.Projects, 2)
	require.Equal(t, ".", r.Projects[0].Dir)
	require.Equal(t, "other", r.Projects[1].Dir, "it has a lock file of its own")
	require.Subset(t, r.Inputs, []string{"packages/a/package.json", "apps/web/package.json", "package-lock.json", "other/yarn.lock"})
	last := r.Setup[len(r.Setup)-1]
	require.Equal(t, "other", last.Dir)
	require.True(t, last.Optional)
}

func TestAMavenModuleThatFailsDoesNotEndTheSetUp(t *testing.T) {
	t.Parallel()
	require.False(t, find(t, "-- pom.xml --\n<project/>\n").Setup[0].Optional)
	require.True(t, find(t, "-- pom.xml --\n<project/>\n-- a/pom.xml --\n<project/>\n").Setup[0].Optional)
}

func TestFoldersBesideEachOtherAreSetUpEach(t *testing.T) {
	t.Parallel()
	r := find(t, `
-- backend/pyproject.toml --
[project]
name = "b"
-- worker/pyproject.toml --
[project]
name = "w"
-- worker/uv.lock --
-- frontend/package.json --
{}
-- frontend/package-lock.json --
{}
-- examples/shop/package.json --
{"dependencies": {"x": "1"}}
-- tests/data/package.json --
{"dependencies": {"x": "1"}}
`)
	var dirs []string
	for _, p := range r.Projects {
		dirs = append(dirs, p.Dir+" "+p.Manager)
	}
	require.Equal(t, []string{"backend pip", "worker uv", "frontend npm"}, dirs)
	require.Equal(t, []string{"/home/sandbox/.venv/bin", "/home/sandbox/.venv-worker/bin", "/home/sandbox/.local/bin"}, r.Path)
	require.Contains(t, strings.Join(r.lines(), "\n"), "UV_PROJECT_ENVIRONMENT=/home/sandbox/.venv-worker uv sync")
}

func TestWhatASetUpReadsBesideManifestsCounts(t *testing.T) {
	t.Parallel()
	tree := "-- go.mod --\nmodule x\ngo 1.24\n" +
		"-- ci/boot.sh --\ntrue\n-- ci/unused.sh --\ntrue\n-- Makefile --\ndeps:\n\ttrue\n" +
		"-- web/package.json --\n{\"scripts\": {\"postinstall\": \"node ./tools/gen.js --fast\", \"test\": \"node test.js\"}}\n" +
		"-- web/package-lock.json --\n{}\n-- web/tools/gen.js --\n\n-- web/test.js --\n\n" +
		"-- web/patches/left-pad+1.0.0.patch --\n\n-- web/lib/package.json --\n{}\n"
	detected := find(t, tree)
	require.Subset(t, detected.Inputs, []string{"web/package.json", "web/tools/gen.js", "web/patches/left-pad+1.0.0.patch", "web/lib/package.json"})
	require.NotContains(t, detected.Inputs, "web/test.js", "a script that no installation runs")
	require.NotContains(t, detected.Inputs, "ci/boot.sh", "no command names it")

	configured := findWith(t, tree, Settings{Setup: []string{"bash ci/boot.sh && (cd web && make deps)", "make deps"}})
	require.Subset(t, configured.Inputs, []string{"ci/boot.sh", "Makefile"})
	require.NotContains(t, configured.Inputs, "ci/unused.sh")
}

func TestADescriptionSaysWhoseCommandsCount(t *testing.T) {
	t.Parallel()
	const tree = "-- package.json --\n{}\n"
	given := findWith(t, tree, Settings{Setup: []string{"a", "b"}})
	require.Equal(t, "2 configured commands", given.Describe())
	require.Equal(t, "1 configured command", findWith(t, tree, Settings{Setup: []string{"a"}}).Describe())
	given.Source = SourceAgent
	require.Equal(t, "2 commands from the environment agent", given.Describe())
	detected := findWith(t, tree, Settings{Variables: map[string]string{"A": "b"}})
	detected.Source = SourcePerson
	require.Equal(t, "node (npm)", detected.Describe(), "variables take no command's place")
}

func TestManifestsNearTheRootAreFoundInHugeRepositories(t *testing.T) {
	t.Parallel()
	var files strings.Builder
	for n := range 50 {
		fmt.Fprintf(&files, "-- a/deep/%d --\n", n)
	}
	found, err := readTree(checkout(t, files.String()+"-- web/package.json --\n{}\n"), 10)
	require.NoError(t, err)
	require.True(t, found.has("web/package.json"))
	require.Less(t, len(found.files), 10)
}

func TestTheToolsOfCommandsThatAPersonWroteAllCount(t *testing.T) {
	t.Parallel()
	read := func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }
	r := findWith(t, "-- package.json --\n{}\n", Settings{Setup: []string{"mvn -q package"}})
	one, err := r.Digest(read, Tools{"maven": "3.8.7"})
	require.NoError(t, err)
	other, err := r.Digest(read, Tools{"maven": "3.9.0"})
	require.NoError(t, err)
	require.NotEqual(t, one, other)
}

func TestFoldersWithSimilarNamesGetEnvironmentsOfTheirOwn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "web", slug("web"))
	seen := map[string]string{}
	for _, dir := range []string{"a/b", "a-b", "a_b", "A-B", "ä", "ö", strings.Repeat("x", 60), strings.Repeat("x", 61)} {
		require.NotContains(t, seen, slug(dir), "%s and %s", dir, seen[slug(dir)])
		seen[slug(dir)] = dir
	}
}

func TestWhatTheWorkerLacksIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, files string
		missing     []MissingTool
	}{
		{"node satisfied", "-- package.json --\n{\"engines\": {\"node\": \"^12.17.0 || ^14.13 || >=16.0.0\"}}\n", nil},
		{"node too old", "-- package.json --\n{\"engines\": {\"node\": \">=22.12.0\"}}\n", []MissingTool{{"node", ">=22.12.0", "20.20.2", "package.json"}}},
		{"node of devEngines", "-- package.json --\n{\"devEngines\": {\"runtime\": [{\"name\": \"node\", \"version\": \">=24\"}]}}\n", []MissingTool{{"node", ">=24", "20.20.2", "package.json"}}},
		{"node of .nvmrc", "-- package.json --\n{}\n-- .nvmrc --\nv22\n", []MissingTool{{"node", "22", "20.20.2", ".nvmrc"}}},
		{"engines of another shape", "-- package.json --\n{\"engines\": [\"node >= 22\"]}\n", nil},
		{"python satisfied", "-- pyproject.toml --\n[project]\nname='x'\nrequires-python = '>=3.9,!=3.9.1'\n", nil},
		{"python compatible", "-- pyproject.toml --\n[project]\nname='x'\nrequires-python = '~=3.9'\n", nil},
		{"python not compatible", "-- pyproject.toml --\n[project]\nname='x'\nrequires-python = '~=3.9.2'\n", []MissingTool{{"python", "~=3.9.2", "3.11.7", "pyproject.toml"}}},
		{"python one line", "-- pyproject.toml --\n[project]\nname='x'\nrequires-python = '==3.12.*'\n", []MissingTool{{"python", "==3.12.*", "3.11.7", "pyproject.toml"}}},
		{"python of setup.py", "-- setup.py --\nsetup(python_requires='>=3.13')\n", []MissingTool{{"python", ">=3.13", "3.11.7", "setup.py"}}},
		{"python of .python-version", "-- setup.py --\nsetup()\n-- .python-version --\n3.13\n", []MissingTool{{"python", "3.13", "3.11.7", ".python-version"}}},
		{"requires-python goes before .python-version", "-- pyproject.toml --\n[project]\nname='x'\nrequires-python = '>=3.9'\n-- .python-version --\n3.13\n", nil},
		{"go too old", "-- go.mod --\nmodule m\ngo 1.99\n", []MissingTool{{"go", "1.99", "1.26.8", "go.mod"}}},
		{"rust too old", "-- Cargo.toml --\n[package]\nname='x'\nrust-version='1.99'\n", []MissingTool{{"cargo", "1.99", "1.95.0", "Cargo.toml"}}},
		{"java too old", "-- pom.xml --\n<maven.compiler.release>21</maven.compiler.release>\n", []MissingTool{{"java", "21", "17.0.15", "pom.xml"}}},
		{"java old enough", "-- pom.xml --\n<maven.compiler.source>1.8</maven.compiler.source>\n", nil},
		{"gradle without a wrapper", "-- build.gradle --\n", []MissingTool{{"gradle", "", "", "build.gradle"}}},
		{"a constraint that nobody can read", "-- package.json --\n{\"engines\": {\"node\": \"latest please\"}}\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.missing, find(t, c.files).Missing)
		})
	}
}

func TestVersionsFromGitArePassedToBackendsThatAskGit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ described, want string }{
		{"v1.2.3", "1.2.3"}, {"1.2.3-4-gabc123", "1.2.4.dev4+gabc123"}, {"rel/x-2.0", "2.0"}, {"", "0.0.0"}, {"nightly", "0.0.0"},
	} {
		require.Equal(t, c.want, packageVersion(c.described))
	}
	r, err := Find(checkout(t, "-- pyproject.toml --\n[build-system]\nrequires=['hatch-vcs']\n[project]\nname='x'\n"), Settings{}, worker, Facts{Version: "v1.2.3"})
	require.NoError(t, err)
	require.Equal(t, "1.2.3", r.Variables["SETUPTOOLS_SCM_PRETEND_VERSION"])
	r, err = Find(checkout(t, "-- pyproject.toml --\n[build-system]\nrequires=['setuptools_scm>=8']\n[project]\nname='My.pkg-x'\n"), Settings{}, worker, Facts{Version: "v1.2.3"})
	require.NoError(t, err)
	require.Equal(t, "1.2.3", r.Variables["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_PKG_X"])
}

func TestWithoutALockFilePackagesAreThoseOfTheTimeOfTheCommit(t *testing.T) {
	t.Parallel()
	facts := Facts{Time: time.Date(2024, 10, 7, 20, 38, 16, 0, time.FixedZone("", 7200))}
	r, err := Find(checkout(t, "-- setup.py --\nsetup()\n-- package.json --\n{\"dependencies\": {\"a\": \"1\"}}\n"), Settings{}, worker, facts)
	require.NoError(t, err)
	text := strings.Join(r.lines(), "\n")
	require.Contains(t, text, "pip install --uploaded-prior-to 2024-10-07T18:38:16Z -e . || ")
	require.Contains(t, text, "npm install --no-package-lock --before=2024-10-07T18:38:16Z || npm install --no-package-lock || ")
}

func TestSettingsReplaceCommandsAndHostsAndAddVariables(t *testing.T) {
	t.Parallel()
	root := checkout(t, "-- package.json --\n{}\n-- package-lock.json --\n{}\n")
	r, err := Find(root, Settings{Setup: []string{"make deps"}, Hosts: []string{"example.com"}, Variables: map[string]string{"HUSKY": "1", "X": "y"}}, worker, Facts{})
	require.NoError(t, err)
	require.Equal(t, SourceConfigured, r.Source)
	require.Equal(t, []Command{{Dir: ".", Shell: "make deps"}}, r.Setup)
	require.Equal(t, []string{"example.com"}, r.Hosts)
	require.Equal(t, "1", r.Variables["HUSKY"])
	require.Equal(t, "y", r.Variables["X"])
	require.Contains(t, r.Inputs, "package-lock.json")
}

func TestYAMLReadBackGivesTheSameRecipe(t *testing.T) {
	t.Parallel()
	root := checkout(t, "-- package.json --\n{}\n-- package-lock.json --\n{}\n-- sub dir/package.json --\n{}\n-- sub dir/yarn.lock --\n-- go.mod --\nmodule m\nrequire a.b/c v1.0.0\n")
	first, err := Find(root, Settings{}, worker, Facts{})
	require.NoError(t, err)
	var file struct {
		Environment struct {
			Setup     []string
			Network   struct{ Hosts []string }
			Variables map[string]string
		}
	}
	require.NoError(t, yaml.Unmarshal(first.YAML(), &file))
	second, err := Find(root, Settings{Setup: file.Environment.Setup, Hosts: file.Environment.Network.Hosts, Variables: file.Environment.Variables}, worker, Facts{})
	require.NoError(t, err)
	require.Equal(t, string(first.YAML()), string(second.YAML()))
	require.Equal(t, first.Path, second.Path)
	require.Equal(t, first.Drop, second.Drop)
	require.Equal(t, first.Inputs, second.Inputs)
}

func TestAnOptionalCommandFailsWithoutEndingItsLine(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "a b"} {
		line := Command{Dir: dir, Shell: "false; s=$?; exit $s", Optional: true}.line()
		cmd := exec.Command("bash", "-c", line+" && echo on")
		cmd.Dir = checkout(t, "-- a b/x --\n").Name()
		out, err := cmd.Output()
		require.NoError(t, err, line)
		require.Equal(t, "on\n", string(out))
	}
}

func TestTheDigestFollowsWhatDecides(t *testing.T) {
	t.Parallel()
	files := map[string]string{"package.json": "{}", "package-lock.json": "{}"}
	r := find(t, "-- package.json --\n{}\n-- package-lock.json --\n{}\n")
	read := func(p string) (io.ReadCloser, error) {
		if text, ok := files[p]; ok {
			return io.NopCloser(strings.NewReader(text)), nil
		}
		return nil, os.ErrNotExist
	}
	digest := func(r Recipe, tools Tools) string {
		sum, err := r.Digest(read, tools)
		require.NoError(t, err)
		return sum
	}
	first := digest(r, worker)
	require.Equal(t, first, digest(r, worker))

	other := r
	other.Hints = []Hint{{File: "x", Text: "y"}}
	require.Equal(t, first, digest(other, worker), "hints change no command")
	require.Equal(t, first, digest(r, Tools{"node": worker["node"], "npm": worker["npm"]}), "tools of other ecosystems")
	require.NotEqual(t, first, digest(r, Tools{"node": "22.0.0", "npm": worker["npm"]}))
	other = r
	other.Variables = map[string]string{}
	require.NotEqual(t, first, digest(other, worker))
	files["package-lock.json"] = "{} "
	require.NotEqual(t, first, digest(r, worker))
	delete(files, "package-lock.json")
	_, err := r.Digest(read, worker)
	require.ErrorContains(t, err, "package-lock.json")
}

func TestTheTestCommandIsTheProjectsOwn(t *testing.T) {
	t.Parallel()
	workflow := func(run string) string {
		return "-- .github/workflows/ci.yml --\njobs:\n  t:\n    steps:\n      - run: |\n          " + run + "\n"
	}
	for _, c := range []struct{ name, files, want string }{
		{"go", "-- go.mod --\nmodule m\n", "go test ./..."},
		{"the workflow's", "-- go.mod --\nmodule m\n" + workflow("go test -race ./..."), "go test -race ./..."},
		{"not one with an expression", "-- go.mod --\nmodule m\n" + workflow("go test ${{ matrix.x }}"), "go test ./..."},
		{"not one with two commands", "-- go.mod --\nmodule m\n" + workflow("go test ./... && rm -rf /"), "go test ./..."},
		{"script", "-- package.json --\n{\"scripts\": {\"test\": \"x\"}}\n-- yarn.lock --\n__metadata:\n-- .yarnrc.yml --\n", "yarn test"},
		{"no script", "-- package.json --\n{}\n", ""},
		{"pytest", "-- setup.py --\nsetup()\n-- tests/test_x.py --\n", "pytest"},
		{"make", "-- Makefile --\ncheck: all\n", "make check"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, find(t, c.files).TestCommand)
		})
	}
}

func TestRequirementsOfPoetryArePassedToPip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ poetry, pip string }{
		{"^7.2", ">=7.2,<8"}, {"^0.990", ">=0.990"}, {">=1,<2", ">=1,<2"}, {"*", ""}, {"", ""}, {"~1.2", ""}, {"^1.2 || ^2", ""},
	} {
		require.Equal(t, c.pip, pipVersion(c.poetry), c.poetry)
	}
	r := find(t, `
-- pyproject.toml --
[tool.poetry]
name = "x"
[tool.poetry.dependencies]
python = "^3.9"
[tool.poetry.group.test.dependencies]
pytest = "^7"
httpx = {version = "^0.25", extras = ["http2"]}
[tool.poetry.group.docs.dependencies]
sphinx = "*"
-- poetry.lock --
-- tests/test_x.py --
`)
	last := r.Setup[2].Shell
	require.True(t, strings.HasSuffix(last, "pip install -e . 'httpx>=0.25' 'pytest>=7,<8'; }"), last)
}

func TestTheSameFilesGiveTheSameRecipe(t *testing.T) {
	t.Parallel()
	root := checkout(t, hostileFiles)
	first, err := Find(root, Settings{}, worker, Facts{})
	require.NoError(t, err)
	for range 20 {
		again, err := Find(root, Settings{}, worker, Facts{})
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
}

func TestHintsNameTheirLines(t *testing.T) {
	t.Parallel()
	r := find(t, `
-- .github/workflows/copilot-setup-steps.yml --
jobs:
  copilot-setup-steps:
    steps:
      - uses: actions/setup-node@v4
        with:
          node-version: 22
      - run: |
          echo hello
          npm ci
-- .devcontainer/devcontainer.json --
{ // a comment
  "postCreateCommand": "make deps"
}
-- Dockerfile --
FROM node:22
-- .tool-versions --
nodejs 22.1.0
-- .gitmodules --
[submodule "x"]
	path = tests/x
-- AGENTS.md --
Run the tests with pytest -q.
`)
	require.ElementsMatch(t, []Hint{
		{".github/workflows/copilot-setup-steps.yml", 6, "actions/setup-node@v4 node-version: 22"},
		{".github/workflows/copilot-setup-steps.yml", 9, "npm ci"},
		{".devcontainer/devcontainer.json", 2, `"postCreateCommand": "make deps"`},
		{"Dockerfile", 1, "FROM node:22"},
		{".tool-versions", 1, "nodejs 22.1.0"},
		{".gitmodules", 2, "path = tests/x"},
		{"AGENTS.md", 1, "Run the tests with pytest -q."},
	}, r.Hints)
}

func TestASetupThatRunsArbitraryCodeIsDistinguishedFromOneThatInstalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files string
		runs  bool
	}{
		"modules of Go":         {"-- go.mod --\nmodule x\ngo 1.26\n-- go.sum --\n", false},
		"packages of npm":       {"-- package.json --\n{}\n-- package-lock.json --\n{}\n", false},
		"hooks of git":          {`-- package.json --` + "\n" + `{"scripts":{"prepare":"husky install","preinstall":"npx only-allow npm"}}` + "\n-- package-lock.json --\n{}\n", false},
		"a script after it":     {`-- package.json --` + "\n" + `{"scripts":{"postinstall":"node tools/x.js"}}` + "\n-- package-lock.json --\n{}\n", true},
		"hooks and more":        {`-- package.json --` + "\n" + `{"scripts":{"prepare":"husky install && node x.js"}}` + "\n-- package-lock.json --\n{}\n", true},
		"requirements":          {"-- requirements.txt --\npytest\n", false},
		"a setup.py":            {"-- setup.py --\nimport x\n-- requirements.txt --\npytest\n", true},
		"a build in the tree":   {"-- pyproject.toml --\n[build-system]\nrequires=[]\nbackend-path=['.']\nbuild-backend='b'\n[project]\nname='x'\nversion='1'\n", true},
		"a build that is known": {"-- pyproject.toml --\n[build-system]\nrequires=['hatchling']\nbuild-backend='hatchling.build'\n[project]\nname='x'\nversion='1'\n", true},
		"a member's script":     {"-- package.json --\n{\"workspaces\":[\"p/*\"]}\n-- package-lock.json --\n{}\n-- p/a/package.json --\n{\"scripts\":{\"postinstall\":\"node b.js\"}}\n", true},
		"a package in the tree": {"-- package.json --\n{\"devDependencies\":{\"husky\":\"file:./tools/husky\"},\"scripts\":{\"prepare\":\"husky\"}}\n-- package-lock.json --\n{}\n", true},
		"Gradle":                {"-- build.gradle --\n\n-- gradlew --\n\n", true},
	} {
		require.Equal(t, c.runs, find(t, c.files).RunsCode, name)
	}
}
