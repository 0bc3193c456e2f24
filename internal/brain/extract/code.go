package extract

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// words returns the set of the words of a text.
func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// Matches says whether the file's name is one of the language, or a script that its interpreter runs.
func (l *language) Matches(name string, head []byte) bool {
	base := path.Base(name)
	if slices.Contains(l.names, base) {
		return true
	}
	ext := strings.ToLower(path.Ext(base))
	if ext != "" {
		return slices.Contains(l.extensions, ext)
	}
	return l.name == interpreter(head)
}

// interpreter returns the language of a script's first line, or "".
func interpreter(head []byte) string {
	if !strings.HasPrefix(string(head[:min(len(head), 2)]), "#!") {
		return ""
	}
	line, _, _ := strings.Cut(string(head[:min(len(head), 200)]), "\n")
	for _, i := range []struct{ word, lang string }{
		{"python", "python"}, {"node", "javascript"}, {"ruby", "ruby"}, {"php", "php"}, {"bash", "shell"}, {"zsh", "shell"}, {"sh", "shell"},
	} {
		if strings.Contains(line, i.word) {
			return i.lang
		}
	}
	return ""
}

// Extract scans a file once.
func (l *language) Extract(name string, content []byte) Extract {
	if l == javascript {
		content = scriptOf(name, content)
	}
	buffer, _ := tokenBuffers.Get().(*[]token)
	lexed := lex(&l.syntax, content, *buffer)
	s := &scan{lang: l, src: content, tokens: lexed.tokens}
	s.brackets()
	if l.indented {
		s.lines()
	} else {
		s.statements()
	}
	x := Extract{
		Lang: l.langOf(name), Package: strings.ToValidUTF8(strings.Clone(s.pkg), "?"), Imports: unique(s.imports), Refs: s.refs(), Prose: lexed.prose,
	}
	if len(x.Package) > MaxName {
		x.Package = ""
	}
	x.Symbols = sorted(s)
	x.Lines, x.Chunks = chunks(content, s.symbols, s.starts)
	if cap(lexed.tokens) <= maxPooledTokens {
		*buffer = lexed.tokens[:0]
		tokenBuffers.Put(buffer)
	}
	return x
}

func (l *language) langOf(name string) string {
	ext := strings.ToLower(path.Ext(name))
	switch l {
	case cpp:
		return langC(name)
	case javascript:
		if strings.HasSuffix(ext, "ts") || ext == ".tsx" {
			return "typescript"
		}
		if ext == ".vue" || ext == ".svelte" {
			return ext[1:]
		}
	}
	return l.name
}

// sorted puts the symbols and the lines where they start in order.
func sorted(s *scan) []Symbol {
	order := make([]int, len(s.symbols))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.symbols[a].Line, s.symbols[b].Line) })
	symbols, starts := make([]Symbol, len(order)), make([]int, len(order))
	for i, at := range order {
		symbols[i], starts[i] = s.symbols[at], s.starts[at]
	}
	for i := range symbols {
		symbols[i].Parent = strings.Clone(symbols[i].Parent)
	}
	s.symbols, s.starts = symbols, starts
	return symbols
}

func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(name string) bool {
		twice := seen[name]
		seen[name] = true
		return twice
	})
}

// minRef is the number of bytes of the shortest identifier that is worth recording.
const minRef = 3

// refs counts the identifiers.
func (s *scan) refs() []Ref {
	at := make(map[string]int32, len(s.tokens)/8)
	var refs []Ref
	for i, t := range s.tokens {
		if t.kind != tokIdent || t.end-t.start < minRef || t.end-t.start > MaxName {
			continue
		}
		name := s.text(i)
		if n, ok := at[name]; ok {
			if n >= 0 {
				refs[n].Count++
			}
			continue
		}
		if s.lang.keywords[name] || len(refs) >= MaxRefs {
			at[name] = -1
			continue
		}
		at[name] = int32(len(refs))
		refs = append(refs, Ref{Name: name, Count: 1})
	}
	size := 0
	for _, r := range refs {
		size += len(r.Name)
	}
	// One text for all names needs one allocation.
	var all strings.Builder
	all.Grow(size)
	for _, r := range refs {
		all.WriteString(r.Name)
	}
	text := all.String()
	for i := range refs {
		n := len(refs[i].Name)
		refs[i].Name, text = text[:n], text[n:]
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return refs
}

// scriptOf replaces all of a component file by spaces except its scripts, so that positions stay.
func scriptOf(name string, content []byte) []byte {
	switch strings.ToLower(path.Ext(name)) {
	case ".vue", ".svelte":
	default:
		return content
	}
	out := make([]byte, len(content))
	for i, c := range content {
		if out[i] = ' '; c == '\n' {
			out[i] = c
		}
	}
	for pos := 0; ; {
		open := strings.Index(string(content[pos:]), "<script")
		if open < 0 {
			return out
		}
		pos += open
		end := strings.IndexByte(string(content[pos:]), '>')
		if end < 0 {
			return out
		}
		pos += end + 1
		closing := strings.Index(string(content[pos:]), "</script")
		if closing < 0 {
			closing = len(content) - pos
		}
		copy(out[pos:pos+closing], content[pos:pos+closing])
		pos += closing
	}
}
