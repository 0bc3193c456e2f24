package secrets

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// assigned finds values that are assigned to names of secrets.
func assigned(c *collector, p profile) {
	for _, a := range telemetry.FindAssignments(c.t.s) {
		value := strings.TrimRight(c.t.s[a.From:a.To], "\r\n ")
		to := a.From + len(value)
		if !p.bare && !quoted(c.t.s, a.From) && !scheme(c.t.s, a.From) {
			continue
		}
		if inner := telemetry.FindAssignments(value); len(inner) > 0 {
			// A connection string: Server=db;Password=…
			i := inner[0]
			if secretValue(i.Name, value[i.From:i.To]) {
				c.add(RuleAssignment, "password in a connection string", a.From+i.From, a.From+i.To)
			}
			continue
		}
		name := a.Name
		if scheme(c.t.s, a.From) {
			if password, ok := basic(value); ok {
				name, value = "password", password
			}
		}
		if secretValue(name, value) {
			c.add(RuleAssignment, "assignment to a name of secrets", a.From, to)
		}
	}
}

// quoted reports whether a quote precedes a value.
func quoted(s string, at int) bool { return at > 0 && strings.IndexByte("\"'`", s[at-1]) >= 0 }

// scheme reports whether the scheme of a header precedes a value.
func scheme(s string, at int) bool {
	before := strings.ToLower(s[max(0, at-8):at])
	return strings.HasSuffix(before, "bearer ") || strings.HasSuffix(before, "basic ")
}

// basic returns the password of the credentials of a header.
func basic(value string) (password string, ok bool) {
	if plain, err := base64.StdEncoding.DecodeString(value); err == nil && printable(plain) {
		_, password, ok = strings.Cut(string(plain), ":")
	}
	return password, ok
}

// The smallest values that count: a password that a person chose, and any other secret.
const (
	minPassword = 6
	minKey      = 12
	maxValue    = 512
)

// secretValue reports whether a value that is assigned to a name of secrets is probably a real one.
func secretValue(name, value string) bool {
	lower := strings.ToLower(name)
	switch {
	case len(value) < minPassword || len(value) > maxValue, strings.ContainsAny(value, " \t<>(){}|"), !ascii(value):
		return false
	case strings.HasSuffix(lower, "cookie"), strings.Contains(value, "://"), strings.HasPrefix(lower, "public"):
		return false
	case placeholder(value), looksUp(value), words(value), uuid.MatchString(value), digest.MatchString(value):
		return false
	}
	if person(lower) {
		return classes(value) >= 2 && (len(value) >= minPassword) && !identifier.MatchString(value)
	}
	return len(value) >= minKey && random(value)
}

// person reports whether a name is that of a secret that people choose.
func person(name string) bool {
	return slices.ContainsFunc([]string{"password", "passwd", "passphrase", "pwd", "pass"}, func(e string) bool { return strings.HasSuffix(name, e) })
}

var (
	uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	// digest is a hash of a password, or a sum with the name of its algorithm.
	digest = regexp.MustCompile(`^(?:\$(?:2[aby]?|5|6|argon2\w*|pbkdf2[\w-]*|scrypt|y)\$|(?:sha(?:1|256|384|512)|md5|pbkdf2|scrypt|bcrypt)[-:$_])`)
	// identifier is a name or a key of a configuration.
	identifier = regexp.MustCompile(`^[A-Za-z]+(?:[_.:/ -]?[A-Za-z]+)*[0-9]{0,2}$`)
	// counted is a word with a number, such as password-1.
	counted = regexp.MustCompile(`^[a-zA-Z]{2,20}[-_.]?[0-9]{1,4}!?$`)
	// wordy is what consists of words: names of keys, paths, packages.
	wordy = regexp.MustCompile(`^[/.~@]?[A-Za-z][a-z]*(?:[A-Z]?[a-z]+|[-_./:@ \[\]]|[A-Z]+|[0-9]{1,2}\b)*$`)
)

// random reports whether a value looks random: it has several kinds of characters and a high entropy.
func random(value string) bool {
	switch {
	case !strings.ContainsAny(value, "0123456789"), !strings.ContainsFunc(value, unicode.IsLetter), words(value):
		return false
	case strings.Trim(strings.ToLower(value), "0123456789abcdef") == "":
		return len(value) >= 20 && entropy(value) >= 3
	}
	return entropy(value) >= 3.2
}

// words reports whether a value consists of words.
func words(value string) bool {
	if !wordy.MatchString(value) {
		return false
	}
	// A random value of letters changes between upper and lower case more often than words do.
	changes := 0
	for i := 1; i < len(value); i++ {
		if unicode.IsUpper(rune(value[i])) != unicode.IsUpper(rune(value[i-1])) {
			changes++
		}
	}
	return changes*4 <= len(value)
}

// classes counts the kinds of characters: letters, digits, others.
func classes(value string) int {
	n := 0
	for _, in := range []func(rune) bool{unicode.IsLetter, unicode.IsDigit, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }} {
		if strings.ContainsFunc(value, in) {
			n++
		}
	}
	return n
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// looksUp reports whether a value is code that refers to a secret, or a template.
func looksUp(value string) bool {
	for _, part := range []string{"${", "$(", "{{", "%(", "<%", "#{", "process.env", "os.environ", "getenv", "[redacted]", "secrets.", "env."} {
		if strings.Contains(value, part) {
			return true
		}
	}
	return value != "" && strings.IndexByte("$%<{[(*&@!", value[0]) >= 0 && !strings.ContainsAny(value[1:], "0123456789")
}

// urls finds passwords in URLs.
func urls(c *collector) {
	for _, u := range telemetry.FindPasswords(c.t.s) {
		password := c.t.s[u.From:u.To]
		before := c.t.s[max(0, u.From-100):u.From]
		user := before[strings.LastIndexAny(before, "/")+1:]
		after := c.t.s[u.To:min(len(c.t.s), u.To+60)]
		if !strings.HasPrefix(after, "@") || weakPassword(password, strings.Trim(user, ":/")) || exampleHost(after[1:]) {
			continue
		}
		c.add(RuleURL, "password in a URL", u.From, u.To)
	}
}

// weakPassword reports whether a password of a URL is a placeholder, or one that protects nothing.
func weakPassword(password, user string) bool {
	return len(password) < minPassword || placeholder(password) || looksUp(password) || strings.EqualFold(password, user) ||
		identifier.MatchString(password) && !random(password) || counted.MatchString(password) && strings.HasPrefix(strings.ToLower(password), "pass") ||
		strings.ContainsAny(password, "{}()<>[] ,:")
}

// exampleHost reports whether what follows a password is a host for examples.
func exampleHost(after string) bool {
	host := after
	if i := strings.IndexAny(after, ":/?#\"'` \n"); i >= 0 {
		host = after[:i]
	}
	host = strings.ToLower(host)
	return slices.ContainsFunc([]string{"example.com", "example.org", "example.net", "localhost", ".example", ".test", ".invalid", "127.0.0.1", "host", "foo.com", "domain.com"},
		func(e string) bool { return host == e || strings.HasSuffix(host, e) })
}
