package fault

// Recognisers of errors in code, as reported by compilers, test runners, linters and crashing
// programs.

// python recognises Python errors. The error is in the last line of a traceback, and the innermost
// call is above it.
var python = []recogniser{
	{family: "python, syntax", is: badCode, last: true, before: true, hints: []string{"syntaxerror:", "indentationerror:", "taberror:"},
		pattern: re(`File "[^"\n]+", line \d+\n(?s:.*)(?:SyntaxError|IndentationError|TabError): `),
		causes:  res(`(?m)^(?:E +)?(?:\*\*\* )?(?:SyntaxError|IndentationError|TabError): .*$`)},
	{family: "python, names", is: badCode, last: true, hints: []string{"importerror: cannot import name"}, pattern: re(`ImportError: cannot import name.*`)},
}

// compilers recognises compiler errors. Later errors often follow from the first one.
var compilers = []recogniser{
	{family: "sanitizers", is: crashed, more: 3, hints: []string{"sanitizer", ": runtime error: "}, pattern: re(`ERROR: \w+Sanitizer: .*|:\d+:\d+: runtime error: .*`)},
	{family: "babel", is: badCode, hints: []string{"syntaxerror: "}, pattern: re(`(?m)^\s*SyntaxError: \S+\.\w+: .*$`)},
	{family: "node, syntax", is: badCode, hints: []string{"syntaxerror"},
		pattern: re(`(?s)\S+:\d+\n.{0,600}?\n\n?SyntaxError: [^\n]*\n +at (?:wrapSafe|new Script|compileSourceTextModule|internalCompileFunction|checkSyntax|Module\._compile|ModuleLoader|#translate)|SyntaxError: [^\n]*\n +at (?:wrapSafe|internalCompileFunction|compileSourceTextModule|ModuleLoader)`),
		causes:  res(`(?m)^SyntaxError: .*$`)},
	{family: "node, own module", is: badCode, hints: []string{"cannot find module '.", "cannot find module \".", "cannot find module '/", "can't resolve '.", "could not resolve \".", "could not resolve '.", "failed to resolve import \".", "err_module_not_found", "does not provide an export"},
		pattern: re(`SyntaxError: The requested module .* does not provide an export.*|Cannot find module ['"][./][^'"]*['"].*|(?:Can't resolve|Could not resolve|Failed to resolve import) ['"]\.[^'"]*['"].*`)},
	{family: "typescript", is: badCode, hints: []string{"error ts"}, pattern: re(`(?m)^.*error TS\d+: .*$`)},
	{family: "next", is: badCode, hints: []string{"type error:"}, pattern: re(`(?m)^Type error: .*$`)},
	{family: "rust", is: badCode, more: 1, hints: []string{"error[e", "error: "}, pattern: re(`(?m)^error(?:\[E\d+\])?: .*\n +--> .*$`)},
	{family: "javac", is: badCode, hints: []string{".java:"}, pattern: re(`(?m)^(?:\[ERROR\] )?\S+\.java:(?:\d+: error:|\[\d+,\d+\]) .*$`)},
	{family: "kotlin", is: badCode, hints: []string{"e: "}, pattern: re(`(?m)^e: .*\.kts?.*$`)},
	{family: "csharp", is: badCode, hints: []string{"error cs", "error fs", "error bc"}, pattern: re(`(?m)^.*error (?:CS|FS|BC)\d+: .*$`)},
	{family: "php", is: badCode, hints: []string{"parse error", "php parse"}, pattern: re(`(?m)^.*Parse error: .*$`)},
	{family: "ruby", is: badCode, hints: []string{"syntax error", "syntaxerror"}, pattern: re(`(?m)^.*\.rb:\d+: syntax errors?.*$|(?m)^.*\(SyntaxError\).*$`)},
	{family: "perl", is: badCode, hints: []string{"syntax error at", "compilation errors"}, pattern: re(`(?m)^syntax error at \S+ line \d+.*$|(?m)^.* at \S+ line \d+\.\n(?s:.*)had compilation errors`)},
	{family: "elixir", is: badCode, more: 2, hints: []string{"(compileerror)", "(syntaxerror)", "(tokenmissingerror)", "== compilation error"}, pattern: re(`(?m)^\*\* \((?:CompileError|SyntaxError|TokenMissingError)\).*$|(?m)^error: .*\n(?s:.*)== Compilation error`)},
	{family: "shell", is: badCode, hints: []string{"syntax error"}, pattern: re(`(?m)^\S+: (?:line )?\d+: (?:S|s)yntax error.*$`)},
	{family: "go, cycle", is: badCode, more: 3, hints: []string{"import cycle not allowed"}, pattern: re(`(?m)^.*import cycle not allowed.*$|(?m)^package \S+\n(?:\timports .*\n)*\timports .*import cycle not allowed`)},
	{family: "linker", is: badCode, hints: []string{"undefined reference", "undefined symbol", "ld returned", "multiple definition"}, pattern: re(`undefined reference to .*|(?m)^Undefined symbols.*$|multiple definition of .*`)},
	{family: "compiler, error", is: badCode, hints: []string{"error:"}, pattern: re(`(?m)^\s*[\w./+@\[\]-]+\.\w+:\d+(?::\d+)?: (?:fatal )?error: .*$`)},
	{family: "compiler, place", is: badCode, hints: []string{":"}, pattern: re(`(?m)^\s*(?:vet: )?[\w./+@\[\]-]+\.(?:` + sourceFiles + `):\d+:\d+: ?[^\s].*$`),
		causes: res(`(?m)^\s*(?:vet: )?[\w./+@\[\]-]+\.(?:` + sourceFiles + `):\d+:\d+: ?(?:[^wn\s]|w[^a]|wa[^r]|war[^n]|n[^o]|no[^t]).*$`)},
	{family: "go, build", is: badCode, more: 1, hints: []string{"is not in std", "build constraints exclude", "[build failed]"}, pattern: re(`(?m)^.*(?:is not in std|build constraints exclude all Go files).*$`)},
	{family: "image build", is: badCode, hints: []string{"failed to solve", "failed to compute cache key", "copy failed", "dockerfile parse error"}, pattern: re(`(?m)^.*(?:failed to compute cache key|COPY failed|failed to calculate checksum|dockerfile parse error).*$`),
		causes: res(`(?m)^.*failed to calculate checksum.*$`)},
	{family: "bundlers", is: badCode, more: 1, hints: []string{"module not found", "failed to compile", "build failed with", "error during build", "✘ [error]"}, pattern: re(`(?m)^.*Module not found: .*$|(?m)^✘ \[ERROR\] .*$|(?m)^error during build:\n.*$|(?m)^Failed to compile\.?$`)},
}

