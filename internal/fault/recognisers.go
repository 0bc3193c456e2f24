package fault

import (
	"regexp"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// The verdicts, to which the location and cause are added.
var (
	tampered    = verdict{contract.ClassSafety, contract.CodeIntegrity, "a download does not match its checksum", "have a person investigate; do not accept the new checksum without verification"}
	refused     = verdict{contract.ClassSafety, contract.CodeForbidden, "the repository's host rejected the change because of a policy", "adapt the change to comply with the policy"}
	noIsolation = verdict{contract.ClassConfig, contract.CodeIsolation, "this machine cannot isolate commands", "run rgpt doctor to see what the sandbox needs"}
	noSpace     = verdict{contract.ClassInfra, contract.CodeDiskFull, "the disk is full", "free up disk space, or use another worker"}
	slowDown    = verdict{contract.ClassInfra, contract.CodeRateLimited, "a service received too many requests", "wait, or use credentials with a higher limit"}
	unreachable = verdict{contract.ClassInfra, contract.CodeUnavailable, "a resource that the command needs is not responding or is in use", "check that it is running and that network access is allowed"}
	tooSlow     = verdict{contract.ClassInfra, contract.CodeTimeout, "a service did not respond in time", "try again, or check that the service is reachable"}
	missing     = verdict{contract.ClassConfig, contract.CodeMissing, "a dependency of the command is not installed", "add it to the project's manifest, install it on the worker, or correct its name"}
	badConfig   = verdict{contract.ClassConfig, contract.CodeInvalidConfig, "the configuration or environment is missing or invalid", "correct it"}
	noAccess    = verdict{contract.ClassConfig, contract.CodeUnauthorized, "access was denied", "check the credentials and their permissions"}
	badCode     = verdict{contract.ClassAssertion, contract.CodeCheckFailed, "the code does not pass the check", "fix the code"}
	redTest     = verdict{contract.ClassAssertion, contract.CodeTestsFailed, "a test failed", "fix the code, or the test if it is wrong"}
	nothingRan  = verdict{contract.ClassAssertion, contract.CodeNoTests, "no tests were run", "add tests, or configure the test runner to find them"}
	wrongRepo   = verdict{contract.ClassHuman, contract.CodeRepository, "the repository, branch, revision or path cannot be used", "correct the name, or specify which one is meant"}
	conflict    = verdict{contract.ClassLogic, contract.CodeMergeConflict, "the changes conflict", "resolve the conflict"}
	behind      = verdict{contract.ClassLogic, contract.CodeBranchConflict, "the branch has commits that the change does not include", "rebase the change onto it"}
	noChange    = verdict{contract.ClassLogic, contract.CodeEmptyChange, "nothing was changed", "specify what to change"}
)

// recognisers are tried from top to bottom; the first match decides. Phrases that are conclusive in
// any context come first, then the reports of specific tools, then phrases that only indicate a
// failure.
var recognisers = slices.Concat(
	decisive, git, absent, configuration, python, compilers, testRunners, linters, databases, infrastructure, empty, crashes, lastWords, anyTool,
)

func re(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

func res(patterns ...string) []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		all[i] = regexp.MustCompile(p)
	}
	return all
}

