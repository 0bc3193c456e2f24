package config

import (
	"maps"
	"time"
)

// LongestModelCall is the maximum of models.timeout and of a provider's own timeout.
const LongestModelCall = time.Hour

// Models configures the providers, the model of each agent, and their budgets.
type Models struct {
	Default         Choice              `yaml:"default" doc:"Model for every agent without an entry in models.phases. Not set: rgpt dev uses its scripted model."`
	Phases          map[string]Choice   `yaml:"phases" repo:"models" validate:"dive,keys,oneof=planner builder tester releaser analyzer repair alpha beta gamma,endkeys" doc:"Models by agent: planner, builder, tester, releaser, analyzer, repair, alpha, beta, gamma. alpha, beta and gamma use the planner's model by default. These agents also use the models that people choose for them on the settings page, which override this file. tester, releaser and analyzer call no model; entries for them have no effect." example:"{planner: {provider: openai, model: gpt-6-sol}}"`
	Fallback        []Choice            `yaml:"fallback" validate:"max=20,dive" doc:"Models to use, in order, while a model or its provider is out, and that self-heal switches to when a model fails. After these, the other agents' models are tried." example:"[{provider: openrouter, model: some/model}]"`
	Routing         Routing             `yaml:"routing" doc:"How to choose the model of a call if several can make it."`
	Timeout         time.Duration       `yaml:"timeout" validate:"min=1s,max=1h" doc:"Maximum duration of one model call."`
	IdleTimeout     time.Duration       `yaml:"idle_timeout" validate:"min=1s,max=1h" doc:"Maximum time without data from the provider during a call, including the initial wait. After that, the call is cancelled and retried."`
	MaxOutputTokens int                 `yaml:"max_output_tokens" validate:"min=256,max=1000000" doc:"Maximum number of output tokens to request from the model."`
	LiveText        bool                `yaml:"live_text" doc:"Show what models write while they write it, on pages and in clients that follow the run. It is sent through the database and stored nowhere."`
	LiveTextEvery   time.Duration       `yaml:"live_text_interval" validate:"min=100ms,max=1m" doc:"How often the text of a call is shown while it is written."`
	CacheIdentical  bool                `yaml:"cache_identical" repo:"yes" doc:"Answer a request that is identical to one of an earlier run of the same project with the response to that one, at no cost. Only for requests at temperature 0, and only in the first attempt of a phase or step."`
	CacheRetention  time.Duration       `yaml:"cache_retention" repo:"lower" validate:"min=1m,max=8760h" doc:"How long the response to a request answers identical ones."`
	CacheEntries    int                 `yaml:"cache_entries" validate:"min=1,max=1000000" doc:"Maximum number of responses that answer identical requests, for each project. The oldest are removed first."`
	CacheMaxSize    Size                `yaml:"cache_max_size" validate:"min=1024,max=67108864" doc:"Maximum size of such a response; larger ones do not answer other requests."`
	Budgets         Budgets             `yaml:"budgets" doc:"Limits across all runs in this installation."`
	Breaker         Breaker             `yaml:"breaker" doc:"Circuit breakers of models and providers, shared by all workers."`
	Providers       map[string]Provider `yaml:"providers" validate:"max=100,dive,keys,name,endkeys" doc:"Providers, each under a name of your choice."`
	Catalogue       []CatalogueEntry    `yaml:"catalogue" validate:"max=1000,dive" doc:"Model properties that override the built-in catalogue." example:"[{provider: openai, model: my-model, context_window: 200000, max_output: 32000, price_in: 1.25, price_out: 10}]"`
}

// Choice names a model.
type Choice struct {
	Provider    string   `yaml:"provider" doc:"Name of a provider. In models.phases and models.fallback, the default is models.default.provider."`
	Model       string   `yaml:"model" doc:"The provider's name for the model."`
	Temperature *float64 `yaml:"temperature" validate:"omitempty,min=0,max=2" doc:"Sampling temperature. Not set: the provider's default."`
	Effort      string   `yaml:"effort" validate:"omitempty,oneof=low medium high" doc:"Amount of reasoning: low, medium or high. Empty: the provider's default. Models without the capability effort ignore it."`
}

