package coverage

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Limits on reading sources.
const (
	maxSource  = 4 << 20   // bytes of one file
	maxSources = 256 << 20 // bytes of all files
)

// sources are the extensions of languages whose coverage tools report lines.
var sources = map[string]bool{}

func init() {
	for _, ext := range strings.Fields(".go .py .js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .java .kt .scala .groovy .rs .c .cc .cpp .cxx .h .hpp .rb .php .cs .swift") {
		sources[ext] = true
	}
}

func isSource(name string) bool { return sources[path.Ext(name)] && !strings.HasSuffix(name, ".d.ts") }

// codeLines returns the lines of a file that can contain something to execute. Go's profiles and
// V8's coverage also name blank lines, comments and lone brackets. It returns false if the file
// cannot be read, and subtracts its size from left.
func codeLines(root *os.Root, name string, left *int64) (set, bool) {
	data, err := output.ReadRegular(root, name, min(maxSource, *left))
	if err != nil {
		return nil, false
	}
	*left -= int64(len(data))
	switch path.Ext(name) {
	case ".go":
		return goLines(data), true
	case ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts":
		return scriptLines(data), true
	case ".py":
		return blankFree(data, func(line []byte) bool { return line[0] != '#' }), true
	}
	return blankFree(data, func([]byte) bool { return true }), true
}

// goLines returns the lines in functions on which a token other than a bracket or a separator begins.
func goLines(data []byte) set {
	out := goTokenLines(data)
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", data, parser.SkipObjectResolution)
	if err != nil {
		return out // a newer version of Go may read it
	}
	var bodies set
	ast.Inspect(parsed, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch f := n.(type) {
		case *ast.FuncDecl:
			body = f.Body
		case *ast.FuncLit:
			body = f.Body
		default:
			return true
		}
		if body == nil || len(body.List) == 0 {
			return false
		}
		last := files.PositionFor(body.Rbrace, false).Line
		for line := files.PositionFor(body.Lbrace, false).Line; line <= min(last, maxLine); line++ {
			bodies.add(line)
		}
		return false
	})
	out.keep(bodies)
	return out
}

func goTokenLines(data []byte) set {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(data))
	s.Init(file, data, nil, 0)
	var out set
	for {
		at, kind, _ := s.Scan()
		switch kind {
		case token.EOF:
			return out
		case token.LPAREN, token.RPAREN, token.LBRACE, token.RBRACE, token.LBRACK, token.RBRACK, token.COMMA, token.SEMICOLON:
		default:
			out.add(min(file.PositionFor(at, false).Line, maxLine))
		}
	}
}

// scriptLines returns the lines of JavaScript and TypeScript that contain more than brackets,
// separators and comments.
func scriptLines(data []byte) set {
	comment := false
	return blankFree(data, func(line []byte) bool {
		if comment {
			_, rest, ends := bytes.Cut(line, []byte("*/"))
			comment, line = !ends, bytes.TrimSpace(rest)
		}
		for bytes.HasPrefix(line, []byte("/*")) {
			_, rest, ends := bytes.Cut(line[2:], []byte("*/"))
			comment, line = !ends, bytes.TrimSpace(rest)
		}
		return !bytes.HasPrefix(line, []byte("//")) && len(bytes.Trim(line, "(){}[];, \t")) > 0
	})
}

// blankFree returns the lines that are not blank and that accept accepts.
func blankFree(data []byte, accept func(line []byte) bool) set {
	var out set
	n := 0
	for line := range bytes.Lines(data) {
		if n++; n > maxLine {
			break
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && accept(line) {
			out.add(n)
		}
	}
	return out
}