// decisive are phrases with only one meaning.
var decisive = []recogniser{
	{family: "checksums", is: tampered, more: 2,
		hints:   []string{"checksum", "integrity", "hashes", "hash sum mismatch"},
		pattern: re(`(?i)checksum mismatch|\bEINTEGRITY\b|do not match the hashes|hash sum mismatch|checksum for .* changed|integrity check(sum)? failed|ERR_PNPM_TARBALL_INTEGRITY`)},
	{family: "hosting", is: refused, more: 3,
		hints:   []string{"hook declined", "gh006", "gh013", "gh001", "push declined", "gl-hook-err"},
		pattern: re(`hook declined|\bGH0(06|13|01)\b|push declined due to|GL-HOOK-ERR`),
		causes:  res(`(?m)^remote: .*(exceeds|GH0(06|13)|GL-HOOK-ERR|policy).*$`, `(?m)^remote: .*\w.*$`)},
	{family: "signatures", is: tampered,
		hints:   []string{"signature"},
		pattern: re(`(?i)no matching signatures.*|failed to verify signature.*|signature (verification failed|is not valid|mismatch|does not match).*|\bbad signature\b.*|signatures? couldn't be verified.*`)},
	{family: "admission", is: refused,
		hints:   []string{"denied the request", "denied by policy", "policy violation", "violates policy", "violates podsecurity"},
		pattern: re(`(?i)denied the request.*|denied by policy.*|policy violation.*|violates (podsecurity|policy)\b.*`)},
	{family: "seccomp", is: badSyscall, hints: []string{"bad system call"}, pattern: re(`(?m)^.*Bad system call`)},
	{family: "bubblewrap", is: noIsolation, hints: []string{"bwrap:", "unshare"},
		pattern: re(`bwrap: .*(namespace|uid map|gid map|Operation not permitted)|unshare(\(\))?( failed)?: .*(Operation not permitted|No space)`)},
	{family: "disk", is: noSpace, hints: []string{"no space left", "enospc", "quota exceeded", "not enough space on"},
		pattern: re(`(?i)no space left on device|\bENOSPC\b|disk quota exceeded|not enough space on the disk`)},
	{family: "limits", is: slowDown, hints: []string{"rate limit", "toomanyrequests", "too many requests", "throttl", "slowdown", "error: 429", "reduce your request rate"},
		pattern: re(`(?i)toomanyrequests|rate limit (is )?exceeded|pull rate limit|secondary rate limit|429 too many requests|returned error: 429|\(SlowDown\)|ThrottlingException|\(Throttling|reduce your request rate`)},
	{family: "package managers, time", is: tooSlow, hints: []string{"timeout", "timed out", "timedout"},
		pattern: re(`npm (ERR!|error) (code|errno) E(SOCKET)?TIMEDOUT|dial tcp .*i/o timeout|Client\.Timeout exceeded|TLS handshake timeout|ReadTimeoutError|(?i)(transfer|fetch|download|connect to|resolve)\b.*(connect(ion)? timed out|read timed out|operation timed out)`),
		causes:  res(`(?m)^.*network request to.*$`)},
	{family: "package managers, network", is: unreachable, hints: []string{
		"dial tcp", "failed to connect to", "could not resolve host", "temporary failure", "could not transfer", "failed to fetch", "failed, reason", "getaddrinfo", "econnrefused", "newconnectionerror", "couldn't connect", "returned error: 5", "spurious network error",
	},
		pattern: re(`(?i)(go: |module|proxy).*dial tcp.*|Failed to connect to \S+ port.*|could not resolve host.*|Temporary failure (in name resolution|resolving).*|Could not transfer .*(refused|reset|unknown host|5\d\d).*|npm (ERR!|error) code (ECONN\w+|ENOTFOUND|EAI_AGAIN)|NewConnectionError|The requested URL returned error: 5\d\d|spurious network error`),
		causes:  res(`(?m)^npm (?:ERR!|error).*(?:ECONN\w+|ENOTFOUND|EAI_AGAIN) .*$`)},
	{family: "playwright, server", is: unreachable, hints: []string{"net::err_"},
		pattern: re(`net::ERR_(CONNECTION|NAME_NOT|ADDRESS|INTERNET|NETWORK)\w*`)},
	{family: "playwright, browser", is: missing, hints: []string{"executable doesn't exist"}, pattern: re(`Executable doesn't exist at`)},
	{family: "certificates", is: badConfig, hints: []string{"certificate", "self-signed", "self_signed"},
		pattern: re(`(?i)certificate signed by unknown authority|CERTIFICATE_VERIFY_FAILED|SSL certificate problem|unable to (get local issuer|verify the first) certificate|SELF_SIGNED_CERT|certificate has expired|PKIX path building failed`)},
	{family: "variables", is: badConfig, hints: []string{"env", "unbound variable", "parameter null or not set", "must be set"},
		pattern: re(`(?i)environment variables? .{0,80}(not (set|found|defined)|missing|required|must|unset|empty)|environment variable not found.*|(missing|required|undefined|unset|set) .{0,30}(env var|environment variable)|: unbound variable|parameter null or not set|(?m)^\S+: line \d+: [A-Z_][A-Z0-9_]*: [^:\n]*(must|required|set|missing)`)},
	{family: "python, variables", is: badConfig, last: true, before: true, hints: []string{"os.environ"},
		pattern: re(`os\.environ\[[^\n]*\n(?s:.*)\nKeyError: `), causes: res(`(?m)^KeyError: .*$`)},
}