// testRunners recognises failed tests and their causes.
var testRunners = []recogniser{
	{family: "go, time", is: ranTooLong, more: 2, hints: []string{"test timed out after"}, pattern: re(`panic: test timed out after.*`)},
	{family: "go", is: redTest, more: 2, hints: []string{"--- fail", "fail\t", "data race"}, pattern: re(`(?m)^\s*--- FAIL: |(?m)^FAIL\t|WARNING: DATA RACE`),
		causes: res(
			`WARNING: DATA RACE`, `(?m)^got:\n(?s:.{0,300}?)\nwant:\n.*$`, `(?m)^(?:panic|fatal error): .*$`, `(?m)^\s+Error:\s+\S.*$`,
			`(?m)^ {4,}[\w./-]+_test\.go:\d+: .*\S.*$`, `(?m)^ {4,}[\w./-]+\.go:\d+: .*\S.*$`, `(?m)^--- FAIL: .*$`, `(?m)^FAIL\t.*$`,
		)},
	{family: "unittest", is: redTest, before: true, hints: []string{"failed (failures=", "failed (errors=", "***test failed***"}, pattern: re(`(?m)^FAILED \((?:failures|errors)=|\*\*\*Test Failed\*\*\*`),
		causes: res(`(?m)^(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Warning)(?:: .*)?$`, `(?s)Expected:\n.{0,300}?Got:\n[^\n]*`)},
	{family: "pytest", is: redTest, more: 3, hints: []string{"failed", "error"}, pattern: re(`(?m)^(?:FAILED|ERROR) \S+|(?m)^=+ (?:FAILURES|ERRORS) =+$|(?m)^_+ .* _+$`),
		causes: res(`(?m)^E {3,8}[^\s\[+-].*$`)},
	{family: "playwright", is: redTest, more: 3, hints: []string{"› ", "playwright"}, pattern: re(`(?m)^\s+\d+\) .*› .*$`),
		causes: res(`(?m)^ *Error: (?:Timed out .*)?expect(?s:.{0,300}?)Received[^\n]*$`, `(?m)^\s+Test timeout of .*$`, `(?m)^\s+\w*Error: .*$`)},
	{family: "vitest", is: redTest, more: 3, hints: []string{"fail  ", "❯ "}, pattern: re(`(?m)^ *(?:FAIL {2}|❯ ) *\S+.*$`),
		causes: res(`(?m)^ *(?:\w+)?Error: .*$`)},
	{family: "jest", is: redTest, more: 3, hints: []string{"●", "test suites:"}, pattern: re(`(?m)^\s*● .*$|(?m)^Tests: .*failed`),
		causes: res(`(?m)^\s+expect\(.*$`, `(?m)^\s+(?:thrown: )?"?Exceeded timeout of.*$`, `(?m)^\s+(?:\w+)?Error: .*$`, `(?m)^\s+thrown: .*$`)},
	{family: "mocha", is: redTest, more: 2, hints: []string{" failing"}, pattern: re(`(?m)^ +\d+ failing`),
		causes: res(`(?m)^ +(?:\w+)?(?:Assertion)?Error(?: \[\w+\])?: .*$`, `(?m)^ +\d+\) (?:.*\n)+?\s*\n? +\S.*$`)},
	{family: "node test", is: redTest, more: 3, hints: []string{"not ok", "# fail", "ℹ fail", "failing tests:"}, pattern: re(`(?m)^\s*not ok \d+.*$|(?m)^(?:#|ℹ) fail [1-9]`),
		causes: res(`(?m)^ +error: (?:\|-\n)?.*$`, `(?m)^ +(?:\[?\w*Error.*?)(?: \[\w+\])?: .*$`, `(?m)^not ok \d+.*$`)},
	{family: "rust", is: redTest, more: 3, hints: []string{"test result: failed"}, pattern: re(`test result: FAILED`), causes: res(`(?m)^thread '.*panicked at .*$`)},
	{family: "junit", is: redTest, more: 1, hints: []string{"there are test failures", "there were failing tests", "<<< failure!", "<<< error!", "tests completed,"},
		pattern: re(`There are test failures|There were failing tests|<<< (?:FAILURE|ERROR)!|\d+ tests completed, \d+ failed`),
		causes:  res(`(?m)^\s*(?:[\w$]+\.)+\w*(?:Error|Exception|Failure|ComparisonFailure)\b.*$`, `(?m)^\[ERROR\] +\w+\.\w+:\d+.*$`)},
	{family: "rspec", is: redTest, more: 3, hints: []string{"failure/error:"}, pattern: re(`Failure/Error: .*`)},
	{family: "minitest", is: redTest, more: 3, hints: []string{" assertions, "}, pattern: re(`\d+ (?:runs|tests), \d+ assertions, (?:[1-9]\d* failures|\d+ failures, [1-9]\d* errors)`), causes: res(`(?m)^ *(?:\d+\) )?(?:Failure|Error):\s*\n.*\n.*$`)},
	{family: "phpunit", is: redTest, more: 1, hints: []string{"failures!", "errors!", "failed asserting"}, pattern: re(`(?m)^(?:FAILURES|ERRORS)!$|Failed asserting that .*`), causes: res(`Failed asserting that .*`, `(?m)^\w*(?:Error|Exception): .*$`)},
	{family: "dotnet", is: redTest, more: 3, hints: []string{"failed!  - failed:", "[fail]", "error message:"}, pattern: re(`Failed!\s+- Failed:|\[FAIL\]|Error Message:`), causes: res(`Error Message:\n.*`)},
	{family: "exunit", is: redTest, more: 3, hints: []string{" tests, ", " test, "}, pattern: re(`(?m)^\d+ (?:tests?|doctests?), .*[1-9]\d* failures?`), causes: res(`(?m)^ +(?:Assertion with .*|\*\* \(.*|Assertion failed.*)$`)},
	{family: "robot", is: redTest, hints: []string{"| fail |"}, pattern: re(`\| FAIL \|`), causes: res(`\| FAIL \|\n.*`)},
	{family: "ctest", is: redTest, more: 1, hints: []string{"tests failed out of"}, pattern: re(`tests failed out of`), causes: res(`The following tests FAILED:\n.*`)},
	{family: "tap", is: redTest, more: 4, hints: []string{"not ok"}, pattern: re(`(?m)^\s*not ok \d+.*$`)},
	{family: "xctest, gtest, bats, dart", is: redTest, more: 3, hints: []string{"error: -[", "[  failed  ]", "some tests failed", "✗ ", "failed in "},
		pattern: re(`(?m)^.*error: -\[.*$|(?m)^//\S+ +FAILED in .*$|\[  FAILED  \]|Some tests failed|(?m)^ ✗ .*$`), causes: res(`(?m)^.*\.(?:cc|cpp|h):\d+: Failure$`, `(?m)^.*error: -\[.*$`, `(?m)^ *Expected: .*$`)},
	{family: "assertions", is: redTest, more: 2, exits: []int{1}, hints: []string{"snapshot"}, pattern: re(`\d+ snapshots? (?:failed|obsolete)`)},
}

