package verify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

func TestScansArePlannedByManifestsAndLockFiles(t *testing.T) {
	t.Parallel()
	const secrets = "gitleaks dir . --redact"
	for name, c := range map[string]struct {
		files    map[string]string
		ids      []string
		commands map[string]string
	}{
		"nothing":        {nil, nil, nil},
		"only text":      {map[string]string{"README.md": "x"}, []string{"security-secrets"}, map[string]string{"security-secrets": secrets}},
		"a Go module":    {map[string]string{"go.mod": "module m\n"}, []string{"security-go", "security-secrets"}, map[string]string{"security-go": "govulncheck -format=json ./..."}},
		"a Go workspace": {map[string]string{"go.work": "use ./a\nuse ./b\n", "a/go.mod": "module a\n", "b/go.mod": "module b\n"}, []string{"security-go", "security-secrets"}, map[string]string{"security-go": "(cd b && govulncheck"}},
		"npm":            {map[string]string{"package.json": "{}", "package-lock.json": "{}"}, []string{"security-node", "security-secrets"}, map[string]string{"security-node": "npm audit --json"}},
		"no lock file":   {map[string]string{"package.json": "{}"}, []string{"security-secrets"}, nil},
		"the named manager": {
			map[string]string{"package.json": `{"packageManager":"pnpm@9.0.0"}`, "package-lock.json": "{}", "pnpm-lock.yaml": ""},
			[]string{"security-node", "security-secrets"}, map[string]string{"security-node": "pnpm audit --json"},
		},
		"yarn":               {map[string]string{"web/package.json": "{}", "web/yarn.lock": ""}, []string{"security-node", "security-secrets"}, map[string]string{"security-node": "(cd web && yarn audit --json)"}},
		"Python":             {map[string]string{"requirements.txt": "a==1\n"}, []string{"security-python", "security-secrets"}, map[string]string{"security-python": "python3 -m pip_audit --format=json"}},
		"Rust":               {map[string]string{"Cargo.toml": "", "Cargo.lock": ""}, []string{"security-rust", "security-secrets"}, map[string]string{"security-rust": "cargo-audit audit --json"}},
		"Java and PHP":       {map[string]string{"pom.xml": "", "php/composer.lock": "{}"}, []string{"security-osv", "security-secrets"}, map[string]string{"security-osv": "--lockfile=php/composer.lock --lockfile=pom.xml"}},
		"test data is data":  {map[string]string{"testdata/go.mod": "module m\n", "fixtures/Gemfile.lock": ""}, []string{"security-secrets"}, nil},
		"lock of a template": {map[string]string{"build/pom.xml": ""}, []string{"security-secrets"}, nil},
	} {
		p := plan(t, checkout(t, c.files), detected())
		require.Equal(t, c.ids, scans(p), name)
		for id, command := range c.commands {
			require.Contains(t, p.Command(id), command, name)
		}
	}
	s := detected()
	s.Security.Enabled = checks.SwitchOff
	require.Empty(t, scans(plan(t, checkout(t, map[string]string{"go.mod": "module m\n"}), s)))
	s = detected()
	s.Security.Command = "scan"
	require.Equal(t, [][]string{{"security-configured"}}, ids(plan(t, checkout(t, map[string]string{"main.c": ""}), s))[1:], "a configured command replaces the detected ones")
}

// scanner answers the commands of a check: probes by the names of the installed programs, and the
// scan with an exit code and a report.
type scanner struct {
	cannedRunner
	root      string
	installed []string
	result    sandbox.Result
	report    string
	probes    int
}

func newScanner(t *testing.T, files map[string]string, result sandbox.Result, report string, installed ...string) *scanner {
	t.Helper()
	s := &scanner{root: checkout(t, files), installed: installed, result: result, report: report}
	s.answer = func(_ int, c sandbox.Command) (sandbox.Result, error) {
		args := strings.Join(c.Args, " ")
		if strings.Contains(args, "command -v") && !strings.Contains(args, reportName) || strings.Contains(args, "find_spec") || strings.Contains(args, "--help") {
			s.probes++
			if slices.ContainsFunc(s.installed, func(program string) bool {
				return slices.Contains(strings.Fields(args), program) || strings.Contains(program, " ") && strings.Contains(args, program)
			}) {
				return sandbox.Result{}, nil
			}
			return sandbox.Result{ExitCode: 1}, nil
		}
		if s.report == "" {
			return s.result, nil
		}
		return s.result, os.WriteFile(filepath.Join(s.root, reportOf(c)), []byte(s.report), 0o600)
	}
	return s
}

