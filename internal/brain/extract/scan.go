package extract

import (
	"slices"
	"strings"
	"unsafe"
)

// language describes a language to the scanner of statements.
type language struct {
	name   string
	syntax syntax
	// extensions are lower-case file name extensions with the dot, names are whole file names.
	extensions, names []string
	keywords          map[string]bool
	// define recognises the definitions of one statement. It returns the block that the statement
	// opens, if it ends with a brace.
	define func(*scan, statement) block
	// inline says that a brace belongs to the statement, as in a pattern or an initial value. nil: none.
	inline func(s *scan, from, brace int) bool
	// descend says that blocks within parentheses contain statements. nil: they do not.
	descend func(s *scan, from, paren int) bool
	// commas says that commas separate the statements of this block. nil: never.
	commas func(b block) bool
	// indented says that indentation delimits blocks instead of braces.
	indented bool
}

// statement is a sequence of tokens: those from from up to and without to, which ends it. to is the
// number of tokens at the end of the file.
type statement struct {
	from, to int
	end      byte // the kind of the token that ends it; 0 at the end of the file
}

// block is what the braces after a statement contain.
type block struct {
	kind  blockKind
	name  string // of the definition, for the symbols in it
	guard bool   // the symbols in it are not visible outside
	enter bool   // it contains statements that are worth reading
	end   int    // the token that closes it
}

type blockKind byte

const (
	blockOther    blockKind = iota
	blockType               // members of a class or another type
	blockTrait              // members of an interface, which are as visible as it
	blockFunction           // statements
	blockModule             // definitions of a module or namespace
	blockObject             // properties of an object
	blockEnum               // members of an enumeration
	blockGroup              // a list of declarations of one kind, as in const ( … )
)

// scan is the state of one file.
type scan struct {
	lang    *language
	src     []byte
	tokens  []token
	match   []int32 // of each opening bracket: the token that closes it; 0 if there is none
	blocks  []block
	symbols []Symbol
	starts  []int // of each symbol: the line where its statement starts
	imports []string
	pkg     string
	closed  int // the token behind the last block that was not entered
	pending string
}

// text returns a token's text without a copy. It is valid as long as the content.
func (s *scan) text(i int) string {
	if i < 0 || i >= len(s.tokens) {
		return ""
	}
	t := s.tokens[i]
	if t.start == t.end {
		return ""
	}
	return unsafe.String(&s.src[t.start], int(t.end-t.start))
}

func (s *scan) kind(i int) byte {
	if i < 0 || i >= len(s.tokens) {
		return 0
	}
	return s.tokens[i].kind
}

func (s *scan) is(i int, text string) bool { return s.kind(i) == tokIdent && s.text(i) == text }

// isAny says whether a token is one of some words.
func (s *scan) isAny(i int, words ...string) bool {
	return s.kind(i) == tokIdent && slices.Contains(words, s.text(i))
}

// name says whether a token is an identifier and not a keyword.
func (s *scan) name(i int) bool {
	return s.kind(i) == tokIdent && !s.lang.keywords[s.text(i)]
}

// closing returns the token that closes the bracket at i, or i if none does.
func (s *scan) closing(i int) int {
	if i >= 0 && i < len(s.match) && s.match[i] > 0 {
		return int(s.match[i])
	}
	return i
}

// angles returns the token behind the type arguments <…> that start at i, or i if there are none.
func (s *scan) angles(i, to int) int {
	if s.kind(i) != '<' {
		return i
	}
	depth := 0
	for j := i; j < min(to, i+maxAngles); j++ {
		switch s.kind(j) {
		case '<':
			depth++
		case '>':
			if s.kind(j-1) == '=' || s.kind(j-1) == '-' {
				continue // => and ->
			}
			if depth--; depth == 0 {
				return j + 1
			}
		case '(', '[', '{':
			j = s.closing(j)
		case ';':
			return i
		}
	}
	return i
}

// maxAngles is the number of tokens of type arguments.
const maxAngles = 500

// find returns the first token of a kind between from and to, outside of brackets, or -1.
func (s *scan) find(kind byte, from, to int) int {
	for i := from; i < min(to, from+maxHeader); i++ {
		k := s.kind(i)
		if k == kind {
			return i
		}
		if k == '(' || k == '[' || k == '{' {
			i = s.closing(i)
		}
	}
	return -1
}

// findWord is find for a word.
func (s *scan) findWord(word string, from, to int) int {
	for i := from; i < min(to, from+maxHeader); i++ {
		k := s.kind(i)
		if k == tokIdent && s.text(i) == word {
			return i
		}
		if k == '(' || k == '[' || k == '{' {
			i = s.closing(i)
		}
	}
	return -1
}

// maxHeader is the number of tokens of a statement that are looked at, which keeps the time linear.
const maxHeader = 400

