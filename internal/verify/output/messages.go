package output

import (
	"cmp"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pattern matches a single-line message. Its groups are named file, line, level, rule and message.
type pattern struct {
	re     *regexp.Regexp
	groups map[string]int
}

func compile(expr string) pattern {
	re := regexp.MustCompile(expr)
	p := pattern{re: re, groups: map[string]int{}}
	for n, g := range re.SubexpNames() {
		if g != "" {
			p.groups[g] = n
		}
	}
	return p
}

// linePatterns are tried in order; the first match applies.
var linePatterns = []pattern{
	// javac by Maven: [ERROR] /w/src/A.java:[3,5] message
	compile(`^\[(?P<level>ERROR|WARNING)\] (?P<file>/?[^\s:\[\]]+):\[(?P<line>\d+)(?:,\d+)?\] (?P<message>.+)$`),
	// tsc: src/a.ts(3,5): error TS2322: message
	compile(`^(?P<file>[^\s()]+\.[cm]?[jt]sx?)\((?P<line>\d+),\d+\): (?P<level>error|warning) (?P<rule>TS\d+): (?P<message>.+)$`),
	// tsc --pretty: src/a.ts:3:5 - error TS2322: message
	compile(`^(?P<file>[^\s:]+\.[cm]?[jt]sx?):(?P<line>\d+):\d+ - (?P<level>error|warning) (?P<rule>TS\d+): (?P<message>.+)$`),
	// go vet of code that does not compile: vet: ./a.go:3:5: message
	compile(`^vet: (?P<file>[^\s:]+\.go):(?P<line>\d+)(?::\d+)?: (?P<message>.+)$`),
	// gcc, clang, javac, kotlinc: a.c:3:5: error: message [-Wrule]
	compile(`^(?:[ew]: )?(?P<file>(?:file://)?[^\s:]+):(?P<line>\d+):(?:\d+:)? ?(?P<level>fatal error|error|warning|note|info|style)(?:\[(?P<rule>[\w-]+)\])?: (?P<message>.+)$`),
	// eslint --format unix: /w/a.js:3:5: message [Error/rule]
	compile(`^(?P<file>[^\s:]+):(?P<line>\d+):\d+: (?P<message>.+) \[(?P<level>Error|Warning)(?:/(?P<rule>[^\]]+))?\]$`),
	// flake8, ruff, pylint: a.py:3:5: E501 message
	compile(`^(?P<file>[^\s:]+\.pyi?):(?P<line>\d+):(?:\d+:)? (?P<rule>[A-Z]{1,4}\d{2,5}):? (?P<message>.+)$`),
	// go, and tools with the same format: a.go:3:5: message
	compile(`^(?P<file>[^\s:]+\.[A-Za-z][A-Za-z0-9]{0,9}):(?P<line>\d+)(?::\d+)?: (?P<message>\S.*)$`),
	// go.mod:3: message, Makefile:3: *** message
	compile(`^(?P<file>(?:[^\s:]*/)?(?:go\.mod|go\.work|Makefile|GNUmakefile|Dockerfile)):(?P<line>\d+)(?::\d+)?: (?P<message>.+)$`),
}

// ParseText searches the output of compilers, linters and interpreters for locations and messages.
func ParseText(data []byte, s Paths) []Problem {
	const half = 1 << 20
	if len(data) > 2*half { // limits the cost of matching hostile output
		data = slices.Concat(data[:half], []byte("\n"), data[len(data)-half:])
	}
	t := textParser{paths: s}
	all := Lines(data)
	for n, line := range all {
		if len(line) > 4096 {
			continue
		}
		all[n] = strings.TrimRight(Clean(line), " \t")
	}
	for n := range all {
		if len(t.found) >= 2*MaxFindings {
			break
		}
		t.line(all, n)
	}
	return t.found
}

// textParser stores context from earlier lines.
type textParser struct {
	paths Paths
	found []Problem
	file  string  // the heading of eslint or compileall
	rustc Problem // error[E0308]: message, before its location
	trace Problem // innermost frame of a Python traceback
	in    bool    // within a traceback
}

func (t *textParser) line(all []string, n int) {
	line := all[n]
	switch {
	case len(line) > 4096:
	case t.python(line):
	case t.rust(line):
	case t.eslint(line):
	case t.compileall(line):
	case t.node(all, n):
	default:
		t.single(line)
	}
}

// single reads single-line messages.
func (t *textParser) single(line string) {
	for _, p := range linePatterns {
		m := p.re.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		get := func(group string) string {
			if n, ok := p.groups[group]; ok {
				return m[n]
			}
			return ""
		}
		file := t.paths.Rel(get("file"))
		if file == "" {
			return // a location outside the checkout
		}
		t.add(Problem{Level: textLevel(get("level")), Path: file, Line: Number(get("line")), Rule: Name(get("rule")), Message: Message(get("message"))})
		return
	}
}

func (t *textParser) add(p Problem) {
	if p.Message != "" && !slices.Contains(t.found[max(0, len(t.found)-20):], p) {
		t.found = append(t.found, p)
	}
}

func textLevel(word string) Level {
	switch strings.ToLower(word) {
	case "warning", "style":
		return Warning
	case "note", "info":
		return Note
	}
	return Error
}

var pythonFrame = regexp.MustCompile(`^\s*File "([^"]+)", line (\d+)`)

// python follows a traceback to the exception at its end.
func (t *textParser) python(line string) bool {
	if strings.HasPrefix(strings.TrimSpace(line), "Traceback (most recent call last)") {
		t.in, t.trace = true, Problem{}
		return true
	}
	if m := pythonFrame.FindStringSubmatch(line); m != nil {
		// A syntax error is a frame without a traceback.
		if f := t.paths.Rel(m[1]); f != "" {
			t.trace = Problem{Level: Error, Path: f, Line: Number(m[2])}
		}
		t.in = true
		return true
	}
	if !t.in {
		return false
	}
	trimmed := strings.TrimPrefix(strings.TrimSpace(line), "Sorry: ")
	if m := pythonError.FindStringSubmatch(trimmed); m != nil && !strings.HasPrefix(line, "    ") {
		t.in = false
		if t.trace.Path != "" {
			t.trace.Rule, t.trace.Message = Name(m[1]), Message(trimmed)
			t.add(t.trace)
		}
		t.trace = Problem{}
		return true
	}
	if line == "" || strings.HasPrefix(line, " ") {
		return true // source lines and their markers
	}
	t.in = false
	return false
}

// pythonSorry is what compileall prints: *** Sorry: IndentationError: unexpected indent (a.py, line 2)
var pythonSorry = regexp.MustCompile(`^(?:\*\*\* )?(?:Sorry: )?(\w+Error): (.+) \(([^(),]+\.py), line (\d+)\)$`)

var compiling = regexp.MustCompile(`^\*\*\* Error compiling '([^']+)'`)

// compileall names the file above the error, which contains only its last part.
func (t *textParser) compileall(line string) bool {
	if m := compiling.FindStringSubmatch(line); m != nil {
		t.file = t.paths.Rel(m[1])
		return true
	}
	m := pythonSorry.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	file := t.paths.Rel(m[3])
	if path.Base(t.file) == path.Base(m[3]) {
		file = t.file
	}
	if file != "" {
		t.add(Problem{Level: Error, Path: file, Line: Number(m[4]), Rule: Name(m[1]), Message: Message(m[1] + ": " + m[2])})
	}
	return true
}

var (
	rustHead  = regexp.MustCompile(`^(error|warning)(?:\[(E\d+)\])?: (.+)$`)
	rustPlace = regexp.MustCompile(`^\s*--> (\S+?):(\d+):\d+$`)
)

// rust joins the heading of a diagnostic with the location below it. Ruff uses the same format.
func (t *textParser) rust(line string) bool {
	if m := rustHead.FindStringSubmatch(line); m != nil {
		t.rustc = Problem{Level: textLevel(m[1]), Rule: m[2], Message: Message(m[3])}
		return true
	}
	m := rustPlace.FindStringSubmatch(line)
	if m == nil || t.rustc.Message == "" {
		return false
	}
	if f := t.paths.Rel(m[1]); f != "" {
		t.rustc.Path, t.rustc.Line = f, Number(m[2])
		t.add(t.rustc)
	}
	t.rustc = Problem{}
	return true
}

var (
	eslintFile = regexp.MustCompile(`^(/\S+|[\w.@-]+(?:/[\w.@-]+)*\.[cm]?[jt]sx?)$`)
	eslintRow  = regexp.MustCompile(`^\s+(\d+):\d+\s+(error|warning)\s+(.+?)(?:\s{2,}(\S+))?$`)
)

// eslint's default format has the file on a separate line.
func (t *textParser) eslint(line string) bool {
	if eslintFile.MatchString(line) {
		t.file = t.paths.Rel(line)
		return false
	}
	if m := eslintRow.FindStringSubmatch(line); m != nil && t.file != "" {
		t.add(Problem{Level: textLevel(m[2]), Path: t.file, Line: Number(m[1]), Rule: Name(m[4]), Message: Message(m[3])})
		return true
	}
	return false
}

var (
	nodeHead  = regexp.MustCompile(`^((?:file://)?/[^\s:]+\.[cm]?[jt]s):(\d+)$`)
	nodeError = regexp.MustCompile(`^(?:Uncaught )?(?:\w*Error|AssertionError)(?: \[\w+\])?: .+$`)
)

// node prints the location of an uncaught error, the source line, and then the error.
func (t *textParser) node(all []string, n int) bool {
	m := nodeHead.FindStringSubmatch(all[n])
	if m == nil {
		return false
	}
	file := t.paths.Rel(m[1])
	for _, line := range all[n+1 : min(len(all), n+12)] {
		if !nodeError.MatchString(line) {
			continue
		}
		if file != "" {
			t.add(Problem{Level: Error, Path: file, Line: Number(m[2]), Message: Message(line)})
		}
		return true
	}
	return false
}

var locationPatterns = []*regexp.Regexp{
	regexp.MustCompile(`^\s*File "([^"]+)", line (\d+)`),                                          // Python
	regexp.MustCompile(`^\s*at (?:.*\()?((?:file://)?[^\s()]+\.[cm]?[jt]sx?):(\d+)(?::\d+)?\)?$`), // JavaScript
	regexp.MustCompile(`\(((?:file://)?/[^\s()]+?):(\d+)(?::\d+)?\)$`),                            // the same, shortened by node's TAP reporter
	regexp.MustCompile(`panicked at (?:.*, )?([^\s:']+\.rs):(\d+)`),                               // Rust
	regexp.MustCompile(`^(?:E\s+)?([^\s:]+\.[A-Za-z]{1,5}):(\d+)(?::\d+)?(?::|$)`),                // pytest, Go and many
}

// locations returns the locations in the checkout that a stack or a message names, in order.
func locations(text string, s Paths) []Problem {
	var out []Problem
	for line := range strings.Lines(Bound(text, 256<<10)) {
		line = strings.TrimRight(Clean(Bound(line, 4096)), "\r\n")
		for _, re := range locationPatterns {
			m := re.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if f := s.Rel(m[1]); f != "" && !strings.Contains(f, "node_modules/") {
				out = append(out, Problem{Level: Error, Path: f, Line: Number(m[2])})
			}
			break
		}
		if len(out) >= 100 {
			break
		}
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }

// Number reads a line number or a count; anything else is 0.
func Number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n
}

func float(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) {
		return 0
	}
	return f
}

