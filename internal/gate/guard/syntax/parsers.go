package syntax

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// check returns what is wrong with a file, or nil.
type check func(path string, content []byte) *problem

// problem is the first thing that is wrong with a file.
type problem struct {
	rule     string
	line     int // 0: unknown
	text     string
	doubtful bool // some readers accept it
}

func invalid(line int, text string) *problem {
	return &problem{rule: RuleInvalid, line: line, text: text}
}

// The limits of what is parsed. Parsers that call themselves for nested values would otherwise need
// more stack than a process has.
const (
	maxNesting   = 2_000     // brackets within brackets
	maxYAMLBytes = 512 << 10 // its parser is slow
	maxIndents   = 2_000     // columns of indentation of a YAML file

	maxShellBytes = 256 << 10
	maxKeyParts   = 256 // of a TOML key: a.b.c
)

// checkOf returns the check for a file, or nil.
func checkOf(p string) check {
	base := path.Base(p)
	switch base {
	case "Cargo.lock", "poetry.lock", "uv.lock", "Pipfile":
		return parseTOML
	case "composer.lock", "Pipfile.lock":
		return parseJSON
	}
	switch strings.ToLower(path.Ext(base)) {
	case ".go":
		return parseGo
	case ".json", ".jsonc", ".webmanifest", ".geojson", ".ipynb":
		return parseJSON
	case ".yaml", ".yml":
		return parseYAML
	case ".toml":
		return parseTOML
	case ".xml", ".xsd", ".xsl", ".xslt", ".csproj", ".fsproj", ".vbproj", ".props", ".targets", ".svg", ".resx", ".plist", ".wsdl", ".pom", ".nuspec", ".xaml":
		return parseXML
	case ".sh", ".bash":
		return parseShell
	case ".java":
		return brackets(lexer.Dialect{TripleQuotes: true})
	case ".kt":
		return brackets(lexer.Dialect{TripleQuotes: true, QuotedNames: true, NestedComments: true})
	case ".cs":
		return csharp
	case ".rs":
		return brackets(lexer.Dialect{RawTexts: true, NestedComments: true})
	}
	return nil
}