const reportName = ".rgpt-verify"

// ran are the commands that were no probes.
func (s *scanner) ran() []string {
	var all []string
	for _, c := range s.commands[s.probes:] {
		all = append(all, strings.Join(c.Args, " "))
	}
	return all
}

func (s *scanner) check(t *testing.T, id string, with func(*checks.Settings)) Outcome {
	t.Helper()
	settings := detected()
	settings.Security.Network = checks.Hosts{"vuln.go.dev", "registry.npmjs.org", "registry.yarnpkg.com", "pypi.org", "github.com", "api.osv.dev"}
	if with != nil {
		with(&settings)
	}
	return runWith(t, s.root, id, Env{Runner: s, Settings: settings, Proxy: noting(nil)})
}

func TestAScannerThatIsNotInstalledSkipsItsCheck(t *testing.T) {
	t.Parallel()
	s := newScanner(t, map[string]string{"go.mod": "module m\n"}, sandbox.Result{}, "")
	o := s.check(t, "security-go", nil)
	require.Equal(t, []any{true, true, contract.CodeMissing}, []any{o.OK, o.Skipped, o.Code})
	require.Equal(t, "skipped: govulncheck or osv-scanner is not installed where checks run: install it on the workers or in the repository's own environment", o.Message)
	require.Empty(t, o.Findings)
	require.Empty(t, s.ran())
	r := o.Result(contract.Check{ID: "security-go"})
	require.True(t, r.Skipped)
	require.Equal(t, o.Message, r.Message)

	o = s.check(t, "security-go", func(s *checks.Settings) { s.Security.Enabled = checks.SwitchOn })
	require.Equal(t, []any{false, false, contract.CodeCheckFailed}, []any{o.OK, o.Skipped, o.Code})
	require.Len(t, o.Findings, 1)
	require.Equal(t, contract.SeverityMajor, o.Findings[0].Severity)
	require.Contains(t, o.Message, "verification.security is enabled, but govulncheck or osv-scanner is not installed")
}

func TestTheFirstInstalledScannerScans(t *testing.T) {
	t.Parallel()
	const module, tool = "module m\n", "module m\n\ntool golang.org/x/vuln/cmd/govulncheck\n"
	for name, c := range map[string]struct {
		files     map[string]string
		id        string
		installed []string
		osv       string
		want      string
	}{
		"govulncheck":                  {map[string]string{"go.mod": module}, "security-go", []string{"govulncheck", "osv-scanner"}, "", "govulncheck -format=json ./..."},
		"osv-scanner instead":          {map[string]string{"go.mod": module}, "security-go", []string{"osv-scanner"}, "", "osv-scanner scan source"},
		"the tool of the module":       {map[string]string{"go.mod": tool}, "security-go", []string{"go"}, "", "go tool govulncheck"},
		"pip-audit of the environment": {map[string]string{"requirements.txt": "a"}, "security-python", []string{"pip_audit", "pip-audit"}, "", "python3 -m pip_audit"},
		"pip-audit of the worker":      {map[string]string{"requirements.txt": "a"}, "security-python", []string{"pip-audit"}, "", " pip-audit --format=json"},
		"npm":                          {map[string]string{"package-lock.json": "{}"}, "security-node", []string{"npm", "osv-scanner"}, "", "npm audit"},
		"npm though there is a copy":   {map[string]string{"package-lock.json": "{}"}, "security-node", []string{"npm", "osv-scanner"}, "/srv/osv", "npm audit"},
		"an older gitleaks":            {map[string]string{"a": "x"}, "security-secrets", []string{"command -v \"$1\" >/dev/null sh gitleaks"}, "", "gitleaks detect --no-git"},
	} {
		s := newScanner(t, c.files, sandbox.Result{}, "", c.installed...)
		s.check(t, c.id, func(s *checks.Settings) { s.Databases.OSV = c.osv })
		require.Len(t, s.ran(), 1, name)
		require.Contains(t, s.ran()[0], c.want, name)
	}
}

