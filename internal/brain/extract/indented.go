package extract

import (
	"strings"
)

var python = &language{
	name: "python", extensions: []string{".py", ".pyi", ".pyx", ".pxd", ".bzl"}, names: []string{"BUILD", "BUILD.bazel", "SConstruct", "wscript"},
	syntax: syntax{
		lineComments: [2]string{"#"}, double: quoteLine, single: quoteLine, triple: true, newlines: true,
	},
	keywords: words(`and as assert async await break class continue def del elif else except finally for from global if import
		in is lambda nonlocal not or pass raise return try while with yield True False None self cls match case print
		int str float bool list dict set tuple len range`),
	define: definePython, indented: true,
}

var ruby = &language{
	name: "ruby", extensions: []string{".rb", ".rake", ".gemspec", ".ru", ".podspec", ".builder", ".jbuilder"},
	names: []string{"Rakefile", "Gemfile", "Guardfile", "Capfile", "Vagrantfile", "Podfile", "Fastfile"},
	syntax: syntax{
		lineComments: [2]string{"#"}, blockOpen: "=begin", blockClose: "\n=end", double: quoteMultiline, single: quoteMultiline,
		backtick: quoteLine, regex: true, heredoc: true, newlines: true, marks: true,
	},
	keywords: words(`BEGIN END alias and begin break case class def defined? do else elsif end ensure false for if in module next
		nil not or redo rescue retry return self super then true undef unless until when while yield require
		require_relative include extend attr_accessor attr_reader attr_writer puts new private protected public raise`),
	define: defineRuby, indented: true,
}

// indentedBlocks are the blocks around a line of a language whose blocks are known by their
// indentation.
type indentedBlocks []indentedBlock

type indentedBlock struct {
	column int
	symbol int // the block's symbol; -1 if it has none
}

// lines reads the statements of a language whose blocks are known by their indentation: a block ends
// before the next statement that is not indented more than its first line.
func (s *scan) lines() {
	var open indentedBlocks
	from, last := 0, 0 // last is the last token of the statement before
	for from < len(s.tokens) {
		end := s.statementEnd(from)
		if end > from {
			open = s.closeBlocks(open, from, last)
			open = s.openBlock(open, statement{from, end, tokNewline})
			last = end - 1
		}
		from = end + 1
	}
	for _, o := range open {
		if o.symbol >= 0 {
			s.symbols[o.symbol].EndLine = max(int(s.lastLine(len(s.tokens)-1)), s.symbols[o.symbol].Line)
		}
	}
}

// statementEnd returns the end of the line that ends the statement at a token.
func (s *scan) statementEnd(from int) int {
	depth := 0
	for i := from; i < len(s.tokens); i++ {
		switch s.kind(i) {
		case '(', '[', '{':
			if s.match[i] > 0 {
				depth++
			}
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case tokNewline:
			if (depth == 0 || s.outdented(i)) && !s.continued(i) {
				return i
			}
		}
	}
	return len(s.tokens)
}

// closeBlocks ends the blocks that the statement at a token does not belong to.
func (s *scan) closeBlocks(open indentedBlocks, from, last int) indentedBlocks {
	column, closes := s.column(from), s.is(from, "end")
	for n := len(open); n > 0 && column <= open[n-1].column; n-- {
		if at := open[n-1].symbol; at >= 0 {
			line := last
			if closes && column == open[n-1].column {
				line = from
			}
			s.symbols[at].EndLine = max(int(s.lastLine(line)), s.symbols[at].Line)
		}
		open = open[:n-1]
		s.blocks = s.blocks[:n-1]
	}
	return open
}

// openBlock reads a statement and begins the block that it opens.
func (s *scan) openBlock(open indentedBlocks, st statement) indentedBlocks {
	before := len(s.symbols)
	b := s.lang.define(s, st)
	if !b.enter || len(open) == MaxDepth {
		return open
	}
	o := indentedBlock{column: s.column(st.from), symbol: -1}
	if len(s.symbols) > before {
		o.symbol = before
	}
	if b.name == "" {
		b.name = s.top().name
	}
	s.blocks = append(s.blocks, b)
	return append(open, o)
}