// WithChoice returns the configuration with the model that a person chose for an agent while the
// system was running. It overrides the operator's settings, but not those that a repository or a
// request has set over them. origin names the choice.
func (c *Config) WithChoice(operator *Config, agent string, choice Choice, origin Origin) *Config {
	key := func(field string) string { return "models.phases." + agent + "." + field }
	overridden := func(field string) bool { return c.origins[key(field)] != operator.origins[key(field)] }
	if overridden("provider") || overridden("model") {
		return c
	}
	out := c.clone()
	out.Models.Phases = maps.Clone(c.Models.Phases)
	if out.Models.Phases == nil {
		out.Models.Phases = map[string]Choice{}
	}
	given := c.Models.Phases[agent]
	if overridden("temperature") {
		choice.Temperature = given.Temperature
	}
	if overridden("effort") {
		choice.Effort = given.Effort
	}
	out.Models.Phases[agent] = choice
	out.origins[key("model")] = origin
	return out
}

// Routing is how to choose the model of a call.
type Routing struct {
	Strategy   string            `yaml:"strategy" validate:"oneof=fixed cheapest best balanced" doc:"Strategy for every agent without an entry in models.routing.agents. fixed: the agent's model; others only while it is out. cheapest, best, balanced: the candidate with the lowest expected cost, the highest score for the agent's work, or the best balance of both."`
	Agents     map[string]string `yaml:"agents" validate:"dive,keys,oneof=planner builder repair alpha beta gamma,endkeys,oneof=fixed cheapest best balanced" doc:"Strategies by agent." example:"{planner: best, builder: balanced}"`
	Candidates []Choice          `yaml:"candidates" validate:"max=20,dive" doc:"Models to choose from, besides the agent's own model and models.fallback. Not used by fixed." example:"[{provider: openai, model: gpt-5-mini}]"`
	Weights    RouteWeights      `yaml:"weights" doc:"Weights of the strategy balanced. Only their ratio counts. The weight of quality grows with the importance of the call: planning and work that failed before are important."`
	Learn      bool              `yaml:"learn" doc:"Count how models did in earlier runs of the project, by agent, language and complexity: runs that passed their tests with or without a heal."`
}

// RouteWeights weigh a model's score against its cost.
type RouteWeights struct {
	Quality float64 `yaml:"quality" validate:"min=0,max=100" doc:"Weight of the model's score."`
	Price   float64 `yaml:"price" validate:"min=0,max=100" doc:"Weight of its expected cost."`
}

// Budgets are limits across all runs of this installation.
type Budgets struct {
	DayTokens           int64    `yaml:"day_tokens" validate:"min=0" doc:"Maximum number of tokens per day. 0: no limit."`
	DayCostUSD          MicroUSD `yaml:"day_cost_usd" validate:"min=0" doc:"Maximum cost per day, in US dollars. 0: no limit."`
	ProjectDayTokens    int64    `yaml:"project_day_tokens" validate:"min=0" doc:"Maximum number of tokens per project and day. 0: no limit."`
	ProjectDayCostUSD   MicroUSD `yaml:"project_day_cost_usd" validate:"min=0" doc:"Maximum cost per project and day, in US dollars. 0: no limit."`
	ProjectMonthTokens  int64    `yaml:"project_month_tokens" validate:"min=0" doc:"Maximum number of tokens per project and calendar month. 0: no limit."`
	ProjectMonthCostUSD MicroUSD `yaml:"project_month_cost_usd" validate:"min=0" doc:"Maximum cost per project and calendar month, in US dollars. 0: no limit."`
	TenantDayTokens     int64    `yaml:"tenant_day_tokens" validate:"min=0" doc:"Maximum number of tokens per tenant and day. 0: no limit."`
	TenantDayCostUSD    MicroUSD `yaml:"tenant_day_cost_usd" validate:"min=0" doc:"Maximum cost per tenant and day, in US dollars. 0: no limit."`
	TenantMonthTokens   int64    `yaml:"tenant_month_tokens" validate:"min=0" doc:"Maximum number of tokens per tenant and calendar month. 0: no limit."`
	TenantMonthCostUSD  MicroUSD `yaml:"tenant_month_cost_usd" validate:"min=0" doc:"Maximum cost per tenant and calendar month, in US dollars. 0: no limit."`
	MinOutputTokens     int      `yaml:"min_output_tokens" validate:"min=1,max=1000000" doc:"Each call reserves the most that it can use. If a budget does not cover that, the call asks for fewer output tokens, but not for fewer than this."`
	MinReasoningTokens  int      `yaml:"min_reasoning_tokens" validate:"min=1,max=1000000" doc:"The same for models with the capability effort or fixed_temperature: they also reason within their output tokens."`
	WarnAt              float64  `yaml:"warn_at" validate:"min=0,max=1" doc:"Fraction of a budget at which a warning is sent."`
}

