// Package config reads RocketGPT's settings: defaults, a base file, the project's
// rgpt.yaml, a local file beside it, the environment, and flags, each overriding the
// one before. Every mistake is reported at once, with its file, line and key. The
// settings of a repository are less trusted and go through LoadRepository.
package config

//go:generate go test -run ^TestTheDocumentsAreCurrent$ -update .

import (
	"maps"
)

// Config holds all settings. It has been validated: values are within their ranges and
// names that refer to others exist.
type Config struct {
	Execution    Execution    `yaml:"execution" doc:"How runs are carried out and what they may use up."`
	Findings     Findings     `yaml:"findings" repo:"yes" doc:"How many findings a run may have."`
	Verification Verification `yaml:"verification" doc:"How a change is built, tested and checked. What is not configured is detected."`
	Environment  Environment  `yaml:"environment" doc:"How the dependencies of a project are installed, and kept."`
	Git          Git          `yaml:"git" doc:"How work is committed and where it goes."`
	Artifacts    Artifacts    `yaml:"artifacts" doc:"Where the files of runs are kept."`
	Logging      Logging      `yaml:"logging" doc:"What is logged, how and where."`
	Models       Models       `yaml:"models" doc:"Model providers, which model does what, and what they may cost."`
	Deliberation Deliberation `yaml:"deliberation" doc:"How ALPHA, BETA and GAMMA deliberate, by themselves or to plan a run. They may use up what a run may (execution.run)."`
	Server       Server       `yaml:"server" doc:"The HTTP API and dashboard."`
	Temporal     Temporal     `yaml:"temporal" doc:"The Temporal service that runs workflows."`
	Worker       Worker       `yaml:"worker" doc:"The processes that carry out workflows and activities."`
	Database     Database     `yaml:"database" doc:"The PostgreSQL database."`

	origins map[string]Origin
}

// Origin returns where the value of a key came from. Keys are dotted, elements of lists
// have an index: models.default.model, verification.custom[0].name. A key that nothing
// set, or that does not exist, has the default as its origin.
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
