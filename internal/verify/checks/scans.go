package checks

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Scan describes a command that searches for vulnerabilities or secrets. What it finds are findings,
// whatever its exit code. If it cannot judge the checkout, because its program is not installed or
// its database cannot be reached, the check is skipped: it neither passes nor fails.
type Scan struct {
	Tool string // as a person would call it: npm audit
	// Hosts are the hosts of its database; nil if it needs none, or has a copy.
	Hosts []string
	// Copy is the setting that names a copy of its database, or of osv-scanner's, on the workers.
	Copy string
	// Codes are the exit codes with which it reports a result; nil means 0 and 1.
	Codes []int
	// TreeOnly means that it sees the files of the commit and not the installed packages.
	TreeOnly bool
}

// Reports reports whether an exit code means that the scan has a result.
func (s *Scan) Reports(code int) bool {
	if s.Codes == nil {
		return code == 0 || code == 1
	}
	return slices.Contains(s.Codes, code)
}

// Databases are directories on the workers with copies of vulnerability databases, for workers
// without access to the original ones.
type Databases struct {
	Go   string `json:"go,omitempty"`   // of vuln.go.dev
	OSV  string `json:"osv,omitempty"`  // of osv.dev, as osv-scanner expects it
	Rust string `json:"rust,omitempty"` // of RustSec
}

// Inside maps the directories to their paths in the sandbox.
func (d Databases) Inside() map[string]string {
	inside := map[string]string{}
	for at, host := range map[string]string{goDatabase: d.Go, osvDatabase: d.OSV, rustDatabase: d.Rust} {
		if host != "" {
			inside[at] = host
		}
	}
	return inside
}

// The paths of the copies of databases in the sandbox.
const (
	goDatabase   = "/var/lib/vulnerabilities/go"
	osvDatabase  = "/var/lib/vulnerabilities/osv"
	rustDatabase = "/var/lib/vulnerabilities/rust"
)

// The settings that name copies of databases.
const (
	goDatabaseSetting   = "verification.databases.go"
	osvDatabaseSetting  = "verification.databases.osv"
	rustDatabaseSetting = "verification.databases.rust"
)

// The hosts of vulnerability databases. docs/OPERATIONS.md lists them.
var (
	goDatabaseHosts   = []string{"vuln.go.dev"}
	osvDatabaseHosts  = []string{"api.osv.dev"}
	npmDatabaseHosts  = []string{"registry.npmjs.org"}
	yarnDatabaseHosts = []string{"registry.yarnpkg.com"}
	pipDatabaseHosts  = []string{"pypi.org"}
	rustDatabaseHosts = []string{"github.com"}
)

// CheckSecrets is the id of the check that searches for secrets.
const CheckSecrets = "security-secrets"

// UsesDatabase reports whether the outcome of a check depends on a vulnerability database, which
// changes although the checkout does not.
func UsesDatabase(c contract.Check) bool {
	return c.Category == contract.CategorySecurity && c.ID != CheckSecrets && c.ID != string(c.Category)+"-configured"
}

// maxScans limits the projects of one ecosystem that are scanned.
const maxScans = 20

// planSecurity scans the dependencies of each ecosystem with its own scanner or, if that is not
// installed, with osv-scanner, and the files for secrets. Whether a scanner is installed is found out
// in the sandbox, in the environment of the checkout.
func planSecurity(t *checkout, p planning) []Job {
	var jobs []Job
	for _, scan := range []struct {
		kind string
		runs []Invocation
	}{
		{"go", scanGo(t, p)},
		{"node", scanNode(t, p)},
		{"python", scanPython(t, p)},
		{"rust", scanRust(t, p)},
		{"osv", scanLockFiles(t, p)},
		{"secrets", scanSecrets(t)},
	} {
		if len(scan.runs) > 0 {
			runs := scan.runs[:min(len(scan.runs), maxScans)]
			jobs = append(jobs, simpleJob(contract.CategorySecurity, scan.kind, strings.Join(runs[0].Tools(), " or "), runs...))
		}
	}
	return jobs
}

// installed is the probe for a program in the PATH of the sandbox. Asking a scanner for its version
// could already need its database.
func installed(program string) []string {
	return []string{"sh", "-c", `command -v "$1" >/dev/null`, "sh", program}
}

// firstInstalled chains the invocations of scanners of which the first one runs that is installed and
// can reach its database.
func firstInstalled(runs ...Invocation) Invocation {
	for n := len(runs) - 2; n >= 0; n-- {
		runs[n].Instead = &runs[n+1]
	}
	return runs[0]
}

// printing makes a command write its output to a report, so that the log of the check is not the
// report itself.
func (i Invocation) printing(report string) Invocation {
	i.typed = i.Args
	i.Args = append([]string{"sh", "-c", `report=$1; shift; exec "$@" >"$report"`, "sh", up(i.Dir, report)}, i.Args...)
	i.Reports = []string{report}
	return i
}

