package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
)

// der returns a private key in DER, encoded in base64.
func (r random) der() string { return base64.StdEncoding.EncodeToString(r.key()) }

func (r random) key() []byte {
	// An Ed25519 key can always be encoded.
	der, _ := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed([]byte(r.of(alphabets["alnum"], ed25519.SeedSize))))
	return der
}

// pem returns a private key in PEM.
func (r random) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: r.key()}))
}

// tokens are forms of secrets, by the parts that they consist of: a prefix, and random characters of
// an alphabet; if more is set, a fixed text and more characters follow.
var tokens = []struct {
	form, prefix, alphabet string
	length                 int
	rest                   string
	more                   int
}{
	{"aws", "AKIA", "base32", 16, "", 0},
	{"aws session", "ASIA", "base32", 16, "", 0},
	{"github personal", "ghp_", "alnum", 36, "", 0},
	{"github server", "ghs_", "alnum", 36, "", 0},
	{"github fine-grained", "github_pat_", "alnum", 22, "_", 59},
	{"gitlab", "glpat-", "word", 20, "", 0},
	{"gitlab runner", "glrt-", "alnum", 20, "", 0},
	{"slack app", "xapp-1-A0", "upper", 9, "-", 64},
	{"stripe", "sk_live_", "alnum", 24, "", 0},
	{"stripe restricted", "rk_live_", "alnum", 24, "", 0},
	{"sendgrid", "SG.", "word", 22, ".", 43},
	{"npm", "npm_", "alnum", 36, "", 0},
	{"pypi", "pypi-AgEIcHlwaS5vcmc", "word", 80, "", 0},
	{"rubygems", "rubygems_", "hex", 48, "", 0},
	{"docker hub", "dckr_pat_", "word", 27, "", 0},
	{"hugging face", "hf_", "alnum", 34, "", 0},
	{"openai", "sk-proj-", "alnum", 74, "T3BlbkFJ", 74},
	{"anthropic", "sk-ant-api03-", "word", 93, "AA", 0},
	{"digitalocean", "dop_v1_", "hex", 64, "", 0},
	{"age", "AGE-SECRET-KEY-1", "bech32", 58, "", 0},
	{"vault", "hvs.", "word", 95, "", 0},
	{"shopify", "shpat_", "hex", 32, "", 0},
	{"groq", "gsk_", "alnum", 52, "", 0},
	{"replicate", "r8_", "alnum", 37, "", 0},
	{"supabase", "sbp_", "hex", 40, "", 0},
	{"databricks", "dapi", "hex", 32, "", 0},
	{"grafana", "glsa_", "alnum", 32, "_", 8},
	{"tailscale", "tskey-auth-", "alnum", 12, "-", 32},
	{"postman", "PMAK-", "hex", 24, "-", 34},
	{"linear", "lin_api_", "alnum", 40, "", 0},
	{"figma", "figd_", "word", 40, "", 0},
	{"doppler", "dp.pt.", "alnum", 43, "", 0},
	{"google api", "AIzaSy", "word", 33, "", 0},
	{"google oauth client", "GOCSPX-", "word", 28, "", 0},
}

// token returns a token of one of the forms.
func (r random) token() string { return r.tokenOf(tokens[r.IntN(len(tokens))].form) }

func (r random) tokenOf(form string) string {
	for _, t := range tokens {
		if t.form != form {
			continue
		}
		value := t.prefix + r.of(alphabets[t.alphabet], t.length) + t.rest
		if t.more > 0 {
			alphabet := t.alphabet
			if t.form == "slack app" {
				value += r.of(alphabets["digits"], 13) + "-"
			}
			if t.form == "grafana" || t.form == "slack app" {
				alphabet = "hex"
			}
			value += r.of(alphabets[alphabet], t.more)
		}
		return value
	}
	return ""
}
