package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of decoding: of one encoded value, and of its layers.
const (
	minEncoded = 24
	maxEncoded = 64 << 10
	maxLayers  = 2
	wrappedAt  = 56 // a longer run that ends a line may continue on the next
)

// join returns a text in which adjacent string literals are one, and where the joints are.
func join(t text) (joined text, joints []int) {
	d := &derived{from: t}
	s := t.s
	for at := 0; at < len(s); {
		i := strings.IndexAny(s[at:], "\"'`")
		if i < 0 {
			break
		}
		at += i
		next := nextLiteral(s, at+1)
		if next < 0 || s[next] != s[at] && s[next] != '"' && s[next] != '\'' {
			at++
			continue
		}
		d.keep(at)
		d.replace(next+1, "")
		joints = append(joints, d.b.Len())
		at = next + 1
	}
	if len(joints) == 0 {
		return text{}, nil
	}
	return d.text(), joints
}

// nextLiteral returns the offset of the quote with which a string literal begins that is added to the one
// that ends at an offset, -1 if there is none.
func nextLiteral(s string, at int) int {
	const most = 120
	end := min(len(s), at+most)
	signs := 0
	for ; at < end; at++ {
		switch c := s[at]; {
		case c == '"' || c == '\'' || c == '`':
			if signs == 0 && s[at-1] == c {
				return -1 // an empty string, or a doubled quote
			}
			return at
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case strings.IndexByte("+.&,|~<>\\()", c) >= 0:
			if signs++; signs > 3 {
				return -1
			}
		default:
			return -1
		}
	}
	return -1
}

// unescape returns a text in which escaped characters are plain, if it has several: \x67, \u0067, %67,
// &#103;.
func unescape(t text) (text, bool) {
	const least = 6
	s := t.s
	if strings.Count(s, `\x`)+strings.Count(s, `\u00`)+strings.Count(s, "&#")+strings.Count(s, "%") < least {
		return text{}, false
	}
	d := &derived{from: t}
	found := 0
	for at := 0; at < len(s); {
		i := strings.IndexAny(s[at:], `\&%`)
		if i < 0 {
			break
		}
		at += i
		c, size := escaped(s[at:])
		if size == 0 {
			at++
			continue
		}
		d.keep(at)
		d.replace(at+size, string(c))
		at += size
		found++
	}
	if found < least {
		return text{}, false
	}
	return d.text(), true
}

// escaped returns the printable character that a text begins with in escaped form, and the length of that.
func escaped(s string) (c byte, size int) {
	digits, base, length := "", 16, 0
	switch {
	case strings.HasPrefix(s, `\x`) && len(s) >= 4:
		digits, length = s[2:4], 4
	case strings.HasPrefix(s, `\u00`) && len(s) >= 6:
		digits, length = s[4:6], 6
	case s[0] == '%' && len(s) >= 3:
		digits, length = s[1:3], 3
	case strings.HasPrefix(s, "&#"):
		end := strings.IndexByte(s[:min(len(s), 8)], ';')
		if end < 0 {
			return 0, 0
		}
		digits, base, length = s[2:end], 10, end+1
		if rest, ok := strings.CutPrefix(digits, "x"); ok {
			digits, base = rest, 16
		}
	}
	n, err := strconv.ParseUint(digits, base, 8)
	if err != nil || n < ' ' || n > '~' {
		return 0, 0
	}
	return byte(n), length
}

// decoded returns the candidates in the encoded parts of a text.
func (s *search) decoded(t text, layer int) []candidate {
	var out []candidate
	for _, r := range encodedRuns(t.s) {
		line, added := t.added(r.from, r.to)
		if !added {
			continue
		}
		plain := decode(t.s[r.from:r.to])
		if plain == "" {
			continue
		}
		if privateDER(plain) {
			out = append(out, candidate{rule: RulePrivateKey, form: "DER", value: t.s[r.from:r.to], line: line, how: howDecoded})
			continue
		}
		if !printable([]byte(plain)) {
			continue
		}
		inner := wholeText(plain)
		c := &collector{t: inner, how: howDecoded}
		s.strong(c)
		s.patterns(c, profile{lock: true})
		urls(c)
		found := c.out
		if layer+1 < maxLayers {
			found = append(found, s.decoded(inner, layer+1)...)
		}
		for i := range found {
			found[i].line, found[i].how = line, howDecoded
			found[i].value = t.s[r.from:r.to] // which is what the base may have
		}
		out = append(out, found...)
	}
	return out
}

// encodedRuns returns the parts of a text that may be base64 or hexadecimal. Lines of the same length of
// a wrapped value are one part.
func encodedRuns(s string) []span {
	var out []span
	for at := 0; at < len(s); at++ {
		if !base64Chars[s[at]] {
			continue
		}
		from, to := at, at
		for {
			begin := to
			for to < len(s) && base64Chars[s[to]] {
				to++
			}
			next := to
			for next < len(s) && (s[next] == '\n' || s[next] == '\r' || s[next] == ' ') && next-to < 40 {
				next++
			}
			if to-begin < wrappedAt || to == len(s) || s[to] != '\n' && s[to] != '\r' || next >= len(s) || !base64Chars[s[next]] || next-from > maxEncoded {
				break
			}
			to = next
		}
		for to < len(s) && s[to] == '=' {
			to++
		}
		if to-from >= minEncoded && to-from <= maxEncoded {
			out = append(out, span{from, to})
		}
		at = to
	}
	return out
}

var base64Chars = func() (out [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/_-") {
		out[c] = true
	}
	return out
}()

// decode returns what a text encodes; "" if it encodes nothing.
func decode(s string) string {
	s = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\r', '\n', '=':
			return -1
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, s)
	if len(s)%2 == 0 {
		if plain, err := hex.DecodeString(s); err == nil {
			return string(plain)
		}
	}
	if plain, err := base64.RawStdEncoding.DecodeString(s); err == nil {
		return string(plain)
	}
	return ""
}

// printable reports whether bytes are a text in ASCII.
func printable(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	for _, c := range b {
		if c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

// privateDER reports whether bytes are a private key in DER: a sequence that begins with the version 0 or
// 1, of PKCS #1, PKCS #8 or SEC 1. A certificate and a public key begin with another sequence.
func privateDER(s string) bool {
	if len(s) < 40 || s[0] != 0x30 {
		return false
	}
	at := 2
	switch s[1] {
	case 0x81:
		at = 3
	case 0x82:
		at = 4
	default:
		if s[1] >= 0x80 || int(s[1]) != len(s)-2 {
			return false
		}
	}
	return s[at] == 0x02 && s[at+1] == 0x01 && s[at+2] <= 1 && (s[at+3] == 0x30 || s[at+3] == 0x02 || s[at+3] == 0x04)
}