// scanReport is the report of one scan of a directory.
func scanReport(kind, dir string) string { return scratch(kind, dir, 1) + ".json" }

// osvScan scans lock files with osv-scanner. It does not resolve what a lock file does not list, and
// does not analyse calls, which would compile code.
func osvScan(kind, dir string, p planning, files ...string) Invocation {
	report := scanReport("osv-"+kind, dir)
	scan := &Scan{Tool: "osv-scanner", Hosts: osvDatabaseHosts, Copy: osvDatabaseSetting, Codes: []int{0, 1, osvNothingToScan}}
	args := []string{"osv-scanner", "scan", "source", "--format=json", "--no-resolve", "--no-call-analysis=all", "--output=" + report}
	env := map[string]string{}
	if p.databases.OSV != "" {
		args, scan.Hosts = append(args, "--offline"), nil
		env["OSV_SCANNER_LOCAL_DB_CACHE_DIRECTORY"] = osvDatabase
	}
	var settings []string
	for _, f := range files {
		args = append(args, "--lockfile="+f)
		settings = append(settings, path.Join(path.Dir(f), "osv-scanner.toml"))
	}
	return Invocation{
		Args: args, Env: env, Format: output.FormatOSV, Reports: []string{report}, Scan: scan, Probe: installed("osv-scanner"),
		Audit: locating(nil, settings...),
	}
}

// osvNothingToScan is the exit code of osv-scanner for lock files without dependencies.
const osvNothingToScan = 128

// scanGo scans each module with govulncheck, which reports whether the code calls what is vulnerable.
func scanGo(t *checkout, p planning) []Invocation {
	var runs []Invocation
	for _, m := range goModules(t) {
		dirs := m.members
		if dirs == nil {
			dirs = []string{m.Dir}
		}
		for _, dir := range dirs {
			runs = append(runs, firstInstalled(govulncheck(t, m, dir, p)...))
		}
	}
	return runs
}

const govulncheckPackage = "golang.org/x/vuln/cmd/govulncheck"

// govulncheck lists the ways to scan a module: an installed govulncheck, the one that the module
// declares as its tool, and osv-scanner.
func govulncheck(t *checkout, m GoModule, dir string, p planning) []Invocation {
	manifest := path.Join(dir, "go.mod")
	run := m.run(nil, output.FormatGovulncheck)
	run.Dir = dir
	run.Scan = &Scan{Tool: "govulncheck", Hosts: goDatabaseHosts, Copy: goDatabaseSetting, Codes: []int{0}}
	args := []string{"-format=json"}
	if p.databases.Go != "" {
		args, run.Scan.Hosts = append(args, "-db=file://"+goDatabase), nil
	}
	args = append(args, "./...")
	run.Audit = locating([]string{manifest})
	report := scanReport("govulncheck", dir)

	own := run
	own.Args, own.Probe = append([]string{"govulncheck"}, args...), installed("govulncheck")
	all := []Invocation{own.printing(report)}
	if strings.Contains(t.read(manifest), govulncheckPackage) {
		tool := run
		tool.Args, tool.Probe = append([]string{"go", "tool", "govulncheck"}, args...), installed("go")
		all = append(all, tool.printing(report))
	}
	return append(all, osvScan("go", dir, p, manifest))
}

// scanRust scans each lock file with cargo audit.
func scanRust(t *checkout, p planning) []Invocation {
	var runs []Invocation
	for _, dir := range t.projects("Cargo.lock") {
		lock := path.Join(dir, "Cargo.lock")
		run := Invocation{
			Args: []string{"cargo-audit", "audit", "--json", "--file=Cargo.lock"}, Dir: dir, Format: output.FormatCargoAudit,
			Scan:  &Scan{Tool: "cargo audit", Hosts: rustDatabaseHosts, Copy: rustDatabaseSetting},
			Env:   map[string]string{"CARGO_TERM_COLOR": "never"},
			Probe: installed("cargo-audit"), Audit: locating([]string{lock}, path.Join(dir, ".cargo/audit.toml")),
		}
		if p.databases.Rust != "" {
			run.Args, run.Scan.Hosts = append(run.Args, "--db="+rustDatabase, "--no-fetch", "--stale"), nil
		}
		runs = append(runs, firstInstalled(run.printing(scanReport("cargo-audit", dir)), osvScan("rust", dir, p, lock)))
	}
	return runs
}

// otherLockFiles are the files of ecosystems without a scanner of their own that osv-scanner reads.
var otherLockFiles = []string{
	"pom.xml", "gradle.lockfile", "buildscript-gradle.lockfile", "gradle/verification-metadata.xml",
	"Gemfile.lock", "gems.locked", "composer.lock", "packages.lock.json", "pubspec.lock", "mix.lock", "conan.lock",
	"renv.lock", "cabal.project.freeze", "stack.yaml.lock",
}

