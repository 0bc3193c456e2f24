package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestATriggerNeedsOnlyWhatItsKindNeeds(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
forges: {work: {kind: github}}
triggers:
  label: {on: issue, forge: work, repository: team/app, label: rgpt}
  nightly: {on: schedule, cron: "0 3 * * 1-5", zone: Europe/Berlin, repo: /srv/app, goal: Update the dependencies}
  deploy: {on: event, token_env: DEPLOY, repo: /srv/app, goal: Fix the deployment, types: ["com.example.*"], overlap: cancel}
  red: {on: check, forge: work, repository: team/app, goal: Fix the check}
`)
	require.NoError(t, err)
	require.Equal(t, config.Trigger{
		On: config.OnIssue, Forge: "work", Repository: "team/app", Label: "rgpt",
		Zone: "UTC", CatchUp: time.Hour, Overlap: config.OverlapQueue, Concurrent: 1, Waiting: 100, PerDay: 50,
	}, c.Triggers["label"])
	require.Equal(t, "Europe/Berlin", c.Triggers["nightly"].Zone)
}

func TestMistakesAboutTriggersSayWhatIsExpected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"{goal: g, repo: r}", `triggers.x.on: is missing; expected one of issue, comment, check, schedule, event, command`},
		{"{on: issue, forge: work, repository: a/b}", `triggers.x.label: is missing; triggers on "issue" need it`},
		{"{on: issue, repository: a/b, label: l}", `triggers.x.forge: is missing`},
		{"{on: check, forge: other, repository: a/b, goal: g}", `triggers.x.forge: expected the name of a forge (forges), got "other"`},
		{"{on: check, forge: work, repository: a/b}", `triggers.x.goal: is missing`},
		{"{on: schedule, repo: r, goal: g}", `triggers.x.cron: is missing`},
		{"{on: schedule, repo: r, goal: g, cron: '* * *'}", `triggers.x.cron: expected five fields`},
		{"{on: schedule, repo: r, goal: g, cron: '@every 1s'}", `triggers.x.cron: expected five fields`},
		{"{on: schedule, repo: r, goal: g, cron: '0 3 * * *', zone: Mars}", `triggers.x.zone: expected a time zone such as Europe/Berlin, got "Mars"`},
		{"{on: event, repo: r, goal: g}", `triggers.x.token_env: is missing`},
		{"{on: command, goal: g}", `triggers.x.forge: is missing`},
		{"{on: command, repo: r, goal: g, overlap: restart}", `triggers.x.overlap: expected one of skip, queue, cancel`},
	} {
		_, err := load(t, "forges: {work: {kind: github}}\ntriggers: {x: "+c.in+"}")
		require.ErrorContains(t, err, c.want, c.in)
	}
}

func TestTheNextTimesOfAScheduleAreInItsZone(t *testing.T) {
	t.Parallel()
	after := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC) // the clock is put forward on the next day
	trigger := config.Trigger{On: config.OnSchedule, Cron: "30 4 * * *", Zone: "Europe/Berlin"}
	var got []string
	for _, at := range trigger.Next(after, 2) {
		got = append(got, at.UTC().Format(time.DateTime))
	}
	require.Equal(t, []string{"2026-03-29 02:30:00", "2026-03-30 02:30:00"}, got)
	require.Empty(t, config.Trigger{On: config.OnEvent, Cron: "30 4 * * *", Zone: "UTC"}.Next(after, 2))
}
