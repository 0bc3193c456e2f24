package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Secrets are put together at run time, so that scanners of this repository
// find none.
var (
	openAI = "sk-" + strings.Repeat("aB3", 8)
	github = "ghp_" + strings.Repeat("x9Y", 12)
	aws    = "AKIA" + "IOSFODNN7EXAMPLE"
	jwt    = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N"
	slack  = "xox" + "b-123456789012-abcdef"
	pemKey = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE" + " KEY-----"
)

func TestSecretsLeaveTheText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"an OpenAI key", "key " + openAI + ".", "key [redacted]."},
		{"a project key", "sk-" + "proj-" + strings.Repeat("a_-B", 6), "[redacted]"},
		{"the field of a docstring", "181\t  :param bytes secret_key: The bytes to sign with.", "181\t  :param bytes secret_key: The bytes to sign with."},
		{"a value after the field of a docstring", ":param password: hunter2", ":param password: [redacted]"},
		{"a GitHub token", "(" + github + ")", "([redacted])"},
		{"a fine-grained GitHub token", "github_" + "pat_" + strings.Repeat("1aB_", 8), "[redacted]"},
		{"a GitLab token", "glpat" + "-abcdefghijklmnopqrst", "[redacted]"},
		{"a Slack token", slack, "[redacted]"},
		{"an AWS key id", "id=" + aws + "!", "id=[redacted]!"},
		{"a Google key", "AIza" + strings.Repeat("Sy1_", 9), "[redacted]"},
		{"a JWT", "Bearer " + jwt, "Bearer [redacted]"},
		{"a private key", "a " + pemKey + " b", "a [redacted] b"},
		{"the half of a private key", "a " + pemKey[:50], "a [redacted]"},
		{"a token after an escape", `"line\n` + github + `\n"`, `"line\n[redacted]\n"`},
		{"a key after an escape", `"line\n` + openAI + `"`, `"line\n[redacted]"`},
		{"a key after an encoded space", "?q=a%20" + openAI, "?q=a%20[redacted]"},
		{"a password in a URL", "postgres://rgpt:s3cr3t@db:5432/rgpt", "postgres://rgpt:[redacted]@db:5432/rgpt"},
		{"a password with an at sign", "postgres://u:p@ss@h/d", "postgres://u:[redacted]@h/d"},
		{"a password with a slash", "postgres://u:pa/ss@h/d", "postgres://u:[redacted]@h/d"},
		{"a password without a user", "redis://:hunter22@h", "redis://:[redacted]@h"},
		{"a token as user", "https://abcdefghij0123456789@github.com/x", "https://[redacted]@github.com/x"},
		{"a password in a variable", "DB_PASSWORD=hunter2 next", "DB_PASSWORD=[redacted] next"},
		{"a password in YAML", "password: hunter2\nuser: x", "password: [redacted]\nuser: x"},
		{"a password in JSON", `{"password":"a b\"c","user":"x"}`, `{"password":"[redacted]\"c","user":"x"}`},
		{"a key in JSON in JSON", `{"body":"{\"api_key\":\"abc123\"}"}`, `{"body":"{\"api_key\":\"[redacted]\"}"}`},
		{"a header", "Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"},
		{"a header in JSON", `"X-Api-Key": "abc"`, `"X-Api-Key": "[redacted]"`},
		{"a query", "https://h/p?access_token=abc&x=1", "https://h/p?access_token=[redacted]&x=1"},
		{"camel case", "clientSecret = 'abc'", "clientSecret = '[redacted]'"},
		{"Go code", `apiKey := "abc"`, `apiKey := "[redacted]"`},
		{"a flag", "--token=abc", "--token=[redacted]"},
		{"a token after a colon", "token: abc123XYZ", "token: [redacted]"},
		{"a Stripe key", "key sk_" + "live_" + strings.Repeat("a1B2", 6) + ".", "key [redacted]."},
		{"a secret of a Stripe webhook", "whsec" + "_" + strings.Repeat("a1B2", 8), "[redacted]"},
		{"an npm token", "//r/:_x=npm" + "_" + strings.Repeat("a1B2", 9), "//r/:_x=[redacted]"},
		{"a PyPI token", "pypi" + "-AgEIcHlwaS5vcmc" + strings.Repeat("a1B2", 9), "[redacted]"},
		{"a Hugging Face token", "hf" + "_" + strings.Repeat("a1B2", 9), "[redacted]"},
		{"a SendGrid key", "SG" + "." + strings.Repeat("a1B2", 5) + "." + strings.Repeat("a1B2", 9), "[redacted]"},
		{"a Slack webhook", "https://hooks.slack.com/" + "services/T0000/B0000/" + strings.Repeat("a1B2", 6), "https://[redacted]"},
		{"an account key", "AccountName=x;AccountKey=" + strings.Repeat("a1B2", 6) + "==;", "AccountName=x;AccountKey=[redacted];"},
		{"a secret of Rails", "secret_key_base: " + strings.Repeat("a1b2", 6), "secret_key_base: [redacted]"},
		{"a short name of a password", "DB_PASS=hunter2 MYSQL_PWD=hunter2", "DB_PASS=[redacted] MYSQL_PWD=[redacted]"},
		{"a Vault token", "hvs" + "." + strings.Repeat("a1B2", 8), "[redacted]"},
		{"a Shopify token", "shpat" + "_" + strings.Repeat("a1b2", 8), "[redacted]"},
		{"a cookie", "Set-Cookie: session=abc", "Set-Cookie: [redacted]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, telemetry.Redact(tt.in))
		})
	}
}

