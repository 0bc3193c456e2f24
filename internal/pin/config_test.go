package pin_test

import "testing"

func TestConfigurationThatTurnsTestsOffIsFound(t *testing.T) {
	t.Parallel()
	pkg := func(test string) string { return `{"name": "x", "scripts": {"build": "tsc", "test": "` + test + `"}}` }
	own := "verification:\n  test:\n    command: go test ./...\n  require_tests: true\nfindings:\n  max_major: 0\n"
	ci := "jobs:\n  test:\n    steps:\n      - run: npm ci\n      - run: npm test\n"
	try(t, []example{
		one("a script that does nothing", "package.json", pkg("jest"), pkg("exit 0"), "excluded"),
		one("a script whose failure is success", "package.json", pkg("jest"), pkg("jest || true"), "excluded"),
		one("a script that echoes", "package.json", pkg("jest"), pkg("echo ok"), "excluded"),
		one("--passWithNoTests", "package.json", pkg("jest"), pkg("jest --passWithNoTests"), "excluded"),
		one("a script that picks", "package.json", pkg("jest"), pkg("jest --testPathIgnorePatterns login"), "excluded"),
		one("a script that writes snapshots", "package.json", pkg("jest"), pkg("jest -u"), "excluded"),
		one("the script is gone", "package.json", pkg("jest"), `{"name": "x"}`, "excluded"),
		one("no valid JSON", "package.json", pkg("jest"), `{"name": `, "excluded"),
		one("another runner", "package.json", pkg("jest"), pkg("vitest run"), "edited"),
		one("another script", "package.json", pkg("jest"), `{"name": "x", "version": "2", "scripts": {"build": "tsup", "test": "jest"}}`),
		one("jest in package.json excludes", "package.json", `{"jest": {}}`, `{"jest": {"testPathIgnorePatterns": ["login"]}}`, "excluded"),
		one("a new script", "package.json", `{}`, pkg("jest")),

		one("pytest ignores", "pytest.ini", "[pytest]\naddopts = -q\n", "[pytest]\naddopts = -q --ignore=tests/test_login.py\n", "excluded"),
		one("pytest picks by word", "setup.cfg", "[tool:pytest]\n", "[tool:pytest]\naddopts = -k \"not login\"\n", "excluded"),
		one("pytest deselects, in TOML", "pyproject.toml", "[tool.pytest.ini_options]\naddopts = [\"-q\"]\n", "[tool.pytest.ini_options]\naddopts = [\n  \"-q\",\n  \"--deselect=tests/a.py::b\",\n]\n", "excluded"),
		one("pytest looks elsewhere", "pytest.ini", "[pytest]\ntestpaths = tests unit\n", "[pytest]\ntestpaths = unit\n", "excluded"),
		one("pytest looks for other files", "pytest.ini", "[pytest]\n", "[pytest]\npython_files = check_*.py\n", "excluded"),
		one("pytest stops at the first failure", "pytest.ini", "[pytest]\naddopts = -q\n", "[pytest]\naddopts = -q -x\n"),
		one("another tool's section", "pyproject.toml", "[tool.ruff]\nexclude = [\"a\"]\n", "[tool.ruff]\nexclude = [\"a\", \"b\"]\n"),
		one("tox ignores the outcome", "tox.ini", "[testenv]\ncommands = pytest\n", "[testenv]\ncommands = pytest\nignore_outcome = true\n", "excluded"),

		one("jest ignores", "jest.config.js", "module.exports = { testEnvironment: 'node' }", "module.exports = { testEnvironment: 'node', testPathIgnorePatterns: ['/node_modules/', 'login'] }", "excluded"),
		one("vitest excludes", "vitest.config.ts", "export default defineConfig({ test: { globals: true } })", "export default defineConfig({ test: { globals: true, exclude: ['**/login.test.ts'] } })", "excluded"),
		one("vitest's coverage excludes", "vitest.config.ts", "export default defineConfig({ test: { coverage: { } } })", "export default defineConfig({ test: { coverage: { exclude: ['**/login.ts'] } } })"),
		one("playwright ignores", "playwright.config.ts", "export default { testDir: './tests' }", "export default { testDir: './tests', testIgnore: /login/ }", "excluded"),
		one("playwright looks elsewhere", "playwright.config.ts", "export default { testDir: './tests' }", "export default { testDir: './smoke' }", "excluded"),
		one("nothing passes", "vitest.config.ts", "export default {}", "export default { test: { passWithNoTests: true } }", "excluded"),
		one("a new configuration", "playwright.config.ts", gone, "export default { testDir: './tests', exclude: ['node_modules'] }"),

		one("make: do nothing", "Makefile", "test:\n\tgo test ./...\n", "test:\n\t@true\n", "excluded"),
		one("make: ignore", "Makefile", "test:\n\tgo test ./...\n", "test:\n\t-go test ./...\n", "excluded"),
		one("make: success", "Makefile", "test:\n\tgo test ./...\n", "test:\n\tgo test ./... || true\n", "excluded"),
		one("make: the target is gone", "Makefile", "test:\n\tgo test ./...\n", "build:\n\tgo build\n", "excluded"),
		one("make: a dependency is gone", "Makefile", "test: unit integration\nunit:\n\tgo test ./...\n", "test: unit\nunit:\n\tgo test ./...\n", "excluded"),
		one("make: some tests", "Makefile", "test:\n\tgo test ./...\n", "test:\n\tgo test -run TestA ./...\n", "excluded"),
		one("make: with the race detector", "Makefile", "test:\n\tgo test ./...\n", "test:\n\tgo test -race ./...\n", "edited"),
		one("make: another description", "Makefile", "test: unit ## runs all but the slow\n\tgo test ./...\n", "test: unit ## runs everything\n\tgo test ./...\n"),
		one("make: another target", "Makefile", "test:\n\tgo test ./...\n", "test:\n\tgo test ./...\nrun:\n\t-go run .\n"),

		one("our tests are turned off", "rgpt.yaml", own, own+"\n# x\n"),
		one("our command does nothing", "rgpt.yaml", own, "verification:\n  test:\n    command: \"true\"\n  require_tests: true\nfindings:\n  max_major: 0\n", "excluded"),
		one("our tests are not required", "rgpt.yaml", own, "verification:\n  test:\n    command: go test ./...\n  require_tests: false\nfindings:\n  max_major: 0\n", "excluded"),
		one("our threshold is raised", "rgpt.yaml", own, "verification:\n  test:\n    command: go test ./...\n  require_tests: true\nfindings:\n  max_major: 9\n", "excluded"),
		one("our findings count for less", "rgpt.yaml", own, own[:len("verification:\n")]+"  build:\n    severity: minor\n"+own[len("verification:\n"):], "excluded"),
		one("our findings count for what they do anyway", "rgpt.yaml", gone, "verification:\n  lint:\n    severity: minor\n  security:\n    severity: medium\n"),
		one("an example of ours", "examples/rgpt.yaml", gone, "verification:\n  test:\n    enabled: false\n"),
		one("a new file of ours disables tests", "rgpt.yaml", gone, "verification:\n  test:\n    enabled: false\n", "excluded"),
		one("other settings of ours", "rgpt.yaml", own+"git:\n  release: push\n", own+"git:\n  release: branch\n"),

		one("a workflow loses its tests", ".github/workflows/ci.yml", ci, "jobs:\n  test:\n    steps:\n      - run: npm ci\n", "excluded"),
		one("a workflow goes on", ".github/workflows/ci.yml", ci, ci+"        continue-on-error: true\n", "excluded"),
		one("a workflow only builds with an old toolchain", ".github/workflows/ci.yml", "- run: cargo test\n- run: cargo +1.57.0 test\n", "- run: cargo test\n- run: cargo +1.57.0 build\n", "excluded"),
		one("a workflow is deleted", ".github/workflows/ci.yml", ci, gone, "excluded"),
		one("a workflow does more", ".github/workflows/ci.yml", ci, ci+"      - run: npm run lint\n"),
		one("another workflow", ".github/workflows/release.yml", "jobs:\n  a:\n    steps:\n      - run: make release\n", gone),
		one("cargo runs no tests", "Cargo.toml", "[lib]\nname = \"x\"\n", "[lib]\nname = \"x\"\ntest = false\n", "excluded"),
		one("maven skips tests", "pom.xml", "<project/>", "<project><properties><skipTests>true</skipTests></properties></project>", "excluded"),
		one("gradle ignores failures", "build.gradle", "test { }", "test { ignoreFailures = true }", "excluded"),
		one("gradle has another dependency", "build.gradle", "dependencies { }", "dependencies { implementation 'a:b:1' }"),
	})
}
