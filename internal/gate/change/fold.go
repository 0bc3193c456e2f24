package change

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold returns the form that all spellings of a path have in common that some file system takes for
// the same file: without case, with composed characters, without the invisible characters that macOS
// ignores, and without the trailing dots and spaces of names that Windows ignores.
func Fold(path string) string {
	if !plain(path) {
		path = strings.Map(func(r rune) rune {
			if Invisible(r) {
				return -1
			}
			return r
		}, path)
		path = norm.NFC.String(cases.Fold().String(norm.NFC.String(path)))
	} else {
		path = strings.ToLower(path)
	}
	if !strings.Contains(path, "./") && !strings.Contains(path, " /") && strings.TrimRight(path, ". ") == path {
		return path
	}
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if trimmed := strings.TrimRight(p, ". "); trimmed != "" {
			parts[i] = trimmed
		}
	}
	return strings.Join(parts, "/")
}

// Invisible reports whether a character cannot be seen, or changes how others are shown: control and
// formatting characters, such as those for the direction of writing.
func Invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector)
}

// plain reports whether a text consists of printable ASCII characters.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
