package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestAChannelNeedsOnlyWhatItsKindNeeds(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
notifications:
  team: {kind: slack, url_env: SLACK, on: [waits], digest: 15m, quiet: {from: "22:00", to: "07:00"}}
  mail: {kind: email, host: smtp.example.com, from: rgpt@example.com, to: [a@example.com], user_env: U, password_env: P}
execution: {approval: {reminders: [{after: 1h, to: ["channel:team"]}]}}
`)
	require.NoError(t, err)
	require.Equal(t, config.Notification{
		Kind: config.ChannelSlack, URLEnv: "SLACK", On: []string{config.NotifyWaits}, Digest: 15 * time.Minute,
		Quiet: config.Quiet{From: "22:00", To: "07:00", Zone: "UTC"}, Timeout: 30 * time.Second, Port: 587, StartTLS: "required", PerHour: 20, MaxBrowsers: 200, PerPerson: 10,
	}, c.Notifications["team"])
	require.Equal(t, config.NotifyKinds(), c.Notifications["mail"].Wants())
	env := map[string]string{"SLACK": "https://hooks.example.com/services/T0/B0/secretsecret", "U": "rgpt", "P": "password-1"}
	getenv := func(name string) string { return env[name] }
	require.Subset(t, c.Secrets(getenv), []string{env["SLACK"], "/services/T0/B0/secretsecret", "password-1"})
	env["SLACK"] = "ftp://secretsecret"
	_, err = c.Notifications["team"].Address(getenv)
	require.ErrorContains(t, err, "must be an http or https URL")
	require.NotContains(t, err.Error(), "secretsecret")
}

func TestMistakesAboutChannelsSayWhatIsExpected(t *testing.T) {
	t.Parallel()
	const mail = "{kind: email, host: h, from: a@b, to: [c@d], "
	for _, c := range []struct{ in, want string }{
		{"{kind: pigeon}", `notifications.x.kind: expected one of slack, email, push, got "pigeon"`},
		{"{kind: slack}", `notifications.x.url_env: is missing; channels of kind "slack" need it`},
		{"{kind: email, from: a@b, to: [c@d]}", `notifications.x.host: is missing`},
		{"{kind: email, host: h, to: [c@d]}", `notifications.x.from: is missing`},
		{"{kind: email, host: h, from: a@b}", `notifications.x.to: is missing`},
		{mail + "user_env: U}", `notifications.x.password_env: is missing; user_env requires it`},
		{mail + "password_env: P}", `notifications.x.user_env: is missing; a password requires it`},
		{mail + "starttls: off, user_env: U, password_env: P}", `notifications.x.starttls: must be required`},
		{"{kind: slack, url_env: U, on: [everything]}", `notifications.x.on[0]: expected one of waits, failed, done, budget`},
		{"{kind: slack, url_env: U, digest: 48h}", `notifications.x.digest: expected a duration (such as 30s, 5m or 24h) from 0 to 24h`},
		{"{kind: slack, url_env: U, quiet: {from: '25:00', to: '07:00'}}", `notifications.x.quiet.from: expected a time of day such as 22:00, got "25:00"`},
		{"{kind: slack, url_env: U, quiet: {from: '22:00'}}", `notifications.x.quiet: expected two different times of day`},
		{"{kind: slack, url_env: U, quiet: {from: '22:00', to: '07:00', zone: Mars}}", `notifications.x.quiet.zone: expected a time zone such as Europe/Berlin, got "Mars"`},
		{mail + "password: x}", `notifications.x.password: unknown key; secrets do not belong in this file; use password_env or password_file`},
	} {
		_, err := load(t, "notifications: {x: "+c.in+"}")
		require.ErrorContains(t, err, c.want, c.in)
	}
	_, err := load(t, "execution: {approval: {reminders: [{after: 1h, to: ['channel:nobody']}]}}")
	require.ErrorContains(t, err, `execution.approval.reminders[0].to[0]: expected the name of a channel (notifications), got "nobody"`)
}
