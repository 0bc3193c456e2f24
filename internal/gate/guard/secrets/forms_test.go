package secrets_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/rand/v2"
	"strings"
)

// specimen is a text with a secret. Secrets are made when the tests run, so that scanners of this
// repository find none.
type specimen struct {
	path, text string
	secret     string
}

const (
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	digits    = "0123456789"
	hexDigits = digits + "abcdef"
	alnum     = lowerCase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits
	words     = alnum + "_-"
)

// source makes random values, the same in each run with the same seed.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 1))} }

func (r source) of(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// pemOf returns a private key in PEM.
func (r source) pemOf(title string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: title, Bytes: der}))
}

func (r source) ed25519() []byte {
	key := ed25519.NewKeyFromSeed([]byte(r.of(alnum, 32)))
	der, _ := x509.MarshalPKCS8PrivateKey(key)
	return der
}

func (r source) ec() []byte {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), []byte("\x01"+r.of(alnum, 31)))
	if err != nil {
		return nil
	}
	der, _ := x509.MarshalECPrivateKey(key)
	return der
}

func (r source) jwt(subject string) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc.EncodeToString([]byte(`{"sub":"`+subject+`","iss":"auth"}`)) + "." + r.of(words, 43)
}

func wrap(s string, width int) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + "\n")
		s = s[width:]
	}
	return b.String() + s
}

// tokens are the forms that a single value has, each in a neutral line.
func tokens(r source) map[string]string {
	return map[string]string{
		"AWS key id":                 "AKIA" + r.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
		"AWS session key id":         "ASIA" + r.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
		"Google API key":             "AIza" + "Sy" + r.of(words, 33),
		"Google OAuth secret":        "GOCSPX" + "-" + r.of(words, 28),
		"Google OAuth token":         "ya29" + "." + r.of(words, 120),
		"Azure client secret":        r.of(alnum, 3) + "8Q~" + r.of(alnum, 34),
		"GitHub personal":            "ghp" + "_" + r.of(alnum, 36),
		"GitHub OAuth":               "gho" + "_" + r.of(alnum, 36),
		"GitHub user":                "ghu" + "_" + r.of(alnum, 36),
		"GitHub server":              "ghs" + "_" + r.of(alnum, 36),
		"GitHub refresh":             "ghr" + "_" + r.of(alnum, 76),
		"GitHub fine-grained":        "github" + "_pat_" + r.of(alnum, 22) + "_" + r.of(alnum, 59),
		"GitLab personal":            "glpat" + "-" + r.of(words, 20),
		"GitLab runner":              "glrt" + "-" + r.of(alnum, 20),
		"GitLab pipeline trigger":    "glptt" + "-" + r.of(hexDigits, 40),
		"Slack bot":                  "xoxb" + "-" + r.of(digits, 12) + "-" + r.of(digits, 12) + "-" + r.of(alnum, 24),
		"Slack user":                 "xoxp" + "-" + r.of(digits, 12) + "-" + r.of(digits, 12) + "-" + r.of(digits, 12) + "-" + r.of(hexDigits, 32),
		"Slack app":                  "xapp" + "-1-A" + r.of("ABCDEFGHIJ0234589", 10) + "-" + r.of(digits, 13) + "-" + r.of(hexDigits, 64),
		"Slack webhook":              "https://hooks.slack.com/" + "services/T" + r.of("ABCDEFGHIJ0234589", 10) + "/B" + r.of("ABCDEFGHIJ0234589", 10) + "/" + r.of(alnum, 24),
		"Stripe live":                "sk" + "_live_" + r.of(alnum, 24),
		"Stripe restricted":          "rk" + "_live_" + r.of(alnum, 24),
		"Stripe webhook":             "whsec" + "_" + r.of(alnum, 32),
		"Twilio":                     "SK" + r.of(hexDigits, 32),
		"SendGrid":                   "SG" + "." + r.of(words, 22) + "." + r.of(words, 43),
		"npm":                        "npm" + "_" + r.of(alnum, 36),
		"PyPI":                       "pypi" + "-AgEIcHlwaS5vcmc" + r.of(words, 80),
		"RubyGems":                   "rubygems" + "_" + r.of(hexDigits, 48),
		"Docker Hub":                 "dckr" + "_pat_" + r.of(words, 27),
		"Hugging Face":               "hf" + "_" + r.of(alnum, 34),
		"OpenAI":                     "sk" + "-" + r.of(alnum, 48),
		"OpenAI project":             "sk" + "-proj-" + r.of(words, 74) + "T3BlbkFJ" + r.of(words, 74),
		"Anthropic":                  "sk" + "-ant-api03-" + r.of(words, 93) + "AA",
		"DigitalOcean":               "dop" + "_v1_" + r.of(hexDigits, 64),
		"Telegram":                   r.of("123456789", 9) + ":AA" + r.of(words, 33),
		"Discord webhook":            "https://discord.com/" + "api/webhooks/" + r.of("123456789", 18) + "/" + r.of(words, 68),
		"JWT":                        r.jwt("user-" + r.of(digits, 6)),
		"age":                        "AGE-SECRET" + "-KEY-1" + r.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
		"Vault":                      "hvs" + "." + r.of(words, 95),
		"Shopify":                    "shpat" + "_" + r.of(hexDigits, 32),
		"Groq":                       "gsk" + "_" + r.of(alnum, 52),
		"Replicate":                  "r8" + "_" + r.of(alnum, 37),
		"Supabase":                   "sbp" + "_" + r.of(hexDigits, 40),
		"Databricks":                 "dapi" + r.of(hexDigits, 32),
		"Grafana service account":    "glsa" + "_" + r.of(alnum, 32) + "_" + r.of(hexDigits, 8),
		"Tailscale":                  "tskey" + "-auth-" + r.of(alnum, 12) + "-" + r.of(alnum, 32),
		"Terraform Cloud":            r.of(alnum, 14) + ".atlas" + "v1." + r.of(words, 67),
		"Postman":                    "PMAK" + "-" + r.of(hexDigits, 24) + "-" + r.of(hexDigits, 34),
		"Heroku":                     "HRKU" + "-AA" + r.of(words, 58),
		"Linear":                     "lin" + "_api_" + r.of(alnum, 40),
		"Figma":                      "figd" + "_" + r.of(words, 40),
		"Google OAuth refresh token": "1/" + "/0" + r.of(words, 60),
		"Doppler":                    "dp" + ".pt." + r.of(alnum, 43),
		"Atlassian":                  "ATATT3" + r.of(words, 186),
		"New Relic user key":         "NRAK" + "-" + r.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 27),
	}
}

