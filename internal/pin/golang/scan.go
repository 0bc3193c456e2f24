package golang

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
)

// scan makes tokens, without what gofmt adds and takes away.
func (g *file) scan(data []byte) {
	var s scanner.Scanner
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(data))
	s.Init(file, data, func(token.Position, string) {}, 0)
	last := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON {
			continue
		}
		line := file.Line(pos)
		t := lexer.Token{Kind: tokenKind(tok), Text: lit, Line: line, StartsLine: line != last}
		if lit == "" || tok.IsOperator() {
			t.Text = tok.String()
		}
		if closing := tok == token.RPAREN || tok == token.RBRACE || tok == token.RBRACK; closing && len(g.Tokens) > 0 && g.Tokens[len(g.Tokens)-1].Is(",") {
			g.Tokens, g.offsets = g.Tokens[:len(g.Tokens)-1], g.offsets[:len(g.offsets)-1]
		}
		last = line
		g.Tokens = append(g.Tokens, t)
		g.offsets = append(g.offsets, file.Offset(pos))
	}
	g.Index()
}

func tokenKind(t token.Token) lexer.TokenKind {
	switch t {
	case token.STRING, token.CHAR:
		return lexer.Text
	case token.INT, token.FLOAT, token.IMAG:
		return lexer.Number
	case token.IDENT:
		return lexer.Word
	default:
		if t.IsKeyword() {
			return lexer.Word
		}
		return lexer.Punct
	}
}

// token is the index of the first token at or after a position.
func (g *file) token(p token.Pos) int {
	i, _ := slices.BinarySearch(g.offsets, int(p)-g.base)
	return i
}

func (g *file) span(n ast.Node) lexer.Span {
	return lexer.Span{From: g.token(n.Pos()), To: g.token(n.End())}
}

func (g *file) digest(n ast.Node) lexer.Digest {
	s := g.span(n)
	return g.Digest(s.From, s.To)
}

func (g *file) line(n ast.Node) int { return g.At(g.token(n.Pos())).Line }
