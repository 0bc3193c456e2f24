package model

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Kind is the kind of a provider. It determines defaults and minor protocol differences.
type Kind string

// Kinds of providers.
const (
	KindOpenAI     Kind = "openai"
	KindAzure      Kind = "azure" // OpenAI's models at Azure, by its v1 API
	KindOpenRouter Kind = "openrouter"
	KindAnthropic  Kind = "anthropic" // by its own API
	KindBedrock    Kind = "bedrock"   // Anthropic's models at Amazon Bedrock
	KindVertex     Kind = "vertex"    // Anthropic's models at Google's Vertex AI
	KindGemini     Kind = "gemini"    // by its own API
	KindOllama     Kind = "ollama"
	KindCompatible Kind = "compatible" // any other OpenAI-compatible endpoint
	KindScripted   Kind = "scripted"   // the scripted model server
)

// Messages reports whether providers of a kind offer Anthropic's Messages API.
func (k Kind) Messages() bool { return k == KindAnthropic || k.Cloud() }

// Cloud reports whether providers of a kind are clouds, whose credentials and addresses are those of a
// region.
func (k Kind) Cloud() bool { return k == KindBedrock || k == KindVertex }

// API is the API by which a provider of some kinds is called.
type API string

// APIs of OpenAI and of providers that offer the same.
const (
	APIChat      API = "chat"      // chat completions
	APIResponses API = "responses" // Responses
)

// ChoosesAPI reports whether providers of a kind may offer several of the APIs.
func (k Kind) ChoosesAPI() bool {
	return k == KindOpenAI || k == KindAzure || k == KindCompatible || k == KindScripted
}

// defaultAPI returns the API of a provider that has none set: Responses where OpenAI's own models
// are served, chat completions where another server may imitate OpenAI's.
func (p Provider) defaultAPI() API {
	if p.Kind == KindAzure || p.Kind == KindOpenAI && ownedByOpenAI(p.BaseURL) {
		return APIResponses
	}
	return APIChat
}

// ownedByOpenAI reports whether an address is one of OpenAI's, which also has regional ones.
func ownedByOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// Provider is one configured model provider. Keys are never part of it: they are read from the
// environment or a file when a call is made, so that a changed key needs no restart.
type Provider struct {
	// Name identifies the provider in rules and in the catalogue.
	Name string `koanf:"name" yaml:"name" json:"name" validate:"required"`
	Kind Kind   `koanf:"kind" yaml:"kind" json:"kind" validate:"required,oneof=openai azure openrouter anthropic bedrock vertex gemini ollama compatible scripted"`
	// BaseURL is the base of the protocol's paths, such as https://api.openai.com/v1. Empty means
	// the kind's default.
	BaseURL string `koanf:"base_url" yaml:"base_url,omitempty" json:"base_url,omitempty" validate:"omitempty,url"`
	// API is the API of a kind that has several: openai, azure, compatible and scripted. Empty means
	// Responses at OpenAI's own addresses and at Azure, otherwise chat completions.
	API API `koanf:"api" yaml:"api,omitempty" json:"api,omitempty" validate:"omitempty,oneof=chat responses"`
	// Region is the cloud's region of kinds bedrock and vertex, Project the project of kind vertex; empty
	// means that of the credentials.
	Region  string `koanf:"region" yaml:"region,omitempty" json:"region,omitempty"`
	Project string `koanf:"project" yaml:"project,omitempty" json:"project,omitempty"`
	// APIKeyEnv is the environment variable with the key, APIKeyFile a file with the key; the file
	// takes precedence. If both are empty, the kind's usual variable is used.
	APIKeyEnv  string `koanf:"api_key_env" yaml:"api_key_env,omitempty" json:"api_key_env,omitempty"`
	APIKeyFile string `koanf:"api_key_file" yaml:"api_key_file,omitempty" json:"api_key_file,omitempty"`
	// Timeout limits a single call; 0 means DefaultTimeout.
	Timeout time.Duration `koanf:"timeout" yaml:"timeout,omitempty" json:"timeout,omitempty" validate:"gte=0"`
	// MaxConcurrent limits the simultaneous calls from this process; 0 means DefaultMaxConcurrent.
	MaxConcurrent int `koanf:"max_concurrent" yaml:"max_concurrent,omitempty" json:"max_concurrent,omitempty" validate:"gte=0"`
	// Headers are sent with every request. Their values are treated as secrets.
	Headers map[string]string `koanf:"headers" yaml:"headers,omitempty" json:"headers,omitempty"`
}

