package secrets

import (
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	keyBegin  = "---- BEGIN "
	pemBegin  = "-----BEGIN "
	puttyFile = "PuTTY-User-Key-File-"
	// maxKey limits the text of one key, and minBody is that of the smallest.
	maxKey  = 32 << 10
	minBody = 40
)

// keys finds private keys in text form: PEM of all kinds, PGP, SSH2, PuTTY.
func keys(c *collector) {
	for _, begin := range []string{pemBegin, keyBegin, puttyFile} {
		for at := 0; ; {
			i := strings.Index(c.t.s[at:], begin)
			if i < 0 {
				break
			}
			from := at + i
			at = from + len(begin)
			form, to := keyAt(c.t.s, from, begin)
			if form == "" {
				continue
			}
			c.add(RulePrivateKey, form, from, to)
			at = max(at, to)
		}
	}
}

// keyAt returns the form of the private key at an offset and its end; "" if it is none.
func keyAt(s string, from int, begin string) (form string, to int) {
	rest := s[from:min(len(s), from+maxKey)]
	// A key ends where another begins, so that no text is read twice.
	if next := strings.Index(rest[len(begin):], begin); next >= 0 {
		rest = rest[:len(begin)+next]
	}
	if begin == puttyFile {
		i := strings.Index(rest, "Private-Lines")
		if i < 0 || body(rest[i:]) < minBody {
			return "", 0
		}
		return "PuTTY", from + len(rest[:i]) + 100
	}
	after := rest[len(begin):]
	title, _, ok := strings.Cut(after[:min(len(after), 100)], "----")
	if !ok || !strings.Contains(title, "PRIVATE KEY") || strings.ContainsAny(title, "\n\"'[(\\") {
		return "", 0
	}
	content := after[len(title):]
	stop := strings.Index(content, "---- END ")
	if stop < 0 {
		stop = strings.Index(content, "-----END")
	}
	whole := len(content)
	if stop >= 0 {
		content, whole = content[:stop], stop
	}
	if body(content) < minBody {
		return "", 0
	}
	form = strings.TrimSpace(title)
	if strings.Contains(content, "ENCRYPTED") {
		form += ", encrypted"
	}
	return form, from + len(begin) + len(title) + whole
}

// body returns the number of characters of base64 with which a key continues; 0 if it is something else,
// such as a regular expression or dots.
func body(s string) int {
	s = strings.NewReplacer(`\n`, "", `\r`, "", "\r", "", "\n", "", `"`, "", "'", "", "+", "", " ", "", "\t", "", "`", "", ",", "", `\`, "", ";", "", "*", "", "-", "", "#", "", "/", "").Replace(s)
	good := 0
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '=' {
			good++
		}
	}
	if good*100 < len(s)*85 || strings.Contains(s, "...") || entropy(s) < 3.5 {
		return 0
	}
	return good
}

// keysAcross finds private keys of which a change adds any line, however far it is from their begin.
func keysAcross(f change.File) []candidate {
	if f.Added() || !strings.Contains(string(f.After.Content), "PRIVATE KEY") && !strings.Contains(string(f.After.Content), puttyFile) {
		return nil
	}
	t := wholeText(telemetry.Visible(strings.ToValidUTF8(string(f.After.Content), "\uFFFD")))
	added := map[int]bool{}
	for _, l := range f.AddedLines() {
		added[l.Number] = true
	}
	for i := range t.marks {
		t.marks[i].added = added[t.marks[i].line]
	}
	c := &collector{t: t}
	keys(c)
	return c.out
}

var keystoreEnds = []string{".p12", ".pfx", ".jks", ".keystore", ".bcfks", ".kdbx", ".ppk", ".agekey"}

// keystore reports whether a file is a store of keys by its name.
func keystore(file string) bool {
	base := strings.ToLower(path.Base(file))
	return slices.Contains(keystoreEnds, path.Ext(base)) || slices.Contains([]string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "wallet.dat", "keychain.db"}, base)
}
