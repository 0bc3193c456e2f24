package telemetry

import "strings"

// secretEndings are the endings of secrets' names, without - and _ and in lower case. A
// name that continues after one, such as prompt_tokens, is not a secret.
var secretEndings = []string{
	"authorization", "apikey", "accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey", "keymaterial",
	"token", "password", "passwd", "passphrase", "secret", "credential", "credentials", "cookie", "dsn",
	"databaseurl", "connectionstring", "accountkey", "sharedaccesssignature", "secretkeybase", "webhookurl", "stripekey", "authkey", "masterkey", "dbpass", "userpass", "mysqlpwd", "dbpwd", "userpwd",
}

// lastOfSecret contains the last letters of secretEndings.
var lastOfSecret = func() (out [256]bool) {
	for _, e := range secretEndings {
		last := e[len(e)-1]
		out[last], out[last-'a'+'A'] = true, true
	}
	return out
}()

const maxNameLength = 64

// IsSecretName reports whether values with this name are secret, such as api_key, Authorization,
// DB_PASSWORD and clientSecret.
func IsSecretName(name string) bool {
	if name == "" || !lastOfSecret[name[len(name)-1]] {
		return false
	}
	var buf [maxNameLength]byte
	n := 0
	for i := max(0, len(name)-maxNameLength); i < len(name); i++ {
		c := name[i]
		switch {
		case c == '-' || c == '_' || c == '.' || c == ' ':
			continue
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		buf[n] = c
		n++
	}
	for _, ending := range secretEndings {
		if n >= len(ending) && string(buf[n-len(ending):n]) == ending {
			return true
		}
	}
	return false
}

// redactAssignments removes values that follow the name of a secret: name=value, name: value,
// "name":"value", including JSON nested in JSON strings.
func redactAssignments(s string) string {
	c := cuts{text: s}
	eachAssignment(s, func(_ string, from, to int) { c.cut(from, to) })
	return c.result()
}

func eachAssignment(s string, found func(name string, from, to int)) {
	for i := 0; i < len(s); i++ {
		if s[i] != '=' && s[i] != ':' {
			continue
		}
		name := nameBefore(s, i)
		if name == "" || !IsSecretName(name) {
			continue
		}
		if from, to := blockAfter(s, i); from < to {
			found(name, from, to)
			i = to - 1
			continue
		}
		v := valueAfter(s, i)
		from, to := v.from, v.to
		if from < to && !prose(s, i, name, s[from:to]) && !code(s, name, v) {
			found(name, from, to)
			i = to - 1
		}
	}
}

// redactFlags removes values that follow a flag with the name of a secret, as in --password hunter2.
func redactFlags(s string) string {
	c := cuts{text: s}
	for at := 0; ; {
		i := strings.Index(s[at:], "--")
		if i < 0 {
			return c.result()
		}
		start := at + i + len("--")
		at = start
		for at < len(s) && wordChars[s[at]] {
			at++
		}
		if at == len(s) || s[at] != ' ' && s[at] != '\t' || !IsSecretName(s[start:at]) {
			continue
		}
		v := valueAfter(s, at)
		if text := s[v.from:v.to]; v.from < v.to && !strings.ContainsAny(text[:1], "-$<{[%*.") && (!v.bare || !placeholder(text)) {
			c.cut(v.from, v.to)
		}
		at = max(at, v.to)
	}
}

// placeholder reports whether a word after a flag belongs to a sentence or stands for a value: required,
// TOKEN.
func placeholder(text string) bool {
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz.,:;!?") == "" || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_-/") == ""
}

// blockAfter returns the block of lines that is the value after the sign at i in YAML, after | or >; an
// empty range if there is none.
func blockAfter(s string, i int) (from, to int) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(s[i+1:], " "), "|")
	if !ok {
		if rest, ok = strings.CutPrefix(strings.TrimLeft(s[i+1:], " "), ">"); !ok {
			return 0, 0
		}
	}
	head, lines, more := strings.Cut(rest, "\n")
	if !more || strings.Trim(head, "+-0123456789 \r") != "" {
		return 0, 0
	}
	at := len(s) - len(lines)
	indent := len(lines) - len(strings.TrimLeft(lines, " "))
	if indent == 0 {
		return 0, 0
	}
	from, to = at+indent, at+indent
	for line := range strings.Lines(lines) {
		text := strings.TrimRight(line, "\r\n ")
		if text != "" {
			if len(text)-len(strings.TrimLeft(text, " ")) < indent {
				break
			}
			to = at + len(text)
		}
		at += len(line)
	}
	return from, to
}