// git recognises the error messages of git.
var git = []recogniser{
	{family: "git, conflicts", is: conflict, more: 2, hints: []string{"conflict (", "patch does not apply", "patch failed", "would be overwritten by", "unmerged files", "you have unmerged paths"},
		pattern: re(`(?m)^CONFLICT \(.*$|patch does not apply|(?m)^error: patch failed.*$|would be overwritten by (merge|checkout|rebase|cherry-pick).*|not possible because you have unmerged files`)},
	{family: "git, push", is: behind, hints: []string{"non-fast-forward", "fetch first", "stale info", "failed to push some refs"},
		pattern: re(`\[rejected\].*\((non-fast-forward|fetch first|stale info|needs force)\)`)},
	{family: "git, nothing", is: noChange, hints: []string{"nothing to commit", "nothing added to commit", "no changes added to commit", "no commits between"},
		pattern: re(`nothing to commit.*|nothing added to commit.*|no changes added to commit.*|No commits between .*`)},
	{family: "git, access", is: noAccess, hints: []string{"authentication failed", "could not read username", "could not read password", "permission denied (publickey", "permission to", "http basic: access denied", "host key verification failed", "returned error: 403", "returned error: 401"},
		pattern: re(`fatal: Authentication failed.*|could not read (Username|Password).*|Permission denied \(publickey.*|Permission to \S+ denied.*|HTTP Basic: Access denied.*|Host key verification failed|returned error: 40[13]`)},
	{family: "git, repository", is: wrongRepo, hints: []string{"not a git repository", "repository", "unknown revision", "pathspec", "remote branch", "couldn't find remote ref", "not our ref", "bad object", "corrupt", "invalid reference", "not a valid object", "not a commit"},
		pattern: re(`not a git repository.*|(?m)^remote: Repository not found.*$|fatal: repository '.*|does not appear to be a git repository|unknown revision.*|pathspec '.*' did not match.*|Remote branch .* not found.*|couldn't find remote ref.*|not our ref.*|bad object .*|invalid reference: .*|(?:N|n)ot a valid object name.*|is not a commit.*|(?m)^(error|fatal): .*(object .* is corrupt|corrupt(ed)? (loose )?object|object corrupt|object file .* is empty).*$`)},
	{family: "git, transport", is: unreachable, hints: []string{"early eof", "hung up unexpectedly", "rpc failed", "unexpected disconnect", "empty reply from server", "index.lock", "cannot lock ref"},
		pattern: re(`(?m)^.*RPC failed.*$|(?m)^fatal: early EOF|remote end hung up unexpectedly|unexpected disconnect.*|Empty reply from server|(?m)^fatal: Unable to create '.*index\.lock.*$|cannot lock ref.*`),
		causes:  res(`(?m)^.*RPC failed.*$`, `(?m)^fatal: early EOF`)},
	{family: "git, settings", is: badConfig, hints: []string{"dubious ownership", "tell me who you are", "author identity unknown", "empty ident name"},
		pattern: re(`detected dubious ownership.*|Please tell me who you are|Author identity unknown|empty ident name`),
		causes:  res(`Please tell me who you are`)},
}

