package refactor

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
)

// readSymbols adds the exported symbols of a file in a language other than Go.
func readSymbols(a api, p string, content []byte) {
	lang := languageOf(p)
	if lang == "" {
		return
	}
	x := extract.File(p, content)
	f := &file{path: p, lang: lang, content: string(content), lines: strings.Split(string(content), "\n"), extract: x}
	f.scope = a.scope(f.scopeID(), lang, p)
	f.listed()
	for _, s := range x.Symbols {
		if kind := kindOf(s.Kind); kind != "" && f.exported(s) {
			f.scope.add(symbol{name: s.Name, parent: s.Parent, kind: kind, path: p, line: s.Line, shape: f.shape(s)})
		}
	}
}

func languageOf(p string) string {
	switch strings.ToLower(path.Ext(p)) {
	case ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx":
		return "javascript"
	case ".py", ".pyi":
		return "python"
	case ".java":
		return "java"
	case ".kt":
		return "kotlin"
	case ".cs":
		return "csharp"
	case ".rs":
		return "rust"
	case ".php":
		return "php"
	case ".rb":
		return "ruby"
	}
	return ""
}

// file is a file that is being read.
type file struct {
	path, lang, content string
	lines               []string
	extract             extract.Extract
	scope               *scope
	all                 map[string]bool // names in __all__, or in lists of exports; nil: none
}

// scopeID is what code imports: a module, or a package.
func (f *file) scopeID() string {
	switch f.lang {
	case "java", "kotlin", "csharp", "php":
		return f.lang + ":" + f.extract.Package
	case "ruby":
		return f.lang
	}
	return f.lang + ":" + moduleOf(f.path)
}

// moduleOf is the path by which code imports a file, without its ending.
func moduleOf(p string) string {
	p = strings.TrimSuffix(strings.TrimSuffix(p, path.Ext(p)), ".d")
	for _, index := range []string{"/__init__", "/index", "/mod"} {
		p = strings.TrimSuffix(p, index)
	}
	return p
}

func kindOf(k extract.Kind) string {
	switch k {
	case extract.KindFunction, extract.KindMethod, extract.KindClass, extract.KindStruct, extract.KindInterface, extract.KindEnum,
		extract.KindType, extract.KindConstant, extract.KindVariable, extract.KindMacro:
		return k.String()
	default:
		return ""
	}
}

var (
	exportList  = regexp.MustCompile(`(?m)^\s*export\s+(?:type\s+)?\{([^}]*)\}`)
	exportAll   = regexp.MustCompile(`(?m)^\s*export\s+(?:type\s+)?\*\s+(?:as\s+(\w+)\s+)?from|^\s*__exportStar\(|^\s*module\.exports\s*=\s*(?:require\(|Object\.assign|\{\s*\.\.\.)`)
	commonJS    = regexp.MustCompile(`(?m)(?:^|[\s;])(?:module\.)?exports\.(\w+)\s*=|^\s*module\.exports\s*=\s*\{([^}]*)\}`)
	pythonAll   = regexp.MustCompile(`(?m)^__all__\s*(?::[^=]+)?\+?=\s*[\[(]([^\])]*)[\])]`)
	pythonFrom  = regexp.MustCompile(`(?m)^[ \t]*(?:from\s+[\w.]+\s+)?import\s+(\([^)]*\)|[^\n]*)`)
	pythonGet   = regexp.MustCompile(`(?m)^def __getattr__\(|^from\s+[\w.]+\s+import\s+\*`)
	rustUse     = regexp.MustCompile(`(?m)^\s*pub\s+use\s+([^;]*);`)
	wordPattern = regexp.MustCompile(`[A-Za-z_$][\w$]*`)
	stringWord  = regexp.MustCompile(`["'](\w+)["']`)
)

// listed reads what a module exports by lists, and what it passes on of other modules.
func (f *file) listed() {
	switch f.lang {
	case "javascript":
		f.listedJavaScript()
	case "python":
		f.listedPython()
	case "rust":
		for _, m := range rustUse.FindAllStringSubmatch(f.content, -1) {
			for _, n := range wordPattern.FindAllString(m[1], -1) {
				f.pass(n)
			}
			f.scope.opaque = f.scope.opaque || strings.Contains(m[1], "*")
		}
	}
}

func (f *file) listedJavaScript() {
	for _, m := range exportList.FindAllStringSubmatch(f.content, -1) {
		for item := range strings.SplitSeq(m[1], ",") {
			if words := wordPattern.FindAllString(item, -1); len(words) > 0 {
				f.pass(words[len(words)-1])
			}
		}
	}
	for _, m := range commonJS.FindAllStringSubmatch(f.content, -1) {
		f.pass(m[1])
		for item := range strings.SplitSeq(m[2], ",") {
			f.pass(wordPattern.FindString(item))
		}
	}
	f.scope.opaque = f.scope.opaque || exportAll.MatchString(f.content)
}