// Defaults of a provider.
const (
	DefaultTimeout       = 5 * time.Minute
	DefaultMaxConcurrent = 64
)

// kindDefaults are the defaults of a provider's kind. A kind without a key variable
// works without a key.
var kindDefaults = map[Kind]struct{ baseURL, keyEnv string }{
	KindOpenAI:     {"https://api.openai.com/v1", "OPENAI_API_KEY"},
	KindAzure:      {"", "AZURE_OPENAI_API_KEY"},
	KindOpenRouter: {"https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"},
	KindAnthropic:  {"https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"},
	KindBedrock:    {"", "AWS_BEARER_TOKEN_BEDROCK"},
	KindVertex:     {},
	KindGemini:     {"https://generativelanguage.googleapis.com", "GEMINI_API_KEY"},
	KindOllama:     {"http://127.0.0.1:11434/v1", ""},
	KindCompatible: {},
	KindScripted:   {},
}

// DefaultBaseURL returns the base URL of a kind, or "" if it has none.
func DefaultBaseURL(kind Kind) string { return kindDefaults[kind].baseURL }

// WithDefaults returns the provider with the defaults of its kind filled in.
func (p Provider) WithDefaults() Provider {
	d := kindDefaults[p.Kind]
	p.BaseURL = cmp.Or(p.BaseURL, d.baseURL, p.regionalURL())
	if p.Kind.ChoosesAPI() {
		p.API = cmp.Or(p.API, p.defaultAPI())
	}
	if p.APIKeyEnv == "" && p.APIKeyFile == "" {
		p.APIKeyEnv = d.keyEnv
	}
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	p.MaxConcurrent = cmp.Or(p.MaxConcurrent, DefaultMaxConcurrent)
	return p
}

// regionalURL returns the address of a cloud in a region, or "" if there is none.
func (p Provider) regionalURL() string {
	switch {
	case p.Region == "":
		return ""
	case p.Kind == KindBedrock:
		return "https://bedrock-runtime." + p.Region + ".amazonaws.com"
	case p.Kind != KindVertex:
		return ""
	}
	switch p.Region {
	case "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + p.Region + ".rep.googleapis.com"
	default:
		return "https://" + p.Region + "-aiplatform.googleapis.com"
	}
}

// Names of regions become part of addresses.
var (
	validRegion  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	validProject = regexp.MustCompile(`^[a-z0-9]([a-z0-9.:-]{0,98}[a-z0-9])?$`)
)

// checkCloud reports a problem with the region or the project of a provider.
func (p Provider) checkCloud() error {
	problem := ""
	switch {
	case !p.Kind.Cloud():
		if p.Region != "" || p.Project != "" {
			problem = fmt.Sprintf("kind %s has no region and no project; remove them, or set kind to bedrock or vertex", p.Kind)
		}
	case p.Region == "" && p.Kind == KindBedrock:
		problem = "kind bedrock requires a region; set models.providers." + p.Name + ".region, such as us-east-1, or AWS_REGION"
	case p.Region == "":
		problem = "kind vertex requires a region; set models.providers." + p.Name + ".region, such as global or us-east5, or GOOGLE_CLOUD_LOCATION"
	case !validRegion.MatchString(p.Region):
		problem = "the region is not the name of a region, such as us-east-1"
	case p.Project != "" && p.Kind == KindBedrock:
		problem = "kind bedrock has no project; remove it"
	case p.Project != "" && !validProject.MatchString(p.Project):
		problem = "the project is not the id of a project, such as my-project"
	}
	if problem == "" {
		return nil
	}
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "model provider %s: %s", p.Name, problem)
}