// absent recognises missing software that could be installed.
var absent = []recogniser{
	{family: "python", is: missing, hints: []string{"no module named", "no matching distribution", "could not find a version that satisfies"},
		pattern: re(`ModuleNotFoundError: No module named .*|: No module named [\w.]+|No matching distribution found.*|Could not find a version that satisfies.*`),
		causes:  res(`No matching distribution found.*`)},
	{family: "node", is: missing, hints: []string{"cannot find module '", "cannot find module \"", "cannot find package", "can't resolve", "could not resolve", "failed to resolve import"},
		pattern: re(`Cannot find module ['"][^'"./][^'"]*['"].*|Cannot find package ['"][^'"]+['"].*|(?:Can't resolve|Could not resolve|Failed to resolve import) ['"](?:@?[\w-]+)(?:/[\w./-]+)?['"].*`)},
	{family: "node package managers", is: missing, more: 1, hints: []string{"eresolve", "e404", "etarget", "couldn't find package", "err_pnpm_fetch_404", "err_pnpm_no_matching", "not in this registry"},
		pattern: re(`code (ERESOLVE|E404|ETARGET)|Couldn't find package.*|ERR_PNPM_(FETCH_404|NO_MATCHING_VERSION).*`),
		causes:  res(`(?m)^.*unable to resolve dependency tree.*$`, `(?m)^.*ERESOLVE could not resolve.*$`, `(?m)^.*is not in this registry.*$`, `(?m)^.*No matching version found.*$`)},
	{family: "go modules", is: missing, hints: []string{"no required module provides", "cannot find module providing", "missing go.sum entry", "module lookup disabled", "unknown revision v"},
		pattern: re(`(?m)^.*(no required module provides package|cannot find module providing package|missing go\.sum entry|module lookup disabled).*$`)},
	{family: "cargo", is: missing, hints: []string{"no matching package", "can't find crate for", "failed to get `", "failed to select a version"},
		pattern: re(`no matching package.*|can't find crate for .*|failed to get .* as a dependency.*|failed to select a version for the requirement.*`)},
	{family: "java", is: missing, hints: []string{"could not resolve", "could not find", "cannot access", "could not be resolved"},
		pattern: re(`Could not find artifact.*|> Could not find [\w.-]+:[\w.-]+:[\w.-]+|Cannot access .* in offline mode.*|Could not resolve (dependencies|all (files|artifacts|dependencies)).*|Plugin \S+ or one of its dependencies could not be resolved.*`),
		causes:  res(`> Could not find [\w.-]+:[\w.-]+:[\w.-]+`)},
	{family: "ruby", is: missing, hints: []string{"cannot load such file", "could not find gem", "could not find"},
		pattern: re(`cannot load such file -- [\w-]+(/[\w-]+)*.*|Could not find gem .*|Could not find [\w-]+-\d[\w.]* in (any of the sources|locally installed gems).*`)},
	{family: "php", is: missing, hints: []string{"could not be found in any version", "it does not match your", "is missing from your system", "requires ext-"},
		pattern: re(`requires .*could not be found in any version.*|.*extension \S+ is missing from your system.*`)},
	{family: "perl", is: missing, hints: []string{"can't locate"}, pattern: re(`Can't locate \S+\.pm in @INC.*`)},
	{family: "dotnet", is: missing, hints: []string{"nu1101", "nu1102", "nu1103"}, pattern: re(`error NU110[123].*`)},
	{family: "elixir, dart, swift, uv", is: missing, hints: []string{"unchecked dependencies", "version solving failed", "dependencies could not be resolved", "no solution found"},
		pattern: re(`No solution found when resolving.*|Unchecked dependencies for environment.*|.*version solving failed.*|Dependencies could not be resolved.*`), more: 2},
	{family: "system packages", is: missing, hints: []string{"unable to locate package", "has no installation candidate", "unable to select packages", "no match for argument", "unable to find a match", "no available formula"},
		pattern: re(`(?i)unable to locate package.*|.*has no installation candidate.*|unable to select packages.*|no match for argument.*|unable to find a match.*|no available formula.*`), more: 1},
	{family: "c", is: missing, hints: []string{"no such file or directory", "cannot find -l", "could not find", "no package '", "file not found", "was not found in the pkg-config"},
		pattern: re(`fatal error: '?[\w./+-]+\.h(pp|h)?'?(: No such file or directory| file not found).*|cannot find -l.*|(?i:could not find) (?:[A-Z]\w+ \(missing|[A-Z]\w+,|a package configuration file).*|No package '.*' found|was not found in the pkg-config search path`)},
	{family: "containers", is: missing, hints: []string{"manifest", "executable file not found", "no such image", "errimagepull", "imagepullbackoff"},
		pattern: re(`(?m)^.*manifest (for \S+ not found|unknown).*$|exec: "?[^"\n]+"?: executable file not found in \$PATH|No such image.*|ErrImagePull|ImagePullBackOff`)},
	{family: "make", is: missing, hints: []string{"make"}, pattern: re(`(?m)^g?make(?:\[\d+\])?: [\w./+-]+: No such file or directory$`)},
	{family: "shell", is: missing, hints: []string{"not found", "no such file or directory", "is not recognized as"},
		exits:   []int{127, 1, 2, 126, 9009, 254},
		pattern: re(`(?m)^(?:\S+: )?(?:line \d+: |\d+: )?[\w./+-]+: (?:command not found|not found)$|required file not found|bad interpreter: No such file.*|(?m)^(?:/usr/bin/)?env: .*: No such file or directory$|is not recognized as (?:an internal or external command|the name of a cmdlet)`)},
}