// Breaker configures when calls of a failing model or provider stop.
type Breaker struct {
	Failures     int           `yaml:"failures" validate:"min=0,max=1000" doc:"Number of failures in a row after which a model or provider is not called for a while: it is unreachable, responds with HTTP 5xx, or exceeds a time limit. 0: never."`
	Pause        time.Duration `yaml:"pause" validate:"min=10ms,max=1h" doc:"Time until one call tries whether it is back. Each further failure doubles it."`
	LongestPause time.Duration `yaml:"longest_pause" validate:"min=10ms,max=24h" doc:"Maximum of this time."`
	ProbeLease   time.Duration `yaml:"probe_lease" validate:"min=1s,max=10m" doc:"Time after which another call tries if the worker of the first one has died."`
}

// Provider is an endpoint that serves models.
type Provider struct {
	Kind               string            `yaml:"kind" validate:"required,oneof=openai azure openrouter anthropic bedrock vertex gemini ollama compatible scripted" doc:"Provider kind. azure: OpenAI's models at Azure, by its v1 API. bedrock, vertex: Anthropic's models at Amazon Bedrock and Google's Vertex AI. compatible: any endpoint with an OpenAI-compatible API."`
	BaseURL            string            `yaml:"base_url" secret:"true" validate:"omitempty,httpurl" doc:"API URL. Empty: the public URL for this kind of provider. azure: https://RESOURCE.openai.azure.com/openai/v1."`
	API                string            `yaml:"api" validate:"omitempty,oneof=chat responses" doc:"For kinds openai, azure, compatible and scripted: chat completions or OpenAI's Responses. Empty: responses for azure and at OpenAI's own addresses, otherwise chat."`
	Region             string            `yaml:"region" validate:"max=40" doc:"Cloud region, for kinds bedrock (such as us-east-1) and vertex (such as global). Empty: that of the environment, AWS_REGION or GOOGLE_CLOUD_LOCATION."`
	Project            string            `yaml:"project" validate:"max=100" doc:"Google Cloud project, for kind vertex. Empty: GOOGLE_CLOUD_PROJECT, or else that of the credentials."`
	APIKeyEnv          string            `yaml:"api_key_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the API key."`
	APIKeyFile         string            `yaml:"api_key_file" doc:"File that contains the API key. Overrides api_key_env."`
	Timeout            time.Duration     `yaml:"timeout" validate:"min=0,max=1h" doc:"Maximum duration of one call. 0: the value of models.timeout."`
	MaxConcurrent      int               `yaml:"max_concurrent" default:"8" validate:"min=1,max=10000" doc:"Maximum number of concurrent calls per worker."`
	MaxConcurrentTotal int               `yaml:"max_concurrent_total" validate:"min=0,max=100000" doc:"Maximum number of concurrent calls of all workers together. 0: no limit."`
	RequestsPerMinute  int64             `yaml:"requests_per_minute" validate:"min=0" doc:"Maximum number of calls per minute of all workers together. 0: no limit."`
	TokensPerMinute    int64             `yaml:"tokens_per_minute" validate:"min=0" doc:"Maximum number of tokens per minute of all workers together: an estimate of the prompt and models.max_output_tokens until the response arrives, then the actual number. 0: no limit."`
	Headers            map[string]string `yaml:"headers" secret:"true" validate:"max=50,dive,keys,headername,endkeys,headervalue" doc:"Additional HTTP headers to send." example:"{X-Title: RocketGPT}"`
}