// outdented says that the next line starts a definition, so that an open bracket before it must be a
// mistake of this scanner or of the file.
func (s *scan) outdented(i int) bool {
	return s.isAny(i+1, "def", "class", "module") && s.column(i+1) == 0
}

// continued says that a statement goes on in the next line.
func (s *scan) continued(i int) bool {
	switch s.kind(i - 1) {
	case '\\', ',', '.':
		return true
	}
	return s.kind(i+1) == '.' && s.kind(i+2) != '.'
}

// column returns the width of the white space in front of the first token of a line.
func (s *scan) column(i int) int {
	if i >= len(s.tokens) {
		return 0
	}
	width := 0
	for pos := int(s.tokens[i].start) - 1; pos >= 0 && width < 1000; pos-- {
		switch s.src[pos] {
		case ' ':
			width++
		case '\t':
			width += 8
		case '\n':
			return width
		case '\r':
		default:
			return width
		}
	}
	return width
}

func definePython(s *scan, st statement) block {
	i := st.from
	in := s.top()
	if s.is(i, "async") {
		i++
	}
	name := i + 1
	exported := in.kind != blockFunction && !strings.HasPrefix(s.text(name), "_")
	switch {
	case s.isAny(i, "def", "cdef", "cpdef") && s.kind(name) == tokIdent:
		kind := KindFunction
		if in.kind == blockType {
			kind = KindMethod
		}
		exported = exported || in.kind == blockType && strings.HasPrefix(s.text(name), "__") && strings.HasSuffix(s.text(name), "__")
		s.add(name, kind, st, exported)
		return block{kind: blockFunction, name: s.text(name), enter: true}
	case s.is(i, "class") && s.kind(name) == tokIdent:
		s.add(name, KindClass, st, exported)
		return block{kind: blockType, name: s.text(name), enter: true}
	case s.is(i, "import"):
		s.importPython(i+1, st.to)
	case s.is(i, "from"):
		s.fromPython(i+1, st.to)
	case s.isAny(i, "if", "elif", "else", "try", "except", "with", "finally"):
		return block{kind: in.kind, enter: true}
	case in.kind == blockModule && s.name(i) && s.column(i) == 0:
		s.variablePython(st, i)
	}
	return block{}
}

func (s *scan) variablePython(st statement, i int) {
	if next := s.kind(i + 1); next != ':' && (next != '=' || s.kind(i+2) == '=') {
		return
	}
	kind := KindVariable
	if name := s.text(i); name == strings.ToUpper(name) {
		kind = KindConstant
	}
	s.add(i, kind, st, !strings.HasPrefix(s.text(i), "_"))
}

func (s *scan) importPython(from, to int) {
	for i := from; i <= to; i++ {
		if i == to || s.kind(i) == ',' {
			end := i
			if as := s.findWord("as", from, i); as > 0 {
				end = as
			}
			s.addImport(s.joined(from, end))
			from = i + 1
		}
	}
}

// fromPython reads from a.b import c, d as a.b.c and a.b.d, because c may be a module.
func (s *scan) fromPython(from, to int) {
	at := s.findWord("import", from, to)
	if at < 0 {
		return
	}
	module := s.joined(from, at)
	added := 0
	for i := at + 1; i < to && added < maxUses; i++ {
		if s.is(i, "as") {
			i++
			continue
		}
		if s.kind(i) == tokIdent {
			sep := "."
			if strings.HasSuffix(module, ".") {
				sep = ""
			}
			s.addImport(module + sep + s.text(i))
			added++
		}
	}
	if added == 0 {
		s.addImport(module)
	}
}

