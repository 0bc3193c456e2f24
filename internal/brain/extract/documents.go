package extract

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// markdown reads the headings of Markdown, reStructuredText and AsciiDoc.
type markdown struct{}

// Matches says whether the file is a document with headings.
func (markdown) Matches(name string, _ []byte) bool {
	return slices.Contains([]string{".md", ".markdown", ".mdx", ".rst", ".adoc", ".org"}, strings.ToLower(path.Ext(name)))
}

// Extract returns the headings. All text is prose, except blocks of code.
func (markdown) Extract(name string, content []byte) Extract {
	x := Extract{Lang: "markdown"}
	if strings.ToLower(path.Ext(name)) == ".rst" {
		x.Lang = "rst"
	}
	var levels []int
	fence, pos, prose, n := "", 0, 0, 0
	var before []byte
	for raw := range bytes.Lines(content) {
		n++
		line := bytes.TrimSpace(raw[:min(len(raw), maxPlainLine)])
		switch mark := fenceOf(line); {
		case fence != "" && mark != "" && mark[0] == fence[0] && len(mark) >= len(fence):
			fence, prose = "", pos+len(raw)
		case fence == "" && mark != "":
			fence = mark
			if prose < pos {
				x.Prose = append(x.Prose, Span{prose, pos})
			}
		case fence == "":
			if level, title := heading(line, before, x.Lang); level > 0 && len(x.Symbols) < MaxSymbols {
				at := n
				if title == "" {
					title, at = string(before), n-1
				}
				x.addHeading(&levels, level, oneLine([]byte(title)), at)
			}
		}
		before = line
		pos += len(raw)
	}
	if fence == "" && prose < pos {
		x.Prose = append(x.Prose, Span{prose, pos})
	}
	starts := make([]int, len(x.Symbols))
	for i, s := range x.Symbols {
		starts[i] = s.Line
	}
	x.Lines, x.Chunks = chunks(content, x.Symbols, starts)
	endHeadings(x.Symbols, levels, x.Lines)
	return x
}

// fenceOf returns the marks that open or close a block of code, or "".
func fenceOf(line []byte) string {
	n := 0
	for n < len(line) && (line[n] == '`' || line[n] == '~') && line[n] == line[0] {
		n++
	}
	if n < 3 || line[0] == '`' && bytes.IndexByte(line[n:], '`') >= 0 {
		return ""
	}
	return string(line[:n])
}

// heading returns the level of a heading and its title; title "" means the line before.
func heading(line, before []byte, lang string) (level int, title string) {
	if len(line) == 0 {
		return 0, ""
	}
	if c := line[0]; c == '#' && lang == "markdown" || c == '=' && bytes.HasPrefix(bytes.TrimLeft(line, "="), []byte(" ")) || c == '*' && lang == "org" {
		for level < len(line) && line[level] == c {
			level++
		}
		if level > 6 || level == len(line) || line[level] != ' ' {
			return 0, ""
		}
		return level, strings.TrimSpace(strings.Trim(string(line[level:]), "# "))
	}
	marks := "=-"
	if lang == "rst" {
		marks = `=-~^"'+*#`
	}
	at := strings.IndexByte(marks, line[0])
	if at < 0 || len(line) < 3 || len(before) == 0 || len(bytes.TrimLeft(line, string(line[0]))) > 0 || strings.IndexByte(marks+"|", before[0]) >= 0 {
		return 0, ""
	}
	return at + 1, ""
}

func (x *Extract) addHeading(levels *[]int, level int, title string, line int) {
	if title == "" || len(x.Symbols) > 0 && x.Symbols[len(x.Symbols)-1].Line >= line {
		return
	}
	parent := ""
	for i, steps := len(x.Symbols)-1, 0; i >= 0 && steps < MaxDepth; i, steps = i-1, steps+1 {
		if (*levels)[i] < level {
			parent = x.Symbols[i].Name
			break
		}
	}
	x.Symbols = append(x.Symbols, Symbol{Name: title, Kind: KindHeading, Line: line, Parent: parent, Signature: oneLine([]byte(title)), Exported: true})
	*levels = append(*levels, level)
}

// endHeadings ends each section before the next one of its level or a higher one.
func endHeadings(symbols []Symbol, levels []int, lines int) {
	var open []int
	for i := range symbols {
		for n := len(open); n > 0 && levels[open[n-1]] >= levels[i]; n-- {
			symbols[open[n-1]].EndLine = max(symbols[i].Line-1, symbols[open[n-1]].Line)
			open = open[:n-1]
		}
		open = append(open, i)
	}
	for _, i := range open {
		symbols[i].EndLine = max(lines, symbols[i].Line)
	}
}

// keys reads the keys of configuration files down to the second level.
type keys struct {
	lang       string
	extensions []string
	names      []string
	read       func(content []byte, add func(name, parent string, line int))
}

// Matches says whether the file's name is one of the format.
func (k keys) Matches(name string, _ []byte) bool {
	base := path.Base(name)
	return slices.Contains(k.names, base) || slices.Contains(k.extensions, strings.ToLower(path.Ext(base)))
}

// maxKeys is the number of keys of a file: a file with more is data rather than configuration.
const maxKeys = 500

