package extract

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// oneLine returns a text with each run of white space as one space, in valid UTF-8 without control
// characters, cut to MaxSignature bytes.
func oneLine(text []byte) string {
	const limit = MaxSignature
	text = text[:min(len(text), 4*limit)]
	out := make([]byte, 0, min(len(text), limit))
	space := false
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		char := text[:size]
		text = text[size:]
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError {
			space = len(out) > 0
			continue
		}
		if len(out)+size+1 > limit {
			break
		}
		if space {
			out = append(out, ' ')
			space = false
		}
		out = append(out, char...)
	}
	return string(out)
}

// trimWord returns the rest of a directive behind its word.
func trimWord(line, word string) string {
	line = strings.TrimLeft(strings.TrimPrefix(line, "#"), " \t")
	return strings.TrimLeft(strings.TrimPrefix(line, word), " \t")
}

func cutComment(text string) string {
	text, _, _ = strings.Cut(text, "//")
	text, _, _ = strings.Cut(text, "/*")
	return strings.TrimSpace(text)
}

// lineStarts returns the position of the first byte of each line.
func lineStarts(src []byte) []int {
	starts := make([]int, 1, 1+bytes.Count(src, []byte{'\n'}))
	for pos := 0; ; {
		i := bytes.IndexByte(src[pos:], '\n')
		if i < 0 || pos+i+1 == len(src) {
			return starts
		}
		pos += i + 1
		starts = append(starts, pos)
	}
}