// nameBefore returns the identifier that ends before i, without quotes.
func nameBefore(s string, i int) string {
	end := i
	for end > 0 && i-end < 4 && (s[end-1] == '"' || s[end-1] == '\'' || s[end-1] == '\\' || s[end-1] == ' ') {
		end--
	}
	if end == 0 || !lastOfSecret[s[end-1]] {
		return ""
	}
	start := end
	for start > 0 && end-start < maxNameLength && (wordChars[s[start-1]] || s[start-1] == '.') {
		start--
	}
	return s[start:end]
}

// value is the position and the format of a value.
type value struct {
	sign, from, to int  // offsets of the preceding = or :, of the first byte, and after the last byte
	bare           bool // not preceded by a quote or a scheme such as Bearer
}

// valueAfter returns the value that follows the sign at i.
func valueAfter(s string, i int) value {
	from := i + 1
	if from < len(s) && (s[from] == '=' || s[from] == '>') { // := and =>
		from++
	}
	from = skipBlank(s, from)
	quote := byte(0)
	for from < len(s) && (s[from] == '\\' || s[from] == '"' || s[from] == '\'') {
		if s[from] != '\\' {
			quote = s[from]
			from++
			break
		}
		from++
	}
	begins := from
	from = skipScheme(s, from)
	to := from
	for to < len(s) && !endsValue(s[to], quote) {
		n := 0
		if mayBeInvisible(s[to]) {
			n = invisible(s[to:]) // a terminal sequence has characters that would end the value
		}
		to += max(n, 1)
	}
	return value{sign: i, from: from, to: to, bare: quote == 0 && from == begins}
}

// skipBlank skips spaces, and what is not shown.
func skipBlank(s string, from int) int {
	for from < len(s) {
		n := 0
		switch {
		case s[from] == ' ', s[from] == '\t':
			n = 1
		case mayBeInvisible(s[from]):
			n = invisible(s[from:])
		}
		if n == 0 {
			break
		}
		from += n
	}
	return from
}

// endsValue reports whether a character ends a value: in quotes, the quote or the backslash before
// an inner quote; without quotes, any separator.
func endsValue(c, quote byte) bool {
	if quote != 0 {
		return c == quote || c == '\\' || c == '\n'
	}
	switch c {
	case ' ', '\t', '\r', '\n', '"', '\'', '\\', ',', ';', '&', ')', '}', '>', '`', '|':
		return true
	}
	return false
}

// skipScheme skips the scheme of an Authorization header, which is not redacted.
func skipScheme(s string, from int) int {
	for _, scheme := range []string{"bearer ", "basic ", "token ", "apikey "} {
		if len(s)-from > len(scheme) && strings.EqualFold(s[from:from+len(scheme)], scheme) {
			return from + len(scheme)
		}
	}
	return from
}

// documents reports whether the colon at sign ends a field of a docstring, such as :param secret_key:,
// which a sentence follows.
func documents(s string, sign int, name string) bool {
	const longest = 80 // of what precedes a name on its line
	if s[sign] != ':' || !strings.HasSuffix(s[:sign], name) {
		return false
	}
	start := sign - len(name)
	before := s[max(0, start-longest):start]
	at := max(strings.LastIndex(before, ":param "), strings.LastIndex(before, ":type "))
	return at >= 0 && !strings.ContainsAny(before[at+1:], ":=\n")
}

// prose reports whether a text only mentions a token («unexpected token: }») or a setting
// («DATABASE_URL: database.url: expected a URL»). The name must be unquoted and followed by a colon
// and a space, and the value must be a short word of lower-case letters or punctuation.
func prose(s string, sign int, name, value string) bool {
	const (
		longest = 12
		signs   = "abcdefghijklmnopqrstuvwxyz(){}[]<>:*+/%.!?^#~$@_-"
	)
	if strings.EqualFold(name, "DATABASE_URL") || strings.EqualFold(name, "database.url") {
		return !strings.ContainsAny(value, "/=@") // a word of a message, not an address
	}
	if documents(s, sign, name) && strings.HasPrefix(s[sign:], ": ") && len(value) <= longest {
		return strings.Trim(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:`.") == ""
	}
	bare := strings.EqualFold(name, "token") && s[sign-1] != '"' && s[sign-1] != '\''
	return bare && strings.HasPrefix(s[sign:], ": ") && len(value) <= longest && strings.Trim(value, signs) == ""
}