// manifests are files with the name of a package.
var manifests = []string{"package.json", "Cargo.toml", "composer.json", "pyproject.toml"}

// Extract returns the keys.
func (k keys) Extract(name string, content []byte) Extract {
	x := Extract{Lang: k.lang}
	if slices.Contains(manifests, path.Base(name)) {
		x.Package = packageName(content)
	}
	at := lineStarts(content)
	var starts []int
	k.read(content, func(name, parent string, line int) {
		name = oneLine([]byte(name))
		if name == "" || len(x.Symbols) == maxKeys || line > len(at) {
			return
		}
		end := len(content)
		if line < len(at) {
			end = at[line]
		}
		x.Symbols = append(x.Symbols, Symbol{
			Name: name, Kind: KindKey, Parent: oneLine([]byte(parent)), Line: line, EndLine: line,
			Signature: oneLine(content[at[line-1]:end]), Exported: parent == "",
		})
		starts = append(starts, line)
	})
	x.Lines, x.Chunks = chunks(content, x.Symbols, starts)
	return x
}

var yaml = keys{lang: "yaml", extensions: []string{".yaml", ".yml"}, read: func(content []byte, add func(name, parent string, line int)) {
	top, inner, n := "", -1, 0
	for line := range bytes.Lines(content) {
		n++
		line = line[:min(len(line), maxPlainLine)]
		indent := len(line) - len(bytes.TrimLeft(line, " "))
		name, _, ok := bytes.Cut(line[indent:], []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t#-{[&*!|>") && name[0] != '"' && bytes.ContainsAny(name[:1], " \t#-{[&*!|>") {
			continue
		}
		key := strings.Trim(string(name), `"' `)
		if indent == 0 {
			top, inner = key, -1
			add(key, "", n)
		} else if top != "" && (inner < 0 || indent == inner) {
			inner = indent
			add(key, top, n)
		}
	}
}}

var toml = keys{lang: "toml", extensions: []string{".toml", ".ini", ".cfg", ".conf", ".properties", ".editorconfig"}, names: []string{"Pipfile", ".editorconfig"}, read: func(content []byte, add func(name, parent string, line int)) {
	table, n := "", 0
	for line := range bytes.Lines(content) {
		n++
		line = bytes.TrimSpace(line[:min(len(line), maxPlainLine)])
		switch {
		case len(line) == 0 || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			table = strings.Trim(string(line), "[] \t")
			add(table, "", n)
		default:
			if name, _, ok := bytes.Cut(line, []byte("=")); ok {
				if key := strings.Trim(string(name), "\"' \t"); !strings.ContainsAny(key, " {[(,") {
					add(key, table, n)
				}
			}
		}
	}
}}

var json = keys{lang: "json", extensions: []string{".json", ".jsonc", ".json5", ".webmanifest"}, read: readJSON}

// readJSON finds the keys of the outer two objects.
func readJSON(content []byte, add func(name, parent string, line int)) {
	depth, line, top := 0, 1, ""
	for pos := 0; pos < len(content); pos++ {
		switch content[pos] {
		case '\n':
			line++
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			end := pos + 1
			for end < len(content) && content[end] != '"' && content[end] != '\n' {
				if content[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(content) {
				return
			}
			name := string(content[pos+1 : min(end, pos+1+MaxName)])
			pos = end
			if content[end] == '\n' {
				line++
				continue
			}
			if rest := bytes.TrimLeft(content[end+1:min(len(content), end+1+MaxName)], " \t"); len(rest) == 0 || rest[0] != ':' {
				continue
			}
			switch depth {
			case 1:
				top = name
				add(name, "", line)
			case 2:
				add(name, top, line)
			}
		}
	}
}

// packageName returns the value of the first key "name" of a manifest.
func packageName(content []byte) string {
	for line := range bytes.Lines(content[:min(len(content), 16<<10)]) {
		text := strings.TrimSpace(string(line[:min(len(line), maxPlainLine)]))
		text = strings.TrimPrefix(strings.TrimPrefix(text, "{"), " ")
		key, value, ok := strings.Cut(text, ":")
		if !ok {
			key, value, ok = strings.Cut(text, "=")
		}
		if ok && strings.Trim(key, "\"' ") == "name" {
			return oneLine([]byte(strings.Trim(strings.TrimRight(strings.TrimSpace(value), ","), "\"' ")))
		}
	}
	return ""
}

// gomod reads the module's path.
type gomod struct{}

// Matches says whether the file is the description of a Go module.
func (gomod) Matches(name string, _ []byte) bool { return path.Base(name) == "go.mod" }

// Extract returns the module as the package, and what it requires as imports.
func (gomod) Extract(_ string, content []byte) Extract {
	x := Extract{Lang: "gomod"}
	for line := range bytes.Lines(content[:min(len(content), 64<<10)]) {
		fields := strings.Fields(string(line[:min(len(line), maxPlainLine)]))
		if len(fields) >= 2 && fields[0] == "module" && x.Package == "" {
			x.Package = oneLine([]byte(strings.Trim(fields[1], "\"`")))
		}
	}
	x.Lines, x.Chunks = chunks(content, nil, nil)
	return x
}