// milliseconds converts a duration that a tool reports. A year is more than any test takes.
func milliseconds(seconds float64) int64 {
	const year = 365 * 24 * 3600
	if math.IsNaN(seconds) || seconds < 0 {
		return 0
	}
	return int64(math.Round(min(seconds, year) * 1000))
}

// ErrorLine returns the last line that mentions an error and does not merely follow from an earlier
// one, otherwise the last line that mentions an error, otherwise the last line. It reads the last 16 KiB.
func ErrorLine(out []byte) string {
	all := Lines(out[max(0, len(out)-16<<10):])
	followed, last := "", ""
	for n := len(all) - 1; n >= 0; n-- {
		line := strings.TrimSpace(Clean(all[n]))
		low := strings.ToLower(line)
		switch {
		case line == "":
		case !strings.Contains(low, "error") && !strings.Contains(low, "fail") && !strings.Contains(low, "not found") && !strings.Contains(low, "denied"):
			last = cmp.Or(last, line)
		case consequence.MatchString(low):
			followed = cmp.Or(followed, line)
		default:
			return line
		}
	}
	return cmp.Or(followed, last)
}

// consequence matches what cargo, Maven, make, npm, pnpm, yarn and Gradle print after the error
// itself, in lower case: that a part failed because of it, or where to read more.
var consequence = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`error: (?:could not compile|aborting due to|build failed|process didn't exit successfully)`,
	`warning: build failed`,
	`\[error\](?: *$| -> \[help| \[help \d| (?:to see the full stack trace|re-run maven|for more information|after correcting the problems|failed to execute goal .*: there are test failures))`,
	`make(?:\[\d+\])?: \*\*\* `,
	`npm (?:err!|error) (?:code|errno|path|command|a complete log|lifecycle)`,
	`(?:.*\s)?elifecycle\b`,
	`error command failed with exit code`,
	`build failed(?: in \S+)?$`,
	`failure: build failed with an exception`,
}, `|`) + `)`)
