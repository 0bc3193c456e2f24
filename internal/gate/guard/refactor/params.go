package refactor

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
)

// The limits of a signature.
const (
	maxSignature = 4 << 10 // bytes
	maxParams    = 100
)

// shape reads the parameters and the result of a function.
func (f *file) shape(s extract.Symbol) shape {
	if s.Kind == extract.KindClass || s.Kind == extract.KindInterface {
		return shape{inherits: f.lang != "rust" && inheritance.MatchString(s.Signature)}
	}
	if s.Kind != extract.KindFunction && s.Kind != extract.KindMethod || s.Line < 1 || s.Line > len(f.lines) || f.overload(s) {
		return shape{}
	}
	var b strings.Builder
	for i := s.Line - 1; i < len(f.lines) && b.Len() < maxSignature; i++ {
		b.WriteString(clip(f.lines[i]))
		b.WriteByte('\n')
	}
	text := b.String()
	at := wordAt(text, s.Name)
	if at < 0 {
		return shape{}
	}
	before, rest := text[:at], text[at+len(s.Name):]
	open := opening(rest, f.lang)
	if open < 0 {
		return shape{}
	}
	list, end, ok := split(rest, open)
	if !ok || len(list) > maxParams {
		return shape{}
	}
	out := shape{known: true}
	switch f.lang {
	case "python", "ruby", "kotlin", "csharp", "php":
	default:
		out.positional = true
	}
	out.typed = f.lang == "java" || f.lang == "rust" || f.lang == "csharp" || f.lang == "kotlin"
	if f.lang == "csharp" || f.lang == "kotlin" || f.lang == "php" {
		out.positional = true // few callers use names
	}
	for _, p := range list {
		if x, ok := f.param(p); ok {
			out.params = append(out.params, x)
		}
	}
	out.result = f.result(before, rest[end+1:])
	return out
}

// clip returns the beginning of a line.
func clip(line string) string { return line[:min(len(line), maxSignature)] }

func wordAt(text, word string) int {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return -1
		}
		i += at
		end := i + len(word)
		if (i == 0 || !wordByte(text[i-1])) && (end == len(text) || !wordByte(text[end])) {
			return i
		}
		at = i + 1
	}
}

// opening returns the parenthesis of the parameters after a name, or -1.
func opening(rest, lang string) int {
	depth := 0
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '<' || c == '[':
			depth++
		case c == '>' && (i == 0 || rest[i-1] != '=' && rest[i-1] != '-') || c == ']':
			depth--
		case c == '(' && depth <= 0:
			return i
		case depth > 0 || c == ' ' || c == '\t':
		case lang == "javascript" && i < 200 && (c == '=' || c == '\n' || c == ':' || c == '*' || wordByte(c)): // name = async function (…)
		default:
			return -1
		}
	}
	return -1
}

// split splits the parameters between parentheses at their commas. It returns the closing one.
func split(text string, open int) (list []string, end int, ok bool) {
	depth, from := 0, open+1
	for i := open; i < len(text); i++ {
		switch c := text[i]; c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				if strings.TrimSpace(text[from:i]) != "" {
					list = append(list, text[from:i])
				}
				return list, i, true
			}
		case '<':
			if i > 0 && text[i-1] != ' ' {
				depth++
			}
		case '>':
			if depth > 1 && text[i-1] != '=' && text[i-1] != '-' && text[i-1] != ' ' {
				depth--
			}
		case '"', '\'', '`', '/', '#':
			i = skip(text, i)
		case ',':
			if depth == 1 {
				list = append(list, text[from:i])
				from = i + 1
			}
		}
	}
	return nil, 0, false
}

// skip returns the end of the text or comment that begins at i, or i.
func skip(text string, i int) int {
	next := byte(0)
	if i+1 < len(text) {
		next = text[i+1]
	}
	switch c := text[i]; {
	case c == '/' && next == '/', c == '#' && next == ' ':
		return lineEnd(text, i)
	case c == '/' && next == '*':
		if n := strings.Index(text[i:], "*/"); n > 0 {
			return i + n + 1
		}
		return i
	case c == '/' || c == '#':
		return i
	case c == '\'' && wordByte(next) && strings.IndexByte(text[i+1:min(len(text), i+30)], '\'') < 0:
		return i // a lifetime
	}
	return endOfText(text, i)
}

// inheritance matches the head of a class that has others above it.
var inheritance = regexp.MustCompile(`\bextends\b|\bimplements\b|\bclass\s+\w+\s*\(\s*\w|\b(?:class|interface|record)\s+[\w<>, ]+(?:\([^)]*\))?\s*:\s*\w|\bclass\s+\w+\s*<\s*\w`)

func lineEnd(text string, i int) int {
	if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}

func endOfText(text string, i int) int {
	for k := i + 1; k < len(text); k++ {
		switch text[k] {
		case '\\':
			k++
		case text[i]:
			return k
		case '\n':
			if text[i] != '`' {
				return i
			}
		}
	}
	return i
}