func (f *file) listedPython() {
	for _, m := range pythonAll.FindAllStringSubmatch(f.content, -1) {
		f.all = map[string]bool{}
		for _, n := range stringWord.FindAllStringSubmatch(m[1], -1) {
			f.all[n[1]] = true
		}
	}
	for _, m := range pythonFrom.FindAllStringSubmatch(f.content, -1) {
		for _, n := range wordPattern.FindAllString(m[1], -1) {
			f.pass(n)
		}
	}
	f.scope.opaque = f.scope.opaque || pythonGet.MatchString(f.content)
}

func (f *file) pass(name string) {
	if name != "" {
		f.scope.passed[name] = true
	}
}

// exported reports whether code outside of the file's package can use a symbol.
func (f *file) exported(s extract.Symbol) bool {
	if !s.Exported && (f.lang != "javascript" || s.Parent != "" || !f.scope.passed[s.Name]) || strings.HasPrefix(s.Name, "_") && !strings.HasPrefix(s.Name, "__") || strings.HasPrefix(s.Name, "#") {
		return false
	}
	if s.Parent != "" && !f.ownerExported(s) {
		return false
	}
	head := f.head(s)
	switch f.lang {
	case "javascript":
		return s.Kind != extract.KindMethod || f.inClass(s)
	case "python":
		if s.Parent == "" {
			return (f.all == nil || f.all[s.Name]) && !strings.HasPrefix(s.Name, "__") && !slices.Contains([]string{"logger", "log", "logging", "T"}, s.Name)
		}
		return s.Name == "__init__" || s.Name == "__call__" || !strings.HasPrefix(s.Name, "__")
	case "csharp":
		return !strings.Contains(head, "internal ") && !strings.Contains(head, "private ") && !strings.Contains(head, "override ")
	case "java", "kotlin":
		return !strings.Contains(head, "override ")
	case "rust":
		return f.exportedRust(s, head)
	}
	return true
}

// overload recognizes a description of one way to call a Python function. The function itself follows, but
// the extract has only the first definition of a name.
func (f *file) overload(s extract.Symbol) bool {
	if f.lang != "python" {
		return false
	}
	for n := s.Line - 2; n >= 0 && n < len(f.lines); n-- {
		line := strings.TrimSpace(clip(f.lines[n]))
		if line == "@overload" || line == "@typing.overload" || line == "@t.overload" {
			return true
		}
		if !strings.HasPrefix(line, "@") {
			return false
		}
	}
	return false
}

// head is the line of a symbol up to its name.
func (f *file) head(s extract.Symbol) string {
	if s.Line < 1 || s.Line > len(f.lines) {
		return ""
	}
	line := clip(f.lines[s.Line-1])
	return line[:max(0, wordAt(line, s.Name))]
}

// ownerExported reports whether the type of a member is exported, if the file has it.
func (f *file) ownerExported(s extract.Symbol) bool {
	known := false
	for _, o := range f.extract.Symbols {
		if o.Name != s.Parent || o.Kind == extract.KindMethod || o.Line > s.Line && f.lang != "rust" {
			continue
		}
		known = true
		if (o.Exported || f.lang == "javascript" && f.scope.passed[o.Name]) && !strings.HasPrefix(o.Name, "_") && (f.lang != "python" || f.all == nil || f.all[o.Name]) {
			if f.lang == "csharp" && strings.Contains(f.head(o), "internal ") || f.lang == "rust" && strings.Contains(f.head(o), "pub(") {
				continue
			}
			return true
		}
	}
	return !known && f.lang != "javascript" && f.lang != "python"
}

// inClass reports whether a method is one of a class or interface, not of an object.
func (f *file) inClass(s extract.Symbol) bool {
	return slices.ContainsFunc(f.extract.Symbols, func(o extract.Symbol) bool {
		return o.Name == s.Parent && (o.Kind == extract.KindClass || o.Kind == extract.KindInterface) && o.Line <= s.Line && s.Line <= o.EndLine
	})
}

// exportedRust recognizes pub items. Methods of an implementation of a trait have no pub and follow the
// trait.
func (f *file) exportedRust(s extract.Symbol, head string) bool {
	for _, o := range f.extract.Symbols {
		if o.Kind == extract.KindModule && !o.Exported && o.Line < s.Line && s.Line <= o.EndLine {
			return false
		}
	}
	if strings.Contains(head, "pub(") {
		return false
	}
	if s.Kind == extract.KindMacro {
		return s.Line > 1 && strings.Contains(strings.Join(f.lines[max(0, s.Line-5):s.Line-1], "\n"), "macro_export")
	}
	if strings.Contains(head, "pub ") {
		return true
	}
	return s.Kind == extract.KindMethod && slices.ContainsFunc(f.extract.Symbols, func(o extract.Symbol) bool {
		return o.Name == s.Parent && o.Kind == extract.KindInterface && o.Line <= s.Line && s.Line <= o.EndLine
	})
}