func TestWithoutANetworkAScanSaysWhatToAllow(t *testing.T) {
	t.Parallel()
	s := newScanner(t, map[string]string{"package.json": "{}", "package-lock.json": "{}"}, sandbox.Result{}, "", "npm")
	o := s.check(t, "security-node", func(s *checks.Settings) { s.Security.Network = nil })
	require.Equal(t, []any{true, true, contract.CodeForbidden}, []any{o.OK, o.Skipped, o.Code})
	require.Contains(t, string(o.Log), o.Message)
	const text = "skipped: the vulnerability database of npm audit cannot be reached: allow registry.npmjs.org in verification.security.network, " +
		"or install osv-scanner and configure a copy of its database in verification.databases.osv"
	require.Equal(t, text, o.Message)
	require.Equal(t, []contract.Finding{{Severity: contract.SeverityMinor, Category: contract.CategorySecurity, Message: text, Rule: verdict.RuleUnavailable}}, o.Findings)
	require.Empty(t, s.ran(), "it does not wait for a registry that it cannot reach")

	s = newScanner(t, map[string]string{"package-lock.json": "{}", ".npmrc": "registry=https://npm.example.com/r\n"}, sandbox.Result{}, "", "npm")
	o = s.check(t, "security-node", nil)
	require.Contains(t, o.Message, "allow npm.example.com in verification.security.network", "the project has a registry of its own")
	require.Empty(t, s.ran())
	o = s.check(t, "security-node", func(s *checks.Settings) { s.Security.Network = checks.Hosts{"*.example.com"} })
	require.Contains(t, o.Message, "wrote no report")

	s = newScanner(t, map[string]string{"package-lock.json": "{}"}, sandbox.Result{}, `{"results":[]}`, "npm", "osv-scanner")
	o = s.check(t, "security-node", func(s *checks.Settings) { s.Security.Network, s.Databases.OSV = nil, "/srv/osv" })
	require.False(t, o.Skipped, o.Message)
	require.Len(t, s.ran(), 1)
	require.Contains(t, s.ran()[0], "--offline", "a scanner with a copy takes the place of one that needs a network")

	s = newScanner(t, map[string]string{"go.mod": "module m\n"}, sandbox.Result{}, `{"config":{}}`, "govulncheck")
	o = s.check(t, "security-go", func(s *checks.Settings) { s.Security.Network, s.Databases.Go = nil, "/srv/vulndb" })
	require.False(t, o.Skipped, o.Message)
	require.Contains(t, s.ran()[0], "-db=file:///var/lib/vulnerabilities/go")
}

func TestAScanThatCannotJudgeSkipsItsCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result sandbox.Result
		report string
		want   string
	}{
		"the host is refused": {
			sandbox.Result{ExitCode: 1, Refused: []string{"registry.npmjs.org:443"}}, `{"message":"request failed"}`,
			"skipped: the vulnerability database of npm audit cannot be reached, because registry.npmjs.org:443 is not allowed: allow registry.npmjs.org in verification.security.network",
		},
		"the host is not found": {
			sandbox.Result{ExitCode: 1}, `{"message":"request to https://registry.npmjs.org/-/npm/v1/security/advisories/bulk failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org"}`,
			"ENOTFOUND registry.npmjs.org): allow registry.npmjs.org",
		},
		"the registry refuses": {
			sandbox.Result{ExitCode: 1, Stderr: []byte("npm error audit endpoint returned an error\n")}, `{"message":"405 Method Not Allowed - POST https://x/bulk","error":{"summary":"","detail":""}}`,
			"skipped: `npm audit --json` exited with code 1: 405 Method Not Allowed",
		},
		"no report":          {sandbox.Result{}, "", "exited with code 0: it wrote no report"},
		"an empty report":    {sandbox.Result{ExitCode: 1, Stderr: []byte("error: ConnectionRefused\n")}, "\n", "error: ConnectionRefused"},
		"another code":       {sandbox.Result{ExitCode: 7, Stderr: []byte("npm error strange\n")}, `{"vulnerabilities":{}}`, "exited with code 7: npm error strange"},
		"neither nor":        {sandbox.Result{ExitCode: 1, Stderr: []byte("npm error strange\n")}, `{"vulnerabilities":{}}`, "exited with code 1: npm error strange"},
		"something else":     {sandbox.Result{}, "<html>", "invalid character"},
		"too large a report": {sandbox.Result{}, strings.Repeat(" ", 9<<20), "it is larger than 8 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScanner(t, map[string]string{"package-lock.json": "{}"}, c.result, c.report, "npm")
			o := s.check(t, "security-node", nil)
			require.Equal(t, []any{true, true, contract.CodeUnavailable}, []any{o.OK, o.Skipped, o.Code}, "%+v", o)
			require.Contains(t, o.Message, c.want)
			require.Len(t, o.Findings, 1)
			require.Equal(t, []any{contract.SeverityMinor, verdict.RuleUnavailable}, []any{o.Findings[0].Severity, o.Findings[0].Rule})
		})
	}
}

