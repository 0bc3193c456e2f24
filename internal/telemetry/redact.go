package telemetry

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Redacted replaces a secret.
const Redacted = "[redacted]"

// Redact returns the text without secrets: registered values, values after names such as password=
// or "api_key":, tokens in known formats (OpenAI, GitHub, GitLab, Slack, AWS, Google, JWT),
// passwords in URLs, and private keys. It is idempotent, never fails, and takes time linear in the
// text. A text without secrets is returned unchanged, without a copy.
//
// Invisible characters and terminal sequences do not hide a secret. A text in which they do loses all of
// them.
func Redact(s string) string {
	if !hasInvisible(s) {
		return redactVisible(s)
	}
	seen := redactVisible(s)
	plain := withoutInvisible(withoutRests(seen))
	if redacted := redactVisible(plain); redacted != withoutInvisible(seen) {
		return redacted
	}
	return seen
}

// redactVisible is Redact for secrets that nothing invisible interrupts.
func redactVisible(s string) string {
	// A replacement by one rule can only reduce the matches of others, so this nearly always ends
	// after two rounds, and at the latest when no letters are left.
	for range maxRounds {
		next := redactOnce(s)
		if next == s {
			return s
		}
		s = next
	}
	return s
}

// RedactUnfinished is Redact for a text that is still being written: it also leaves out the end,
// which may be the beginning of a secret.
func RedactUnfinished(s string) string {
	s = withoutInvisible(s) // which would hide the beginning of a registered value
	return Redact(s[:settled(s)])
}

// settled returns the length of the beginning of a text whose secrets can be recognized, whatever
// follows: without the last word, because the formats of secrets allow no spaces, and without the
// beginning of a registered value, which may have some.
func settled(s string) int {
	end := len(s)
	for end > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:end])
		if unicode.IsSpace(r) || unicode.In(r, unspaced...) {
			break
		}
		end -= size
	}
	return registered.settled(s[:end])
}

// unspaced are the scripts that put no spaces between words. They do not occur in the formats of
// secrets.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

const maxRounds = 8

func redactOnce(s string) string {
	s = registered.redact(s)
	s = redactPEM(s)
	s = redactURLs(s)
	s = redactTokens(s)
	return redactFlags(redactAssignments(s))
}

// cuts collects the ranges to replace, from left to right without overlaps.
type cuts struct {
	text string
	out  strings.Builder
	done int // end of the copied text
}

func (c *cuts) cut(from, to int) {
	if from < c.done || from >= to || c.text[from:to] == Redacted {
		return
	}
	c.out.WriteString(c.text[c.done:from])
	c.out.WriteString(Redacted)
	c.done = to
}

func (c *cuts) result() string {
	if c.done == 0 {
		return c.text
	}
	c.out.WriteString(c.text[c.done:])
	return c.out.String()
}

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
	pemDash  = "-----"
)

// redactPEM removes private keys. A key without an end marker is removed to the end of the text,
// because a truncated log line must not show part of a key.
func redactPEM(s string) string {
	c := cuts{text: s}
	for at := 0; ; {
		i := strings.Index(s[at:], pemBegin)
		if i < 0 {
			return c.result()
		}
		begin := at + i + len(pemBegin)
		title := s[begin:min(len(s), begin+60)]
		if n := strings.Index(title, pemDash); n >= 0 {
			title = title[:n]
		}
		at = begin
		if !strings.Contains(title, "PRIVATE KEY") {
			continue
		}
		end := len(s)
		if i := strings.Index(s[begin:], pemEnd); i >= 0 {
			end = begin + i + len(pemEnd)
			if j := strings.Index(s[end:], pemDash); j >= 0 {
				end += j + len(pemDash)
			}
		}
		c.cut(begin-len(pemBegin), end)
		at = end
	}
}

// redactURLs removes the password of ://user:password@host, and a user that is
// long enough to be a token.
func redactURLs(s string) string {
	c := cuts{text: s}
	eachURLPassword(s, c.cut)
	return c.result()
}

func eachURLPassword(s string, found func(from, to int)) {
	const scheme = "://"
	for at := 0; ; {
		i := strings.Index(s[at:], scheme)
		if i < 0 {
			return
		}
		at += i + len(scheme)
		from, to := userinfo(s[at:])
		if from < to {
			found(at+from, at+to)
		}
		at += to
	}
}