// CatalogueEntry describes the properties of one model.
type CatalogueEntry struct {
	Provider       string      `yaml:"provider" validate:"required" doc:"Provider name or kind."`
	Model          string      `yaml:"model" validate:"required" doc:"The provider's name for the model. *: any model."`
	ContextWindow  int         `yaml:"context_window" validate:"min=0" doc:"Maximum combined number of prompt and response tokens. 0: unknown."`
	MaxOutput      int         `yaml:"max_output" validate:"min=0" doc:"Maximum number of response tokens. 0: unknown."`
	MaxTexts       int         `yaml:"max_texts" validate:"min=0,max=2048" doc:"Maximum number of texts in one call for embeddings. 0: 100 for providers of kind openai, azure and gemini, 32 for others."`
	PriceIn        MicroUSD    `yaml:"price_in" validate:"min=0" doc:"US dollars per million input tokens."`
	PriceCached    MicroUSD    `yaml:"price_cached" validate:"min=0" doc:"US dollars per million input tokens that the provider reads from its prompt cache. 0: as price_in."`
	PriceWrite     MicroUSD    `yaml:"price_cache_write" validate:"min=0" doc:"US dollars per million input tokens that the provider writes to its prompt cache. 0: as price_in."`
	PriceOut       MicroUSD    `yaml:"price_out" validate:"min=0" doc:"US dollars per million output tokens."`
	PriceReasoning MicroUSD    `yaml:"price_reasoning" validate:"min=0" doc:"US dollars per million output tokens that are reasoning. 0: as price_out."`
	LongContext    LongContext `yaml:"long_context" doc:"Prices of calls with long prompts. Not set: as for other calls."`
	Capabilities   []string    `yaml:"capabilities" validate:"dive,oneof=json_schema tools vision embeddings fixed_temperature effort thinking_budget" doc:"Model features. fixed_temperature: the model does not accept a temperature. effort: the amount of reasoning can be set. thinking_budget: Anthropic's API sets it as a budget of tokens (older models)."`
	API            string      `yaml:"api" validate:"omitempty,oneof=responses" doc:"The only API of the provider that serves the model. Empty: any of its APIs."`
	Released       string      `yaml:"released" validate:"omitempty,datetime=2006-01-02" doc:"Day on which the provider offered the model first."`
	Deprecated     string      `yaml:"deprecated" validate:"omitempty,datetime=2006-01-02" doc:"Last day on which the provider offers the model."`
	Scores         []Score     `yaml:"scores" validate:"max=20,dive" doc:"Results of the model in benchmarks." example:"[{name: coding, value: 0.76, source: our own tests, date: 2026-11-01}]"`
}

// LongContext has the prices of calls with long prompts.
type LongContext struct {
	Above       int      `yaml:"above" validate:"min=0" doc:"Number of prompt tokens above which these prices apply to the call. 0: never."`
	PriceIn     MicroUSD `yaml:"price_in" validate:"min=0" doc:"US dollars per million input tokens. 0: as for other calls."`
	PriceCached MicroUSD `yaml:"price_cached" validate:"min=0" doc:"US dollars per million input tokens read from the prompt cache. 0: as for other calls."`
	PriceWrite  MicroUSD `yaml:"price_cache_write" validate:"min=0" doc:"US dollars per million input tokens written to the prompt cache. 0: as for other calls."`
	PriceOut    MicroUSD `yaml:"price_out" validate:"min=0" doc:"US dollars per million output tokens. 0: as for other calls."`
}

// Score is a model's result in a benchmark.
type Score struct {
	Name   string  `yaml:"name" validate:"required" doc:"What it measures, such as coding, agentic_coding or reasoning."`
	Value  float64 `yaml:"value" validate:"min=0,max=1" doc:"Fraction of the possible points."`
	Source string  `yaml:"source" doc:"The benchmark."`
	Date   string  `yaml:"date" validate:"omitempty,datetime=2006-01-02" doc:"Day of the result."`
}
