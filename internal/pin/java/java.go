// Package java reads tests in Java and Kotlin.
package java

import (
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin/annotation"
	"github.com/rocketgpt/orchestrator/internal/pin/language"
	"github.com/rocketgpt/orchestrator/internal/pin/lexer"
	"github.com/rocketgpt/orchestrator/internal/pin/testfile"
)

var testFile = regexp.MustCompile(`(^Test\w*|Tests?|TestCase|IT|Spec)\.(java|kt)$`)

// testFolder matches paths in the folders of tests of Maven and Gradle: src/test, src/commonTest.
var testFolder = regexp.MustCompile(`(^|/)src/(test|\w+Test)/`)

// resources matches paths in the folders of data of tests, which may be code that no one runs.
var resources = regexp.MustCompile(`(^|/)src/(test|\w+Test)/resources/`)

// annotated matches the imports of frameworks that run only annotated methods. Without them, the
// methods of a JUnit 3 TestCase are tests by their names.
var annotated = regexp.MustCompile(`(?m)^\s*import\s+(static\s+)?(org\.junit\.(Test|jupiter|\*)|org\.testng|kotlin\.test)\b`)

// Language is Java and Kotlin.
var Language = language.Language{
	Name: "java", Extensions: []string{".java", ".kt"}, IgnoreHelpers: true,
	IsTest: func(p string) bool {
		return !resources.MatchString(p) && (testFile.MatchString(path.Base(p)) || testFolder.MatchString(p))
	},
	Parse: func(s *testfile.File, data []byte) {
		annotation.Parse(s, lexer.ScanBraces(data, lexer.Dialect{TripleQuotes: true, QuotedNames: strings.HasSuffix(s.Path, ".kt")}), annotation.Syntax{
			Attribute: annotationAt, Function: methodAt, Catches: true, VoidTests: !annotated.Match(data),
		})
	},
}

// annotationAt reads @Test and @Disabled("why").
func annotationAt(src *lexer.Source, i int) (lexer.Span, int) {
	if !src.At(i).Is("@") || src.At(i+1).Kind != lexer.Word || src.At(i+1).Is("interface") {
		return lexer.Span{}, 0
	}
	end := i + 2
	for src.At(end).Is(".") {
		end += 2
	}
	if src.At(end).Is("(") {
		end = src.Close(end) + 1
	}
	return lexer.Span{From: i + 1, To: end}, end
}

// methodAt recognizes void name(.
func methodAt(src *lexer.Source, i int) bool {
	before := src.At(i - 1)
	return src.At(i).Kind == lexer.Word && src.At(i+1).Is("(") && (before.Kind == lexer.Word || before.Is(">") || before.Is("]")) && !before.Is("new")
}
