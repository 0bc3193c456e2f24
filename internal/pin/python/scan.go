package python

import (
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// Texts of the tokens that represent indentation.
const (
	indent = "\x01"
	dedent = "\x02"
)

// scan creates tokens and logical lines. Strings that are statements are treated as comments.
func (f *file) scan(data []byte) {
	p := &scanner{file: f, data: data, line: 1}
	for p.at < len(data) {
		p.begin()
		for p.at < len(data) && !p.next() {
		}
		p.finish()
	}
	if len(p.open) > 0 {
		f.Fail("a bracket is not closed")
	}
}

type scanner struct {
	*file
	data    []byte
	at      int
	line    int
	from    int
	indent  int
	indents []int
	open    []byte
}

// begin measures the indentation of a line.
func (p *scanner) begin() {
	p.indent = 0
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ':
			p.indent++
		case '\t':
			p.indent += 8 - p.indent%8
		case '\f', '\r':
		default:
			p.from = -1
			return
		}
		p.at++
	}
	p.from = -1
}

// first is called before the first token of a logical line.
func (p *scanner) first() {
	if p.from >= 0 {
		return
	}
	top := func() int {
		if len(p.indents) == 0 {
			return 0
		}
		return p.indents[len(p.indents)-1]
	}
	if p.indent > top() {
		p.indents = append(p.indents, p.indent)
		p.Tokens = append(p.Tokens, lexer.Token{Kind: lexer.Punct, Text: indent, Line: p.line})
	}
	for p.indent < top() {
		p.indents = p.indents[:len(p.indents)-1]
		p.Tokens = append(p.Tokens, lexer.Token{Kind: lexer.Punct, Text: dedent, Line: p.line})
	}
	if p.indent != top() {
		p.Fail("its indentation is inconsistent")
	}
	p.from = len(p.Tokens)
}

func (p *scanner) finish() {
	if p.from < 0 || p.from == len(p.Tokens) {
		return
	}
	if !slices.ContainsFunc(p.Tokens[p.from:], func(t lexer.Token) bool { return t.Kind != lexer.Text }) {
		p.Tokens = p.Tokens[:p.from]
		return
	}
	p.Tokens[p.from].StartsLine = true
	p.lines = append(p.lines, logicalLine{indent: p.indent, from: p.from, to: len(p.Tokens)})
}

func (p *scanner) emit(kind lexer.TokenKind, end int, value string) {
	p.first()
	if kind == lexer.Punct && (value == ")" || value == "]" || value == "}") && len(p.Tokens) > p.from && p.Tokens[len(p.Tokens)-1].Is(",") {
		p.Tokens = p.Tokens[:len(p.Tokens)-1]
	}
	p.Tokens = append(p.Tokens, lexer.Token{Kind: kind, Text: value, Line: p.line})
	p.line += strings.Count(string(p.data[p.at:end]), "\n")
	p.at = end
}

// next reads a token and reports whether the logical line ends with it.
func (p *scanner) next() bool {
	c := p.data[p.at]
	switch {
	case c == '\n':
		p.at++
		p.line++
		return len(p.open) == 0
	case c == ' ' || c == '\t' || c == '\r' || c == '\f':
		p.at++
	case c == '\\' && p.at+1 < len(p.data) && p.data[p.at+1] == '\n':
		p.at += 2
		p.line++
	case c == '#':
		for p.at < len(p.data) && p.data[p.at] != '\n' {
			p.at++
		}
	case c == '"' || c == '\'':
		p.quoted(p.at)
	case lexer.IsWord(c):
		p.word()
	default:
		p.punct(c)
	}
	return false
}

func (p *scanner) word() {
	i := p.at
	for i < len(p.data) && (lexer.IsWord(p.data[i]) || lexer.IsDigit(p.data[p.at]) && p.data[i] == '.') {
		i++
	}
	if i < len(p.data) && (p.data[i] == '"' || p.data[i] == '\'') && i-p.at <= 2 && strings.Trim(strings.ToLower(string(p.data[p.at:i])), "rbfut") == "" {
		p.quoted(i)
		return
	}
	kind := lexer.Word
	if lexer.IsDigit(p.data[p.at]) {
		kind = lexer.Number
	}
	p.emit(kind, i, string(p.data[p.at:i]))
}

// quoted reads a text whose quotes begin at i.
func (p *scanner) quoted(i int) {
	quote := string(p.data[i])
	if i+2 < len(p.data) && string(p.data[i:i+3]) == strings.Repeat(quote, 3) {
		quote = strings.Repeat(quote, 3)
	}
	for j := i + len(quote); j < len(p.data); j++ {
		switch {
		case p.data[j] == '\\':
			j++
		case p.data[j] == '\n' && len(quote) == 1:
			p.Fail("a string is not closed")
			p.emit(lexer.Text, j, "")
			return
		case p.data[j] == quote[0] && j+len(quote) <= len(p.data) && string(p.data[j:j+len(quote)]) == quote:
			p.emit(lexer.Text, j+len(quote), string(p.data[i+len(quote):j]))
			return
		}
	}
	p.Fail("a string is not closed")
	p.emit(lexer.Text, len(p.data), "")
}

func (p *scanner) punct(c byte) {
	for _, o := range operators {
		if p.at+len(o) <= len(p.data) && string(p.data[p.at:p.at+len(o)]) == o {
			p.emit(lexer.Punct, p.at+len(o), o)
			return
		}
	}
	switch c {
	case '(', '[', '{':
		p.open = append(p.open, c)
	case ')', ']', '}':
		if len(p.open) > 0 {
			p.open = p.open[:len(p.open)-1]
		}
	}
	p.emit(lexer.Punct, p.at+1, string(rune(c)))
}

var operators = []string{"==", "!=", "->", ":=", "<=", ">=", "**", "//", "..."}

// findBlockEnds finds where the block indented below each line ends.
func (f *file) findBlockEnds() {
	var open []int
	for i, l := range f.lines {
		for len(open) > 0 && f.lines[open[len(open)-1]].indent >= l.indent {
			f.lines[open[len(open)-1]].end = i
			open = open[:len(open)-1]
		}
		if open = append(open, i); len(open) > lexer.MaxNesting {
			f.lines = f.lines[:i]
			break
		}
	}
	for _, i := range open {
		if i < len(f.lines) {
			f.lines[i].end = len(f.lines)
		}
	}
}

// logicalLine is a logical line.
type logicalLine struct {
	indent   int
	from, to int // tokens
	end      int // index of the first line after the block indented below it
}
