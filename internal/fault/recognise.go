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
	// hints are in lower case; if none of them is in the output, the pattern is not tried.
	// They make a long table cheap.
	hints   []string
	pattern *regexp.Regexp // must match the output
	exits   []int          // if any, the exit code must be one of them
	is      verdict
	// causes match the root cause, best first. Without them, or if none matches, it is
	// what the pattern matched. The cause is the whole line, and those of the following
	// lines that belong to it.
	causes []*regexp.Regexp
	// more is how many lines after the first belong to the cause.
	more int
	// last uses the last match instead of the first: for programs that print a stack with
	// the innermost call at its end.
	last bool
	// before looks for the place above the cause first, where Python prints it.
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

// find looks for the failure in a readable output.
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

// skipBlank returns where the first non-blank line of a match begins.
func skipBlank(text string, at []int) int {
	i := at[0]
	for i < at[1] && (text[i] == '\n' || text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return strings.LastIndexByte(text[:i], '\n') + 1
}

// linesFrom returns the line at start up to the line in which the match ends, and up to
// more non-blank lines after it.
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

// frame matches a place in a source file as compilers and stacks write it.
var frame = regexp.MustCompile(`File "([^"\n]+)", line (\d+)` +
	`|(?:on|In|in) ([\w@./+-]+\.\w+) (?:on )?line (\d+)` +
	`|((?:[\w@.()\[\]+-]*/)*[\w@.+-]+\.(?:cs|fs|vb)):line (\d+)` +
	`|([\w@./+-]+\.\w{1,6})(?:\((\d+),\d+\)|:\[(\d+),\d+\])` +
	`|([\w@./+\[\]-]*(?:[\w@+-]\.(?:` + sourceFiles + `)|Makefile|Dockerfile|Jenkinsfile)):(?: line )?(\d+)`)

const sourceFiles = `go|py|pyi|js|jsx|mjs|cjs|ts|tsx|mts|vue|svelte|rs|java|kt|kts|scala|groovy|gradle|rb|erb|rake|php|c|h|cc|cpp|cxx|hpp|hh|m|mm|swift|ex|exs|erl|hs|ml|lua|pl|pm|t|sh|bash|zsh|ps1|sql|tf|hcl|proto|yml|yaml|toml|json|css|scss|html|md|dart|zig|nim|cr|clj|r|jl|cmake|xml`

// foreign matches what precedes a place outside the repository: a class of a library or
// the runtime.
var foreign = regexp.MustCompile(`at (?:[\w./]+/)?(?:java|javax|jdk|sun|kotlin|scala|groovy|junit|org\.junit|org\.opentest4j|org\.assertj|org\.hamcrest|org\.mockito|org\.gradle|org\.apache|org\.springframework)\.[^\n]*$`)

const (
	workspaceRoot = "/workspace/" // where commands of the sandbox see theirs
	placeAhead    = 6 << 10       // bytes after the cause in which its place is looked for
	placeBehind   = 2 << 10       // and before it
)

// place finds the file and line in the repository that belong to the cause that begins
// at start: in it or the next one after it, else the last before it; the other way
// round if the tool prints the place before the cause.
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

// places returns all places of the repository in a text.
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