var (
	comments    = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|(?:^|\s)# [^\n]*`)
	annotations = regexp.MustCompile(`@[\w.]+(?:\([^()]*\))?|#?\[[\w\\:.]+(?:\([^()]*\))?\]`)
	modifiers   = regexp.MustCompile(`\b(?:final|public|private|protected|readonly|mut|override|crossinline|noinline|val|var|this|in)\s+`)
	qualifiers  = regexp.MustCompile(`\b(?:\w+(?:::|\.))+`)
	lifetimes   = regexp.MustCompile(`'\w+\s*`)
)

// param reads a parameter.
func (f *file) param(text string) (p param, ok bool) {
	text = strings.TrimSpace(comments.ReplaceAllString(text, " "))
	if f.lang != "python" && f.lang != "ruby" && f.lang != "javascript" {
		text = strings.TrimSpace(annotations.ReplaceAllString(text, " "))
		text = modifiers.ReplaceAllString(text, "")
	}
	switch text {
	case "", "/", "*", "&", "self", "&self", "&mut self", "mut self", "&'a self", "cls":
		return p, false
	}
	if head, _, isDefault := cutDefault(text); isDefault {
		text, p.optional = head, true
	}
	switch f.lang {
	case "java", "csharp", "php":
		if f.lang == "php" {
			text = strings.ReplaceAll(text, "&", " ")
		}
		at := strings.LastIndexFunc(text, func(r rune) bool { return r < 0x80 && !wordByte(byte(r)) && r != '$' })
		p.name = text[at+1:]
		p.typ = strings.TrimSpace(text[:at+1])
		p.variadic = strings.Contains(p.typ, "...") || strings.HasPrefix(p.typ, "params ")
		if f.lang == "php" {
			p.typ = ""
		}
	case "ruby":
		p.variadic = strings.HasPrefix(text, "*") || strings.HasPrefix(text, "&")
		n, _, keyword := strings.Cut(text, ":")
		p.optional = p.optional || keyword && strings.TrimSpace(text[len(n)+1:]) != ""
		p.name = strings.Trim(n, "*& ")
	default:
		n, typ, _ := strings.Cut(text, ":")
		n = strings.TrimSpace(n)
		p.variadic = strings.HasPrefix(n, "*") || strings.HasPrefix(n, "...") || strings.HasPrefix(n, "vararg ")
		p.optional = p.optional || strings.HasSuffix(n, "?")
		p.name, p.typ = strings.Trim(n, "*.? "), typ
		if strings.HasPrefix(n, "{") || strings.HasPrefix(n, "[") {
			p.name = "{}"
		}
		if n == "this" && f.lang == "javascript" || strings.HasPrefix(n, "self") || strings.HasPrefix(n, "&") {
			return p, false
		}
	}
	p.typ = normal(p.typ)
	return p, true
}

// cutDefault splits a parameter at the sign before its default.
func cutDefault(text string) (head, value string, ok bool) {
	for i := range len(text) {
		if text[i] == '=' && (i+1 >= len(text) || text[i+1] != '=' && text[i+1] != '>') && (i == 0 || !strings.ContainsRune("=!<>", rune(text[i-1]))) {
			return strings.TrimSpace(text[:i]), text[i+1:], true
		}
	}
	return text, "", false
}

// normal writes a type without spaces, the packages of names and lifetimes.
func normal(typ string) string {
	typ = lifetimes.ReplaceAllString(typ, "")
	typ = qualifiers.ReplaceAllString(typ, "")
	return strings.TrimRight(strings.Join(strings.Fields(typ), ""), ",")
}

var lastType = regexp.MustCompile(`([\w.\[\]?]+(?:<.*>)?(?:\[\])*\??)\s*$`)

// result reads the type of a result.
func (f *file) result(before, after string) string {
	after = strings.TrimLeft(after, " \t\n")
	switch f.lang {
	case "java", "csharp":
		m := lastType.FindStringSubmatch(annotations.ReplaceAllString(before, " "))
		if m == nil || modifiers.MatchString(m[1]+" ") || m[1] == "static" || m[1] == "async" {
			return ""
		}
		return normal(m[1])
	case "rust", "python":
		if !strings.HasPrefix(after, "->") {
			return ""
		}
		after = after[2:]
		if f.lang == "python" {
			end := strings.Index(after, ":\n")
			if end < 0 {
				return ""
			}
			return normal(after[:end])
		}
		end := strings.IndexAny(after, "{;")
		if w := strings.Index(after, "where"); w >= 0 && (end < 0 || w < end) {
			end = w
		}
		if end < 0 {
			return ""
		}
		return normal(after[:end])
	case "kotlin":
		if !strings.HasPrefix(after, ":") {
			return ""
		}
		line, _, _ := strings.Cut(after[1:], "\n")
		if end := strings.IndexAny(line, "={"); end >= 0 {
			line = line[:end]
		}
		return normal(line)
	}
	return ""
}
