package secrets_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/secrets"
)

func judge(t require.TestingT, c change.Change) []change.Finding {
	found, err := secrets.Guard.Judge(context.Background(), c)
	require.NoError(t, err)
	return found
}

func added(path, text string) change.Change {
	return gatetest.Between(gatetest.Tree{}, gatetest.Tree{path: text})
}

func serious(found []change.Finding) (out []change.Finding) {
	for _, f := range found {
		if f.Severity != contract.SeverityMinor {
			out = append(out, f)
		}
	}
	return out
}

func TestATokenInAKnownFormatIsMajorWhereverItIsAdded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		for name, token := range tokens(newSource(seed)) {
			want := contract.SeverityMajor
			if name == "JWT" {
				want = contract.SeverityMedium
			}
			for _, line := range []string{"x := call(%q)", "see %s", "'%s',", "<a>%s</a>"} {
				text := "package x\n\n" + strings.Replace(strings.Replace(line, "%q", `"`+token+`"`, 1), "%s", token, 1) + "\nend\n"
				found := judge(t, added("src/x.go", text))
				if len(found) == 0 || found[0].Severity != want {
					t.Errorf("%s in %s: %v", name, text, found)
					continue
				}
				require.Equal(t, want, found[0].Severity, "%s in %s: %v", name, text, found)
				require.Equal(t, 3, found[0].Line, name)
				require.Equal(t, "src/x.go", found[0].Path)
			}
		}
	}
}

func TestASecretThatTheTextAroundItNamesIsFound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		for name, s := range settings(newSource(seed)) {
			found := judge(t, added(s.path, s.text))
			if len(serious(found)) == 0 {
				t.Errorf("%s (seed %d) in %s: %v", name, seed, s.text, found)
			}
		}
	}
}

func TestAHiddenTokenIsFound(t *testing.T) {
	t.Parallel()
	r := newSource(7)
	token := "ghp" + "_" + r.of(alnum, 36)
	half := len(token) / 2
	reversed := fmt.Sprintf("%x", token)
	for name, text := range map[string]string{
		"by a zero-width space":    token[:half] + "\u200b" + token[half:],
		"by many joiners":          strings.Join(strings.Split(token, ""), "\u200d"),
		"by tags":                  token[:5] + "\U000e0041" + token[5:],
		"by a colour":              token[:half] + "\x1b[31m" + token[half:],
		"in two strings of Go":     `"` + token[:half] + `" + "` + token[half:] + `"`,
		"in its prefix":            `"gh" + "p_` + token[4:] + `"`,
		"in lines of Python":       "x = ('" + token[:half] + "'\n     '" + token[half:] + "')",
		"in three of PHP":          "'" + token[:6] + "' . '" + token[6:20] + "'.'" + token[20:] + "'",
		"in a list":                `["` + token[:half] + `", "` + token[half:] + `"].join("")`,
		"in lines of JavaScript":   "`" + token[:half] + "` +\n  `" + token[half:] + "`",
		"in base64":                base64.StdEncoding.EncodeToString([]byte(token)),
		"in base64 for URLs":       base64.RawURLEncoding.EncodeToString([]byte("token " + token)),
		"in base64 twice":          base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(token)))),
		"in wrapped base64":        wrap(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("some text ", 10)+token+" end")), 64),
		"in hexadecimal":           hex.EncodeToString([]byte(token)),
		"in escapes":               `"` + escapedHex(token) + `"`,
		"in escapes of URLs":       strings.ReplaceAll(escapedHex(token), `\x`, "%"),
		"in other hexadecimal":     reversed,
		"in UTF-16":                strings.Join(strings.Split(token, ""), "\x00"),
		"in a binary file":         "\x00\x01\x02" + token + "\x00",
		"in a very long line":      strings.Repeat("var a=1;", 20_000) + token + strings.Repeat(";b()", 20_000),
		"with a comment to ignore": `x = "` + token + `" // gitleaks:allow`,
	} {
		found := judge(t, added("src/x.txt.go", text+"\n"))
		require.NotEmpty(t, found, name)
		require.Equal(t, contract.SeverityMajor, found[0].Severity, "%s: %v", name, found)
	}
	for _, path := range []string{"gitleaks.toml", "gradlew", "a.svg", "go.sum", "package-lock.json", "node_modules/x.js", "vendor/modules.txt"} {
		require.NotEmpty(t, serious(judge(t, added(path, token+"\n"))), path)
	}
}

