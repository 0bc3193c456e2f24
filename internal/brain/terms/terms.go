// Package terms cuts code and prose into the terms that the brain indexes and searches. The same text
// always gives the same terms, so a term of a question equals the term of the file that it is about.
//
// An identifier gives itself and its parts: parseHTTPRequest, parse_http_request and
// ParseHTTPRequest all give parsehttprequest, pars, http and request. Common English words give
// nothing. Words of four letters or more are reduced to a stem.
package terms

import (
	"unicode"
	"unicode/utf8"
)

// Limits of a term, in bytes. Shorter and longer ones are left out.
const (
	MinLength = 2
	MaxLength = 40
)

// maxRun limits how much of an unbroken run of letters and digits is looked at: what is longer is
// data, such as text in base64.
const maxRun = 200

// splitter has the buffers of one Split. The terms that it emits are valid until the next one.
type splitter struct {
	emit  func([]byte)
	whole [MaxLength + utf8.UTFMax]byte // the identifier without its separators, in lower case
	size  int                           // of whole; MaxLength+1: too long
	part  [MaxLength + utf8.UTFMax]byte
	parts int
}

// Split calls emit with each term of a text, in the order of the text, repeated as often as it
// occurs. The slice that emit gets is valid only during the call. Split takes time linear in the
// text's length and allocates nothing per term.
func Split(text []byte, emit func(term []byte)) {
	s := splitter{emit: emit}
	for i := 0; i < len(text); {
		if !wordByte(text[i]) {
			i++
			continue
		}
		end := i
		for end < len(text) && (wordByte(text[end]) || text[end] == '_') {
			end++
		}
		if end-i <= maxRun {
			s.identifier(text[i:end])
		}
		i = end
	}
}

// wordByte says whether a byte can be part of a word. All of UTF-8 beyond ASCII can: which of it are
// letters is decided later.
func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b >= utf8.RuneSelf
}

// identifier emits the terms of a run of word bytes and underscores.
func (s *splitter) identifier(run []byte) {
	s.size, s.parts = 0, 0
	for i := 0; i < len(run); {
		if run[i] == '_' {
			i++
			continue
		}
		end := partEnd(run, i)
		s.addPart(run[i:end])
		i = end
	}
	if s.parts > 1 && s.size >= MinLength && s.size <= MaxLength {
		s.emit(s.whole[:s.size])
	}
}

// partEnd returns where the part that starts at i ends: before an underscore, where a capital follows
// a small letter or a digit, or before the last capital of ACRONYMWord.
func partEnd(run []byte, i int) int {
	j := i + 1
	for ; j < len(run) && run[j] != '_'; j++ {
		if !upper(run[j]) {
			continue
		}
		if !upper(run[j-1]) || j+1 < len(run) && lower(run[j+1]) && !pluralAcronym(run, j) {
			break
		}
	}
	return j
}

// pluralAcronym says whether the letter after run[j] is only the plural of an acronym: URLs, IDs.
func pluralAcronym(run []byte, j int) bool {
	return run[j+1] == 's' && (j+2 == len(run) || upper(run[j+2]) || run[j+2] == '_')
}

func upper(b byte) bool { return b >= 'A' && b <= 'Z' }
func lower(b byte) bool { return b >= 'a' && b <= 'z' }
func digit(b byte) bool { return b >= '0' && b <= '9' }

// addPart emits one part, and adds it to the whole.
func (s *splitter) addPart(p []byte) {
	s.parts++
	n := s.lowercase(p)
	if n == 0 {
		return
	}
	if s.size+n <= MaxLength {
		copy(s.whole[s.size:], s.part[:n])
	}
	s.size += n
	part := s.part[:n]
	if n > MaxLength || n < MinLength || stopWord(part) {
		return
	}
	letters := n
	for letters > 0 && digit(part[letters-1]) {
		letters--
	}
	if letters == 0 && n > maxNumber {
		return
	}
	if letters == n {
		s.emit(Stem(part))
		return
	}
	s.emit(part)
	if letters >= minBeforeDigits {
		s.emit(Stem(part[:letters]))
	}
}

const (
	// maxNumber is the number of digits of a number that is worth finding: 404 is, 1699999999 is not.
	maxNumber = 5
	// minBeforeDigits is the number of letters that are a term on their own before digits: http2 also
	// gives http.
	minBeforeDigits = 3
)

// lowercase writes a part in lower case to s.part, without what is not a letter or digit, and returns
// its length, which is over MaxLength if the part is too long.
func (s *splitter) lowercase(p []byte) int {
	n := 0
	for i := 0; i < len(p); {
		if n > MaxLength {
			return n
		}
		if b := p[i]; b < utf8.RuneSelf {
			if upper(b) {
				b += 'a' - 'A'
			}
			s.part[n] = b
			n, i = n+1, i+1
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n += utf8.EncodeRune(s.part[n:], unicode.ToLower(r))
		}
		i += size
	}
	return n
}
