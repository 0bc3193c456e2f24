package config

import "time"

// LongestModelCall is the maximum of models.timeout and of a provider's own timeout.
const LongestModelCall = time.Hour

// Models says which providers exist, which model does what, and how much they may cost.
type Models struct {
	Default         Choice              `yaml:"default" doc:"The model of every agent that has none of its own. Without one, rgpt dev uses its scripted model."`
	Phases          map[string]Choice   `yaml:"phases" repo:"models" validate:"dive,keys,oneof=planner builder tester releaser analyzer repair alpha beta gamma,endkeys" doc:"Models by agent: planner, builder, tester, releaser, analyzer, repair, and alpha, beta and gamma, which have the planner's where nothing else is said." example:"{planner: {provider: openai, model: gpt-5}}"`
	Fallback        []Choice            `yaml:"fallback" validate:"max=20,dive" doc:"Models that self-heal may change to, in order, when a model or its provider fails. After them come those of the other agents." example:"[{provider: openrouter, model: some/model}]"`
	Timeout         time.Duration       `yaml:"timeout" validate:"min=1s,max=1h" doc:"Longest time that one model call may take."`
	IdleTimeout     time.Duration       `yaml:"idle_timeout" validate:"min=1s,max=1h" doc:"Longest time that a provider may be silent within a call, counted from the request. After that the call is cancelled and made again."`
	MaxOutputTokens int                 `yaml:"max_output_tokens" validate:"min=256,max=1000000" doc:"Longest answer that is asked for."`
	Budgets         Budgets             `yaml:"budgets" doc:"Limits over all runs of this installation."`
	Providers       map[string]Provider `yaml:"providers" validate:"max=100,dive,keys,name,endkeys" doc:"Where models are reached, by a name of your choice."`
	Catalogue       []CatalogueEntry    `yaml:"catalogue" validate:"max=1000,dive" doc:"What is known of models, over what is built in." example:"[{provider: openai, model: my-model, context_window: 200000, max_output: 32000, price_in: 1.25, price_out: 10}]"`
}

// Choice names a model.
type Choice struct {
	Provider    string   `yaml:"provider" doc:"Name of a provider. Empty: that of models.default."`
	Model       string   `yaml:"model" doc:"The provider's name of the model."`
	Temperature *float64 `yaml:"temperature" validate:"omitempty,min=0,max=2" doc:"How much answers vary. Not set: what the provider does by itself."`
}

// Budgets are limits over all runs of this installation.
type Budgets struct {
	DayTokens           int64    `yaml:"day_tokens" validate:"min=0" doc:"Tokens a day. 0 is no limit."`
	DayCostUSD          MicroUSD `yaml:"day_cost_usd" validate:"min=0" doc:"Money a day. 0 is no limit."`
	ReserveOutputTokens int      `yaml:"reserve_output_tokens" validate:"min=0,max=1000000" doc:"Answer tokens that are set aside before a call and settled after it."`
	WarnAt              float64  `yaml:"warn_at" validate:"min=0,max=1" doc:"Part of a budget at which a warning is given."`
}

// Provider is an endpoint that serves models.
type Provider struct {
	Kind          string            `yaml:"kind" validate:"required,oneof=openai openrouter anthropic gemini ollama compatible scripted" doc:"What it is. compatible is any endpoint that speaks the OpenAI protocol."`
	BaseURL       string            `yaml:"base_url" secret:"true" validate:"omitempty,httpurl" doc:"Address of the API. Empty: the public one of its kind."`
	APIKeyEnv     string            `yaml:"api_key_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that holds the key."`
	APIKeyFile    string            `yaml:"api_key_file" doc:"File that holds the key. It counts before api_key_env."`
	Timeout       time.Duration     `yaml:"timeout" validate:"min=0,max=1h" doc:"Longest time that one call may take. 0: models.timeout."`
	MaxConcurrent int               `yaml:"max_concurrent" default:"8" validate:"min=1,max=10000" doc:"Calls at the same time from one worker."`
	Headers       map[string]string `yaml:"headers" secret:"true" validate:"max=50,dive,keys,headername,endkeys,headervalue" doc:"More HTTP headers to send." example:"{X-Title: RocketGPT}"`
}

// CatalogueEntry is what is known about one model.
type CatalogueEntry struct {
	Provider      string   `yaml:"provider" validate:"required" doc:"Name or kind of a provider."`
	Model         string   `yaml:"model" validate:"required" doc:"The provider's name of the model; * is any."`
	ContextWindow int      `yaml:"context_window" validate:"min=0" doc:"Tokens of prompt and answer together. 0 is not known."`
	MaxOutput     int      `yaml:"max_output" validate:"min=0" doc:"Tokens of the longest answer. 0 is not known."`
	PriceIn       MicroUSD `yaml:"price_in" validate:"min=0" doc:"US dollars for a million prompt tokens."`
	PriceOut      MicroUSD `yaml:"price_out" validate:"min=0" doc:"US dollars for a million answer tokens."`
	Capabilities  []string `yaml:"capabilities" validate:"dive,oneof=json_schema tools vision embeddings fixed_temperature" doc:"What it can do; fixed_temperature is a model that refuses a temperature."`
}