const (
	tokenLength = 16  // minimum length at which a user name in a URL counts as a token
	maxUserinfo = 512 // limits the search for the end of the user information
)

// userinfo returns the range of the secret after ://, which is empty if there is none.
func userinfo(s string) (from, to int) {
	authority := s
	if i := strings.IndexAny(s, "/?# \t\r\n\"'`<>\\|"); i >= 0 {
		authority = s[:i]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		// A password may contain an unencoded slash. A port may not.
		colon := strings.IndexByte(authority, ':')
		if colon < 0 || isPort(authority[colon+1:]) {
			return 0, 0
		}
		s = s[:min(len(s), maxUserinfo)]
		if i := strings.IndexAny(s, " \t\r\n\"'`<>\\|"); i >= 0 {
			s = s[:i]
		}
		if at = strings.LastIndexByte(s, '@'); at < 0 {
			return 0, 0
		}
		return colon + 1, at
	}
	if colon := strings.IndexByte(authority[:at], ':'); colon >= 0 {
		return colon + 1, at
	}
	if at >= tokenLength {
		return 0, at
	}
	return 0, 0
}

func isPort(s string) bool { return strings.Trim(s, "0123456789") == "" }

// tokenForm is the format of one kind of token.
type tokenForm struct {
	prefix   string
	least    int // minimum number of characters after the prefix
	alphabet *[256]bool
	start    bool // the prefix is too short to count within a word
	jwt      bool // needs two dots
	digit    bool // requires a digit, which names of functions and packages lack
}

