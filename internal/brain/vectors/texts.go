// Package vectors finds the files of a repository whose embeddings are close to a question's. It decides
// which texts are embedded, and keeps their vectors in a compact form.
package vectors

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
)

const (
	// MaxTexts is the number of texts of a file that are embedded.
	MaxTexts = 8
	// maxText is the number of bytes of a text: small models read only the beginning of a longer one.
	maxText = 400
	// maxIntroduction is the number of bytes of a file's first comment that its first text has, and
	// maxBefore is how far from the beginning of the file that comment may begin.
	maxIntroduction, maxBefore = 133, 600
)

// Texts returns the texts of a file that are embedded, at least one and at most MaxTexts: one with its
// path, its first comment and the names that it defines, and one for each of its first chunks, with the
// name of a definition and the comments and texts in quotes. Models that were trained on prose find more
// by these than by code.
func Texts(path string, content []byte) []string {
	e := extract.File(path, content)
	out := []string{fileText(path, content, &e)}
	name := words(path[strings.LastIndexByte(path, '/')+1:])
	lines, prose := lineStarts(content), e.Prose
	for _, c := range e.Chunks {
		if len(out) == MaxTexts {
			break
		}
		from, to := lines[min(c.Line, len(lines))-1], len(content)
		if c.EndLine < len(lines) {
			to = lines[c.EndLine]
		}
		for len(prose) > 0 && prose[0].End <= from {
			prose = prose[1:]
		}
		n := 0
		for n < len(prose) && prose[n].Start < to {
			n++
		}
		out = append(out, cut(name+": "+words(c.Symbol)+". "+plain(content, prose[:n], maxText)))
	}
	return out
}

// fileText is the text about a file as a whole.
func fileText(path string, content []byte, e *extract.Extract) string {
	var b strings.Builder
	b.WriteString(words(path) + "\n")
	if len(e.Prose) > 0 && e.Prose[0].Start < maxBefore {
		b.WriteString(plain(content, e.Prose[:1], maxIntroduction) + "\n")
	}
	for _, s := range e.Symbols {
		if b.Len() > maxText {
			break
		}
		b.WriteString(words(s.Name) + ", ")
	}
	return cut(b.String())
}

// plain returns the first words of comments and texts in quotes, without the characters that mark them.
func plain(content []byte, spans []extract.Span, most int) string {
	var b strings.Builder
	for _, p := range spans {
		if b.Len() >= most {
			break
		}
		for _, w := range bytes.FieldsFunc(content[p.Start:min(p.End, p.Start+2*most)], marks) {
			b.Write(w)
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(validText(b.String()[:min(b.Len(), most)]))
}

// marks says which characters separate the words of a comment.
func marks(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`/*#"-<>=`, r) }

// words separates the words of names and paths by spaces.
func words(name string) string {
	var b strings.Builder
	last := ' '
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case unicode.IsUpper(r) && last != ' ':
			next, _ := utf8.DecodeRuneInString(name[i+utf8.RuneLen(r):])
			if unicode.IsLower(last) || unicode.IsDigit(last) || unicode.IsLower(next) {
				b.WriteByte(' ')
			}
		}
		if r != ' ' || last != ' ' {
			b.WriteRune(r)
		}
		last = r
	}
	return strings.TrimSpace(b.String())
}

func lineStarts(src []byte) []int {
	at := []int{0}
	for i, c := range src {
		if c == '\n' && i+1 < len(src) {
			at = append(at, i+1)
		}
	}
	return at
}

func cut(s string) string { return validText(s[:min(len(s), maxText)]) }

func validText(s string) string { return strings.ToValidUTF8(s, "") }