// configuration recognises errors outside the code.
var configuration = []recogniser{
	{family: "npm", is: badConfig, more: 1, hints: []string{"missing script", "ejsonparse", "package.json", "package-lock", "lockfile", "npm ci"},
		pattern: re(`Missing script: .*|code EJSONPARSE|(?s:ENOENT.{0,300}package\.json)|.*can only install with an existing package-lock\.json.*|.*package\.json and package-lock\.json .*are (not )?in sync.*|code EUSAGE|ERR_PNPM_OUTDATED_LOCKFILE.*|lockfile needs to be updated.*|ERR_PNPM_NO_SCRIPT.*`),
		causes:  res(`(?m)^.*can only install .*$`, `(?m)^.*are in sync.*$`)},
	{family: "typescript", is: badConfig, hints: []string{"ts5", "ts6", "ts18"}, pattern: re(`error TS(5\d{3}|6\d{3}|1800[23]):.*`)},
	{family: "go", is: badConfig, hints: []string{"go.mod", "main module", "go.work"},
		pattern: re(`go\.mod file not found.*|.*does not contain main module.*|.*go\.(mod|work) (requires|lists) go .*|errors parsing go\.(mod|work).*|updates to go\.mod needed.*|inconsistent vendoring.*`),
		causes:  res(`(?m)^go\.(?:mod|work):\d+: .*$`, `(?m)^.*unknown directive.*$`)},
	{family: "make", is: badConfig, hints: []string{"no rule to make target", "missing separator", "no makefile found", "no targets specified"},
		pattern: re(`(?m)^.*(No rule to make target.*|\*\*\* missing separator.*|No targets specified and no makefile found.*)$`)},
	{family: "cargo, maven, gradle", is: badConfig, more: 2, hints: []string{"failed to parse manifest", "could not find `cargo.toml`", "--> cargo.toml", "no pom", "non-parseable pom", "does not contain a gradle build", "there is no pom", "requires a project to execute"},
		pattern: re("failed to parse manifest.*|could not find `Cargo\\.toml`.*|(?m)^error: .*\n +--> Cargo\\.toml.*$|.*no POM in this directory.*|Non-parseable POM.*|does not contain a Gradle build.*")},
	{family: "lock files", is: badConfig, hints: []string{"lock"}, pattern: re(`(?i)(?:changed significantly since .*lock|lock ?file[^\n]{0,60}(?:out of date|not up to date|outdated|out of sync)|needs to be updated but --locked).*`)},
	{family: "python tools", is: badConfig, more: 2, hints: []string{"unrecognized arguments", "file or directory not found", "invalid requirement", "could not open requirements file", "improperlyconfigured", "failed to parse", "unknown field", "toml parse error", "usageerror"},
		pattern: re(`(?m)^.*error: unrecognized arguments.*$|ERROR: file or directory not found.*|Invalid requirement.*|Could not open requirements file.*|ImproperlyConfigured.*|(?i)TOML parse error.*|(?m)^.*Failed to parse \S+\.(toml|cfg|ini|json|ya?ml).*$|unknown field .*|UsageError: .*`),
		causes:  res(`(?m)^.*unknown field.*$`)},
	{family: "javascript tools", is: badConfig, more: 2, hints: []string{"validation error", "eslint.config", "couldn't find a configuration", "failed to load config", "no eslint configuration", "error while loading config"},
		pattern: re(`Validation Error:?|couldn't find an? (eslint\.config|configuration).*|No ESLint configuration found.*|(?i:failed to load config).*|Error while loading config.*`)},
	{family: "linters", is: badConfig, hints: []string{"can't load config", "unsupported version of the configuration", "invalid configuration", "configuration error"},
		pattern: re(`can't load config.*|(?i:invalid configuration)\b.*|(?i:configuration error).*`)},
	{family: "settings files", is: badConfig, more: 2, hints: []string{"yaml", "toml", "additional property", "don't meet the specifications", "unsupported argument", "unsupported block", "missing required argument", "invalid value for"},
		pattern: re(`yaml\.(scanner|parser)\.\w+.*|YAML(Exception|SyntaxError|ParseError).*|(?:error|failed|cannot).{0,40} (?:parsing|converting|unmarshal\w*|decode|read) (?:YAML|TOML).*|yaml: line \d+.*|TOMLDecodeError.*|(?m)^.*Additional propert(y|ies) .*not allowed.*$|don't meet the specifications of the schema.*|Error: (Unsupported (argument|block type)|Missing required argument|Invalid value for .*)`)},
	{family: "rights", is: badConfig, hints: []string{"read-only file system", "eacces", "permission denied", "permissionerror"},
		exits:   []int{1, 2, 243, 128, 13},
		pattern: re(`Read-only file system|\bEACCES\b.*|PermissionError: .*|(?m)^(?:mkdir|cp|mv|touch|rm|install|tee|ln|open|chmod|chown|bash|sh|\S+: line \d+)\b.*: Permission denied$`),
		causes:  res(`(?m)^.*EACCES: permission denied.*$`)},
	{family: "credentials", is: noAccess, hints: []string{
		"authentication", "unauthorized", "forbidden", "credential", "expiredtoken", "accessdenied", "access denied", "access to the resource is denied", "permission denied", "invalidclienttokenid", "e401", "eneedauth", "e403", "bad credentials", "security token",
	},
		pattern: re(`(?i)401 unauthorized.*|403 forbidden.*|\((Forbidden|Unauthorized|ExpiredToken|AccessDenied|InvalidClientTokenId|UnrecognizedClientException|AuthFailure|SignatureDoesNotMatch)\).*|no valid credential.*|unable to locate credentials.*|could not find default credentials.*|pull access denied.*|access to the resource is denied.*|bad credentials.*|code (E401|E403|ENEEDAUTH)|unauthorized: .*|(?s:Code: 403\. Errors:.{0,40}permission denied)|invalid (username|user name) or (password|token).*`),
		causes:  res(`(?m)^\* permission denied$`)},
}