func TestATimeoutOfAScanIsATimeout(t *testing.T) {
	t.Parallel()
	s := newScanner(t, map[string]string{"package-lock.json": "{}"}, sandbox.Result{ExitCode: 137, Signal: "killed", TimedOut: true}, "", "npm")
	o := s.check(t, "security-node", nil)
	require.Equal(t, []any{false, false, contract.CodeTimeout}, []any{o.OK, o.Skipped, o.Code})
}

func TestWhatAScanFindsIsAFindingWhateverItsExitCode(t *testing.T) {
	t.Parallel()
	const lock = "{\n  \"packages\": {\n    \"node_modules/minimist\": {},\n    \"node_modules/lodash\": {}\n  }\n}\n"
	for name, c := range map[string]struct {
		files     map[string]string
		id        string
		installed string
		code      int
		report    string
		want      []string
	}{
		"npm": {map[string]string{"package.json": "{}", "package-lock.json": lock}, "security-node", "npm", 1, "npmaudit/npm.json", []string{
			"medium package-lock.json:4: lodash: Regular Expression Denial of Service (ReDoS) in lodash; affected versions: <4.17.21",
			"major package-lock.json:4: lodash: Command Injection in lodash; affected versions: <4.17.21",
			"major package-lock.json:3: minimist: Prototype Pollution in minimist; affected versions: >=1.0.0 <1.2.6",
		}},
		"yarn": {map[string]string{"a/package.json": "{}", "a/yarn.lock": "\nlodash@4.17.15:\n  version \"4.17.15\"\n\nminimist@1.2.0:\n"}, "security-node", "yarn", 28, "yarnaudit/yarn1.ndjson", []string{
			"major a/yarn.lock:2: lodash: Command Injection in lodash; affected versions: <4.17.21",
			"medium a/yarn.lock:2: lodash: Regular Expression Denial of Service (ReDoS) in lodash; affected versions: <4.17.21",
			"major a/yarn.lock:5: minimist: Prototype Pollution in minimist; affected versions: >=1.0.0 <1.2.6",
		}},
		"pip-audit": {map[string]string{"requirements.txt": "# needs\nrequests==2.31.0\nJinja2==2.11.2\n"}, "security-python", "pip-audit", 1, "pipaudit/requirements.json", []string{
			"medium requirements.txt:3: jinja2: Regular Expression Denial of Service (ReDoS) in Jinja2; fixed in 2.11.3",
		}},
		"cargo audit": {map[string]string{"Cargo.lock": "[[package]]\nname = \"x\"\ndependencies = [\n \"time\",\n]\n\n[[package]]\nname = \"time\"\n"}, "security-rust", "cargo-audit", 1, "cargoaudit/cargo.json", []string{
			"medium Cargo.lock:8: time: Potential segfault in the time crate; fixed in >=0.2.23",
			"minor Cargo.lock: fxhash: fxhash - no longer maintained; unmaintained",
		}},
		"osv-scanner": {map[string]string{"go.mod": "module m\n\nrequire golang.org/x/text v0.3.5\n"}, "security-go", "osv-scanner", 1, "osvscanner/offline.json", []string{
			"medium go.mod:3: golang.org/x/text: Out-of-bounds read in golang.org/x/text/language; fixed in 0.3.7",
		}},
		"govulncheck": {map[string]string{"go.mod": "module example.com/m\n\nrequire golang.org/x/text v0.3.5\n"}, "security-go", "govulncheck", 0, "govulncheck/called.json", []string{
			"major greet/greet.go:7: golang.org/x/text: Out-of-bounds read in golang.org/x/text/language; the code calls it; fixed in v0.3.7",
			"minor go.mod:3: golang.org/x/text: Denial of service via crafted Accept-Language header in golang.org/x/text/language; a package with it is imported, but its vulnerable code is not called; fixed in v0.3.8",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScanner(t, c.files, sandbox.Result{ExitCode: c.code}, recorded(t, c.report), c.installed)
			o := s.check(t, c.id, func(s *checks.Settings) { s.Security.Severity = contract.SeverityMedium })
			require.False(t, o.Skipped, o.Message)
			require.Subset(t, located(o), c.want)
			for _, f := range c.want {
				if strings.HasPrefix(f, "major") {
					require.Equal(t, contract.CodeCheckFailed, o.Code)
				}
				require.Contains(t, string(o.Log), strings.SplitN(f, ": ", 2)[1])
			}
			require.NotContains(t, string(o.Log), `"vulnerabilities"`, "the log is for people")
		})
	}
}