func TestTextsAndPathsAndLinksAreExamined(t *testing.T) {
	t.Parallel()
	r := newSource(8)
	token := "ghp" + "_" + r.of(alnum, 36)
	c := change.Change{Texts: []change.Text{{Name: "commit message of step-001", Content: "Fix\n\nuse " + token}}}
	found := judge(t, c)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message, "commit message of step-001")
	found = judge(t, added("keys/"+token+".txt", "x\n"))
	require.Len(t, found, 1)
	require.Equal(t, "keys/[redacted]", found[0].Path)
	link := change.Change{Files: []change.File{{Path: "a", After: gatetest.Entry(change.ModeLink, "/x/"+token)}}}
	require.Len(t, judge(t, link), 1)
}

func TestOnlyAddedLinesCount(t *testing.T) {
	t.Parallel()
	r := newSource(9)
	token := "ghp" + "_" + r.of(alnum, 36)
	old := "a\n" + token + "\nb\n"
	require.Empty(t, judge(t, gatetest.Between(gatetest.Tree{"a.go": old}, gatetest.Tree{"a.go": old + "c\n"})))
	require.Empty(t, judge(t, gatetest.Between(gatetest.Tree{"a.go": old}, gatetest.Tree{})))
	require.Empty(t, judge(t, gatetest.Between(gatetest.Tree{"a.go": old}, gatetest.Tree{"b.go": old})))
}

func TestAMovedSecretIsMinor(t *testing.T) {
	t.Parallel()
	r := newSource(10)
	token := "ghp" + "_" + r.of(alnum, 36)
	found := judge(t, gatetest.Between(gatetest.Tree{"a.go": "x\n" + token + "\n", "b.go": "y\n"}, gatetest.Tree{"a.go": "x\n", "b.go": "y\n" + token + "\n"}))
	require.Len(t, found, 1)
	require.Equal(t, contract.SeverityMinor, found[0].Severity)
}

func TestAPrivateKeyThatIsCompletedByAChangeIsFound(t *testing.T) {
	t.Parallel()
	key := strings.Split(newSource(11).pemOf("RSA PRIVATE"+" KEY", []byte(strings.Repeat(newSource(12).of(alnum, 600), 3))), "\n")
	before := strings.Join(append(append([]string{}, key[:20]...), key[21:]...), "\n")
	found := judge(t, gatetest.Between(gatetest.Tree{"k.pem": before}, gatetest.Tree{"k.pem": strings.Join(key, "\n")}))
	require.Len(t, found, 1)
	require.Equal(t, secrets.RulePrivateKey, found[0].Rule)
}

func TestWhatOnlyLooksLikeASecretIsNotReported(t *testing.T) {
	t.Parallel()
	r := newSource(13)
	cert := strings.ReplaceAll(r.pemOf("X", []byte(r.of(alnum, 500))), "X-----", "CERTIFICATE-----")
	for name, text := range map[string]string{
		"AWS's example id":     "AKIA" + "IOSFODNN7EXAMPLE",
		"AWS's example key":    `aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"`,
		"a placeholder":        `api_key = "your-api-key-here"`,
		"x as a placeholder":   `token = "ghp_` + strings.Repeat("x", 36) + `"`,
		"zeros":                `token = "ghp_` + strings.Repeat("0", 36) + `"`,
		"an angle":             `password: <password>`,
		"a lookup":             `password = os.environ["DB_PASSWORD"]`,
		"a template":           "password: ${DB_PASSWORD}",
		"a secret of CI":       "token: ${{ secrets.NPM_TOKEN }}",
		"a hash":               "commit " + r.of(hexDigits, 40),
		"a sum":                "sha256:" + r.of(hexDigits, 64),
		"an integrity":         `"integrity": "sha512-` + r.of(alnum, 86) + `=="`,
		"a line of go.sum":     "github.com/a/b v1.2.3 h1:" + r.of(alnum, 43) + "=",
		"a UUID":               `"id": "` + r.of(hexDigits, 8) + "-1234-4abc-8def-" + r.of(hexDigits, 12) + `"`,
		"a certificate":        cert,
		"a public key":         strings.ReplaceAll(cert, "CERTIFICATE", "PUBLIC KEY"),
		"an SSH public key":    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + r.of(alnum, 43) + " a@b",
		"an image":             "data:image/png;base64,iVBORw0KGgo" + r.of(alnum, 300),
		"a marker in code":     `if strings.Contains(s, "-----BEGIN RSA PRIVATE KEY-----") {`,
		"an example key":       "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
		"a pattern":            "`-----BEGIN [A-Z ]*PRIVATE KEY-----[\\s\\S]+-----END [A-Z ]*PRIVATE KEY-----`",
		"the sample JWT":       "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
		"names of CSS":         ".sk-circle-fade-dot-animation-delay-1 { }",
		"a function":           "token := generateAccessTokenForUser(ctx, user)",
		"a label":              `passwordLabel = "Enter your password"`,
		"a key of a map":       `secretKey: "spring.datasource.password"`,
		"a URL with variables": "https://$USER:$PASSWORD@host/x",
		"a URL with words":     "postgres://user:password@localhost:5432/db",
		"a default password":   "postgres://postgres:postgres@db:5432/app",
		"a translation":        `"password": "Mot de passe"`,
		"a reference":          "passwordSecretRef: my-app-db-credentials",
		"a list of strings":    `["sk", "live", "test-mode"]`,
		"a hashed password":    `password: "$2a$10$` + r.of(alnum, 53) + `"`,
		"tokens of a model":    `max_tokens: 4096, "token": "</s>"`,
		"a header":             `"Authorization": "Bearer " + token`,
	} {
		require.Empty(t, serious(judge(t, added("src/app.go", text+"\n"))), name)
		require.Empty(t, serious(judge(t, added("config/app.yaml", text+"\n"))), name)
	}
}

