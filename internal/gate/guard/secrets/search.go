package secrets

import (
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// search looks for secrets in the texts of one change.
type search struct {
	rules   *ruleSet
	left    int  // bytes that regular expressions may still examine
	skipped bool // they did not examine something
}

// profile says what kind of text is examined.
type profile struct {
	prose  bool // a document or a message: only certain forms count without a quote
	binary bool // not text: only formats of tokens and keys count
	lock   bool // full of hashes: only formats of tokens and keys count
	bare   bool // a file of settings, in which values need no quotes
}

// lockNames are files that tools write, which are full of hashes and URLs.
var lockNames = []string{
	"go.sum", "go.work.sum", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "deno.lock",
	"poetry.lock", "pipfile.lock", "uv.lock", "pdm.lock", "cargo.lock", "gemfile.lock", "composer.lock", "packages.lock.json",
	"gradle.lockfile", "verification-metadata.xml", "flake.lock", "pubspec.lock", "podfile.lock", "mix.lock", "modules.txt",
}

var bareEnds = []string{
	".env", ".yaml", ".yml", ".properties", ".ini", ".cfg", ".conf", ".config", ".toml", ".npmrc", ".pypirc", ".netrc", ".tfvars", ".envrc", ".sh", ".bash",
}

func profileOf(file string) profile {
	base := strings.ToLower(path.Base(file))
	p := profile{lock: slices.Contains(lockNames, base)}
	p.bare = strings.HasPrefix(base, ".env") || strings.HasPrefix(base, "dockerfile") || slices.Contains(bareEnds, path.Ext(base)) ||
		base == "credentials" || base == "kubeconfig"
	p.prose = slices.Contains(proseEnds, path.Ext(base))
	return p
}

// collector collects candidates of a text.
type collector struct {
	t    text
	how  string
	out  []candidate
	only func(from, to int) bool // if set, what counts
}

func (c *collector) add(rule, form string, from, to int) {
	line, added := c.t.added(from, to)
	if !added || c.only != nil && !c.only(from, to) {
		return
	}
	c.out = append(c.out, candidate{rule: rule, form: form, value: c.t.s[from:to], line: line, how: c.how})
}

// The ways of hiding that a message names.
const (
	howInvisible = "; invisible characters hide it"
	howJoined    = "; the string is in pieces"
	howDecoded   = "; it is encoded"
)

// text returns the candidates in a text, also in those derived from it.
func (s *search) text(t text, hidden bool, p profile) []candidate {
	if t.s == "" {
		return nil
	}
	c := &collector{t: t}
	if hidden {
		c.how = howInvisible
	}
	s.strong(c)
	if !p.binary {
		s.patterns(c, p)
	}
	if !p.binary && !p.lock {
		assigned(c, p)
		urls(c)
	}
	out := c.out
	if joined, joints := join(t); len(joints) > 0 && !p.lock {
		c := &collector{t: joined, how: howJoined, only: func(from, to int) bool {
			i, _ := slices.BinarySearch(joints, from+1)
			return i < len(joints) && joints[i] < to && random(joined.s[from:to])
		}}
		s.strong(c)
		out = append(out, c.out...)
	}
	if unescaped, ok := unescape(t); ok {
		c := &collector{t: unescaped, how: howDecoded}
		s.strong(c)
		assigned(c, p)
		out = append(out, c.out...)
	}
	if !p.lock {
		out = append(out, s.decoded(t, 0)...)
	}
	return out
}

// strong finds the formats that need nothing around them and no regular expression.
func (s *search) strong(c *collector) {
	keys(c)
	for _, k := range telemetry.FindTokens(c.t.s) {
		value := c.t.s[k.From:k.To]
		switch {
		case k.Prefix == "eyJ":
			if !exampleJWT(value) {
				c.add(RuleJWT, "JSON Web Token", k.From, k.To)
			}
		case placeholder(value[len(k.Prefix):]) || !plausible(k.Prefix, value[len(k.Prefix):]):
		default:
			c.add(RuleToken, issuer(k.Prefix), k.From, k.To)
		}
	}
}

// issuers of the formats of package telemetry.
var issuers = map[string]string{
	"sk-": "OpenAI, Anthropic or alike", "github_pat_": "GitHub", "glpat-": "GitLab", "glrt-": "GitLab runner", "xoxb-": "Slack", "xoxp-": "Slack",
	"xoxa-": "Slack", "xoxs-": "Slack", "xoxr-": "Slack", "xoxe-": "Slack", "xapp-": "Slack app", "sk_live_": "Stripe", "sk_test_": "Stripe", "rk_live_": "Stripe",
	"whsec_": "webhook secret", "npm_": "npm", "pypi-AgE": "PyPI", "hf_": "Hugging Face", "SG.": "SendGrid", "dop_v1_": "DigitalOcean", "shpat_": "Shopify",
	"hvs.": "Vault", "AGE-SECRET-KEY-": "age", "hooks.slack.com/services/": "Slack webhook", "AKIA": "AWS", "ASIA": "AWS", "AIza": "Google API key",
	"dckr_pat_": "Docker Hub", "dckr_oat_": "Docker Hub", "GOCSPX-": "Google OAuth client",
}

func issuer(prefix string) string {
	if name := issuers[prefix]; name != "" {
		return name
	}
	if strings.HasPrefix(prefix, "gh") {
		return "GitHub"
	}
	return "known token"
}

// patterns finds what the regular expressions describe, near the words of each.
func (s *search) patterns(c *collector, p profile) {
	left := maxFileRegex
	for r, windows := range s.rules.windows(c.t.s) {
		if !r.strong && p.lock {
			continue
		}
		kind := RuleCredential
		if r.strong {
			kind = RuleToken
		}
		for _, w := range windows {
			size := w.to - w.from
			if s.left < size || left < size {
				s.skipped = true
				return
			}
			s.left, left = s.left-size, left-size
			s.rules.match(r, c.t.s, w, func(from, to int) {
				value := c.t.s[from:to]
				if placeholder(value) || looksUp(value) || !r.strong && words(value) {
					return
				}
				c.add(kind, r.form, from, to)
			})
		}
	}
}