// Check reports a problem with a provider as a CONFIG_ERROR.
func (p Provider) Check() error {
	bad := func(format string, args ...any) error {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, format, args...)
	}
	p = p.WithDefaults()
	if p.Name == "" {
		return bad("a model provider has no name")
	}
	if _, ok := kindDefaults[p.Kind]; !ok {
		return bad("model provider %s: invalid kind %q; expected openai, azure, openrouter, anthropic, bedrock, vertex, gemini, ollama, compatible or scripted", p.Name, p.Kind)
	}
	if err := p.checkCloud(); err != nil {
		return err
	}
	if p.BaseURL == "" {
		return bad("model provider %s: kind %s requires a base_url", p.Name, p.Kind)
	}
	u, err := url.Parse(p.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return bad("model provider %s: base_url is not an http or https URL", p.Name) // not repeated: it may contain a password
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return bad("model provider %s: base_url must not have a query or fragment (? or #); send such values as headers", p.Name)
	}
	if err := p.checkAPI(u); err != nil {
		return err
	}
	if p.Timeout < 0 || p.MaxConcurrent < 0 {
		return bad("model provider %s: timeout and max_concurrent must not be negative", p.Name)
	}
	return nil
}

// checkAPI reports a problem with the API that is called at an address.
func (p Provider) checkAPI(at *url.URL) error {
	problem := ""
	switch {
	case p.API != "" && !p.Kind.ChoosesAPI():
		problem = fmt.Sprintf("kind %s has one API only; remove api", p.Kind)
	case p.Kind.Cloud() && strings.Trim(at.Path, "/") != "":
		problem = fmt.Sprintf("the base_url of kind %s must have no path", p.Kind)
	case p.API != "" && p.API != APIChat && p.API != APIResponses:
		problem = fmt.Sprintf("invalid api %q; expected chat or responses", p.API)
	case p.Kind == KindAzure && (strings.Trim(at.Path, "/") == "" || strings.Contains(at.Path, "/deployments/")):
		problem = "the base_url of kind azure is that of the resource's v1 API, such as https://RESOURCE.openai.azure.com/openai/v1"
	case p.Kind == KindGemini && strings.HasSuffix(strings.TrimRight(at.Path, "/"), "/openai"):
		problem = "the base_url is Gemini's endpoint for OpenAI clients, which kind gemini does not use; remove /openai from it, or set kind: compatible and api_key_env: " + cmp.Or(p.APIKeyEnv, "GEMINI_API_KEY")
	}
	if problem == "" {
		return nil
	}
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "model provider %s: %s", p.Name, problem)
}

// Address returns the base URL without user name, password, query and fragment, for messages.
func (p Provider) Address() string {
	u, err := url.Parse(p.WithDefaults().BaseURL)
	if err != nil {
		return "an invalid base_url"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// KeySource describes the source of the key, for messages.
func (p Provider) KeySource() string {
	p = p.WithDefaults()
	switch {
	case p.APIKeyFile != "":
		return "the file " + p.APIKeyFile
	case p.Kind == KindBedrock:
		return "the environment variable " + p.APIKeyEnv + ", or else AWS's default credentials (environment, profile, role)"
	case p.Kind == KindVertex && p.APIKeyEnv == "":
		return "Google's application default credentials"
	case p.APIKeyEnv != "":
		return "the environment variable " + p.APIKeyEnv
	default:
		return "none (set api_key_env or api_key_file for the provider)"
	}
}

// Key reads the provider's key. A provider without a source has no key. A CONFIG_ERROR states what to
// set.
func (p Provider) Key(getenv func(string) string) (string, error) {
	var key string
	switch {
	case p.APIKeyFile != "":
		data, err := os.ReadFile(p.APIKeyFile)
		if err != nil {
			return "", fault.Wrap(err, contract.ClassConfig, contract.CodeUnauthorized, "cannot read the API key of model provider %s from %s", p.Name, p.KeySource())
		}
		key = strings.TrimSpace(string(data))
	case p.APIKeyEnv != "":
		key = strings.TrimSpace(getenv(p.APIKeyEnv))
	default:
		return "", nil
	}
	if key == "" && p.APIKeyFile == "" && p.Kind.Cloud() {
		return "", nil // its default credentials are used
	}
	if key == "" {
		return "", fault.New(contract.ClassConfig, contract.CodeUnauthorized,
			"model provider %s (%s) has no API key: %s is empty; set it, or choose another provider", p.Name, p.Address(), p.KeySource())
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fault.New(contract.ClassConfig, contract.CodeUnauthorized,
			"the API key of model provider %s, from %s, contains control characters; it must be a single line with only the key", p.Name, p.KeySource())
	}
	return key, nil
}