// linters recognises findings about code that was not executed.
var linters = []recogniser{
	{family: "eslint", is: badCode, hints: []string{"problem"}, pattern: re(`✖ \d+ problems?`), causes: res(`(?m)^\s+\d+:\d+\s+error\s+.*$`, `(?m)^\s+\d+:\d+\s+warning\s+.*$`)},
	{family: "ruff", is: badCode, more: 1, hints: []string{"found "}, pattern: re(`(?m)^Found \d+ errors?`), causes: res(`(?m)^[A-Z]+\d{3,4}\b.*\n.*$`, `(?m)^.*:\d+:\d+: [A-Z]+\d+ .*$`, `(?m)^.*: error: .*$`)},
	{family: "formatters", is: badCode, more: 2, hints: []string{"code style issues", "would reformat", "would be reformatted", "diff in ", "not properly formatted", "files need formatting"}, pattern: re(`Code style issues found.*|would be reformatted|(?m)^would reformat .*$|(?m)^Diff in .*$|not properly formatted`), causes: res(`(?m)^\[warn\] \S+\.\w+$`)},
	{family: "formatters, names only", is: badCode, more: 4, pattern: re(`\A(?:[\w./@+-]+\.(?:` + sourceFiles + `)\n?)+\z`)},
	{family: "shellcheck", is: badCode, more: 3, hints: []string{"(info):", "(warning):", "(error):", "(style):"}, pattern: re(`(?m)^In \S+ line \d+:$`)},
	{family: "vulnerabilities", is: badCode, more: 1, hints: []string{"vulnerabilit", "leaks found", "advisor"},
		pattern: re(`leaks found: [1-9]\d*|(?m)^Vulnerability #\d+: .*$|[1-9]\d* (?:\w+ severity )?vulnerabilit(?:y|ies).*|error: [1-9]\d* vulnerabilit.*`),
		causes:  res(`(?m)^(?:ID:\s+|Vulnerability #\d+: ).*$`)},
	{family: "semgrep", is: badCode, more: 2, hints: []string{"❯❱", "❯❯❱"}, pattern: re(`(?m)^\s*❯+❱ .*$`)},
	{family: "coverage", is: badCode, hints: []string{"coverage"}, pattern: re(`(?i)coverage .*(?:does not meet|below|under|less than|not reached|threshold).*|.*fail[- ]under.*`)},
}

