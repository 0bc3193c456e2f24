package extract

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// plain reads files that are not code in a known language, line by line.
type plain struct {
	lang              string
	extensions, names []string
	prose             bool // all of it is prose
	// symbol returns the definition in a line, or false.
	symbol func(line []byte) (name string, kind Kind, ok bool)
}

// Matches says whether the file's name is one of the format.
func (p plain) Matches(name string, _ []byte) bool {
	base := path.Base(name)
	return slices.Contains(p.names, base) || slices.Contains(p.extensions, strings.ToLower(path.Ext(base)))
}

// Extract reads a file line by line.
func (p plain) Extract(_ string, content []byte) Extract {
	x := Extract{Lang: p.lang}
	var starts []int
	if p.symbol != nil {
		n := 0
		for line := range bytes.Lines(content) {
			n++
			if len(line) > maxPlainLine {
				continue
			}
			name, kind, ok := p.symbol(line)
			if name = oneLine([]byte(name)); !ok || name == "" || len(x.Symbols) == MaxSymbols {
				continue
			}
			x.Symbols = append(x.Symbols, Symbol{Name: name, Kind: kind, Line: n, EndLine: n, Signature: oneLine(line), Exported: true})
			starts = append(starts, n)
		}
	}
	if p.prose && len(content) > 0 {
		x.Prose = []Span{{0, len(content)}}
	}
	x.Lines, x.Chunks = chunks(content, x.Symbols, starts)
	for i := range x.Symbols {
		x.Symbols[i].EndLine = x.Lines
		if i+1 < len(x.Symbols) {
			x.Symbols[i].EndLine = max(x.Symbols[i].Line, x.Symbols[i+1].Line-1)
		}
	}
	return x
}

// maxPlainLine is the length of a line with a definition.
const maxPlainLine = 1000

var sql = plain{lang: "sql", extensions: []string{".sql"}, symbol: func(line []byte) (string, Kind, bool) {
	fields := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' || r == '(' || r == '\n' || r == ';' })
	if len(fields) < 3 || !strings.EqualFold(fields[0], "create") {
		return "", 0, false
	}
	for i, f := range fields[1:] {
		switch strings.ToLower(f) {
		case "or", "replace", "unique", "temporary", "temp", "materialized", "if", "not", "exists", "table", "view", "index", "function", "procedure", "type", "trigger", "schema", "concurrently", "unlogged":
		default:
			return strings.Trim(f, "\"`[]"), KindType, i > 0
		}
	}
	return "", 0, false
}}

var makefile = plain{lang: "make", extensions: []string{".mk", ".mak"}, names: []string{"Makefile", "makefile", "GNUmakefile", "Justfile", "justfile"}, symbol: func(line []byte) (string, Kind, bool) {
	name, rest, ok := strings.Cut(string(line), ":")
	if !ok || strings.HasPrefix(rest, "=") || name == "" || strings.ContainsAny(name, " \t#$=.%\"'{") {
		return "", 0, false
	}
	return name, KindFunction, true
}}

var protobuf = plain{lang: "protobuf", extensions: []string{".proto"}, symbol: keywordSymbol(map[string]Kind{
	"message": KindStruct, "enum": KindEnum, "service": KindInterface, "rpc": KindMethod, "extend": KindStruct,
})}

var graphql = plain{lang: "graphql", extensions: []string{".graphql", ".gql", ".graphqls"}, symbol: keywordSymbol(map[string]Kind{
	"type": KindStruct, "input": KindStruct, "interface": KindInterface, "enum": KindEnum, "scalar": KindType, "union": KindType,
	"query": KindFunction, "mutation": KindFunction, "fragment": KindOther,
})}

var swift = plain{lang: "swift", extensions: []string{".swift"}, symbol: keywordSymbol(map[string]Kind{
	"func": KindFunction, "class": KindClass, "struct": KindStruct, "protocol": KindInterface, "enum": KindEnum, "extension": KindClass, "typealias": KindType, "actor": KindClass,
})}

var scala = plain{lang: "scala", extensions: []string{".scala", ".sc", ".groovy", ".gradle"}, symbol: keywordSymbol(map[string]Kind{
	"def": KindFunction, "class": KindClass, "object": KindClass, "trait": KindInterface, "type": KindType, "enum": KindEnum,
})}

var lua = plain{lang: "lua", extensions: []string{".lua"}, symbol: keywordSymbol(map[string]Kind{"function": KindFunction})}

var elixir = plain{lang: "elixir", extensions: []string{".ex", ".exs"}, symbol: keywordSymbol(map[string]Kind{
	"def": KindFunction, "defp": KindFunction, "defmodule": KindModule, "defmacro": KindMacro, "defprotocol": KindInterface,
})}

var terraform = plain{lang: "hcl", extensions: []string{".tf", ".hcl"}, symbol: func(line []byte) (string, Kind, bool) {
	fields := strings.Fields(string(line))
	if len(fields) < 2 || line[0] == ' ' || line[0] == '\t' || line[0] == '#' || fields[len(fields)-1] != "{" {
		return "", 0, false
	}
	return strings.ReplaceAll(strings.Join(fields[:len(fields)-1], "."), `"`, ""), KindOther, true
}}

// keywordSymbol recognises a definition as a word, after modifiers, that is followed by a name.
func keywordSymbol(kinds map[string]Kind) func([]byte) (string, Kind, bool) {
	const maxModifiers = 6
	return func(line []byte) (string, Kind, bool) {
		text := strings.TrimSpace(string(line))
		for range maxModifiers {
			word, rest, _ := strings.Cut(text, " ")
			if kind, ok := kinds[word]; ok {
				rest = strings.TrimSpace(rest)
				end := 0
				for end < len(rest) && (identPart[rest[end]] || rest[end] == '.' || rest[end] == ':' && end+1 < len(rest) && identPart[rest[end+1]] && word == "function") {
					end++
				}
				return rest[:end], kind, end > 0
			}
			for i := range len(word) {
				if !identPart[word[i]] && word[i] != '@' && word[i] != '(' && word[i] != ')' {
					return "", 0, false
				}
			}
			text = strings.TrimSpace(rest)
		}
		return "", 0, false
	}
}

var prose = plain{lang: "text", prose: true, extensions: []string{".txt", ".text", ".asciidoc"}, names: []string{"LICENSE", "NOTICE", "AUTHORS", "COPYING", "README", "CHANGELOG", "CHANGES", "INSTALL", "CODEOWNERS"}}

var anything = plain{lang: "text"}