var (
	wordChars  = alphabet("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
	jwtChars   = alphabet("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
	pathChars  = alphabet("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/")
	plainChars = alphabet("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	upperChars = alphabet("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
)

func alphabet(chars string) *[256]bool {
	var out [256]bool
	for _, c := range []byte(chars) {
		out[c] = true
	}
	return &out
}

var tokenForms = []tokenForm{
	{prefix: "sk-", least: 16, alphabet: wordChars, start: true},
	{prefix: "ghp_", least: 20, alphabet: wordChars},
	{prefix: "gho_", least: 20, alphabet: wordChars},
	{prefix: "ghu_", least: 20, alphabet: wordChars},
	{prefix: "ghs_", least: 20, alphabet: wordChars},
	{prefix: "ghr_", least: 20, alphabet: wordChars},
	{prefix: "github_pat_", least: 20, alphabet: wordChars},
	{prefix: "glpat-", least: 16, alphabet: wordChars},
	{prefix: "xoxb-", least: 10, alphabet: wordChars},
	{prefix: "xoxp-", least: 10, alphabet: wordChars},
	{prefix: "xoxa-", least: 10, alphabet: wordChars},
	{prefix: "xoxs-", least: 10, alphabet: wordChars},
	{prefix: "xoxr-", least: 10, alphabet: wordChars},
	{prefix: "xapp-", least: 10, alphabet: wordChars},
	{prefix: "xoxe-", least: 20, alphabet: wordChars},
	{prefix: "dckr_pat_", least: 20, alphabet: wordChars},
	{prefix: "dckr_oat_", least: 20, alphabet: wordChars},
	{prefix: "GOCSPX-", least: 20, alphabet: wordChars},
	{prefix: "sk_live_", least: 16, alphabet: plainChars, digit: true},
	{prefix: "sk_test_", least: 16, alphabet: plainChars, digit: true},
	{prefix: "rk_live_", least: 16, alphabet: plainChars, digit: true},
	{prefix: "whsec_", least: 16, alphabet: plainChars, digit: true},
	{prefix: "npm_", least: 30, alphabet: plainChars, digit: true},
	{prefix: "pypi-AgE", least: 40, alphabet: wordChars},
	{prefix: "hf_", least: 30, alphabet: plainChars, digit: true},
	{prefix: "SG.", least: 40, alphabet: jwtChars, start: true},
	{prefix: "dop_v1_", least: 40, alphabet: wordChars},
	{prefix: "shpat_", least: 30, alphabet: plainChars, digit: true},
	{prefix: "hvs.", least: 20, alphabet: wordChars, start: true},
	{prefix: "glrt-", least: 16, alphabet: wordChars, digit: true},
	{prefix: "AGE-SECRET-KEY-", least: 40, alphabet: upperChars},
	{prefix: "hooks.slack.com/services/", least: 20, alphabet: pathChars},
	{prefix: "AKIA", least: 16, alphabet: upperChars},
	{prefix: "ASIA", least: 16, alphabet: upperChars},
	{prefix: "AIza", least: 30, alphabet: wordChars},
	{prefix: "eyJ", least: 30, alphabet: jwtChars, jwt: true},
}

// secondOfToken maps the first letter of a token to the letters that may follow it. Checking two
// letters avoids comparing with all formats.
var secondOfToken = func() (out [256]*[256]bool) {
	for _, f := range tokenForms {
		first := f.prefix[0]
		if out[first] == nil {
			out[first] = new([256]bool)
		}
		out[first][f.prefix[1]] = true
	}
	return out
}()

func redactTokens(s string) string {
	c := cuts{text: s}
	eachToken(s, func(from, to int, _ *tokenForm) { c.cut(from, to) })
	return c.result()
}

func eachToken(s string, found func(from, to int, form *tokenForm)) {
	noJWT := 0 // there is no JWT before this offset, which keeps the search linear
	for at := 0; at+1 < len(s); at++ {
		second := secondOfToken[s[at]]
		if second == nil || !second[s[at+1]] || s[at] == 'e' && at < noJWT {
			continue
		}
		form, end := tokenAt(s, at)
		switch {
		case form == nil, form.digit && !strings.ContainsAny(s[at:end], "0123456789"):
		case form.jwt && strings.Count(s[at:end], ".") < 2:
			noJWT = end
		default:
			found(at, end, form)
			at = end - 1
		}
	}
}

// tokenAt returns the format and the end of the token that starts at i, nil if there is none.
func tokenAt(s string, i int) (*tokenForm, int) {
	rest := s[i:]
	for f := range tokenForms {
		form := &tokenForms[f]
		if !strings.HasPrefix(rest, form.prefix) {
			continue
		}
		end := len(form.prefix)
		for end < len(rest) && form.alphabet[rest[end]] {
			end++
		}
		if end-len(form.prefix) < form.least || form.start && !startsWord(s, i) && !random(rest[:end]) {
			continue
		}
		return form, i + end
	}
	return nil, 0
}

// random reports whether a text looks random: «task-force-of-the-year» does not.
func random(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.ToLower(s) != s
}

// startsWord reports whether a word starts at i. The letter of an escape such as \n is not part of
// a word, because texts are often JSON within JSON.
func startsWord(s string, i int) bool {
	if i == 0 || !wordChars[s[i-1]] || s[i-1] == '-' || s[i-1] == '_' {
		return true
	}
	return i >= 2 && s[i-2] == '\\' || i >= 3 && s[i-3] == '%'
}

// RedactJSON returns a document with redacted strings, except for field names. Invalid JSON is
// returned as a redacted string.
func RedactJSON(doc json.RawMessage) json.RawMessage {
	whole := Redact(string(doc))
	clean := whole == string(doc)
	if clean && !bytes.Contains(doc, []byte(`\u`)) { // no letter is escaped
		return doc
	}
	var v any
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		if clean {
			return doc
		}
		v = whole
	}
	v, changed := redactStrings(v, "")
	if clean && !changed {
		return doc
	}
	out, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(strconv.Quote(Redacted)) // never: it came from JSON
	}
	return out
}

// minSecretDigits is the length of the shortest number that is a PIN or a password under the name of a
// secret. Shorter ones are counts.
const minSecretDigits = 4

// redactStrings redacts the strings of a decoded document, and reports whether that changed any. Strings
// and numbers under the name of a secret are redacted completely.
func redactStrings(v any, name string) (out any, changed bool) {
	switch v := v.(type) {
	case string:
		redacted := Redact(v)
		if IsSecretName(name) && v != "" {
			redacted = Redacted
		}
		return redacted, redacted != v
	case json.Number:
		if IsSecretName(name) && len(v) >= minSecretDigits {
			return Redacted, true
		}
	case []any:
		for i := range v {
			var did bool
			v[i], did = redactStrings(v[i], name)
			changed = changed || did
		}
	case map[string]any:
		for key := range v {
			var did bool
			v[key], did = redactStrings(v[key], key)
			changed = changed || did
		}
	}
	return v, changed
}
