package main

import (
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
)

var (
	definition = regexp.MustCompile(`(?m)^[ \t]*(?:(?:export|default|pub(?:\([a-z]+\))?|public|private|protected|internal|static|final|abstract|async|override|virtual|sealed|unsafe|const|open|data|inline|suspend|extern|partial|readonly)[ \t]+)*(?:func|def|class|interface|struct|enum|trait|type|fn|module|namespace|record|function|object|fun|macro_rules!|mod|const|let|var|union|typedef struct)[ \t]*(?:\([^)\n]*\)[ \t]*)?(?:self\.)?([A-Za-z_$][\w$]*)`)
	method     = regexp.MustCompile(`(?m)^[ \t]*(?:(?:public|private|protected|internal|static|final|abstract|async|override|virtual|synchronized)[ \t]+)+[\w<>\[\],.? ]+?[ \t]+([A-Za-z_]\w*)[ \t]*\(`)
	cfunction  = regexp.MustCompile(`(?m)^[A-Za-z_][\w \t*]*?[ \t*]([A-Za-z_]\w*)\([^;{}]*?\)\s*\{`)
	cmacro     = regexp.MustCompile(`(?m)^#define[ \t]+(\w+)`)
	proseSlash = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`)
	proseHash  = regexp.MustCompile(`(?s)"""(?:.*?)"""|'''(?:.*?)'''|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`)
)

// analyse is a stopgap until extract has processors.
func analyse(p string, content []byte) extract.Extract {
	var e extract.Extract
	e.Lang = strings.TrimPrefix(path.Ext(p), ".")
	patterns := []*regexp.Regexp{definition}
	prose := proseSlash
	switch e.Lang {
	case "java", "cs", "php", "kt":
		patterns = append(patterns, method)
	case "c", "h", "cc", "cpp", "hpp":
		patterns = append(patterns, cfunction, cmacro)
	case "py", "rb":
		prose = proseHash
	}
	for _, re := range patterns {
		for _, m := range re.FindAllSubmatch(content, extract.MaxSymbols) {
			e.Symbols = append(e.Symbols, extract.Symbol{Name: string(m[1])})
		}
	}
	for _, m := range prose.FindAllIndex(content, -1) {
		e.Prose = append(e.Prose, extract.Span{Start: m[0], End: m[1]})
	}
	return e
}
