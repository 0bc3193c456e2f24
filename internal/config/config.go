// Package config reads RocketGPT's settings: defaults, a base file, the project's rgpt.yaml, a
// local file beside it, the environment, and flags, each overriding the previous one. All errors
// are reported together, with file, line and key. The settings of a repository are less trusted and
// go through LoadRepository.
package config

//go:generate go test -run ^TestTheDocumentsAreCurrent$ -update .

import (
	"maps"
)

// Config holds all settings. It has been validated: values are within their ranges and the names
// that they refer to exist.
type Config struct {
	Execution     Execution               `yaml:"execution" doc:"Run limits, retries, approvals and isolation."`
	Findings      Findings                `yaml:"findings" repo:"yes" doc:"Limits on findings; a run that exceeds them fails or gets a warning."`
	Verification  Verification            `yaml:"verification" doc:"How changes are built, tested and checked. Commands are detected from the repository's files unless they are configured."`
	Environment   Environment             `yaml:"environment" doc:"How project dependencies are installed and cached."`
	Git           Git                     `yaml:"git" doc:"How changes are committed and pushed."`
	Gate          Gate                    `yaml:"gate" doc:"The policy gate, which judges every change before it is used or released."`
	Forges        map[string]Forge        `yaml:"forges" validate:"max=100,dive,keys,name,endkeys" doc:"Services that host repositories and their pull requests, each under a name of your choice. Pull requests are opened only at these." example:"{github: {kind: github, token_env: GITHUB_TOKEN}}"`
	Triggers      map[string]Trigger      `yaml:"triggers" validate:"max=200,dive,keys,name,endkeys" doc:"What creates runs without a person: issues, comments, failed checks, times, CloudEvents. Each has a name of your choice." example:"{nightly: {on: schedule, cron: \"0 3 * * *\", repo: \"https://git.example.com/team/app\", goal: Update the dependencies}}"`
	Notifications map[string]Notification `yaml:"notifications" validate:"max=50,dive,keys,name,endkeys" doc:"Channels on which people are notified of what happens to runs, each under a name of your choice." example:"{team: {kind: slack, url_env: SLACK_WEBHOOK}}"`
	Artifacts     Artifacts               `yaml:"artifacts" doc:"Where run files are stored."`
	Brain         Brain                   `yaml:"brain" doc:"The index of repositories, with which agents and people find code."`
	Retention     Retention               `yaml:"retention" doc:"What is deleted when it is no longer needed. Runs that have not ended or that are on hold are never touched."`
	Ledger        Ledger                  `yaml:"ledger" doc:"The audit ledger: who did what."`
	Logging       Logging                 `yaml:"logging" doc:"Log level, format and files."`
	Models        Models                  `yaml:"models" doc:"Model providers, each agent's model, and budgets. models.phases sets models by agent: planner, builder, repair (also used by the environment agent), alpha, beta, gamma. The tester, releaser and analyzer call no model; entries for them are accepted but have no effect."`
	Deliberation  Deliberation            `yaml:"deliberation" doc:"How ALPHA, BETA and GAMMA deliberate, in a standalone pipeline or when planning a run. The limits in execution.run also apply to deliberations."`
	Server        Server                  `yaml:"server" doc:"The HTTP API and dashboard."`
	Temporal      Temporal                `yaml:"temporal" doc:"Connection to the Temporal service that runs workflows."`
	Worker        Worker                  `yaml:"worker" doc:"The processes that execute workflows and activities."`
	Database      Database                `yaml:"database" doc:"Connection to the PostgreSQL database."`

	origins map[string]Origin
}

// Origin returns the origin of a key's value. Keys are dotted, and list elements have an index:
// models.default.model, verification.custom[0].name. The origin of a key that is not set or does
// not exist is the default.
func (c *Config) Origin(key string) Origin {
	if o, ok := c.origins[key]; ok {
		return o
	}
	return Origin{}
}

// clone returns a copy whose origins may be changed.
func (c *Config) clone() *Config {
	out := *c
	out.origins = maps.Clone(c.origins)
	if out.origins == nil {
		out.origins = map[string]Origin{}
	}
	return &out
}