// settings are the forms that need the text around them.
func settings(r source) map[string]specimen {
	key40, key64, hex32, hex40 := r.of(alnum+"/+", 40), r.of(alnum+"/+", 86), r.of(hexDigits, 32), r.of(hexDigits, 40)
	password, uuid := r.of(alnum, 10)+"7!x", r.of(hexDigits, 8)+"-4f1a-"+r.of(hexDigits, 4)+"-9c3b-"+r.of(hexDigits, 12)
	der := r.ed25519()
	pkcs8 := r.pemOf("PRIVATE"+" KEY", der)
	discord := "M" + r.of(alnum, 23) + "." + r.of(alnum, 6) + "." + r.of(alnum, 38)
	cases := map[string]specimen{
		"AWS secret key":         {"aws.ini", "aws_secret_access_key = " + key40 + "\n", key40},
		"Azure storage":          {"main.go", `conn := "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=` + key64 + `=="`, key64},
		"Azure service bus":      {"bus.cs", `var c = "Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccessKey=` + key40 + `abc=";`, key40},
		"Datadog":                {"run.sh", "export DD_API_KEY=" + hex32 + "\n", hex32},
		"Cloudflare":             {".env", "CLOUDFLARE_API_TOKEN=" + r.of(alnum, 30) + key40[:0] + hex40[:10] + "\n", ""},
		"Heroku UUID":            {".env", "HEROKU_API_KEY=" + uuid + "\n", uuid},
		"Twilio auth token":      {"sms.py", `twilio_auth_token = "` + hex32 + `"`, hex32},
		"Discord bot":            {"bot.js", `client.login("` + discord + `") // discord`, discord},
		"basic auth":             {"fetch.go", `u := "https://deploy:` + password + `@git.corp.io/x"`, password},
		"database URL":           {"docker-compose.yml", "  DATABASE_URL: postgres://shop:" + password + "@db.corp.io:5432/shop\n", password},
		"MongoDB URL":            {"db.js", `const url = "mongodb+srv://shop:` + r.of(alnum, 16) + `1x@cluster0.mongodb.net"`, ""},
		"Redis URL":              {"q.rb", `Redis.new(url: "redis://:` + r.of(alnum, 20) + `9@cache.corp.io")`, ""},
		"password":               {"main.py", `password = "` + password + `"`, password},
		"short password":         {"main.py", `db_password = "Sommer2024!"`, "Sommer2024!"},
		"API key":                {"conf.ts", `const apiKey = "` + r.of(alnum, 32) + `7"`, ""},
		"dotenv":                 {".env.production", "SECRET_KEY=" + r.of(alnum, 40) + "8\n", ""},
		"Rails":                  {"config/secrets.yml", "  secret_key_base: " + r.of(hexDigits, 128) + "\n", ""},
		"bearer header":          {"call.sh", `curl -H "Authorization: Bearer ` + r.of(alnum, 40) + `5" https://api.corp.io`, ""},
		"basic header":           {"call.js", `"Authorization": "Basic ` + base64.StdEncoding.EncodeToString([]byte("admin:"+password)) + `"`, ""},
		"connection string":      {"app.config", `connectionString="Server=db;Database=shop;User Id=sa;Password=` + password + `;"`, password},
		"npm login":              {".npmrc", "//registry.corp.io/:_authToken=" + uuid + "\n", uuid},
		"Docker login":           {"config.json", `{"auths":{"docker.io":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("shop:"+password)) + `"}}}`, ""},
		".netrc":                 {".netrc", "machine git.corp.io login deploy password " + password + "\n", password},
		"command line":           {"deploy.sh", "docker login -u shop --password " + password + " docker.io\n", password},
		"Google service account": {"sa.json", `{"type": "service_account", "private_key": "` + strings.ReplaceAll(pkcs8, "\n", `\n`) + `", "client_email": "a@b.iam.gserviceaccount.com"}`, ""},
		"kubeconfig":             {"kubeconfig", "users:\n- name: admin\n  user:\n    client-key-data: " + base64.StdEncoding.EncodeToString([]byte(r.pemOf("EC PRIVATE"+" KEY", r.ec()))) + "\n", ""},
		"Kubernetes secret":      {"secret.yaml", "apiVersion: v1\nkind: Secret\ntype: Opaque\ndata:\n  password: " + base64.StdEncoding.EncodeToString([]byte(password+password)) + "\n", ""},
		"JWK":                    {"jwk.json", `{"kty":"EC","crv":"P-256","d":"` + r.of(words, 43) + `"}`, ""},
		"key in DER":             {"key.b64", base64.StdEncoding.EncodeToString(der) + "\n", ""},
		"Google token in a URL":  {"ci.sh", "git clone https://x-access-token:" + "ghs" + "_" + r.of(alnum, 36) + "@github.com/a/b\n", ""},
	}
	for title, der := range map[string][]byte{
		"RSA": []byte(r.of(alnum, 600)), "EC": r.ec(), "DSA": []byte(r.of(alnum, 300)), "OPENSSH": []byte(r.of(alnum, 300)), "ENCRYPTED": []byte(r.of(alnum, 200)), "ANY": []byte(r.of(alnum, 200)),
	} {
		cases["PEM "+title] = specimen{"deploy.key", r.pemOf(title+" PRIVATE"+" KEY", der), ""}
	}
	raw := r.of(alnum, 400)
	cases["PEM encrypted"] = specimen{"k", "-----BEGIN RSA PRIVATE" + " KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n" + wrap(raw, 64) + "\n-----END RSA PRIVATE" + " KEY-----\n", ""}
	cases["PGP"] = specimen{"k.asc", "-----BEGIN PGP PRIVATE" + " KEY BLOCK-----\nVersion: GnuPG v2\n\n" + wrap(raw, 64) + "\n=abcd\n-----END PGP PRIVATE" + " KEY BLOCK-----\n", ""}
	cases["SSH2"] = specimen{"k2", "---- BEGIN SSH2 ENCRYPTED PRIVATE" + " KEY ----\nComment: \"x\"\n" + wrap(raw, 64) + "\n---- END SSH2 ENCRYPTED PRIVATE" + " KEY ----\n", ""}
	cases["PuTTY"] = specimen{"k3", "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPublic-Lines: 2\nAAAAC3Nz\nPrivate-Lines: 4\n" + wrap(raw, 64) + "\nPrivate-MAC: 00\n", ""}
	return cases
}

func escapedHex(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(`\x` + hex.EncodeToString([]byte{s[i]}))
	}
	return b.String()
}
