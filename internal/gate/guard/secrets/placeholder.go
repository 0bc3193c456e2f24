package secrets

import (
	"encoding/base64"
	"path"
	"regexp"
	"slices"
	"strings"
)

// placeholders are parts of values that stand for a secret. A random value of 40 characters has one of
// the shortest by chance once in 10,000 times.
var placeholders = []string{
	"example", "placeholder", "changeme", "change_me", "change-me", "change-this", "changethis", "change_this", "dummy", "sample", "fake", "your", "insert", "replace", "redacted",
	"foobar", "deadbeef", "lorem", "notreal", "not-real", "not_real", "notasecret", "not-a-secret", "xxxx", "****", "....", "____", "----", "0000000", "1111111", "abcdef", "1234567", "0123456",
	"987654", "qwerty", "test", "secret_here", "mytoken", "mysecret", "my-secret", "my_secret", "mypass", "supersecret", "super-secret", "super_secret",
	"hidden", "masked", "s3cr3t", "p4ssw0rd", "p@ssw0rd", "p@ssword", "passw0rd",
}

// common are passwords that protect nothing, and words in their place.
var common = []string{
	"password", "password1", "password123", "passwd", "secret", "secret1", "secret123", "admin", "admin123", "root", "postgres", "mysql", "guest", "letmein", "pass", "pass123", "pass1234",
	"foo", "bar", "baz", "hunter2hunter2", "none", "null", "true", "false", "undefined", "string", "token", "default", "welcome1", "abc123", "a1b2c3d4",
}

// placeholder reports whether a value only stands for a secret.
func placeholder(value string) bool {
	lower := strings.ToLower(value)
	if slices.Contains(common, lower) {
		return true
	}
	for _, p := range placeholders {
		if strings.Contains(lower, p) {
			return true
		}
	}
	// A value that repeats few characters is typed, not made: aB3aB3aB3.
	return len(value) >= 12 && entropy(value) < 2.6
}

// plausible reports whether what follows the prefix of a token can belong to a real one: it has digits or
// changes between upper and lower case, as random characters do.
func plausible(prefix, rest string) bool {
	switch prefix {
	case "AKIA", "ASIA", "AGE-SECRET-KEY-":
		return entropy(rest) >= 2.8
	case "hooks.slack.com/services/":
		return strings.Count(rest, "/") == 2 && strings.ContainsAny(rest, "0123456789") && entropy(rest[strings.LastIndexByte(rest, '/')+1:]) >= 3
	case "AIza":
		return len(rest) == 35 && random(rest)
	case "xoxb-", "xoxp-", "xoxa-", "xoxs-", "xoxr-", "xoxe-", "xapp-":
		return strings.ContainsAny(rest, "0123456789") && entropy(rest) >= 3
	}
	return random(rest) && entropy(rest) >= 3
}

// exampleJWT reports whether a token is a known example, or not a JSON Web Token.
func exampleJWT(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) < 3 || len(parts[2]) < 16 && len(parts) == 3 {
		return true // without a signature
	}
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || !strings.Contains(string(header), `"alg"`) {
		return true
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && (strings.Contains(string(payload), `"1234567890"`) || strings.Contains(string(payload), "example"))
}

var (
	proseEnds = []string{".md", ".mdx", ".rst", ".adoc", ".txt", ".org", ".textile"}
	// fixtures are names of directories with tests, examples and documents.
	fixtures = []string{
		"test", "tests", "testing", "testdata", "test-data", "test_data", "testfixtures", "spec", "specs", "__tests__", "__mocks__", "__fixtures__", "fixture", "fixtures",
		"mock", "mocks", "example", "examples", "sample", "samples", "doc", "docs", "demo", "demos", "e2e", "integration", "cypress", "cassettes", "snapshots", "__snapshots__", "benches", "benchmarks",
	}
	testName = regexp.MustCompile(`(?i)(?:^test[_.-]|[_.-](?:test|tests|spec|mock|fixture|e2e)s?\.[a-z0-9]+$|(?:^|[_.-])conftest\.py$)|(?:Test|Tests|Spec|IT|TestCase)\.(?:java|kt|cs|scala|swift|php|groovy)$`)
)

// fixture reports whether a file is a test, an example or a document by its path.
func fixture(file string) bool {
	dir, base := path.Split(file)
	for part := range strings.SplitSeq(strings.ToLower(dir), "/") {
		if slices.Contains(fixtures, part) || strings.HasSuffix(part, ".tests") || strings.HasSuffix(part, "-tests") || strings.HasSuffix(part, "_tests") || strings.HasSuffix(part, "-test") {
			return true
		}
	}
	lower := strings.ToLower(base)
	return slices.Contains(proseEnds, path.Ext(lower)) || testName.MatchString(base) ||
		strings.Contains(lower, ".example") || strings.Contains(lower, ".sample") || strings.Contains(lower, ".template") || strings.HasSuffix(lower, ".snap")
}