// empty recognises test runs that found no tests.
var empty = []recogniser{
	{family: "no tests", is: nothingRan, hints: []string{"no test", "no tests", "collected 0 items", "no specs", "ran 0 tests", "0 examples", " deselected"},
		pattern: re(`(?i)no tests? (ran|found|were run|files? found|to run|executed|match).*|\[no test files\]|collected 0 items|no test files.*|no specs? (files )?(were )?found.*|ran 0 tests.*|no tests!|no test is available.*|\b0 examples, 0 failures|(?m)^=+ \d+ deselected in .*`),
		causes:  res(`(?i)no tests? (?:ran|found|files? found).*`)},
}

// databases recognises database errors, as reported by clients.
var databases = []recogniser{
	{family: "sql, access", is: noAccess, hints: []string{"password authentication failed", "role \"", "no pg_hba.conf", "access denied for user", "peer authentication failed", "login failed for user"},
		pattern: re(`password authentication failed.*|role ".*" does not exist|no pg_hba\.conf entry.*|Access denied for user.*|Peer authentication failed.*|Login failed for user.*`)},
	{family: "sql, time", is: tooSlow, hints: []string{"statement timeout", "lock wait timeout", "lock timeout"}, pattern: re(`due to (statement|lock) timeout|Lock wait timeout exceeded`)},
	{family: "sql, service", is: unreachable, hints: []string{"too many clients", "deadlock", "starting up", "shutting down", "in recovery mode", "too many connections", "could not serialize", "connection slots", "database is locked"},
		pattern: re(`too many clients already|ERROR: +deadlock detected|Deadlock found.*|database system is (starting up|shutting down|in recovery mode)|Too many connections|could not serialize access.*|remaining connection slots.*|database is locked`)},
	{family: "sql, names", is: badConfig, hints: []string{"does not exist", "no such table", "unknown database", "doesn't exist", "unknown column", "no such column"},
		pattern: re(`(?:ERROR|FATAL): +(?:relation|column|database|schema|function|type|table) .* does not exist|no such (?:table|column): .*|Unknown (?:database|column) .*|Table '.*' doesn't exist`)},
	{family: "sql, syntax", is: badCode, more: 2, hints: []string{"syntax error at", "error in your sql syntax", ": syntax error"},
		pattern: re(`ERROR: +syntax error at.*|error in your SQL syntax.*|near ".*": syntax error`)},
	{family: "sql, migrations", is: crashed, more: 3, hints: []string{"migration"}, pattern: re(`(?m)^.*Migration \S+ failed.*$`)},
	{family: "sql, data", is: crashed, more: 1, hints: []string{"error:  ", "constraint failed", "duplicate entry"},
		pattern: re(`(?m)^.*ERROR:  \S.*$|\w+ constraint failed.*|Duplicate entry .*`)},
}

