package secrets

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	ahocorasick "github.com/BobuSumisu/aho-corasick"
	"github.com/spf13/viper"
	gitleaks "github.com/zricethezav/gitleaks/v8/config"
)

// rule is a form of secrets that a regular expression describes.
type rule struct {
	form    string
	regex   *regexp.Regexp
	group   int // of the secret; 0: the first that is not empty
	entropy float64
	path    *regexp.Regexp
	allow   []*gitleaks.Allowlist
	strong  bool // the format belongs to one issuer; otherwise the text around the value says what it is
}

// ruleSet is all rules, found by their words.
type ruleSet struct {
	words  *ahocorasick.Trie
	byWord map[string][]*rule
	allow  []*gitleaks.Allowlist // for all rules
	stop   []*gitleaks.Allowlist // words that are not part of keys
}

// rules returns the rules, which are compiled once.
var rules = sync.OnceValues(func() (*ruleSet, error) {
	v := viper.New()
	v.SetConfigType("toml")
	if err := v.ReadConfig(strings.NewReader(gitleaks.DefaultConfig)); err != nil {
		return nil, fmt.Errorf("read the rules of gitleaks: %w", err)
	}
	var raw gitleaks.ViperConfig
	if err := v.Unmarshal(&raw); err != nil {
		return nil, fmt.Errorf("read the rules of gitleaks: %w", err)
	}
	config, err := raw.Translate()
	if err != nil {
		return nil, fmt.Errorf("compile the rules of gitleaks: %w", err)
	}
	set := &ruleSet{byWord: map[string][]*rule{}, allow: config.Allowlists}
	for _, id := range config.OrderedRules {
		r := config.Rules[id]
		switch {
		case id == "generic-api-key":
			set.stop = r.Allowlists // assignments replace the rule itself
		case r.Regex == nil || slices.Contains(replaced, id):
		default:
			set.add(&rule{
				form: id, regex: regexp.MustCompile(strings.ReplaceAll(r.Regex.String(), edgeOfGitleaks, edgeOfValue)), group: r.SecretGroup, entropy: r.Entropy, path: r.Path, allow: r.Allowlists,
				strong: !contextual(id, r.Regex.String()),
			}, r.Keywords)
		}
	}
	for _, f := range ownForms {
		set.add(&rule{form: f.form, regex: regexp.MustCompile(f.pattern), entropy: f.entropy, strong: !f.weak}, f.words)
	}
	words := make([]string, 0, len(set.byWord))
	for w := range set.byWord {
		words = append(words, w)
	}
	slices.Sort(words)
	set.words = ahocorasick.NewTrieBuilder().AddStrings(words).Build()
	return set, nil
})

// The end of a value in the rules of gitleaks, and here: a value may also stand in a tag, a list or a call.
const (
	edgeOfGitleaks = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)"
	edgeOfValue    = "(?:[\\x60'\"\\s;<,)\\]}&|]|\\\\[nr]|$)"
)

// replaced are rules of gitleaks that this package replaces: private keys and JSON Web Tokens are found
// without regular expressions.
var replaced = []string{"private-key", "jwt", "jwt-base64"}

func (s *ruleSet) add(r *rule, words []string) {
	for _, w := range words {
		w = strings.ToLower(w)
		s.byWord[w] = append(s.byWord[w], r)
	}
}

// contextual reports whether a rule of gitleaks needs a name in front of the value.
func contextual(id, pattern string) bool {
	return strings.HasPrefix(pattern, `(?i)[\w.-]{0,50}?`) || slices.Contains([]string{
		"curl-auth-header", "curl-auth-user", "kubernetes-secret-yaml", "nuget-config-password", "sidekiq-sensitive-url",
		"freemius-secret-key", "sourcegraph-access-token", "facebook-access-token",
	}, id)
}

// The limits of regular expressions. A window is the text around a word of a rule.
const (
	windowBefore  = 120
	windowAfter   = 700
	maxRegexBytes = 12 << 20 // of a change
	maxFileRegex  = 1 << 20  // of a file
)

// span is a part of a text.
type span struct{ from, to int }

// windows returns the parts of a text that each rule has to examine.
func (s *ruleSet) windows(text string) map[*rule][]span {
	out := map[*rule][]span{}
	for _, m := range s.words.MatchString(strings.ToLower(text)) {
		at := int(m.Pos())
		w := span{start(text, at), end(text, at+len(m.Match()))}
		for _, r := range s.byWord[m.MatchString()] {
			all := out[r]
			if n := len(all); n > 0 && w.from <= all[n-1].to {
				all[n-1].to = max(all[n-1].to, w.to)
				continue
			}
			out[r] = append(all, w)
		}
	}
	return out
}

// start returns where the window of a word at an offset begins: with its line, if that is near.
func start(text string, at int) int {
	at = min(at, len(text))
	from := max(0, at-windowBefore)
	if i := strings.LastIndexByte(text[from:at], '\n'); i >= 0 {
		return from + i + 1
	}
	return from
}

func end(text string, at int) int { return min(len(text), at+windowAfter) }

// match returns the secrets of a rule in a part of a text.
func (s *ruleSet) match(r *rule, text string, w span, found func(from, to int)) {
	part := text[w.from:w.to]
	for _, m := range r.regex.FindAllStringSubmatchIndex(part, maxMatches) {
		from, to := m[0], m[1]
		if group := secretGroup(r, m); group > 0 {
			from, to = m[2*group], m[2*group+1]
		}
		secret := part[from:to]
		if r.entropy > 0 && entropy(secret) <= r.entropy {
			continue
		}
		whole, line := part[m[0]:m[1]], lineAt(part, m[0])
		allowed := func(a *gitleaks.Allowlist) bool { return allows(a, secret, whole, line) }
		if slices.ContainsFunc(s.allow, allowed) || slices.ContainsFunc(r.allow, allowed) {
			continue
		}
		found(w.from+from, w.from+to)
	}
}

// maxMatches limits the matches of one rule in one window.
const maxMatches = 50

func secretGroup(r *rule, m []int) int {
	if r.group > 0 {
		return r.group
	}
	for g := 1; 2*g < len(m); g++ {
		if m[2*g] >= 0 && m[2*g] < m[2*g+1] {
			return g
		}
	}
	return 0
}

// allows reports whether a list of gitleaks says that a match is not a secret. Paths do not count: the
// author of a change chooses them.
func allows(a *gitleaks.Allowlist, secret, whole, line string) bool {
	target := secret
	switch a.RegexTarget {
	case "match":
		target = whole
	case "line":
		target = line
	}
	stopped, _ := a.ContainsStopWord(secret)
	matched := a.RegexAllowed(target)
	if a.MatchCondition == gitleaks.AllowlistMatchAnd {
		return len(a.Paths) == 0 && len(a.Commits) == 0 && (len(a.Regexes) == 0 || matched) && (len(a.StopWords) == 0 || stopped)
	}
	return matched || stopped
}

func lineAt(s string, at int) string {
	from := strings.LastIndexByte(s[:at], '\n') + 1
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
		return s[from : at+i]
	}
	return s[from:]
}

// entropy is that of the characters of a text, in bits for each.
func entropy(s string) float64 {
	if s == "" {
		return 0
	}
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	sum := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