// scanLockFiles scans the lock files of all other ecosystems.
func scanLockFiles(t *checkout, p planning) []Invocation {
	files := t.match(func(f string) bool {
		return slices.Contains(otherLockFiles, path.Base(f)) && !inFixture(path.Dir(f)) && !inOutput(f)
	})
	if len(files) == 0 {
		return nil
	}
	return []Invocation{osvScan("other", "", p, files[:min(len(files), maxScans)]...)}
}

// scanPython scans the packages of the virtual environment with pip-audit.
func scanPython(t *checkout, p planning) []Invocation {
	var files []string
	for _, dir := range t.projects(pythonRequirements...) {
		for _, name := range pythonRequirements {
			if f := path.Join(dir, name); t.has(f) {
				files = append(files, f)
			}
		}
	}
	if len(files) == 0 {
		return nil
	}
	report := scanReport("pip-audit", "")
	run := func(probe []string, program ...string) Invocation {
		i := Invocation{
			Args:   slices.Concat(program, []string{"--format=json", "--progress-spinner=off", "--skip-editable"}),
			Format: output.FormatPipAudit, Env: map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}, Probe: probe,
			Scan:  &Scan{Tool: "pip-audit", Hosts: pipDatabaseHosts, Copy: osvDatabaseSetting},
			Audit: locating(files),
		}
		typed := i.Args
		i.Args = append([]string{"sh", "-c", pipAudit, "sh"}, i.Args...)
		i = i.printing(report)
		i.typed = typed
		return i
	}
	all := []Invocation{
		run([]string{"python3", "-c", pythonHas, "pip_audit"}, "python3", "-m", "pip_audit"),
		run(installed("pip-audit"), "pip-audit"),
	}
	if locks := lockedPython(files); len(locks) > 0 {
		all = append(all, osvScan("python", "", p, locks...))
	}
	return []Invocation{firstInstalled(all...)}
}

// pipAudit audits the packages that python3 finds. Without any, a good result would say nothing about
// the project.
const pipAudit = `python3 -c 'import importlib.metadata as m, sys
own = {"pip", "setuptools", "wheel"}
sys.exit(all((d.metadata["Name"] or "").lower() in own for d in m.distributions()))' || {
	echo "no packages are installed that could be audited" >&2
	exit 3
}
PIPAPI_PYTHON_LOCATION=$(command -v python3)
export PIPAPI_PYTHON_LOCATION
exec "$@"`

// pythonRequirements are the files that name Python dependencies, those with exact versions first.
var pythonRequirements = []string{
	"uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock", "requirements.txt", "requirements-dev.txt",
	"pyproject.toml", "setup.cfg", "setup.py",
}

// lockedPython returns the files that osv-scanner reads.
func lockedPython(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(f string) bool {
		return slices.Contains([]string{"pyproject.toml", "setup.cfg", "setup.py"}, path.Base(f))
	})
}

// nodeAudits are the commands with which package managers ask the registry about the packages of a
// lock file.
var nodeAudits = map[string]struct {
	args   []string
	format output.Format
	hosts  []string
	codes  []int
}{
	"npm":  {args: []string{"npm", "audit", "--json", "--package-lock-only"}, format: output.FormatNPMAudit, hosts: npmDatabaseHosts},
	"pnpm": {args: []string{"pnpm", "audit", "--json"}, format: output.FormatNPMAudit, hosts: npmDatabaseHosts},
	"bun":  {args: []string{"bun", "audit", "--json"}, format: output.FormatBunAudit, hosts: npmDatabaseHosts},
	"yarn": {
		args:   []string{"sh", "-c", yarnAudit},
		format: output.FormatYarnAudit, hosts: yarnDatabaseHosts,
		// A sum of one bit for each severity.
		codes: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
	},
}

// yarnAudit calls the audit of yarn 1 or of a later version.
const yarnAudit = `case $(yarn --version) in
1.*) exec yarn audit --json ;;
*) exec yarn npm audit --json --recursive --all --no-deprecations ;;
esac`

// scanNode scans each lock file with the package manager that wrote it.
func scanNode(t *checkout, p planning) []Invocation {
	var runs []Invocation
	for _, dir := range t.projects("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock") {
		manager, lock := lockOf(t, dir)
		audit, known := nodeAudits[manager]
		if !known {
			continue
		}
		run := Invocation{
			Args: audit.args, Dir: dir, Format: audit.format, Env: WithEnv(nodeEnv, auditEnv),
			Scan:  &Scan{Tool: manager + " audit", Hosts: registryHosts(t, dir, audit.hosts), Copy: osvDatabaseSetting, Codes: audit.codes},
			Probe: installed(manager), Audit: locating([]string{lock, path.Join(dir, "package.json")}, nodeSettings(t, dir)...),
		}
		run = run.printing(scanReport("audit", dir))
		run.typed = []string{manager, "audit", "--json"}
		runs = append(runs, firstInstalled(run, osvScan("node", dir, p, lock)))
	}
	return runs
}

