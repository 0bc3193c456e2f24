package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/go-playground/validator/v10"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/proxy"
)

// form is a rule for texts, with a description of valid texts for messages.
type form struct {
	expected string
	ok       func(string) bool
}

var (
	namePattern      = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	imagePattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./:@-]*$`)
	envNamePattern   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	headerPattern    = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
	refPrefixPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*(/[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)*/?$`)
	addressPattern   = regexp.MustCompile(`^[^@\s<>,;"]+@[^@\s<>,;"]+$`)
)

var forms = map[string]form{
	"name":        {"a name that begins with a letter and contains only lower-case letters, digits, - and _", namePattern.MatchString},
	"envname":     {"the name of an environment variable, not its value", envNamePattern.MatchString},
	"headername":  {"the name of an HTTP header", headerPattern.MatchString},
	"headervalue": {"an HTTP header value on one line", func(s string) bool { return !strings.ContainsAny(s, "\r\n\x00") }},
	"refprefix":   {"a git branch name prefix such as rgpt/run-", isRefPrefix},
	"person":      {"a name without <, > or line breaks", func(s string) bool { return !strings.ContainsAny(s, "<>\r\n\x00") }},
	"address":     {"an e-mail address", addressPattern.MatchString},
	"contact":     {"an e-mail address or an https URL", isContact},
	"servicehost": {"a host such as push.example.com, *.example.com or push.example.com:8443", isServiceHost},
	"hostport":    {"a host and port such as 127.0.0.1:7233", func(s string) bool { return isHostPort(s, 1) && !strings.HasPrefix(s, ":") }},
	"host":        {"a host name or address without a port", isHost},
	"listen":      {"an address and port such as 127.0.0.1:8080", func(s string) bool { return isHostPort(s, 0) }},
	"httpurl":     {"an http or https URL", func(s string) bool { return isURL(s, "http", "https") }},
	"mention":     {"a word such as @rgpt", func(s string) bool { return !strings.ContainsFunc(s, unicode.IsSpace) }},
	"remotehost":  {"a host such as ssh.example.com or git.example.com:2222", isRemoteHost},
	"serviceurl":  {"an http or https URL without credentials, a query or a fragment", isServiceURL},
	"packageglob": {"a pattern such as @acme/* or corp.example/*, without commas and spaces", isPackageGlob},
	"storeurl":    {"a URL such as s3://bucket or file:///path", isStoreURL},
	"postgresurl": {"a URL such as postgres://user@host:5432/name", func(s string) bool { return isURL(s, "postgres", "postgresql") }},
	"urisource":   {"a URI or path without spaces, such as /rgpt,", func(s string) bool { u, err := url.Parse(s); return err == nil && u.String() == s }},
	"hostpattern": {"a host such as packages.example.com, *.example.com or example.com:8443", isHostPattern},
	"privatehost": {"a host name, not an address, such as nexus.example.com, *.example.com or nexus.example.com:8443", isPrivateHost},
	"variable":    {"the name of an environment variable that does not affect which programs are loaded", isVariable},
	"homepath":    {"a directory in the home directory, such as ~/.npm", func(s string) bool { _, ok := HomeFolder(s); return ok }},
	"abspath":     {"an absolute path", filepath.IsAbs},
	"login":       {"the name of an account, such as dependabot or *-bot", func(s string) bool { return s != "" && !strings.ContainsAny(s, " \t\r\n@") }},
	"glob":        {"a path pattern such as .github/** or **/Jenkinsfile", func(s string) bool { return s != "" && glob.Check(s) == nil }},
	"image":       {"the name of a container image such as node:24-bookworm", IsImage},
	"imageglob":   {"a pattern for images such as node:* or registry.example.com/ci/**", func(s string) bool { return s != "" && glob.Check(s) == nil }},
	"receiver":    {"page, or webhook: or channel: and a name", isReceiver},
	"clock":       {"a time of day such as 22:00", isClock},
	"relpath":     {"a path or glob inside the repository", isRelativePath},
}

// IsName reports whether a text is a name as settings and webhooks have them: at most 63 lower-case
// letters, digits, - and _, of which the first is a letter.
func IsName(s string) bool { return namePattern.MatchString(s) }

// isPackageGlob reports whether a text is a pattern of names of packages. One that never matches would
// reveal the names that it is meant to keep.
func isPackageGlob(s string) bool {
	_, err := path.Match(s, "")
	return err == nil && s != "" && !strings.ContainsAny(s, ", \t\r\n")
}

// isReceiver reports whether a text names a receiver of reminders.
func isReceiver(s string) bool {
	return s == contract.ReceiverPage || namePattern.MatchString(contract.WebhookOf(s)) || namePattern.MatchString(contract.ChannelOf(s))
}

func isRefPrefix(s string) bool {
	return refPrefixPattern.MatchString(s) && len(s) <= 100 && !strings.Contains(s, ".lock/")
}

