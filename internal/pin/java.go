package pin

import (
	"path"
	"regexp"
	"strings"
)

var javaTest = regexp.MustCompile(`(^Test\w*|Tests?|TestCase|IT|Spec)\.(java|kt)$`)

// javaLanguage is Java and Kotlin.
var javaLanguage = language{
	name: "java", extensions: []string{".java", ".kt"}, ignoreHelpers: true,
	runs: func(p string) bool {
		return javaTest.MatchString(path.Base(p)) || strings.Contains("/"+p, "/src/test/")
	},
	parse: func(s *suite, data []byte) {
		parseAnnotated(s, scanBraces(data, dialect{triple: true}), annotated{
			attribute: javaAnnotation, function: javaMethod, catches: true, voidTests: true,
		})
	},
}

// javaAnnotation takes @Test and @Disabled("why").
func javaAnnotation(src *source, i int) (span, int) {
	if !src.at(i).is("@") || src.at(i+1).kind != word || src.at(i+1).is("interface") {
		return span{}, 0
	}
	end := i + 2
	for src.at(end).is(".") {
		end += 2
	}
	if src.at(end).is("(") {
		end = src.close(end) + 1
	}
	return span{i + 1, end}, end
}

// javaMethod recognizes void name(.
func javaMethod(src *source, i int) bool {
	before := src.at(i - 1)
	return src.at(i).kind == word && src.at(i+1).is("(") && (before.kind == word || before.is(">") || before.is("]")) && !before.is("new")
}