// deep reports whether more brackets are within each other than real files have. It also counts those in
// texts and comments.
func deep(content []byte) bool {
	depth := 0
	for _, c := range content {
		switch c {
		case '(', '[', '{':
			if depth++; depth > maxNesting {
				return true
			}
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

var tooDeep = &problem{rule: RuleUnreadable, text: "it is nested too deeply to parse"}

func parseGo(_ string, content []byte) *problem {
	if deep(content) {
		return tooDeep
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", content, parser.SkipObjectResolution)
	var list scanner.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		return invalid(list[0].Pos.Line, list[0].Msg)
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// parseYAML parses all documents of a file. It does not follow aliases, so they cannot multiply.
func parseYAML(_ string, content []byte) (p *problem) {
	if len(content) > maxYAMLBytes {
		return &problem{rule: RuleUnreadable, text: "it is too large to parse"}
	}
	if deep(content) || indented(content) {
		return tooDeep
	}
	defer func() {
		if e := recover(); e != nil {
			p = &problem{rule: RuleInvalid, text: "the parser fails on it", doubtful: true}
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			m := yamlLine.FindStringSubmatch(err.Error())
			if m == nil {
				return invalid(0, err.Error())
			}
			line, _ := strconv.Atoi(m[1])
			return invalid(line, m[2])
		}
		if p == nil {
			p = duplicateInYAML(&n)
		}
	}
}

// indented reports whether a file has blocks within blocks beyond what real files have.
func indented(content []byte) bool {
	for len(content) > 0 {
		line, rest, _ := bytes.Cut(content, []byte{'\n'})
		at, marks := 0, 0
		for at < len(line) && (line[at] == ' ' || line[at] == '-' || line[at] == '?' || line[at] == ':') {
			if line[at] != ' ' {
				marks++
			}
			at++
		}
		if at > maxIndents && (marks > maxIndents/2 || at < len(line)) {
			return true
		}
		content = rest
	}
	return false
}

// duplicateInYAML finds a key that a mapping has twice. Its time grows with the size of the document.
func duplicateInYAML(root *yaml.Node) *problem {
	stack := []*yaml.Node{root}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = append(stack[:len(stack)-1], n.Content...)
		if n.Kind != yaml.MappingNode {
			continue
		}
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.Value == "<<" {
				continue
			}
			id := k.Tag + " " + k.Value
			if seen[id] {
				return &problem{rule: RuleDuplicateKey, line: k.Line, text: fmt.Sprintf("the key %q occurs twice in an object", clip(k.Value))}
			}
			seen[id] = true
		}
	}
	return nil
}

func clip(s string) string {
	const most = 60
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// dotted reports whether a key has more parts than real ones. Its parser takes quadratic time for them.
func dotted(content []byte) bool {
	parts := 0
	for _, c := range content {
		switch c {
		case '.':
			if parts++; parts > maxKeyParts {
				return true
			}
		case '\n', '=', ',', '[', ']', '{', '}':
			parts = 0
		}
	}
	return false
}

func parseTOML(_ string, content []byte) *problem {
	if deep(content) || dotted(content) {
		return tooDeep
	}
	var v map[string]any
	_, err := toml.Decode(string(content), &v)
	if err == nil {
		return nil
	}
	var at toml.ParseError
	if errors.As(err, &at) {
		return invalid(at.Position.Line, at.Message)
	}
	return invalid(0, err.Error())
}

// parseXML reads all of a document. It cannot judge one in another encoding than UTF-8, or one with
// entities of its own.
func parseXML(_ string, content []byte) *problem {
	d := xml.NewDecoder(bytes.NewReader(content))
	foreign := false
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) {
		foreign = true
		return in, nil
	}
	elements, doctype := 0, false
	for {
		t, err := d.Token()
		switch t := t.(type) {
		case xml.StartElement:
			elements++
		case xml.Directive:
			doctype = doctype || bytes.HasPrefix(t, []byte("DOCTYPE"))
		}
		var bad *xml.SyntaxError
		switch {
		case err == nil:
			continue
		case foreign, errors.Is(err, io.EOF) && elements > 0:
			return nil
		case errors.Is(err, io.EOF):
			return &problem{rule: RuleInvalid, text: "it has no element", doubtful: true}
		case errors.As(err, &bad):
			if doctype && strings.Contains(bad.Msg, "entity") {
				return nil
			}
			return invalid(bad.Line, bad.Msg)
		}
		return nil // such as a version of XML that the parser does not know
	}
}

// parseShell parses a script for bash. Scripts for other shells with the same ending are not judged.
func parseShell(_ string, content []byte) *problem {
	first, _, _ := bytes.Cut(content[:min(len(content), 200)], []byte{'\n'})
	if bytes.HasPrefix(first, []byte("#!")) && !bytes.Contains(first, []byte("sh")) || bytes.Contains(first, []byte("zsh")) || bytes.Contains(first, []byte("fish")) || bytes.Contains(first, []byte("csh")) {
		return nil
	}
	if deep(content) || len(content) > maxShellBytes {
		return tooDeep
	}
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(content), "")
	var bad syntax.ParseError
	if errors.As(err, &bad) {
		return invalid(int(bad.Pos.Line()), bad.Text)
	}
	return nil
}

// branches matches the other branch of a condition of the preprocessor, which may have brackets of its own.
var branches = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*(?:else|elif)\b`)

func csharp(p string, content []byte) *problem {
	found := brackets(lexer.Dialect{TripleQuotes: true, Verbatim: true})(p, content)
	if found != nil && branches.Match(content) {
		found.doubtful = true
	}
	return found
}

// brackets checks the brackets of a language that has no parser here.
func brackets(d lexer.Dialect) check {
	return func(_ string, content []byte) *problem {
		s := lexer.ScanBraces(content, d)
		switch {
		case s.Broken == "":
			return nil
		case s.TooDeep:
			return tooDeep
		}
		return invalid(0, s.Broken)
	}
}