func TestAChangedFileThatHidesFindingsIsAFinding(t *testing.T) {
	t.Parallel()
	finding := func(toml string) contract.Finding {
		s := newScanner(t, map[string]string{".gitleaks.toml": toml}, sandbox.Result{}, "[]", "gitleaks")
		o := s.check(t, checks.CheckSecrets, nil)
		require.Len(t, o.Findings, 1)
		return o.Findings[0]
	}
	one, other := finding("[extend]\nuseDefault = true\n"), finding("[allowlist]\npaths = ['.*']\n")
	require.Equal(t, []any{contract.SeverityMedium, ".gitleaks.toml", checks.RuleScanSettings}, []any{one.Severity, one.Location, one.Rule})
	require.Equal(t, one, finding("[extend]\nuseDefault = true\n"))
	require.NotEqual(t, one.Message, other.Message)
}

// scanned runs a check of a checkout in the sandbox and returns the outcome, and everything that it
// shows or stores.
func scanned(t *testing.T, id string, env Env, files map[string]string) (Outcome, string) {
	t.Helper()
	var lock sync.Mutex
	var live strings.Builder
	env.OnOutput = func(_ sandbox.Stream, chunk []byte) {
		lock.Lock()
		defer lock.Unlock()
		live.Write(chunk)
	}
	o := runWith(t, checkout(t, files), id, env)
	text, err := json.Marshal(o)
	require.NoError(t, err)
	lock.Lock()
	defer lock.Unlock()
	return o, string(text) + string(o.Log) + live.String()
}

// compared compares a check of a change with that of its base.
func compared(id string, base, now Outcome) verdict.Compared {
	recorded := func(o Outcome) verdict.Recorded {
		r := o.Result(contract.Check{ID: id, Category: contract.CategorySecurity})
		r.Code = o.Code
		return verdict.Recorded{Result: r, Findings: o.Findings}
	}
	return verdict.Compare(recorded(base), recorded(now), nil, verdict.PinnedEnforce)
}

// newFindings are the locations and rules of new findings, knownFindings those of others.
func newFindings(c verdict.Compared) (now, known []string) {
	for _, f := range c.Findings {
		text := string(f.Severity) + " " + f.Location + " " + f.Rule
		if f.Status == contract.FindingNew {
			now = append(now, text)
		} else {
			known = append(known, text)
		}
	}
	return now, known
}

// hasScanner skips a test on a machine without a scanner.
func hasScanner(t *testing.T, name string) {
	t.Helper()
	if toolchains().Scanners[name] == "" {
		t.Skip(name + " is not installed")
	}
}

// Secrets that are none. Split, so that they are not in this file.
const (
	oldSecret   = "AKIAQWERTZU" + "IOP234567"
	newSecret   = "xoxb-781236542736" + "-2364535789652-GkwFDQoHqzXDVsC6GzqYUypD"
	otherSecret = "AKIAZWERTZU" + "IOP765432"
)

func TestOnlySecretsThatTheChangeAddsCount(t *testing.T) {
	t.Parallel()
	hasScanner(t, "gitleaks")
	env := isolated(t, detected())
	base, shown := scanned(t, checks.CheckSecrets, env, map[string]string{"README.md": "# x\n", "deploy/aws.env": "A=1\nAWS_KEY=" + oldSecret + "\n"})
	require.NotContains(t, shown, oldSecret)
	require.Equal(t, []any{false, contract.CodeCheckFailed, false}, []any{base.OK, base.Code, base.Skipped}, "%s", base.Log)
	require.Len(t, base.Findings, 1)

	for name, c := range map[string]struct {
		files      map[string]string
		now, known []string
		ok         bool
	}{
		"nothing": {map[string]string{"deploy/aws.env": "A=1\nAWS_KEY=" + oldSecret + "\n"}, nil, []string{"major deploy/aws.env:2 aws-access-token"}, true},
		"a new one": {
			map[string]string{"deploy/aws.env": "A=1\nAWS_KEY=" + oldSecret + "\n", "notify.py": "import os\n\ntoken = \"" + newSecret + "\"\n"},
			[]string{"major notify.py:3 slack-bot-token"}, []string{"major deploy/aws.env:2 aws-access-token"}, false,
		},
		"another of the same kind":       {map[string]string{"deploy/aws.env": "A=1\nAWS_KEY=" + oldSecret + "\nKEY2=" + otherSecret + "\n"}, []string{"major deploy/aws.env:3 aws-access-token"}, []string{"major deploy/aws.env:2 aws-access-token"}, false},
		"one instead of the other":       {map[string]string{"deploy/aws.env": "A=1\nAWS_KEY=" + otherSecret + "\n"}, []string{"major deploy/aws.env:2 aws-access-token"}, nil, false},
		"the same, elsewhere":            {map[string]string{"config/prod.sh": "export  KEY=\"" + oldSecret + "\"\n"}, nil, []string{"major config/prod.sh:1 aws-access-token"}, true},
		"none":                           {map[string]string{"deploy/aws.env": "A=1\n"}, nil, nil, true},
		"one that a comment should hide": {map[string]string{"a.sh": "KEY=" + otherSecret + " # gitleaks:allow\n"}, []string{"minor a.sh:1 aws-access-token"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, shown := scanned(t, checks.CheckSecrets, env, c.files)
			for _, secret := range []string{oldSecret, newSecret, otherSecret} {
				require.NotContains(t, shown, secret)
			}
			got := compared(checks.CheckSecrets, base, o)
			now, known := newFindings(got)
			require.Equal(t, [][]string{c.now, c.known}, [][]string{now, known}, "%s", o.Log)
			require.Equal(t, c.ok, got.Result.OK)
			require.Equal(t, len(c.known), got.Result.Known)
		})
	}
}

