package config

import (
	"net/url"
	"os"
	"slices"
	"strings"
)

// Secrets returns the secret values that the settings contain or refer to, which the logger
// redacts: the password of the database, the keys of model providers and of Temporal, the values of
// their headers, the credentials of registries, forges and notification channels. getenv is usually os.Getenv. Files that cannot be
// read are skipped; the code that uses them reports the error.
func (c *Config) Secrets(getenv func(string) string) []string {
	var out []string
	add := func(value string) {
		if value = strings.TrimSpace(value); value != "" {
			out = append(out, value)
		}
	}
	add(passwordOf(c.Database.URL))
	add(passwordOf(c.Git.Remote))
	if name := c.Temporal.APIKeyEnv; name != "" {
		add(getenv(name))
	}
	for _, credential := range c.Environment.Network.Credentials {
		if value, err := credential.Value(getenv); err == nil {
			add(value)
			// Tools may print the part after the scheme without the scheme.
			if _, token, ok := strings.Cut(value, " "); ok {
				add(token)
			}
		}
	}
	for _, p := range c.Models.Providers {
		p.secrets(getenv, add)
	}
	for _, f := range c.Forges {
		f.secrets(getenv, add)
	}
	for _, t := range c.Triggers {
		if token, err := t.Token(getenv); err == nil {
			add(token)
		}
		add(passwordOf(t.Repo))
	}
	for _, n := range c.Notifications {
		n.secrets(getenv, add)
	}
	return out
}

// secrets adds the provider's secret values that can be read.
func (p Provider) secrets(getenv func(string) string, add func(string)) {
	if p.APIKeyEnv != "" {
		add(getenv(p.APIKeyEnv))
	}
	if p.APIKeyFile != "" {
		if key, err := os.ReadFile(p.APIKeyFile); err == nil {
			add(string(key))
		}
	}
	add(passwordOf(p.BaseURL))
	for name, value := range p.Headers {
		if secretHeader(name) {
			add(strings.TrimPrefix(value, "Bearer "))
		}
	}
}

func passwordOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return password
}

// secretHeader reports whether a header's value is secret. Headers such as X-Title are not secret,
// and hiding their values would hide ordinary words.
func secretHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie"}, func(part string) bool { return strings.Contains(name, part) })
}
