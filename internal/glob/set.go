package glob

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Set is a list of patterns that matches many paths quickly. Like Match, it ignores patterns that
// Check rejects. Its zero value matches nothing. It is safe for concurrent use.
type Set struct{ patterns []setPattern }

// setPattern is a pattern and a text that each path contains that it matches.
type setPattern struct{ pattern, contains string }

// NewSet returns the set of some patterns.
func NewSet(patterns ...string) Set {
	var s Set
	for _, p := range patterns {
		if Check(p) == nil {
			s.patterns = append(s.patterns, setPattern{p, required(p)})
		}
	}
	return s
}

// Match reports whether one of the patterns matches a path.
func (s Set) Match(name string) bool {
	for _, p := range s.patterns {
		if !strings.Contains(name, p.contains) {
			continue
		}
		if ok, err := doublestar.Match(p.pattern, name); err == nil && ok {
			return true
		}
	}
	return false
}

// required returns the longest text without a special character that a path must contain to match a
// valid pattern. The slashes around ** are optional, and so are the contents of braces and brackets.
func required(pattern string) string {
	longest, depth, start := "", 0, 0
	take := func(end int) {
		if part := strings.Trim(pattern[start:max(start, end)], "/"); depth == 0 && len(part) > len(longest) {
			longest = part
		}
	}
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '{', '[':
			take(i)
			depth++
			if pattern[i] == '[' {
				// Within brackets, everything up to the first ] after the first character is literal.
				if end := classEnd(pattern, i); end > i {
					i, depth = end, depth-1
				}
			}
			start = i + 1
		case '}':
			depth--
			start = i + 1
		case '*', '?', '\\':
			take(i)
			if pattern[i] == '\\' {
				i++
			}
			start = i + 1
		}
	}
	take(len(pattern))
	return longest
}

// classEnd is the index of the ] that ends a class of characters, or -1.
func classEnd(pattern string, start int) int {
	i := start + 1
	if i < len(pattern) && (pattern[i] == '^' || pattern[i] == '!') {
		i++
	}
	for ; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return -1
}
