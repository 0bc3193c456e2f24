package modelclient

import (
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// scrubber removes a provider's secrets from texts: its key, the user name and password
// of its address, the values of its headers.
type scrubber struct{ replace *strings.Replacer }

// minSecretLength is the minimum length of a secret; shorter values would break up ordinary words.
const minSecretLength = 4

// keyLike matches keys that a provider quotes in part, as in sk-abc…***xyz.
var keyLike = regexp.MustCompile(`\b(sk|pk|rk|gsk|xai|AIza)[-_][\w.*…-]{6,}|\bAIza[\w-]{20,}`)

const redacted = "[redacted]"

func newScrubber(p model.Provider, key string) *scrubber {
	secrets := []string{key}
	if u, err := url.Parse(p.BaseURL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, u.User.String(), u.User.Username(), password,
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	}
	for _, v := range p.Headers {
		secrets = append(secrets, v)
	}
	for _, s := range slices.Clone(secrets) {
		secrets = append(secrets, url.QueryEscape(s), url.PathEscape(s))
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // longest first: a secret may contain another one
	var pairs []string
	for _, s := range slices.Compact(secrets) {
		if len(s) >= minSecretLength {
			pairs = append(pairs, s, redacted)
		}
	}
	return &scrubber{replace: strings.NewReplacer(pairs...)}
}

// clean returns a text without secrets.
func (s *scrubber) clean(text string) string {
	return keyLike.ReplaceAllString(s.replace.Replace(text), redacted)
}

// cause returns an error that is safe to store: the text of err without secrets and without the
// request's URL. The error itself is dropped, because it could be printed later with everything it
// contains.
func (s *scrubber) cause(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return errors.New(s.clean(err.Error()))
}
