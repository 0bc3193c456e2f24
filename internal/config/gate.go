package config

import (
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// GateOff is the value of Gate.Policy with which no change is judged.
const GateOff = "none"

// Gate configures the policy gate, which judges every change before it is used or released.
type Gate struct {
	Policy     string        `yaml:"policy" repo:"tighten" validate:"oneof=strict default permissive none" doc:"Built-in policies. default: major findings stop a change, or need the approval of a named person. strict: medium findings need an approval too. permissive: only added secrets, links out of the repository and changes to git's own files are denied. none: no change is judged."`
	Policies   string        `yaml:"policies" validate:"omitempty,abspath" doc:"Directory with the operator's own policies, .rego files of the package operator. They are evaluated in addition to the built-in ones, and may also waive findings or lower their severity." example:"/etc/rgpt/policies"`
	Timeout    time.Duration `yaml:"timeout" validate:"min=100ms,max=1m" doc:"Maximum duration of one evaluation of policies. If the repository's own policies take longer, the evaluation is repeated a few times, and then fails; the change is not judged."`
	Memory     Size          `yaml:"memory" validate:"min=134217728,max=17179869184" doc:"Maximum memory of the process that evaluates a repository's own policies, or those of a request. A change is denied, or the request refused, if they need more."`
	Advisories string        `yaml:"advisories" validate:"omitempty,abspath" doc:"Directory with security advisories in OSV format, with which added dependencies are compared. It is read again every 10 minutes; a verdict that was given is kept. Empty: they are not compared." example:"/var/lib/rgpt/advisories"`
	Allowed    []string      `yaml:"allowed" repo:"narrow" validate:"max=100,dive,glob" doc:"Patterns for the only files that runs may change. Empty: all files. Files in git.protected need an approval in any case." example:"[\"src/**\", \"docs/**\"]"`
	Limits     GateLimits    `yaml:"limits" repo:"cap" doc:"Limits of a change. What follows from a change that exceeds one is decided by the policies."`
	Approver   string        `yaml:"approver" repo:"tighten" validate:"oneof=not_author anyone" doc:"Approvers of a release. anyone: every named person. not_author: only a named person who neither created the run nor steered or edited its change. Policies can demand the latter for single reasons."`
	Labels     GateLabels    `yaml:"labels" doc:"Meanings of labels of runs."`

	Dependencies GateDependencies `yaml:"dependencies" doc:"Questions to package registries about the dependencies that a change adds: whether they exist, and when they were published."`

	Review        string        `yaml:"review" repo:"tighten" validate:"oneof=on policy off" doc:"Whether a model that has not made it reviews the whole change of a run before its release. policy: if a policy asks for it (the built-in strict one does). on: always. off: never."`
	ReviewModel   string        `yaml:"review_model" validate:"max=300" doc:"Model that reviews, as provider/model. Empty: the first of models.fallback and of the agents' models that has not made the change. If all of them have, the author's model reviews with a fresh context, and the result says so." example:"anthropic/claude-sonnet-5"`
	ReviewRounds  int           `yaml:"review_rounds" validate:"min=0,max=5" doc:"How often major findings of a review go back to an agent of the run, which fixes them or says why not. Then the change is checked and reviewed again. 0: they are only judged."`
	ReviewDiff    Size          `yaml:"review_diff" validate:"min=1024,max=8388608" doc:"Maximum size of the diff that the reviewer sees. The diffs of large files are cut, which the result says."`
	ReviewTimeout time.Duration `yaml:"review_timeout" validate:"min=1s,max=1h" doc:"Maximum duration of one call of the reviewer's model, unless its provider has a timeout of its own."`
}

// The values of Gate.Approver.
const (
	ApproverNotAuthor = contract.ApproverNotAuthor
	ApproverAnyone    = "anyone"
)

// GateLimits are the limits of a change. 0 means no limit.
type GateLimits struct {
	Files     int  `yaml:"files" validate:"min=0,max=1000000" doc:"Maximum number of changed files. 0: no limit."`
	Deletions int  `yaml:"deletions" validate:"min=0,max=1000000" doc:"Maximum number of deleted files. 0: no limit."`
	Lines     int  `yaml:"lines" validate:"min=0,max=100000000" doc:"Maximum number of added and removed lines. 0: no limit."`
	FileBytes Size `yaml:"file_bytes" validate:"min=0" doc:"Maximum size of a new or changed file. 0: no limit."`
	Bytes     Size `yaml:"bytes" validate:"min=0" doc:"Maximum total size of the new and changed files. 0: no limit."`
}

// GateLabels are the meanings of labels.
type GateLabels struct {
	Allowed   []string `yaml:"allowed" repo:"narrow" validate:"max=100,dive,required,max=100" doc:"The only labels that runs may have. Empty: any." example:"[automerge, docs]"`
	Automerge []string `yaml:"automerge" repo:"remove" validate:"max=100,dive,required,max=100" doc:"Labels with which a release may be merged without a person, if the policies allow it."`
	Blocked   []string `yaml:"blocked" repo:"add" validate:"max=100,dive,required,max=100" doc:"Labels with which nothing is released."`
	Review    []string `yaml:"review" repo:"add" validate:"max=100,dive,required,max=100" doc:"Labels with which a named person must approve each release."`
}

// GateDependencies configures questions to package registries about added dependencies.
type GateDependencies struct {
	Lookup   bool          `yaml:"lookup" doc:"Whether registries are asked about added and raised dependencies. This sends their names to the registries. Off: their age and existence are not judged."`
	MinAge   time.Duration `yaml:"min_age" repo:"raise" validate:"min=0,max=8760h" doc:"How long a version of a dependency, and its package, must have been published. A younger one is a major finding. 0: the age is only shown to policies."`
	Private  []string      `yaml:"private" validate:"max=500,dive,required,max=200,packageglob" doc:"Patterns for packages whose names are not sent to registries, as in Go's GOPRIVATE: they match the beginning of a name up to a slash or its end. Each name is compared in the form in which its registry compares names, too. The workers' environment variables GOPRIVATE and GONOPROXY apply to Go modules." example:"[\"@acme/*\", \"corp.example/*\", \"com.acme.*\"]"`
	Packages int           `yaml:"packages" validate:"min=1,max=10000" doc:"Maximum number of packages that registries are asked about for one change. The age of the others is unknown, which is a finding."`
	Timeout  time.Duration `yaml:"timeout" validate:"min=100ms,max=1m" doc:"Maximum duration of one request to a registry."`
	Total    time.Duration `yaml:"total" validate:"min=100ms,max=5m" doc:"Maximum duration of all requests for one change. The age of what was not answered by then is unknown, which is a finding."`

	Registries GateRegistries `yaml:"registries" doc:"URLs of the registries. Empty: the registry is not asked."`
}

// GateRegistries are the URLs of registries. An empty one is not asked.
type GateRegistries struct {
	Go       string `yaml:"go" validate:"omitempty,serviceurl" doc:"Go module proxy."`
	NPM      string `yaml:"npm" validate:"omitempty,serviceurl" doc:"Registry of npm, with the times of versions in its documents."`
	PyPI     string `yaml:"pypi" validate:"omitempty,serviceurl" doc:"Package index of Python with PyPI's JSON API."`
	Crates   string `yaml:"crates" validate:"omitempty,serviceurl" doc:"Sparse index of Rust crates, with the times of versions (pubtime)."`
	Maven    string `yaml:"maven" validate:"omitempty,serviceurl" doc:"Maven repository that says when files were last modified."`
	RubyGems string `yaml:"rubygems" validate:"omitempty,serviceurl" doc:"RubyGems server with the API of rubygems.org."`
	Composer string `yaml:"packagist" validate:"omitempty,serviceurl" doc:"Composer repository with metadata in /p2."`
	NuGet    string `yaml:"nuget" validate:"omitempty,serviceurl" doc:"NuGet server with the API of api.nuget.org."`
}