func TestSecretsInInstalledPackagesDoNotCount(t *testing.T) {
	t.Parallel()
	hasScanner(t, "gitleaks")
	env := isolated(t, detected())
	installed := checkout(t, map[string]string{"vendored-by-setup/secret.sh": "KEY=" + oldSecret + "\n"})
	env.Outfit = func(c *sandbox.Command) { c.WorkspaceBase = installed }
	o, _ := scanned(t, checks.CheckSecrets, env, map[string]string{"README.md": "# x\n"})
	require.False(t, o.Skipped)
	require.Empty(t, o.Findings, "%s", o.Log)
}

// usesText is a module that vendors a vulnerable version of golang.org/x/text.
func usesText(greet string) map[string]string {
	return map[string]string{
		"go.mod":             "module example.com/app\n\ngo 1.26\n\nrequire golang.org/x/text v0.3.5\n",
		"vendor/modules.txt": "# golang.org/x/text v0.3.5\n## explicit\ngolang.org/x/text/language\n",
		"vendor/golang.org/x/text/language/language.go": "package language\n\nfunc Parse(s string) (string, error) { return s, nil }\n\nfunc Other() {}\n",
		"greet/greet.go": "package greet\n\nimport \"golang.org/x/text/language\"\n\nfunc Hello() {\n\t" + greet + "\n}\n",
	}
}

func TestOnlyVulnerableCodeThatTheChangeCallsCounts(t *testing.T) {
	t.Parallel()
	hasScanner(t, "govulncheck")
	s := detected()
	database, err := filepath.Abs("testdata/vulndb")
	require.NoError(t, err)
	s.Databases.Go = database
	env := isolated(t, s)
	env.Limits.Timeout = 5 * time.Minute
	for inside, host := range s.Databases.Inside() {
		env.Mounts = append(env.Mounts, sandbox.Mount{Host: host, Inside: inside})
	}
	base, _ := scanned(t, "security-go", env, usesText("language.Other()"))
	require.True(t, base.OK, "%s", base.Log)
	require.False(t, base.Skipped, base.Message)
	_, known := newFindings(verdict.Compared{Findings: base.Findings})
	require.Equal(t, []string{"minor go.mod:5 GO-2021-0113", "minor go.mod:5 GO-2022-1059"}, known)

	calls, _ := scanned(t, "security-go", env, usesText("_, _ = language.Parse(\"de\")"))
	got := compared("security-go", base, calls)
	now, known := newFindings(got)
	require.Equal(t, [][]string{{"major greet/greet.go:6 GO-2021-0113"}, {"minor go.mod:5 GO-2022-1059"}}, [][]string{now, known}, "%s", calls.Log)
	require.Equal(t, []any{false, 1, contract.CodeCheckFailed}, []any{got.Result.OK, got.Result.Major, got.Result.Code})

	again := compared("security-go", calls, calls)
	now, _ = newFindings(again)
	require.Empty(t, now)
	require.True(t, again.Result.OK)

	broken, _ := scanned(t, "security-go", env, usesText("language.Missing()"))
	require.True(t, broken.Skipped, "%s", broken.Log)
	require.Contains(t, broken.Message, "exited with code 1")
}
