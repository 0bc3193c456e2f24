// Package rust reads tests in Rust.
package rust

import (
	"github.com/rocketgpt/orchestrator/internal/pin/annotation"
	"github.com/rocketgpt/orchestrator/internal/pin/language"
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

// Language is Rust.
var Language = language.Language{
	Name: "rust", Extensions: []string{".rs"}, BesideCode: true, IgnoreHelpers: true,
	IsTest: func(p string) bool {
		return language.InFolder(p, []string{"src"}) || !language.InFolder(p, []string{"benches", "examples"})
	},
	Parse: func(s *testfile.File, data []byte) {
		annotation.Parse(s, lexer.ScanBraces(data, lexer.Dialect{RawTexts: true, NestedComments: true}), annotation.Syntax{
			Attribute: attribute, BesideCode: !language.InFolder(s.Path, language.TestFolders), MacroTests: true,
		})
	},
}

// attribute reads #[test] and #![cfg(test)].
func attribute(src *lexer.Source, i int) (lexer.Span, int) {
	open := i + 1
	if src.At(open).Is("!") {
		open++
	}
	if !src.At(i).Is("#") || !src.At(open).Is("[") {
		return lexer.Span{}, 0
	}
	end := src.Close(open) + 1
	return lexer.Span{From: open + 1, To: end - 1}, end
}