func TestOrdinaryTextIsNotRedacted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "hello", "run-42/step/step-001", "task-force-for-the-implementation-of-this",
		"https://github.com/rocketgpt/orchestrator", "http://127.0.0.1:8080/runs/42", "git@github.com:x/y.git",
		"prompt_tokens=1200 completion_tokens=300", `{"tokens":12,"max_tokens":5}`, "syntax error: unexpected token: }",
		"unexpected token: identifier", "https://h:8080/path@2x.png", "key: value", "monkey=banana", "the keyboard: mechanical",
		"sk-short", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "sha256:" + strings.Repeat("ab", 32),
		"a=b:c==d", ":", "=", "://", "://@", "token", "password", "2026-11-21T09:14:21Z", "ssh://git@host/x", "eyJhbGciOiJIUzI1NiJ9 is half of something",
	} {
		require.Equal(t, text, telemetry.Redact(text))
	}
}

func TestNamesThatOnlyStartLikeSecretsAreNotRedacted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"sk_test_helpers_for_payment", "def sk_live_mode_enabled_for_all():", "whsec_verify_signature_helper(x)", "npm_package_dependencies_lodash_something",
		"hf_transfer_benchmark_results_for_everything", "glrt-runner-token-handling", "pypi-server-integration-tests-of-all-versions-and-platforms",
	} {
		require.Equal(t, text, telemetry.Redact(text))
	}
}

func TestCodeAboutSecretsIsNotRedacted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"insert_deduplication_token = segment number", "token = await self.async_get_token()", "const cookie: Cookie = parse(cookieString)",
		"const cookie: SignedCookie = await parseSigned(header)", "authorization: string", "password: str | bytes, username: str", "return BasicAuth(username=username, password=password)",
		"  NODE_AUTH_TOKEN: ${{ secrets.NPM_PUBLISH_TOKEN }}", "TOKEN=$TOKEN", "originalCredentials: c.req.raw.credentials,", "password=os.environ['PW']",
		"const auth = basicAuth({ username: c.env.USERNAME, password: c.env.PASSWORD })", `"pbkdf2-password": "1.2.1",`, `"cookie": "^0.7.2"`,
		"const pemPrivateKey = await exportPEMPrivateKey(pair)", `setCookie = c.Writer.Header().Get("X")`, "password = None", "apiKey: undefined", "token := cfg.Token",
		"authorization = typing.cast(dict, x)", "func login(password string, token: &str) {", "secret: process.env.SECRET", "if token == nil {", "password=%s", "token={token}",
		"lease(K)={holder, token=(epoch,seq)}", "token=Raft index of the grant", "token=<id>",
		"self.access_token = access_token", "cookie: { secret: test_secret, prefix: 'host' },", `"cookie": [`, "BasicAuth(password=auth[0])",
	} {
		require.Equal(t, text, telemetry.Redact(text))
	}
}

