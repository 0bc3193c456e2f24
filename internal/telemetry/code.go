package telemetry

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Source code mentions secrets far more often than it contains them, and agents and people must be
// able to read it. Therefore, values that a program looks up, types of variables, and keywords are
// not redacted.
var (
	// called: get_token(), Buffer.from(`…
	called = regexp.MustCompile(`^[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*(?:<[^>]*>?)?\(`)
	// member: options.cookie.secret, test_keys.private_keys[0]
	member = regexp.MustCompile(`^[A-Za-z_$][A-Za-z_$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][A-Za-z_$]*(?:\[[^\]]{0,20}\]?)?)+;?$`)
	// indexed: auth[0]
	indexed = regexp.MustCompile(`^[A-Za-z_$][A-Za-z_$]*\[[^\]]{1,20}\]$`)
	// named: a variable that is itself named after a secret, such as test_secret
	named = regexp.MustCompile(`^[A-Za-z]+(?:_[A-Za-z]+)+$|^[a-z]+(?:[A-Z][a-z]+)+$`)
	// typed: SecretStr, CookieOptions, Optional[str]
	typed = regexp.MustCompile(`^(?:[A-Z][a-z]+){1,4}(?:\[[\w\[\], ]*\]?|<.*)?\??$`)
	// released: a version of a package that is named after a secret
	released = regexp.MustCompile(`^[~^]?\d+(?:\.\d+){1,3}$`)
	// spoken: (epoch, <id>, Raft: the composition of a token in prose
	spoken = regexp.MustCompile(`^(?:[(<\[][A-Za-z_]{0,12}[>\])]?|[A-Z][a-z]{1,7})[.?!]?$`)
	// letters: a word
	letters = regexp.MustCompile(`^[a-z]{2,19}$`)
)

// lookups are parts of member paths that refer to a program's input or configuration.
var lookups = []string{"env", "config", "cfg", "self", "this", "opt", "arg", "req", "setting", "secret", "param", "ctx", "context", "key", "token", "credential", "password", "cookie"}

// languageWords are keywords of programming languages that can occur in place of a value.
var languageWords = []string{
	"await", "new", "async", "function", "func", "lambda", "yield", "typeof", "not", "return", "if", "await(", "const", "let", "var",
	"none", "null", "nil", "true", "false", "undefined", "optional", "required",
	"string", "str", "bytes", "byte", "int", "bool", "boolean", "number", "any", "object", "unknown", "char", "&str", "*string", "[]byte", "?string",
}

// code reports whether a value is source code that refers to a secret rather than the secret
// itself.
func code(s, name string, v value) bool {
	text := s[v.from:v.to]
	if !v.bare {
		return released.MatchString(text)
	}
	if strings.HasPrefix(text, "$") || strings.HasPrefix(text, "{") || strings.HasPrefix(text, "%") {
		return true // a placeholder: ${{ secrets.TOKEN }}, $TOKEN, {token}, %s
	}
	lower := strings.ToLower(strings.TrimRight(text, ";"))
	switch {
	case isVariable(name) && s[v.sign] == '=' && v.from == v.sign+1:
		return slices.Contains(languageWords, lower) // a file of variables or a shell, not a program
	case slices.Contains(languageWords, lower), strings.EqualFold(lower, name[strings.LastIndexByte(name, '.')+1:]):
		return true
	case called.MatchString(text), indexed.MatchString(text), named.MatchString(text) && IsSecretName(text):
		return true
	case isToken(name) && v.sign > 0 && spoken.MatchString(text):
		return true
	case !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }):
		return len(text) < 3 // "cookie": [
	case member.MatchString(text) && slices.ContainsFunc(lookups, func(l string) bool { return strings.Contains(lower, l) }):
		return true
	case isPassphrase(name):
		return false // any word may be one
	}
	if typed.MatchString(text) && strings.HasPrefix(s[v.sign:], ": ") {
		return true
	}
	// token = segment: a variable or a sentence; tokens and keys are not words.
	return strings.HasPrefix(s[v.sign:], "= ") && v.sign > 0 && s[v.sign-1] == ' ' && letters.MatchString(text)
}

// isVariable reports whether a name has the format of an environment variable.
func isVariable(name string) bool { return name == strings.ToUpper(name) }

// isToken reports whether a name is just the word token. Texts about fencing, leases or parsers use
// it, and a real token is neither short nor a word.
func isToken(name string) bool { return strings.EqualFold(name, "token") }

// isPassphrase reports whether a name denotes a secret that people choose.
func isPassphrase(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"password", "passwd", "passphrase", "secret"}, func(e string) bool { return strings.HasSuffix(name, e) })
}