func defineRuby(s *scan, st statement) block { //nolint:revive // a case for each form of syntax
	i := st.from
	in := s.top()
	if s.isAny(i, "private", "protected", "public", "private_class_method", "module_function") {
		if s.is(i+1, "def") {
			return s.defRuby(st, i+1, in, !s.isAny(i, "private", "protected", "private_class_method"))
		}
		if i+1 == st.to && len(s.blocks) > 0 {
			s.blocks[len(s.blocks)-1].guard = s.isAny(i, "private", "protected")
		}
		return block{}
	}
	switch s.text(i) {
	case "def":
		return s.defRuby(st, i, in, true)
	case "class", "module":
		return s.moduleRuby(st, i)
	case "require", "require_relative", "load", "autoload":
		for j := i + 1; j < min(st.to, i+6); j++ {
			if s.kind(j) == tokString {
				prefix := ""
				if s.is(i, "require_relative") {
					prefix = "./"
				}
				s.addImport(prefix + strings.Trim(s.text(j), `"'`))
			}
		}
	case "attr_accessor", "attr_reader", "attr_writer", "cattr_accessor", "mattr_accessor":
		for j := i + 1; j < min(st.to, i+60); j++ {
			if s.kind(j) == tokIdent && s.kind(j-1) == ':' {
				s.add(j, KindField, st, true)
			}
		}
	case "alias_method", "define_method", "alias":
		if at := i + 1; s.kind(at) == ':' || s.kind(at) == '(' && s.kind(at+1) == ':' || s.is(i, "alias") {
			for s.kind(at) == '(' || s.kind(at) == ':' {
				at++
			}
			if s.kind(at) == tokIdent {
				s.add(at, KindMethod, st, true)
			}
		}
	default:
		if name := s.text(i); s.kind(i) == tokIdent && name[0] >= 'A' && name[0] <= 'Z' && s.kind(i+1) == '=' && s.kind(i+2) != '=' && s.kind(i+2) != '~' {
			s.add(i, KindConstant, st, true)
		}
	}
	return block{}
}

func (s *scan) moduleRuby(st statement, i int) block {
	if s.kind(i+1) == '<' { // class << self
		return block{kind: blockType, enter: true}
	}
	at := i + 1
	for s.kind(at) == tokIdent && s.kind(at+1) == ':' && s.kind(at+2) == ':' {
		at += 3
	}
	if s.kind(at) != tokIdent {
		return block{}
	}
	kind := KindClass
	if s.is(i, "module") {
		kind = KindModule
	}
	s.add(at, kind, st, true)
	// class A < B; end
	return block{kind: blockType, name: s.text(at), enter: !s.is(st.to-1, "end")}
}

func (s *scan) defRuby(st statement, i int, in block, public bool) block {
	at := i + 1
	if s.kind(at) == '@' {
		at++
	}
	for s.kind(at) == tokIdent && s.kind(at+1) == '.' { // def self.name
		at += 2
	}
	name, end := s.text(at), at
	if s.kind(at) != tokIdent { // an operator
		for end+1 < st.to && s.kind(end+1) != '(' && s.kind(end+1) != tokIdent && s.tokens[end+1].start == s.tokens[end].end {
			end++
		}
		name = s.joined(at, end+1)
	} else if s.kind(at+1) == '=' && s.tokens[at+1].start == s.tokens[at].end && (s.kind(at+2) == '(' || s.kind(at+2) == tokIdent) {
		name += "="
	}
	if strings.TrimSpace(name) == "" {
		return block{}
	}
	kind := KindFunction
	if in.kind == blockType {
		kind = KindMethod
	}
	s.addNamed(name, at, kind, in.name, st, public)
	oneLine := s.is(st.to-1, "end") || s.find('=', end+1, st.to) >= 0 && s.kind(end+1) != '=' && !s.hasDefaults(end+1, st.to)
	return block{kind: blockFunction, name: in.name, enter: !oneLine}
}

// hasDefaults says that the equals sign of a line belongs to a parameter that is not in parentheses.
func (s *scan) hasDefaults(from, to int) bool {
	return s.kind(from) == tokIdent && s.find('=', from, to) > 0
}