func TestSecretsThatLookLikeCodeLeave(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"password = hunter", "password: Hunter", "PASSWORD=correct.horse", "secret: battery", "token=abcdefgh", "token=abcdefg", "token: hunter2", "token=(s3cr3tLongSecretValue", "token=<abc123XYZ789longsecretvalue>", "token: Abc1", "api_key = a1b2c3d4", "Authorization: Bearer options.token",
		`token = "segment"`, `"apiKey": "cfg.Token"`, "export API_TOKEN=deadbeef", "cookie: session=abcdef", "password: p4ss.w0rd", "password=!!!!", "password: my_Passw0rd",
		"DB_PASSWORD=my_secret_password", "PASSWORD=password", "export API_KEY=config.key", "SECRET_KEY=topSecret",
	} {
		require.Contains(t, telemetry.Redact(text), telemetry.Redacted, text)
	}
}

func TestRegisteredSecretsLeaveInEveryForm(t *testing.T) {
	t.Parallel()
	secret := `canary/7 "quoted" & more`
	telemetry.RegisterSecret("  "+secret+"\n", secret)
	require.Equal(t, "x [redacted] y", telemetry.Redact("x "+secret+" y"))
	require.Equal(t, "q=[redacted]", telemetry.Redact("q=canary%2F7+%22quoted%22+%26+more"))
	require.Equal(t, `"[redacted]"`, telemetry.Redact(`"canary/7 \"quoted\" \u0026 more"`))
}

func TestTheLongerOfTwoSecretsWins(t *testing.T) {
	t.Parallel()
	telemetry.RegisterSecret("canary8Short")
	telemetry.RegisterSecret("canary8ShortAndLonger")
	require.Equal(t, "[redacted]!", telemetry.Redact("canary8ShortAndLonger!"))
}

func TestPlainWordsAreNoSecrets(t *testing.T) {
	t.Parallel()
	telemetry.RegisterSecret("", "postgres", "dev", "a1b2")
	require.Equal(t, "postgres dev a1b2", telemetry.Redact("postgres dev a1b2"))
}

func TestRedactTakesLinearTime(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, part := range []string{
		"eyJ", "eyJ.", "sk-", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "://", "://a:b/", "://a@", "password=", "token: ", "=", ":", `\"`,
		"AKIA", "xoxb", `"password":"`, "password\"\"\"\"", "[redacted]", "a", "token: }",
	} {
		text := strings.Repeat(part, size/len(part))
		start := time.Now()
		telemetry.Redact(text)
		require.Less(t, time.Since(start), 5*time.Second, part)
	}
}