// auditEnv makes an audit fail at once if the registry cannot be reached.
var auditEnv = map[string]string{"npm_config_audit": "true", "npm_config_fetch_retries": "0", "YARN_HTTP_RETRY": "0"}

// lockOf returns a lock file of a project and the package manager that wrote it: of several, the one
// of the manager that the project names.
func lockOf(t *checkout, dir string) (manager, lock string) {
	var m manifest
	// A broken package.json names none.
	_ = json.Unmarshal([]byte(t.read(path.Join(dir, "package.json"))), &m)
	named := managerOf(t, dir, m.PackageManager)
	for _, l := range lockFiles {
		f := path.Join(dir, l.name)
		if t.has(f) && (manager == "" || l.manager == named && manager != named) {
			manager, lock = l.manager, f
		}
	}
	return manager, lock
}

// otherRegistry matches the line with which a project selects the registry of its packages.
var otherRegistry = regexp.MustCompile(`(?m)^\s*(?:registry\s*=|npmAuditRegistry:|npmRegistryServer:|registry)\s*["']?https://([A-Za-z0-9.-]+(?::\d+)?)`)

// registryHosts returns the host of the registry that a package manager asks.
func registryHosts(t *checkout, dir string, usual []string) []string {
	for _, name := range []string{".npmrc", ".yarnrc.yml", ".yarnrc", "../.npmrc"} {
		if found := otherRegistry.FindStringSubmatch(t.read(path.Join(dir, name))); found != nil {
			return []string{strings.ToLower(found[1])}
		}
	}
	return usual
}

// nodeSettings lists the files that may make an audit ignore advisories.
func nodeSettings(t *checkout, dir string) []string {
	var files []string
	for name, key := range map[string]string{"package.json": `"auditConfig"`, "pnpm-workspace.yaml": "auditConfig", ".yarnrc.yml": "npmAudit"} {
		if f := path.Join(dir, name); strings.Contains(t.read(f), key) {
			files = append(files, f)
		}
	}
	slices.Sort(files)
	return files
}

// scanSecrets searches the files of the commit for secrets. Without their values: gitleaks redacts
// its report and its output.
func scanSecrets(t *checkout) []Invocation {
	if len(t.files) == 0 {
		return nil
	}
	report := scanReport("gitleaks", "")
	options := []string{
		"--redact", "--no-banner", "--no-color", "--report-format=json", "--report-path=" + report,
		"--exit-code=0",           // any other is an error
		"--ignore-gitleaks-allow", // see secretsFound
	}
	run := Invocation{
		Args: slices.Concat([]string{"gitleaks", "dir", "."}, options), Format: output.FormatGitleaks, Reports: []string{report},
		Scan: &Scan{Tool: "gitleaks", Codes: []int{0}, TreeOnly: true}, Audit: secretsFound,
		Probe: []string{"sh", "-c", "gitleaks dir --help 2>&1 | grep -q 'gitleaks dir '"},
	}
	older := run
	older.Args = slices.Concat([]string{"gitleaks", "detect", "--no-git", "--source=."}, options)
	older.Probe = installed("gitleaks")
	return []Invocation{firstInstalled(run, older)}
}

// Tools names the scanners of a chain of alternatives, each once.
func (i Invocation) Tools() []string {
	var names []string
	for at := &i; at != nil; at = at.Instead {
		if at.Scan != nil && !slices.Contains(names, at.Scan.Tool) {
			names = append(names, at.Scan.Tool)
		}
	}
	return names
}

// Reaches reports whether a scan with access to some hosts can reach its database.
func (s *Scan) Reaches(allowed []string) bool {
	if len(s.Hosts) == 0 {
		return true
	}
	has, err := proxy.ParseHosts(allowed)
	if err != nil {
		return false
	}
	var needs []string
	for _, host := range s.Hosts {
		if !strings.Contains(host, ":") {
			host += ":443"
		}
		needs = append(needs, host)
	}
	wanted, err := proxy.ParseHosts(needs)
	return err == nil && has.Covers(wanted)
}

// Remedy says what to configure so that a scan reaches its database.
func (s *Scan) Remedy() string {
	text := "allow " + strings.Join(s.Hosts, " and ") + " in " + NetworkSetting(contract.CategorySecurity)
	switch {
	case s.Copy == osvDatabaseSetting && s.Tool != "osv-scanner":
		text += ", or install osv-scanner and configure a copy of its database in " + s.Copy
	case s.Copy != "":
		text += ", or configure a copy of the database in " + s.Copy
	}
	return text
}
