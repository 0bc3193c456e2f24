package telemetry

import (
	"strings"
	"unicode/utf8"
)

// hasInvisible reports whether a text contains anything that is not shown.
func hasInvisible(s string) bool {
	for i := 0; i < len(s); i++ {
		if mayBeInvisible(s[i]) && invisible(s[i:]) > 0 {
			return true
		}
	}
	return false
}

// mayBeInvisible reports whether something invisible can start with a byte.
func mayBeInvisible(c byte) bool { return c < ' ' || c >= 0x7f }

// invisible returns the length of what a text begins with that is not shown: a character that Unicode
// says to ignore, such as a zero-width joiner, a control character, or a terminal sequence, such as one
// that sets a colour. It returns 0 if the text begins with something else.
func invisible(s string) int {
	switch c := s[0]; {
	case c == '\t', c == '\n', c == '\r':
		return 0
	case c == 0x1b && len(s) > 1 && s[1] == '[':
		for i := 2; i < len(s); i++ {
			if s[i] < ' ' || s[i] > '~' {
				return i // broken off
			}
			if s[i] >= '@' {
				return i + 1
			}
		}
		return len(s)
	case c < ' ', c == 0x7f:
		return 1
	case c < utf8.RuneSelf:
		return 0
	}
	if r, size := utf8.DecodeRuneInString(s); ignorable(r) {
		return size
	}
	return 0
}

// ignorable reports whether a character beyond ASCII is one that is not shown by itself: Unicode's
// Default_Ignorable_Code_Point, the control characters C1, and the format characters of some scripts, which
// are removed wherever a text is shown, so that what they separate would become a secret again.
func ignorable(r rune) bool {
	switch {
	case r >= 0x80 && r <= 0x9f, r == 0xad, r == 0x34f, r == 0x61c,
		r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r >= 0x180b && r <= 0x180f,
		r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r == 0x3164, r >= 0xfe00 && r <= 0xfe0f, r == 0xfeff, r == 0xffa0, r >= 0xfff0 && r <= 0xfffb,
		r >= 0x600 && r <= 0x605, r == 0x6dd, r == 0x70f, r == 0x890, r == 0x891, r == 0x8e2, r == 0x110bd, r == 0x110cd, r >= 0x13430 && r <= 0x1343f,
		r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// withoutInvisible returns a text without what is not shown.
func withoutInvisible(s string) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(s); {
		n := 0
		if mayBeInvisible(s[i]) {
			n = invisible(s[i:])
		}
		if n == 0 {
			i++
			continue
		}
		out.WriteString(s[done:i])
		i += n
		done = i
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// withoutRests removes what continues a redacted secret after something invisible.
func withoutRests(s string) string {
	var out strings.Builder
	for {
		i := strings.Index(s, Redacted)
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		i += len(Redacted)
		out.WriteString(s[:i])
		s = s[i:]
		for hidden := false; s != ""; {
			n := 0
			if mayBeInvisible(s[0]) {
				n = invisible(s)
			}
			hidden = hidden || n > 0
			if n == 0 && hidden && pathChars[s[0]] {
				n = 1
			}
			if n == 0 {
				break
			}
			s = s[n:]
		}
	}
}
