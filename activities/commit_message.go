package activities

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// closing matches the words with which a commit message closes an issue or merge request on GitHub,
// GitLab and Gitea, and what it closes. In another tracker, that is a key such as APP-12.
var closing = regexp.MustCompile(`(?i)\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?|reopen(?:s|ed|ing)?)(?:[:,]\s*|\s+)` +
	`([(\["'*_]*(?:(?:issues?|gh|merge requests?|pull requests?)[\s-]*)?(?:[\w./-]*[#!]\d|gh-\d|https?://|(?-i:[A-Z][A-Z0-9_]+)-\d))`)

// trackerKey matches a key of another tracker alone. What begins with the name of a standard or product is none.
var (
	trackerKey = regexp.MustCompile(`^[("'*_\[]*([A-Z][A-Z0-9_]+)-\d$`)
	standards  = strings.Fields("AES AMD ANSI APNG ARM ASCII AVC AVX BASE BERT BGP BLAKE CET CLAUDE COVID CP CRC CSS CUDA CVE CWE DALLE DES DTLS ECMA " +
		"ED EN ES ETF FIPS FP GB GEMINI GHSA GLM GOST GPT GTK HEVC HMAC HTML HTTP HTTPS IEC IEEE IMAP INT IPV IPV4 IPV6 ISBN ISO JAVA " +
		"JDK JPEG JSR K8S KOI8 LATIN LLAMA LTS LZ MD MIPS MISTRAL MP MPEG MPEG2 MPEG4 NIST NTLM OAUTH PCI PEP PG PHP PKCS POP POSIX PPC PSR " +
		"QWEN RFC RIPEMD RISC RSA RTX SAE SHA SHA1 SHA2 SHA3 SMTP SOC SSE SSL TIS TLS UCS UINT USB UTC UTF V8 VP WEBGL WINDOWS X11 X509 X64 X86 XXH")
)

// mention matches the beginning of a person's or team's name.
var mention = regexp.MustCompile(`(^|\W)@(\w)`)

// skipping matches what makes CI systems skip a commit.
var skipping = regexp.MustCompile(`(?i)\[(?:skip[\s-](?:ci|actions)|(?:ci|actions)[\s-]skip|no[\s-]ci)\]|\*\*\*no_ci\*\*\*|\bskip-checks:|\[skip\s[^\]]*\]`)

// crediting matches the beginning of a line that names people as authors or reviewers of a commit, or
// looks like one that the program adds.
var crediting = regexp.MustCompile(`(?im)^[ \t]*([a-z-]+-by|on-behalf-of|cc|change-id|rgpt-[a-z-]+)([ \t]*:)`)

// defused returns a text for a commit message that is pushed, or for the title of a pull request, which
// may become one. Models and strangers write these texts, so they must not close or reopen issues when
// the commit is merged, notify people, credit them with the commit, or make CI skip it.
func defused(text string) string {
	text = printable(text)
	for skipping.MatchString(text) { // what remains of one may be another
		text = skipping.ReplaceAllStringFunc(text, func(s string) string { return strings.Trim(strings.ReplaceAll(s, ":", ""), "[]*") })
	}
	text = closing.ReplaceAllStringFunc(text, func(s string) string {
		m := closing.FindStringSubmatch(s)
		if key := trackerKey.FindStringSubmatch(m[2]); key != nil && slices.Contains(standards, key[1]) {
			return s
		}
		space := strings.TrimLeft(s[len(m[1]):len(s)-len(m[2])], ":,")
		return m[1] + ": see" + cmp.Or(space, " ") + m[2]
	})
	text = crediting.ReplaceAllString(text, "> $1$2")
	return mention.ReplaceAllString(text, "$1@ $2")
}

// withoutSecrets returns a text as printable does, without secrets. Characters that readers do not see must
// be removed first: one in a secret would keep it from being recognised.
func withoutSecrets(text string) string { return telemetry.Redact(printable(text)) }

// printable returns a text without what readers do not see, and with common spaces and ends of lines: what
// looks like a space may become one later.
func printable(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(strings.ToValidUTF8(text, "\uFFFD"))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, telemetry.Visible(text))
}