// crashes recognises programs that crashed.
var crashes = []recogniser{
	{family: "memory", is: tooMuchRAM, hints: []string{"out of memory", "outofmemoryerror", "memoryerror", "oomkilled", "cannot allocate memory", "bad_alloc", "exited with code 137"},
		pattern: re(`JavaScript heap out of memory|java\.lang\.OutOfMemoryError.*|(?m)^MemoryError.*$|OOMKilled|fatal error: runtime: out of memory|Cannot allocate memory|std::bad_alloc|.*exited with code 137|(?i:out of memory)`)},
	{family: "limits", is: crashed, hints: []string{"too many open files", "emfile", "resource temporarily unavailable", "file size limit", "file too large"}, pattern: re(`(?i)too many open files.*|\bEMFILE\b.*|(?m)^.*fork.*Resource temporarily unavailable.*$|file size limit exceeded.*`)},
	{family: "python, cause", is: crashed, before: true, hints: []string{"direct cause of the following exception", "another exception occurred"},
		pattern: re(`(?m)^(?:\w+\.)*\w*(?:Error|Exception)\b.*\n\n(?:The above exception was the direct cause|During handling of the above)`),
		causes:  res(`(?m)^(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b.*$`)},
	{family: "python", is: crashed, last: true, before: true, hints: []string{"traceback (most recent call last)"}, pattern: re(`Traceback \(most recent call last\)`),
		causes: res(`(?m)^(?:  \| )?(?:\w+\.)*[A-Z]\w*(?:: .*)?$`)},
	{family: "python, fault", is: crashed, more: 3, hints: []string{"fatal python error"}, pattern: re(`Fatal Python error: .*`)},
	{family: "go", is: crashed, more: 1, hints: []string{"panic:", "fatal error:"}, pattern: re(`(?m)^(?:panic|fatal error): .*$`)},
	{family: "rust", is: crashed, more: 2, hints: []string{"panicked at"}, pattern: re(`(?m)^thread '.*' .*panicked at .*$`)},
	{family: "java", is: crashed, more: 1, hints: []string{"exception in thread", "caused by:", "main class"}, pattern: re(`(?m)^Exception in thread .*$|(?m)^Error: (?:Could not find or load|Main method not found).*$|(?m)^Caused by: .*$`),
		causes: res(`(?m)^Error: (?:Could not find or load|Main method not found).*$`, `(?m)^Caused by: .*$`), last: true},
	{family: "c++", is: crashed, more: 1, hints: []string{"terminate called"}, pattern: re(`terminate called .*`)},
	{family: "perl", is: crashed, hints: []string{" line "}, pattern: re(`(?m)^\S.* at \S+\.p[lm] line \d+\.$`)},
	{family: "dotnet", is: crashed, more: 1, hints: []string{"unhandled exception"}, pattern: re(`(?m)^.*Unhandled exception.*$`)},
	{family: "php", is: crashed, hints: []string{"fatal error"}, pattern: re(`(?m)^.*Fatal error: .*$`)},
	{family: "ruby", is: crashed, hints: []string{"error)", "exception)"}, pattern: re("(?m)^\\S+:\\d+:in [`'].*\\(\\w*(?:Error|Exception|Errno::\\w+)\\).*$")},
	{family: "elixir", is: crashed, more: 2, hints: []string{"** ("}, pattern: re(`(?m)^.*\*\* \(\w[\w.]*\) .*$`)},
	{family: "node", is: crashed, more: 1, hints: []string{"node.js v", "    at "}, pattern: re(`(?m)^(?:Uncaught )?\w*(?:Error|Exception)(?: \[\w+\])?: (?s:.*)(?:\n {4}at |\nNode\.js v)`),
		causes: res(`(?m)^(?:Uncaught )?\w*(?:Error|Exception)(?: \[\w+\])?: .*$`)},
	{family: "playwright, server", is: crashed, hints: []string{"config.webserver"}, pattern: re(`Process from config\.webServer.*`)},
	{family: "assertions", is: crashed, hints: []string{"assertion"}, pattern: re("(?m)^.*Assertion .*failed.*$")},
	{family: "signals", is: crashed, hints: []string{"segmentation fault", "core dumped", "killed", "terminated", "aborted", "bus error", "illegal instruction", "floating point exception", "sigsegv"},
		pattern: re(`(?m)^.*(?:Segmentation fault|core dumped|Bus error|Illegal instruction|Floating point exception|SIGSEGV).*$|(?m)^(?:.*: line \d+: .*)?(?:Killed|Terminated|Aborted)\b.*$`)},
}

