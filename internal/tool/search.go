package tool

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed search.md
var searchDescription string

type searchParams struct {
	Pattern string `json:"pattern" jsonschema:"minLength=1" jsonschema_description:"Matched within each line."`
	Path    string `json:"path,omitempty" jsonschema_description:"Directory, file, or glob such as {src,test}/**.js. Default: all."`
	Context int    `json:"context,omitempty" jsonschema:"minimum=0" jsonschema_description:"Lines to show before and after each match, at most 20. Default: 0."`
}

func search() Tool {
	return defineOnFiles(Definition{Name: Search, Description: searchDescription, ReadOnly: true},
		func(ctx context.Context, f *files, p searchParams) (Result, error) {
			text, err := f.search(ctx, p)
			return Result{OK: true, Text: text}, err
		})
}

func (f *files) search(ctx context.Context, p searchParams) (string, error) {
	pattern, err := compilePattern(p.Pattern)
	if err != nil {
		return "", err
	}
	scope, err := f.searchPlace(p.Path)
	if err != nil {
		return "", err
	}
	hits := &hits{limits: f.limits, pattern: pattern, context: min(p.Context, maxContext)}
	if scope.file {
		ctx, cancel := context.WithTimeoutCause(ctx, f.limits.WalkTime, errTooSlow)
		defer cancel()
		err = f.searchFile(ctx, scope.dir, hits)
		if err != nil && !errors.Is(err, errTooSlow) {
			return "", err
		}
		return hits.text(err == nil), nil
	}
	complete, err := f.walk(ctx, scope.dir, func(ctx context.Context, name string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() || !matches(scope.glob, ".", name) {
			return nil
		}
		// A file that cannot be searched is skipped, as documented in the tool's description.
		_ = f.searchFile(ctx, name, hits)
		if hits.full {
			return errEnough
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return "", err
	}
	return hits.text(complete), nil
}

// Limits of a search. The time for a line grows with its length times the size of the compiled
// pattern, and matching cannot be interrupted.
const (
	maxPattern = 1000     // bytes
	maxProgram = 2000     // instructions
	maxLine    = 32 << 10 // bytes searched in each line
)

func compilePattern(text string) (*regexp.Regexp, error) {
	if len(text) > maxPattern {
		return nil, refuse(contract.CodeInvalidOutput, "The pattern is %d bytes long, more than the %d allowed. Use several shorter patterns instead.", len(text), maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		var program *syntax.Prog
		if program, err = syntax.Compile(tree.Simplify()); err == nil && len(program.Inst) > maxProgram {
			return nil, refuse(contract.CodeInvalidOutput, "The pattern is too large because of repetitions such as {1000}. Use smaller counts, or * and +.")
		}
	}
	if err != nil {
		return nil, refuse(contract.CodeInvalidOutput, "The pattern is not a valid regular expression: %v. Put a \\ before characters such as ( [ . * to match them literally.", err)
	}
	return regexp.Compile(text)
}

// place is the location to search.
type place struct {
	dir  string
	file bool // dir is a file
	glob string
}

func (f *files) searchPlace(name string) (place, error) {
	dir, err := cleanDir(name)
	if err != nil {
		return place{}, err
	}
	info, err := f.root.Stat(dir)
	if err == nil {
		return place{dir: dir, file: !info.IsDir()}, nil
	}
	if !strings.ContainsAny(dir, "*?[{") {
		return place{}, explain(dir, err)
	}
	if err := checkGlob(dir); err != nil {
		return place{}, err
	}
	return place{dir: ".", glob: dir}, nil
}

// hits collects matching lines.
type hits struct {
	limits  Limits
	pattern *regexp.Regexp
	context int // lines around each match
	lines   strings.Builder
	count   int
	full    bool
}

func (f *files) searchFile(ctx context.Context, name string, h *hits) error {
	content, err := f.readWhole(name, f.limits.SearchFileBytes)
	if err != nil {
		return err
	}
	if isBinary(content) {
		return binaryRefusal(name, int64(len(content)))
	}
	number := 0
	near := nearby{hits: h, name: name}
	for line := range bytes.Lines(content) {
		number++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line = bytes.TrimRight(line, "\r\n")
		if !h.pattern.Match(line[:min(len(line), maxLine)]) {
			near.pass(number, line)
			continue
		}
		if h.count == h.limits.SearchHits || h.lines.Len() >= h.limits.AnswerBytes {
			h.full = true
			return nil
		}
		h.count++
		near.match(number, line)
	}
	return nil
}

// nearby adds the lines of a file that match, and those around them.
type nearby struct {
	*hits
	name   string
	before [][]byte // the last lines that were not added
	after  int      // lines that are still to be added after a match
	last   int      // number of the last line that was added
}

// pass adds a line that does not match, if it is near one.
func (n *nearby) pass(number int, line []byte) {
	if n.after > 0 && n.lines.Len() < n.limits.AnswerBytes {
		n.after--
		n.line(number, line, '-')
		return
	}
	if n.context > 0 {
		if len(n.before) == n.context {
			n.before = n.before[1:]
		}
		n.before = append(n.before, line)
	}
}

// match adds a line that matches, after those before it. "--" separates it from what is not next to it.
func (n *nearby) match(number int, line []byte) {
	first := number - len(n.before)
	if n.context > 0 && n.lines.Len() > 0 && (n.last == 0 || first != n.last+1) {
		n.lines.WriteString("--\n")
	}
	for i, earlier := range n.before {
		n.line(first+i, earlier, '-')
	}
	n.line(number, line, ':')
	n.before, n.after = nil, n.context
}

func (n *nearby) line(number int, line []byte, mark rune) {
	n.add(n.name, number, line, mark)
	n.last = number
}

// maxContext is the number of lines that a search shows before and after a match.
const maxContext = 20

// maxHitBytes prevents minified files from filling a result.
const maxHitBytes = 300

// add adds a line; mark is ':' for one that matches.
func (h *hits) add(name string, number int, line []byte, mark rune) {
	text := strings.ToValidUTF8(string(line[:min(len(line), maxHitBytes)]), "\uFFFD")
	if len(line) > maxHitBytes {
		text += "…"
	}
	fmt.Fprintf(&h.lines, "%s:%d%c%s\n", strings.ToValidUTF8(name, "\uFFFD"), number, mark, text)
}

func (h *hits) text(complete bool) string {
	switch {
	case h.full:
		fmt.Fprintf(&h.lines, "[first %d matching lines shown; narrow the search with path or pattern]\n", h.count)
	case !complete:
		h.lines.WriteString("[there are too many files to check in time; narrow the search with path]\n")
	case h.count == 0:
		return "[nothing matches]\n"
	}
	return h.lines.String()
}