// top returns the block around the current statement.
func (s *scan) top() block {
	if len(s.blocks) == 0 {
		return block{kind: blockModule, enter: true}
	}
	return s.blocks[len(s.blocks)-1]
}

// add records a definition whose name is token i. end is the token that ends it.
func (s *scan) add(i int, kind Kind, st statement, exported bool) {
	s.addNamed(s.text(i), i, kind, s.top().name, st, exported)
}

func (s *scan) addNamed(name string, i int, kind Kind, parent string, st statement, exported bool) {
	if name == "" || len(name) > MaxName || len(s.symbols) >= MaxSymbols || i >= len(s.tokens) {
		return
	}
	last := min(st.to, len(s.tokens)-1)
	switch st.end {
	case '{':
		if last = s.closing(st.to); last == st.to {
			last = len(s.tokens) - 1
		}
	case tokNewline, '}', 0:
		last = max(min(st.to, len(s.tokens))-1, i)
	}
	s.symbols = append(s.symbols, Symbol{
		Name: strings.ToValidUTF8(strings.Clone(name), "?"), Kind: kind, Parent: strings.ToValidUTF8(parent, "?"), Exported: exported && !s.top().guard,
		Line: int(s.tokens[i].line), EndLine: max(int(s.lastLine(last)), int(s.tokens[i].line)),
		Signature: s.signature(st.from, st.to),
	})
	s.starts = append(s.starts, int(s.tokens[st.from].line))
}

// lastLine returns the line on which a token ends.
func (s *scan) lastLine(i int) uint32 {
	t := s.tokens[i]
	line := t.line
	if t.kind == tokString || t.kind == tokDirective {
		for _, c := range s.src[t.start:t.end] {
			if c == '\n' {
				line++
			}
		}
	}
	return line
}

// signature returns the source of some tokens as one line.
func (s *scan) signature(from, to int) string {
	for from < to && s.kind(from) == tokNewline {
		from++
	}
	if from >= to || from >= len(s.tokens) {
		return ""
	}
	last := s.tokens[min(to, len(s.tokens))-1]
	return oneLine(s.src[s.tokens[from].start:last.end])
}

func (s *scan) addImport(name string) {
	name = strings.Trim(name, "\"'`<> \t;")
	if name == "" || len(name) > MaxName || len(s.imports) >= MaxImports {
		return
	}
	s.imports = append(s.imports, strings.ToValidUTF8(strings.Clone(name), "?"))
}

// joined returns the source between two tokens without white space, such as a dotted name.
func (s *scan) joined(from, to int) string {
	var b strings.Builder
	for i := from; i < to && b.Len() <= MaxName; i++ {
		b.WriteString(s.text(i))
	}
	return b.String()
}

// maxUnpaired is the number of brackets without a partner within another pair.
const maxUnpaired = 64

// brackets pairs the brackets of the file. A closing bracket closes the innermost opening one of its
// kind; those within it that were not closed have no partner.
func (s *scan) brackets() {
	s.match = make([]int32, len(s.tokens))
	var open []int32
	var branches []int // how many brackets were open at each #if
	for i, t := range s.tokens {
		switch t.kind {
		case '(', '[', '{':
			open = append(open, int32(i))
		case ')', ']', '}':
			open = s.closeBracket(open, i)
		case tokDirective:
			open, branches = branch(directive(s.text(i)), open, branches)
		}
	}
}

// closeBracket pairs a closing bracket, and returns the brackets that remain open.
func (s *scan) closeBracket(open []int32, i int) []int32 {
	closing := s.tokens[i].kind
	want := opening(closing)
	for j := len(open) - 1; j >= max(0, len(open)-maxUnpaired); j-- {
		k := s.tokens[open[j]].kind
		if k == want {
			s.match[open[j]] = int32(i)
			return open[:j]
		}
		if k == '{' && closing != '}' {
			break // a parenthesis too much within a block
		}
	}
	return open
}

// branch returns the brackets and branches that are open after a directive. Each branch opens and
// closes the same brackets; the first one counts.
func branch(name string, open []int32, branches []int) ([]int32, []int) {
	n := len(branches)
	switch name {
	case "if", "ifdef", "ifndef":
		branches = append(branches, len(open))
	case "else", "elif":
		if n > 0 && len(open) > branches[n-1] {
			open = open[:branches[n-1]]
		}
	case "endif":
		if n > 0 {
			branches = branches[:n-1]
		}
	}
	return open, branches
}

// directive returns the word after #.
func directive(line string) string {
	line = strings.TrimLeft(strings.TrimPrefix(line, "#"), " \t")
	end := 0
	for end < len(line) && identPart[line[end]] {
		end++
	}
	return line[:end]
}

func opening(closing byte) byte {
	switch closing {
	case ')':
		return '('
	case ']':
		return '['
	}
	return '{'
}