// lastWords recognises programs that were called incorrectly or did not find a file.
var lastWords = []recogniser{
	{family: "usage", is: crashed, hints: []string{"are required", "flag provided but not defined", "unknown option", "unrecognized option", "invalid option", "unknown flag", "unknown command", "unexpected argument", "unknown shorthand"},
		pattern: re(`(?i)the following arguments are required.*|flag provided but not defined.*|.*(?:unknown|unrecognized|invalid) (?:option|flag|command|shorthand flag)\b.*|unexpected argument.*`)},
	{family: "files", is: crashed, hints: []string{"no such file or directory", "enoent", "cannot find the file", "returned error: 404", "404 not found"}, pattern: re(`(?m)^.*(?:No such file or directory|\bENOENT\b|cannot find the file|returned error: 404|404 Not Found).*$`)},
	{family: "rights", is: crashed, exits: []int{126}, hints: []string{"permission denied", "cannot execute"}, pattern: re(`(?m)^.*(?:Permission denied|cannot execute).*$`)},
}

// anyTool recognises common phrases of unknown tools, from least to most doubtful. It is the last
// resort before a failure counts as unknown.
var anyTool = []recogniser{
	{family: "any, missing", is: missing, hints: []string{"not found", "not installed", "be found", "is missing", "please install", "any installed"},
		pattern: re(`(?i)\b(?:executable|program|binary|command|library|package|plugin|compiler|sdk|interpreter|toolchain|driver)\b[^\n]{0,60}\b(?:not found|not installed|cannot be found|could not be found|is missing)\b.*|possible to find any installed.*|\b(?:is|are) not installed\b.*|please install\b.*`)},
	{family: "any, test", is: redTest, more: 2, hints: []string{"failed", "failures", "expected", "assert"},
		pattern: re(`(?im)\b(?:[1-9]\d*|some|one or more) (?:tests?|specs?|scenarios?|examples?|assertions?|test cases?|steps?)\b[^\n]{0,20} (?:have )?fail(?:ed|ures?)\b.*$|\bassertion ?(?:error|failed)\b.*$|\bexpected\b.{1,200}\b(?:but was|but got|got|received|actual)\b.*$`),
		causes:  res(`(?im)\bexpected\b.{1,200}\b(?:but was|but got|got|received|actual)\b.*$`)},
	{family: "any, syntax", is: badCode, hints: []string{"syntax error", "parse error", "unexpected token", "compilation failed", "compile error", "type error", "lint"},
		pattern: re(`(?i)\b(?:syntax error|parse error|unexpected token|compilation failed|compile error|type error|lint(?:ing)? (?:errors?|failed))\b.*`)},
	{family: "any, check", is: badCode, hints: []string{"finding", "issue", "violation", "offense", "lint error"},
		pattern: re(`(?i)\b[1-9]\d* (?:\w+ )?(?:findings?|issues?|violations?|offenses?|lint errors?)\b.*`)},
	{family: "any, access", is: noAccess, hints: []string{"access denied", "not authorized", "unauthenticated", "unauthorized", "login required", "credentials", "expired", "not logged in", "invalid token"},
		pattern: re(`(?i)\b(?:access (?:was |is )?denied|not authorized|unauthenticated|unauthorized|login required|not logged in|(?:invalid|bad|missing|no) (?:credentials|token)|token (?:has |is )?expired)\b.*`)},
	{family: "any, time", is: tooSlow, hints: []string{"timed out", "timeout", "deadline exceeded"}, pattern: re(`(?i)\b(?:timed out|time-?out (?:exceeded|expired|reached|waiting)|deadline exceeded)\b.*`)},
	{family: "any, service", is: unreachable, hints: []string{"try again later", "temporarily unavailable", "not ready", "loading the dataset", "unreachable", "could not connect", "cannot connect", "unable to connect", "connection closed", "connection lost", "connection aborted", "closed the connection", "failed to connect", "not be established", "not be available", "not available"},
		pattern: re(`(?i)\b(?:try again later|temporarily unavailable|loading the dataset|unreachable|(?:could not|cannot|unable to|failed to) connect|connection (?:was )?(?:closed|lost|aborted)|closed the connection|connection [^\n]{0,80}could not be established|(?:server|broker|service|host)\b[^\n]{0,20} not (?:be )?available)\b.*`)},
	{family: "any, settings", is: badConfig, hints: []string{"config", "setting", "option", "property", "environment"},
		pattern: re(`(?i)\b(?:invalid|missing|unknown|unsupported|malformed|bad) (?:config\w*|settings?|option|property|environment)\b.*|\b(?:config\w*|settings?|property|environment variable)\b[^\n]{0,60}\b(?:invalid|missing|not valid|required|unknown|not recogni[sz]ed|unsupported|not found|not exist|cannot be read)\b.*`)},
}