// infrastructure recognises resources that do not respond or are in use. It comes after the test
// runners: a test that fails because of a closed port is still a failed test.
var infrastructure = []recogniser{
	{family: "containers", is: unreachable, hints: []string{"docker daemon", "oci runtime", "port is already allocated", "was refused", "containerd", "podman"},
		pattern: re(`Cannot connect to the Docker daemon.*|.*OCI runtime .*|.*port is already allocated.*|The connection to the server \S+ was refused.*|failed to create shim task.*`)},
	{family: "locks", is: unreachable, hints: []string{"could not get lock", "unable to acquire", "could not lock"}, pattern: re(`Could not get lock.*|unable to acquire .*lock.*|could not lock config file.*`)},
	{family: "ports", is: unreachable, hints: []string{"address already in use", "eaddrinuse", "address in use", "port is already in use"}, pattern: re(`(?i)address already in use.*|\bEADDRINUSE\b.*|port (\d+ )?is (already )?in use.*`)},
	{family: "network, time", is: tooSlow, hints: []string{"timed out", "timeout", "time-out", "etimedout", "deadline exceeded"},
		pattern: re(`(?m)^(?:socket\.timeout|TimeoutError|\w[\w.]*\.(?:Connect|Read)?Timeout(?:Error|Exception)?)\b.*$|\bETIMEDOUT\b.*|(?i:i/o timeout|(?:connection|operation) timed out|context deadline exceeded|gateway time-?out).*`)},
	{family: "network", is: unreachable, hints: []string{
		"refused", "reset by peer", "econnreset", "enotfound", "eai_again", "no such host", "not known", "no route to host", "unreachable", "502 bad gateway", "503 service", "service unavailable", "broken pipe", "unknownhostexception", "name resolution", "nodename nor servname", "connection error", "socket hang up", "dns error", "error: 5",
	},
		pattern: re(`(?i)(?:connection|connect)\b.{0,60}\brefused.*|\bECONNREFUSED\b.*|\bECONNRESET\b.*|connection reset by peer.*|\bENOTFOUND\b.*|\bEAI_AGAIN\b.*|no such host.*|name or service not known.*|no route to host|network is unreachable|\bENETUNREACH\b.*|\b50[0234] (?:bad gateway|service|internal server).*|service (?:temporarily )?unavailable.*|UnknownHostException.*|temporary failure in name resolution.*|nodename nor servname.*|socket hang up|dns error.*`),
		causes:  res(`(?m)^(?:\w+\.)*\w*(?:Error|Exception): .*(?:refused|reset|not known|resolution).*$`, `(?m)^\s*(?:Uncaught )?\w*Error: .*(?:ECONN|ENOTFOUND|EAI_AGAIN).*$`)},
}