func TestASecretInATestIsLessSerious(t *testing.T) {
	t.Parallel()
	r := newSource(14)
	for _, path := range []string{"x_test.go", "tests/x.py", "src/test/java/XTest.java", "a.spec.ts", "docs/setup.md", "testdata/k.pem"} {
		found := judge(t, added(path, `password = "`+r.of(alnum, 12)+`9!"`))
		require.Empty(t, serious(found), path)
		found = judge(t, added(path, r.pemOf("PRIVATE"+" KEY", r.ed25519())))
		require.Equal(t, contract.SeverityMedium, found[0].Severity, path)
		found = judge(t, added(path, "ghp"+"_"+r.of(alnum, 36)))
		require.Equal(t, contract.SeverityMajor, found[0].Severity, path)
	}
}

func TestAStoreOfKeysIsNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"secrets/keystore cert/server.p12"}, gatetest.Rules(judge(t, added("cert/server.p12", "\x30\x00"))))
}

func TestWhatIsTooLargeIsSaid(t *testing.T) {
	t.Parallel()
	c := change.Change{Files: []change.File{{Path: "big", After: change.Version{Mode: change.ModeFile, Size: 5 << 20, Unread: true, Digest: "1"}}}}
	require.Equal(t, []string{"secrets/unexamined big"}, gatetest.Rules(judge(t, c)))
	words := strings.Repeat("heroku datadog twilio facebook aws cloudflare api ", 25_000)
	require.Equal(t, []string{"secrets/unexamined"}, gatetest.Rules(judge(t, added("a.js", words))))
}

// No finding shows six or more consecutive characters of the secret.
func TestNoFindingShowsASecret(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newSource(rapid.Uint64().Draw(t, "seed"))
		all := tokens(r)
		name := rapid.SampledFrom(sorted(all)).Draw(t, "form")
		token := all[name]
		text, path := "x = \""+token+"\"\n", "a.go"
		switch rapid.IntRange(0, 4).Draw(t, "place") {
		case 1:
			text = base64.StdEncoding.EncodeToString([]byte(token))
		case 2:
			text = "db_password: " + token
		case 3:
			if !strings.Contains(token, "/") {
				text, path = "x", "a/"+token
			}
		case 4:
			text = token[:8] + "\u200b" + token[8:]
		}
		c := added(path, text)
		c.Texts = []change.Text{{Name: "message " + token, Content: token}}
		found := judge(t, c)
		require.NotEmpty(t, found)
		public := []string{"services", "rubygems_", "discord.com", "api/webhooks", "https://hooks.slack.com/", "AGE-SECRET-KEY-"}
		for _, f := range found {
			for i := 0; i+6 <= len(token); i++ {
				part := token[i : i+6]
				if !containsAny(public, part) {
					require.NotContains(t, f.Message+f.Path, part, name)
				}
			}
		}
	})
}

func TestTheGuardIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	all := settings(newSource(15))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for name, s := range all {
				if found, err := secrets.Guard.Judge(context.Background(), added(s.path, s.text)); err != nil || len(found) == 0 {
					t.Error(name, err)
				}
			}
		})
	}
	group.Wait()
}

func TestTheSameChangeHasTheSameFindings(t *testing.T) {
	t.Parallel()
	for name, s := range settings(newSource(16)) {
		first := judge(t, added(s.path, s.text))
		for range 5 {
			require.Equal(t, first, judge(t, added(s.path, s.text)), name)
		}
	}
}
