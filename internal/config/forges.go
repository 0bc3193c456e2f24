package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultForgeTimeout is the default of the setting timeout of a forge.
const DefaultForgeTimeout = 30 * time.Second

// Forge is a service that hosts repositories and their pull requests.
type Forge struct {
	Kind              string        `yaml:"kind" validate:"required,oneof=github gitlab gitea" doc:"Software of the forge. github includes GitHub Enterprise Server, gitea includes Forgejo."`
	URL               string        `yaml:"url" secret:"true" validate:"omitempty,serviceurl" doc:"Address of the forge's start page, such as https://git.example.com. Empty: https://github.com or https://gitlab.com."`
	Hosts             []string      `yaml:"hosts" validate:"max=20,dive,remotehost" doc:"Further hosts in the addresses of its repositories, such as that of SSH, optionally with a port. The host of url belongs to it in any case. If url begins with http, git uses the first of these, over https." example:"[ssh.git.example.com]"`
	TokenEnv          string        `yaml:"token_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains an access token."`
	TokenFile         string        `yaml:"token_file" doc:"File that contains an access token. It is read again when it changes. Overrides token_env."`
	App               ForgeApp      `yaml:"app" doc:"GitHub App to use instead of a token, for kind github."`
	WebhookSecretEnv  string        `yaml:"webhook_secret_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the secret with which the forge signs its webhooks."`
	WebhookSecretFile string        `yaml:"webhook_secret_file" doc:"File that contains this secret. Overrides webhook_secret_env."`
	Timeout           time.Duration `yaml:"timeout" default:"30s" validate:"min=1s,max=10m" doc:"Maximum duration of one request to the forge."`
	Poll              time.Duration `yaml:"poll" default:"1m" validate:"min=0,max=24h" doc:"How often the server looks for checks, comments and merges of the pull requests of runs that watch their branches (git.stay), and for what fires triggers. 0: only when a webhook arrives, once after each release, and once for a new trigger."`
	PollLimit         int           `yaml:"poll_limit" default:"120" validate:"min=3,max=10000" doc:"Maximum number of questions a minute with which the server looks for these on the forge. A look at a pull request takes three: its state, comments and checks. Each may need several requests, for example of one page each."`
}

// ForgeApp identifies a GitHub App.
type ForgeApp struct {
	ID           int64  `yaml:"id" validate:"min=0" doc:"ID of the App. 0: none; a token is used."`
	Installation int64  `yaml:"installation" validate:"min=0" doc:"ID of the App's installation. 0: the one that the repository belongs to."`
	KeyFile      string `yaml:"key_file" doc:"PEM file with a private key of the App."`
}

// Token reads the forge's access token. getenv is usually os.Getenv. The error never contains it.
func (f Forge) Token(getenv func(string) string) (string, error) {
	return readSecret("access token", f.TokenEnv, f.TokenFile, getenv)
}

// WebhookSecret reads the secret of the forge's webhooks. The error never contains it.
func (f Forge) WebhookSecret(getenv func(string) string) (string, error) {
	return readSecret("webhook secret", f.WebhookSecretEnv, f.WebhookSecretFile, getenv)
}

// readSecret reads a secret from a file or else from an environment variable.
func readSecret(what, env, file string, getenv func(string) string) (string, error) {
	var value, from string
	switch {
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("the %s cannot be read: %w", what, err)
		}
		value, from = string(data), "the file "+file
	case env != "":
		value, from = getenv(env), "the environment variable "+env
	default:
		return "", fmt.Errorf("no %s is configured", what)
	}
	value = strings.TrimSpace(value)
	switch {
	case value == "":
		return "", fmt.Errorf("the %s is missing: %s is empty", what, from)
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", fmt.Errorf("the %s in %s must be a single line without spaces", what, from)
	}
	return value, nil
}

// secrets adds the forge's secret values that can be read.
func (f Forge) secrets(getenv func(string) string, add func(string)) {
	for _, read := range []func(func(string) string) (string, error){f.Token, f.WebhookSecret} {
		if value, err := read(getenv); err == nil {
			add(value)
		}
	}
	if f.App.KeyFile == "" {
		return
	}
	key, err := os.ReadFile(f.App.KeyFile)
	if err != nil {
		return
	}
	for line := range strings.Lines(string(key)) {
		if line = strings.TrimSpace(line); len(line) >= minKeyLine && !strings.HasPrefix(line, "-----") {
			add(line)
		}
	}
}

// minKeyLine is the length of a line of a private key from which on it is hidden: the last one may
// be so short that it occurs in ordinary texts.
const minKeyLine = 16

// problems reports settings of a forge that contradict each other. key is that of the forge.
func (f Forge) problems(key string, add func(key, problem string)) {
	if f.Kind == "gitea" && f.URL == "" {
		add(key+".url", "is missing; forges of kind \"gitea\" have no default URL")
	}
	app := f.App != ForgeApp{}
	switch {
	case app && f.Kind != "github":
		add(key+".app", "is allowed only for the kind github")
	case app && (f.TokenEnv != "" || f.TokenFile != ""):
		add(key+".app", "cannot be combined with token_env or token_file; remove one of them")
	case app && f.App.ID == 0:
		add(key+".app.id", "is missing; expected the ID of the App")
	case app && f.App.KeyFile == "":
		add(key+".app.key_file", "is missing; expected the PEM file with the App's private key")
	}
}

// isServiceURL reports whether a text is the address of a service, to which paths are appended: without
// credentials, which have settings of their own.
func isServiceURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains([]string{"http", "https"}, u.Scheme) && u.Hostname() != "" && u.User == nil &&
		u.RawQuery == "" && !u.ForceQuery && !strings.Contains(s, "#") && !slices.Contains(strings.Split(u.Path, "/"), "..")
}

// isRemoteHost reports whether a text is a host name or address, optionally with a port.
func isRemoteHost(s string) bool {
	if host, port, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.Atoi(port)
		return err == nil && n >= 1 && n <= 65535 && host != "" && isHost(host)
	}
	return isHost(s)
}