func isHostPort(s string, lowest int) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, " /@") {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= lowest && n <= 65535
}

func isHost(s string) bool {
	return s != "" && (net.ParseIP(s) != nil || !strings.ContainsAny(s, " /@:[]"))
}

func isHostPattern(s string) bool {
	_, err := proxy.ParseHosts([]string{s})
	return err == nil
}

func isPrivateHost(s string) bool { return proxy.CheckPrivate(s) == nil }

func isURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && (u.Host != "" || u.Scheme == "postgres" || u.Scheme == "postgresql")
}

func isStoreURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	return u.Scheme == "s3" && u.Host != "" || u.Scheme == "file" && u.Host == "" && len(u.Path) > 1 || u.Scheme == "mem"
}

func isRelativePath(s string) bool {
	clean := path.Clean(s)
	return !path.IsAbs(s) && !strings.Contains(s, `\`) && clean != ".." && !strings.HasPrefix(clean, "../")
}

// validate is created once, because it inspects the struct tags.
var validate = sync.OnceValues(func() (*validator.Validate, error) {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("yaml") })
	for name, form := range forms {
		if err := v.RegisterValidation(name, func(fl validator.FieldLevel) bool { return form.ok(fl.Field().String()) }, true); err != nil {
			return nil, err
		}
	}
	return v, nil
})

// check finds values out of range and references to names that do not exist. It does not repeat
// mistakes that were already reported.
func check(c *Config, r *report) {
	v, err := validate()
	if err == nil {
		err = v.Struct(c)
	}
	var wrong validator.ValidationErrors
	if errors.As(err, &wrong) {
		for _, w := range wrong {
			checkFailed(c, r, w)
		}
	} else if err != nil {
		r.add(Origin{}, "", "%v", err)
	}
	for _, p := range references(c) {
		if !r.about(p.key) {
			r.add(originOf(c, p.key), p.key, "%s", p.text)
		}
	}
}

func checkFailed(c *Config, r *report, w validator.FieldError) {
	key, s, holder := locate(w.Namespace())
	switch {
	case r.about(key):
	case holder.kind == kindMap && strings.HasPrefix(holder.keys, w.Tag()):
		keys := &spec{kind: kindText, rule: holder.keys}
		r.add(originOf(c, key), key, "invalid key; expected %s", keys.expectation())
	case w.Tag() == "required":
		r.add(originOf(c, key), key, "is missing; expected %s", s.expectation())
	default:
		r.add(originOf(c, key), key, "expected %s, got %s", s.expectation(), s.showValue(w.Value()))
	}
}

// locate parses the validator's name of a field, such as Config.models.providers[x].kind, and
// returns the key, its description, and its parent's description.
func locate(namespace string) (key string, s, holder *spec) {
	_, rest, _ := strings.Cut(namespace, ".")
	s, holder = root(), root()
	for rest != "" {
		var next *spec
		var step string
		if rest[0] == '[' {
			// The bracket that a dot, another bracket or the end follows, because keys may contain
			// any character.
			end := strings.Index(rest+".", "].")
			if inner := strings.Index(rest, "]["); inner >= 0 && (end < 0 || inner < end) {
				end = inner
			}
			if end < 0 {
				return key + rest, &spec{kind: kindText, secret: true}, s
			}
			step, rest, next = rest[1:end], strings.TrimPrefix(rest[end+1:], "."), s.elem
			if s.kind == kindList {
				key += "[" + step + "]"
			} else {
				key = join(key, step)
			}
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			step, rest = rest[:end], strings.TrimPrefix(rest[end:], ".")
			next, key = s.field(step), join(key, step)
		}
		if next == nil {
			return key, &spec{kind: kindText, secret: true}, s
		}
		s, holder = next, s
	}
	return key, s, holder
}

// originOf returns the origin of a key or, if it has none, of its parent.
func originOf(c *Config, key string) Origin {
	for key != "" {
		if o, ok := c.origins[key]; ok {
			return o
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return Origin{}
}

// showValue formats a value as a user would write it.
func (s *spec) showValue(v any) string {
	switch v := v.(type) {
	case string:
		if u, err := url.Parse(v); err == nil && u.User != nil && !s.secret {
			return "a URL with credentials, which are not shown"
		}
		return s.show(strconv.Quote(v))
	case Toggle:
		return s.show(strconv.Quote(string(v)))
	case time.Duration:
		return formatDuration(v)
	case Size:
		return v.String()
	case MicroUSD:
		return v.String()
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice || list.Kind() == reflect.Map {
		return strconv.Itoa(list.Len())
	}
	return "another value"
}

// problem is a setting that conflicts with another.
type problem struct{ key, text string }

// hasDefaultModels reports whether agents have default models at a provider.
func (c *Config) hasDefaultModels(provider string) bool {
	return slices.Contains([]string{"openai", "anthropic", "gemini", "openrouter"}, c.Models.Providers[provider].Kind)
}

// references finds references to names that do not exist, and settings that contradict each other.
func references(c *Config) []problem {
	var out []problem
	add := func(key, text string) { out = append(out, problem{key, text}) }
	choice := func(key string, m Choice) {
		provider := cmp.Or(m.Provider, c.Models.Default.Provider)
		switch {
		case m.Model == "" && m.Provider == "": // temperature alone is valid for any model
		case m.Model == "" && key == "models.default" && c.knows(provider) && c.hasDefaultModels(provider): // each agent has one
		case m.Model == "":
			add(key+".model", "is missing; expected the provider's name for a model")
		case provider == "":
			add(key+".provider", "is missing; expected "+oneOfProviders(c))
		case !c.knows(provider):
			add(key+".provider", "expected "+oneOfProviders(c)+", got "+strconv.Quote(provider))
		}
	}
	c.reminderProblems(add)
	choice("models.default", c.Models.Default)
	for _, phase := range slices.Sorted(maps.Keys(c.Models.Phases)) {
		choice("models.phases."+phase, c.Models.Phases[phase])
	}
	for i, e := range c.Models.Catalogue {
		if e.Provider != "" && !c.knows(e.Provider) && !c.knowsKind(e.Provider) {
			add("models.catalogue["+strconv.Itoa(i)+"].provider", "expected "+oneOfProviders(c)+", got "+strconv.Quote(e.Provider))
		}
	}
	c.providerProblems(add)
	for _, name := range slices.Sorted(maps.Keys(c.Forges)) {
		c.Forges[name].problems("forges."+name, add)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Triggers)) {
		c.Triggers[name].problems("triggers."+name, c.Forges, add)
	}
	c.channelProblems(add)
	names := map[string]bool{}
	for i, check := range c.Verification.Custom {
		if names[check.Name] {
			add("verification.custom["+strconv.Itoa(i)+"].name", "expected a unique name; "+strconv.Quote(check.Name)+" is already used")
		}
		names[check.Name] = true
	}
	out = append(out, environmentProblems(c.Environment)...)
	if runner := c.Execution.Sandbox.Runner; c.Environment.Image != "" && runner != RunnerDocker {
		add("environment.image", "requires execution.sandbox.runner: docker; the operator's runner is "+runner+", which has no containers")
	}
	if runner := c.Execution.Sandbox.Runner; c.Environment.Dockerfile != "" && runner != RunnerDocker {
		add("environment.dockerfile", "requires execution.sandbox.runner: docker; the operator's runner is "+runner+", which has no containers")
	}
	tls := c.Temporal.TLS
	switch {
	case tls.CertFile != "" && tls.KeyFile == "":
		add("temporal.tls.key_file", "is missing; temporal.tls.cert_file requires it")
	case tls.CertFile == "" && tls.KeyFile != "":
		add("temporal.tls.cert_file", "is missing; temporal.tls.key_file requires it")
	case !tls.Enabled && c.Temporal.APIKeyEnv != "":
		add("temporal.tls.enabled", "must be true, because temporal.api_key_env is set and an API key requires TLS")
	}
	return out
}

func (c *Config) reminderProblems(add func(key, problem string)) {
	for i, one := range c.Execution.Approval.Reminders {
		key := fmt.Sprintf("execution.approval.reminders[%d]", i)
		if (one.After > 0) == (one.Before > 0) {
			add(key, "needs either after or before")
		}
		for j, to := range one.To {
			name := contract.ChannelOf(to)
			if _, known := c.Notifications[name]; name != "" && !known {
				add(fmt.Sprintf("%s.to[%d]", key, j), fmt.Sprintf("expected the name of a channel (notifications), got %q", name))
			}
		}
	}
}

func (c *Config) knows(provider string) bool {
	_, ok := c.Models.Providers[provider]
	return ok
}

// kindsWithAPIs are the kinds of providers that may offer several APIs.
var kindsWithAPIs = []string{"openai", "azure", "compatible", "scripted"}

func (c *Config) providerProblems(add func(key, problem string)) {
	for _, name := range slices.Sorted(maps.Keys(c.Models.Providers)) {
		p := c.Models.Providers[name]
		if (p.Kind == "compatible" || p.Kind == "azure") && p.BaseURL == "" {
			add("models.providers."+name+".base_url", "is missing; providers of kind "+strconv.Quote(p.Kind)+" have no default URL")
		}
		if p.API != "" && !slices.Contains(kindsWithAPIs, p.Kind) {
			add("models.providers."+name+".api", "is allowed only for the kinds "+strings.Join(kindsWithAPIs, ", "))
		}
	}
}

func (c *Config) knowsKind(kind string) bool {
	for _, p := range c.Models.Providers {
		if p.Kind == kind {
			return true
		}
	}
	return false
}

func oneOfProviders(c *Config) string {
	return "one of the configured providers (" + strings.Join(slices.Sorted(maps.Keys(c.Models.Providers)), ", ") + ")"
}