func TestRedactIsIdempotentForTextsThatLookLikeSecrets(t *testing.T) {
	t.Parallel()
	parts := []string{
		openAI, github, aws, jwt, slack, pemKey, "password", "token", "Authorization", "=", ":", ": ", "://", "@", "/", `"`, `\`, "'", " ",
		"\n", "Bearer ", "[redacted]", "[", "]", "a", "1", "user", "-----BEGIN ", "PRIVATE KEY", "-----", "-----END ", "eyJ", ".", ",",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 30).Draw(t, "parts"), "")
		once := telemetry.Redact(text)
		require.Equal(t, once, telemetry.Redact(once), "%q", text)
		for _, secret := range []string{openAI, github, jwt, pemKey} {
			require.NotContains(t, once, secret)
		}
	})
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{"", "password=x", "://a:b@c", openAI, pemKey, `{"token":"` + jwt + `"}`, "=[redacted]", "\xff:\xfe="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := telemetry.Redact(text)
		if twice := telemetry.Redact(once); twice != once {
			t.Fatalf("not idempotent: %q → %q → %q", text, once, twice)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	plain := strings.Repeat("level=info msg=\"step done\" run=42 phase=builder_running url=http://127.0.0.1:8080/runs/42 took=1.2s\n", 10)
	for name, text := range map[string]string{
		"short":   "step step-001 completed in 1.2s",
		"plain":   plain,
		"secrets": plain + "password=hunter2 " + github + " " + jwt,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				telemetry.Redact(text)
			}
		})
	}
}

func TestAMistakeInTheDatabasesAddressIsReported(t *testing.T) {
	t.Parallel()
	const told = "environment variable DATABASE_URL: database.url: expected a URL such as postgres://user@host:5432/name, got a value that is not shown"
	require.Equal(t, told, telemetry.Redact(told))
	for _, secret := range []string{"DATABASE_URL=postgres://u:hunter2@h/d", "database.url: postgres://u:hunter2@h/d", "DATABASE_URL: host=h password=hunter2", "database.url: u:hunter2@h"} {
		require.NotContains(t, telemetry.Redact(secret), "hunter2")
	}
}

func TestATextThatIsBeingWrittenNeverShowsTheBeginningOfASecret(t *testing.T) {
	t.Parallel()
	passphrase := "correct horse Ünïque battery " + "4711"
	telemetry.RegisterSecret(passphrase)
	for name, secret := range map[string]string{
		"an OpenAI key": openAI, "a GitHub token": github, "an AWS key id": aws, "a JWT": jwt, "a Slack token": slack,
		"a registered value with spaces": passphrase, "a private key": "MIIEow\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, text := range []string{
				"It is " + secret + " and nothing else.\n", "密钥是" + secret + "。\n", "https://user:" + secret + "@host/ is the address \n",
				"export API_TOKEN=" + secret + " ; next\n", `{"password": "` + secret + `"} ` + "\n", "\n" + secret + "\n",
			} {
				if secret == "MIIEow\nabc" {
					text = strings.ReplaceAll(text, secret, pemKey)
				}
				for end := range len(text) + 1 {
					shown := telemetry.RedactUnfinished(text[:end])
					for n := 4; n <= len(secret); n++ {
						// The prefix of a format is not secret: sk-, ghp_, xoxb-.
						require.NotContains(t, shown, secret[n-4:n+min(2, len(secret)-n)], "after %q", text[:end])
					}
				}
				require.Equal(t, strings.TrimRight(telemetry.Redact(text), "\n"), strings.TrimRight(telemetry.RedactUnfinished(text), "\n"), "the rest is shown in the end")
			}
		})
	}
}

func TestOrdinaryTextIsShownWhileItIsWrittenExceptItsLastWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                "",
		"The first wor":   "The first ",
		"The first word ": "The first word ",
		"line\nnext":      "line\n",
		"私は設定ファイルを読みます":             "私は設定ファイルを読みます",
		strings.Repeat("x", 40_000): "",
	} {
		require.Equal(t, want, telemetry.RedactUnfinished(in))
	}
}

func TestInvisibleCharactersHideNoSecret(t *testing.T) {
	t.Parallel()
	telemetry.RegisterSecret("correct horse battery")
	for name, hidden := range map[string]string{
		"a zero-width joiner": "\u200d", "a zero-width space": "\u200b", "a word joiner": "\u2060", "a soft hyphen": "\u00ad", "a byte order mark": "\ufeff",
		"a variation selector": "\ufe0f", "a tag": "\U000e0041", "a Hangul filler": "\u3164", "two of them": "\u200d\u2063", "NUL": "\x00", "a backspace": "\b",
		"a colour": "\x1b[1;31m", "a colour and its end": "\x1b[31m\x1b[0m", "a control character of C1": "\u0085",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, secret := range []string{openAI, github, aws, jwt, slack, "correct horse battery", "password=hunter22!", "postgres://rgpt:s3cr3t@db/x", "api_key: abc123XYZ"} {
				for at := 1; at < len(secret); at++ {
					text := "see " + secret[:at] + hidden + secret[at:] + " there"
					got := telemetry.Redact(text)
					require.Contains(t, got, "[redacted]", "%q", text)
					for _, rest := range []string{secret[at:], secret[:at]} {
						if len(rest) > 8 && !strings.HasPrefix(secret, "p") && !strings.HasPrefix(secret, "api") {
							require.NotContains(t, got, rest, "%q", text)
						}
					}
					for _, value := range []string{"unter22", "3cr3t", "bc123XYZ"} {
						require.NotContains(t, got, value, "%q", text)
					}
					require.Equal(t, got, telemetry.Redact(got), "%q", text)
					require.NotContains(t, telemetry.RedactUnfinished(text[:len(text)-6]), "horse")
				}
			}
		})
	}
}

func TestATextWithoutHiddenSecretsKeepsItsInvisibleCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a family \U0001f468\u200d\U0001f469 and می\u200cخواهم":           "a family \U0001f468\u200d\U0001f469 and می\u200cخواهم",
		"\U0001f468\u200d\U0001f469 password=hunter22 \x1b[1mbold\x1b[0m": "\U0001f468\u200d\U0001f469 password=[redacted] \x1b[1mbold\x1b[0m",
	} {
		require.Equal(t, want, telemetry.Redact(in))
	}
}

func TestEscapedLettersHideNoSecretInJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":"g\u0068p_` + github[4:] + `"}`:              `{"a":"[redacted]"}`,
		`{"a":"ghp_\u200d` + github[4:] + `"}`:             `{"a":"[redacted]"}`,
		`{"pass\u0077ord":"hunter2"}`:                      `{"password":"[redacted]"}`,
		`{"a":"caf\u00e9 \u003c \ud83d\ude00", "b" : 1.0}`: `{"a":"caf\u00e9 \u003c \ud83d\ude00", "b" : 1.0}`,
		`{"broken \u0041`:                                  `{"broken \u0041`,
	} {
		require.Equal(t, want, string(telemetry.RedactJSON([]byte(in))), in)
	}
}

