package fault

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// recogniser matches one way in which one family of tools reports a failure.
type recogniser struct {
	family string // whose wording it is
	// hints are in lower case; if the output contains none of them, the pattern is not tried. They
	// make a long table cheap.
	hints   []string
	pattern *regexp.Regexp // must match the output
	exits   []int          // if any, the exit code must be one of them
	is      verdict
	// causes match the root cause, best first. If there are none, or none matches, the match of the
	// pattern is the root cause. It includes the whole line and the following lines that belong to
	// it.
	causes []*regexp.Regexp
	// more is the number of lines after the first that belong to the cause.
	more int
	// last selects the last match instead of the first, for programs that print the innermost call
	// of a stack last.
	last bool
	// before searches for the source location above the cause first, where Python prints it.
	before bool
}

// applies is the cheap check before the pattern.
func (r *recogniser) applies(o Output, low string) bool {
	if len(r.exits) > 0 && !slices.Contains(r.exits, o.ExitCode) {
		return false
	}
	if len(r.hints) == 0 {
		return true
	}
	return slices.ContainsFunc(r.hints, func(hint string) bool { return strings.Contains(low, hint) })
}

// find searches a readable output for the failure.
func (r *recogniser) find(text string) (finding, bool) {
	at := r.pattern.FindStringIndex(text)
	if at == nil {
		return finding{}, false
	}
	if r.last && len(r.causes) == 0 {
		at = lastMatch(r.pattern, text)
	}
	for _, cause := range r.causes {
		match := cause.FindStringIndex(text)
		if match != nil && r.last {
			match = lastMatch(cause, text)
		}
		if match != nil {
			at = match
			break
		}
	}
	start := skipBlank(text, at)
	return finding{cause: linesFrom(text, start, at[1], r.more), where: place(text, start, r.before)}, true
}

// lastMatch finds the last of at most maxMatches matches.
func lastMatch(re *regexp.Regexp, text string) []int {
	const maxMatches = 500
	all := re.FindAllStringIndex(text, maxMatches)
	return all[len(all)-1]
}

// skipBlank returns the offset of the first non-blank line of a match.
func skipBlank(text string, at []int) int {
	i := at[0]
	for i < at[1] && (text[i] == '\n' || text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return strings.LastIndexByte(text[:i], '\n') + 1
}

// linesFrom returns the lines from start through the end of the match, and up to more non-blank
// lines after them.
func linesFrom(text string, start, end, more int) string {
	var kept []string
	at, extra := start, 0
	for line := range strings.Lines(text[start:]) {
		after := at >= end && len(kept) > 0
		at += len(line)
		line = strings.TrimRight(line, " \t\n")
		if strings.TrimSpace(line) == "" {
			if after && extra >= more {
				break
			}
			continue
		}
		if after {
			if extra++; extra > more {
				break
			}
		}
		kept = append(kept, strings.TrimLeft(line, " \t"))
	}
	return strings.Join(kept, "\n")
}

// frame matches a source location in the formats of compilers and stack traces.
var frame = regexp.MustCompile(`File "([^"\n]+)", line (\d+)` +
	`|(?:on|In|in) ([\w@./+-]+\.\w+) (?:on )?line (\d+)` +
	`|((?:[\w@.()\[\]+-]*/)*[\w@.+-]+\.(?:cs|fs|vb)):line (\d+)` +
	`|([\w@./+-]+\.\w{1,6})(?:\((\d+),\d+\)|:\[(\d+),\d+\])` +
	`|([\w@./+\[\]-]*(?:[\w@+-]\.(?:` + sourceFiles + `)|Makefile|Dockerfile|Jenkinsfile)):(?: line )?(\d+)`)

const sourceFiles = `go|py|pyi|js|jsx|mjs|cjs|ts|tsx|mts|vue|svelte|rs|java|kt|kts|scala|groovy|gradle|rb|erb|rake|php|c|h|cc|cpp|cxx|hpp|hh|m|mm|swift|ex|exs|erl|hs|ml|lua|pl|pm|t|sh|bash|zsh|ps1|sql|tf|hcl|proto|yml|yaml|toml|json|css|scss|html|md|dart|zig|nim|cr|clj|r|jl|cmake|xml`

// foreign matches the text before a location outside the repository: a class of a library or the
// runtime.
var foreign = regexp.MustCompile(`at (?:[\w./]+/)?(?:java|javax|jdk|sun|kotlin|scala|groovy|junit|org\.junit|org\.opentest4j|org\.assertj|org\.hamcrest|org\.mockito|org\.gradle|org\.apache|org\.springframework)\.[^\n]*$`)

const (
	workspaceRoot = "/workspace/" // path of the workspace inside the sandbox
	placeAhead    = 6 << 10       // bytes after the cause that are searched for its location
	placeBehind   = 2 << 10       // and before it
)

// place finds the file and line in the repository for the cause at start: the first location in or
// after the cause, else the last one before it. If before is set, the order is reversed.
func place(text string, start int, before bool) string {
	ahead := places(text[start:min(len(text), start+placeAhead)])
	behind := places(text[max(0, start-placeBehind):start])
	switch {
	case len(behind) > 0 && (before || len(ahead) == 0):
		return behind[len(behind)-1]
	case len(ahead) > 0:
		return ahead[0]
	}
	return ""
}

// places returns all locations in the repository that a text mentions.
func places(text string) []string {
	const maxPlaces = 200
	var all []string
	for _, m := range frame.FindAllStringSubmatchIndex(text, maxPlaces) {
		var parts []string
		for i := 2; i < len(m); i += 2 {
			if m[i] >= 0 {
				parts = append(parts, text[m[i]:m[i+1]])
			}
		}
		line := text[strings.LastIndexByte(text[:m[0]], '\n')+1 : m[0]]
		if file, ok := ofRepository(parts[0]); ok && !foreign.MatchString(line) && !strings.Contains(line, "node:") && !strings.HasSuffix(line, "<") {
			all = append(all, file+":"+parts[1])
		}
	}
	return all
}

// ofRepository reports whether a file belongs to the repository, and its path.
func ofRepository(file string) (string, bool) {
	file = strings.TrimPrefix(file, "//")
	file = path.Clean(strings.TrimPrefix(file, workspaceRoot))
	for _, part := range []string{"node_modules/", "site-packages/", ".venv/", "vendor/", ".cargo/", "/go/pkg/mod/"} {
		if strings.Contains(file, part) {
			return "", false
		}
	}
	return file, !path.IsAbs(file) && !strings.HasPrefix(file, "../") && len(file) < maxShownLine
}
