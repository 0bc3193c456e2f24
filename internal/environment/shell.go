package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// firstSuccess runs commands until one succeeds.
func firstSuccess(commands ...string) string {
	return strings.Join(commands, " || ")
}

// restoring runs a command that may change a file of the repository, and restores the file, because
// a setup must not appear as a change.
func restoring(file, command string) string {
	file = sandbox.Quote(file)
	return "{ kept=$(mktemp) && cp " + file + ` "$kept" && { ` + command + `; s=$?; cp "$kept" ` + file + `; rm -f "$kept"; [ "$s" -eq 0 ]; }; }`
}

// maxWords limits how many words of a repository's command are examined.
const maxWords = 60

// split splits a simple command into words. It returns false if a shell would expand the command,
// or if it consists of several commands, because its effect is then unknown.
func split(command string) ([]string, bool) {
	var out []string
	var word strings.Builder
	open, started := byte(0), false
	for n := 0; n < len(command); n++ {
		c := command[n]
		switch {
		case open != 0 && c == open:
			open = 0
		case c == '$' && open != '\'', c == '`' && open != '\'':
			return nil, false
		case open != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			open, started = c, true
		case c == '#' && !started:
			n = len(command)
		case strings.IndexByte("|&;<>()\\*?", c) >= 0:
			return nil, false
		case c == ' ' || c == '\t':
			if started {
				out = append(out, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteByte(c)
			started = true
		}
	}
	if started {
		out = append(out, word.String())
	}
	return out, open == 0 && len(out) > 0 && len(out) <= maxWords
}

// clip cuts a text to at most n bytes, between characters.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug derives a unique file name from a directory's path.
func slug(s string) string {
	short := strings.Trim(clip(notSlug.ReplaceAllString(strings.ToLower(s), "-"), 40), "-")
	if short == s {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return short + "-" + hex.EncodeToString(sum[:3])
}