func TestNumbersUnderTheNameOfASecretAreRedacted(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"password":123456,"a":"\u0041"}`:         `{"a":"A","password":"[redacted]"}`,
		`{"pin_token":[12345],"secret":"hunter2"}`: `{"pin_token":["[redacted]"],"secret":"[redacted]"}`,
		`{"max_tokens":4096,"a":"\u0041"}`:         `{"max_tokens":4096,"a":"\u0041"}`,
	} {
		require.Equal(t, want, string(telemetry.RedactJSON([]byte(in))), in)
	}
}

func TestSecretsAfterFlagsAndInBlocksLeaveTheText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"docker login -u x --password hunter2 host":       "docker login -u x --password [redacted] host",
		"tool --api-key 'two words' -v":                   "tool --api-key '[redacted]' -v",
		"tool --token  Abc123":                            "tool --token  [redacted]",
		"the flag --token is required":                    "the flag --token is required",
		"tool --password $PW --secret <secret> --token":   "tool --password $PW --secret <secret> --token",
		"usage: tool --api-key KEY --password-stdin a1":   "usage: tool --api-key KEY --password-stdin a1",
		"tool --token -v --password --secret":             "tool --token -v --password --secret",
		"password: |\n  hunter2\n  more\n\nuser: x":       "password: |\n  [redacted]\n\nuser: x",
		"a:\n  secret: >-\r\n    one\r\n      two\r\n  b": "a:\n  secret: >-\r\n    [redacted]\r\n  b",
		"token: | string\n  more":                         "token: | string\n  more",
		"password: |\nuser: x":                            "password: |\nuser: x",
	} {
		require.Equal(t, want, telemetry.Redact(in), "%q", in)
		require.Equal(t, want, telemetry.Redact(want), "twice")
	}
}
