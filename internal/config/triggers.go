package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// The values of Trigger.On.
const (
	OnIssue    = "issue"
	OnComment  = "comment"
	OnCheck    = "check"
	OnSchedule = "schedule"
	OnEvent    = "event"
	OnCommand  = "command"
)

// The values of Trigger.Overlap.
const (
	OverlapSkip   = "skip"
	OverlapQueue  = "queue"
	OverlapCancel = "cancel"
)

// Trigger creates runs when something happens. Only the operator's configuration has triggers: no
// repository, run or request can create or change one.
type Trigger struct {
	On         string `yaml:"on" validate:"required,oneof=issue comment check schedule event command" doc:"What makes the trigger fire. issue: an open issue has the label. comment: a comment on an issue contains git.pull_request.mention. check: a check of the branch fails. schedule: the time of cron has come. event: a CloudEvent arrives. command: only rgpt trigger fire. That command fires all other triggers too."`
	Forge      string `yaml:"forge" doc:"Name of the forge (forges) that has the repository. Needed for issue, comment and check."`
	Repository string `yaml:"repository" validate:"max=500" doc:"Path of the repository on the forge, such as team/app."`
	Repo       string `yaml:"repo" validate:"max=2000" secret:"true" doc:"Directory or URL of the repository that runs work on. Empty: the repository on the forge, over HTTPS."`
	Base       string `yaml:"base" validate:"max=200" doc:"Branch, tag or commit that runs start from, and the branch whose checks are watched. Empty: the default branch."`

	Label     string        `yaml:"label" validate:"max=100" doc:"Label of issues, for issue. A trigger fires once for each issue."`
	Cron      string        `yaml:"cron" validate:"max=100" doc:"Times, for schedule, as five fields: minute, hour, day of the month, month, day of the week." example:"\"0 3 * * 1-5\""`
	Zone      string        `yaml:"zone" default:"UTC" validate:"max=64" doc:"Time zone of cron, such as Europe/Berlin."`
	CatchUp   time.Duration `yaml:"catch_up" default:"1h" validate:"min=0,max=720h" doc:"How late something may be and still fire the trigger, for example because the server was down. What is older is skipped."`
	Types     []string      `yaml:"types" validate:"max=50,dive,required,max=200" doc:"Patterns of the types of CloudEvents, for event. * stands for any text. Empty: all types." example:"[com.example.deploy.*]"`
	TokenEnv  string        `yaml:"token_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains the token with which CloudEvents are sent (Authorization: Bearer). Needed for event, unless token_file is set."`
	TokenFile string        `yaml:"token_file" doc:"File that contains this token. Overrides token_env."`

	Goal       string            `yaml:"goal" validate:"max=10000" doc:"What runs shall do. What the issue, comment, check or event says is added to it, as data. Empty for issue and comment: resolve the issue."`
	Project    string            `yaml:"project" validate:"max=200" doc:"Project of the runs. Empty: the repository's name."`
	Release    string            `yaml:"release" validate:"omitempty,oneof=branch push pull_request" doc:"How far releases go (git.release). Empty: as configured there."`
	Settings   map[string]string `yaml:"settings" validate:"max=50" doc:"Further settings of the runs, by dotted key, as with rgpt run create --set." example:"{execution.run.cost_usd: \"2\"}"`
	Labels     []string          `yaml:"labels" validate:"max=20,dive,required,max=50" doc:"Labels of the runs."`
	Overlap    string            `yaml:"overlap" default:"queue" validate:"oneof=skip queue cancel" doc:"What happens when the trigger fires while as many of its runs as concurrency allows are in progress. skip: nothing. queue: the new one waits. cancel: the runs in progress are cancelled, waiting ones are skipped, and the newest begins."`
	Concurrent int               `yaml:"concurrent" default:"1" validate:"min=1,max=1000" doc:"Maximum number of runs of the trigger at the same time."`
	Waiting    int               `yaml:"waiting" default:"100" validate:"min=1,max=10000" doc:"Maximum number of firings that wait. More are skipped."`
	PerDay     int               `yaml:"per_day" default:"50" validate:"min=1,max=10000" doc:"Maximum number of runs that the trigger creates within 24 hours. More are skipped."`
	CostPerDay MicroUSD          `yaml:"cost_per_day" validate:"min=0" doc:"Maximum cost of the runs that the trigger created within 24 hours. When it is reached, more are skipped. 0: unlimited."`
}

// Token reads the token with which CloudEvents are sent. getenv is usually os.Getenv. The error never
// contains it.
func (t Trigger) Token(getenv func(string) string) (string, error) {
	return readSecret("token", t.TokenEnv, t.TokenFile, getenv)
}

// OnForge reports whether what fires the trigger happens on a forge.
func (t Trigger) OnForge() bool { return slices.Contains([]string{OnIssue, OnComment, OnCheck}, t.On) }

// Next returns the next times of the schedule of a trigger after a time, at most n; none without a
// schedule.
func (t Trigger) Next(after time.Time, n int) (times []time.Time) {
	zone, err := time.LoadLocation(t.Zone)
	if t.On != OnSchedule || err != nil {
		return nil
	}
	schedule, err := cron.ParseStandard(t.Cron)
	if err != nil {
		return nil
	}
	for after = schedule.Next(after.In(zone)); len(times) < n && !after.IsZero(); after = schedule.Next(after) {
		times = append(times, after)
	}
	return times
}

// problems reports settings of a trigger that contradict each other or name what does not exist. key
// is that of the trigger.
func (t Trigger) problems(key string, forges map[string]Forge, add func(key, problem string)) {
	needed := func(name, value string) {
		if value == "" {
			add(key+"."+name, fmt.Sprintf("is missing; triggers on %q need it", t.On))
		}
	}
	if t.Forge != "" {
		if _, known := forges[t.Forge]; !known {
			add(key+".forge", fmt.Sprintf("expected the name of a forge (forges), got %q", t.Forge))
		}
	}
	switch t.On {
	case OnIssue:
		needed("label", t.Label)
	case OnSchedule:
		needed("cron", t.Cron)
		if _, err := cron.ParseStandard(t.Cron); t.Cron != "" && (err != nil || strings.HasPrefix(t.Cron, "@every") || strings.Contains(t.Cron, "TZ=")) {
			add(key+".cron", fmt.Sprintf("expected five fields such as \"0 3 * * 1-5\" (minute, hour, day of the month, month, day of the week), got %q", t.Cron))
		}
		if _, err := time.LoadLocation(t.Zone); err != nil || t.Zone == "Local" {
			add(key+".zone", fmt.Sprintf("expected a time zone such as Europe/Berlin, got %q", t.Zone))
		}
	case OnEvent:
		needed("token_env", t.TokenEnv+t.TokenFile)
	}
	switch {
	case t.OnForge() || t.Repo == "":
		needed("forge", t.Forge)
		needed("repository", t.Repository)
	case t.Forge == "" && t.Repository != "":
		needed("forge", t.Forge)
	}
	if t.On != OnIssue && t.On != OnComment {
		needed("goal", t.Goal)
	}
}
