package triggers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/migrations"
)

// beforePlaces is a version of the schema in which deliveries did not say where they happened.
const beforePlaces = 59

func TestDeliveriesOfOlderVersionsCountForTheRepositoryInWhichTheyHappened(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), storetest.EmptyURL(t)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	conn := stdlib.OpenDB(*cfg)
	defer func() { require.NoError(t, conn.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, migrations.FS)
	require.NoError(t, err)
	_, err = provider.UpTo(ctx, beforePlaces)
	require.NoError(t, err)
	storetest.Query(t, url, func(ctx context.Context, conn *pgx.Conn) {
		for name, read := range map[string]string{"label": "issue work Team/App rgpt ", "lab": "issue lab group/sub/app rgpt main", "red": "check work team/app  ", "fix": ""} {
			_, err := conn.Exec(ctx, "INSERT INTO orchestrator_triggers (name, read_for) VALUES ($1, $2)", name, read)
			require.NoError(t, err)
		}
		for _, row := range [][]string{
			{"label", "issue:1", `{"issue": "https://git.example.com/sub/Team/App/issues/1"}`},
			{"label", "comment:5", `{"issue": "https://git.example.com/sub/team/app/issues/1"}`},
			{"label", "issue:2", `{"issue": "https://git.example.com/team/old/issues/2"}`},
			{"lab", "issue:1", `{"issue": "https://lab.example.com/group/sub/app/-/issues/1"}`},
			{"red", "check:c0ffee:unit", `{"title": "unit failed on main of team/app"}`},
			{"red", "check:c0ffee:lint", `{"title": "lint failed on main of team/old"}`},
			{"fix", "command:a", `{}`},
		} {
			_, err := conn.Exec(ctx, "INSERT INTO orchestrator_trigger_firings (trigger, delivery, payload, occurred_at) VALUES ($1, $2, $3, now())", row[0], row[1], row[2])
			require.NoError(t, err)
		}
		// A server created a run and died before it noted that.
		_, err := conn.Exec(ctx, `UPDATE orchestrator_trigger_firings SET attempts = 1, tried_at = now() WHERE trigger = 'lab';
			INSERT INTO orchestrator_runs (project, goal_title, repo, settings, idempotency_key) VALUES ('p', 'g', '/r', '{}', 'trigger:lab:issue:1')`)
		require.NoError(t, err)
	})
	require.NoError(t, store.Migrate(ctx, url))
	storetest.Query(t, url, func(ctx context.Context, conn *pgx.Conn) {
		var key string
		require.NoError(t, conn.QueryRow(ctx, "SELECT idempotency_key FROM orchestrator_runs").Scan(&key))
		require.Equal(t, "trigger:lab:lab/group/sub/app:issue:1", key, "as trigger.Key makes it")
	})

	st := storetest.Open(t, url)
	app, lab := triggers.PlaceOf("work", "Team/App"), triggers.PlaceOf("lab", "group/sub/app")
	for _, d := range []struct {
		trigger string
		at      triggers.Place
		key     string
		fresh   bool
	}{
		{"label", app, "issue:1", false},
		{"label", app, "comment:5", false},
		{"label", app, "issue:2", true},
		{"label", triggers.PlaceOf("work", "team/old"), "issue:1", true},
		{"lab", lab, "issue:1", false},
		{"lab", app, "issue:1", true},
		{"red", app, "check:c0ffee:unit", false},
		{"red", app, "check:c0ffee:lint", true},
		{"red", triggers.PlaceOf("work", "team/fork"), "check:c0ffee:unit", true},
		{"fix", triggers.Place{}, "command:a", false},
	} {
		known, err := triggers.Known(ctx, st, d.trigger, d.at, []string{d.key})
		require.NoError(t, err)
		require.Equal(t, !d.fresh, known[d.key], "%+v", d)
		fresh, err := triggers.Add(ctx, st, triggers.Delivery{Trigger: d.trigger, At: d.at, Key: d.key, OccurredAt: time.Now()})
		require.NoError(t, err)
		require.Equal(t, d.fresh, fresh, "%+v", d)
	}
	all, err := triggers.List(ctx, st, triggers.Filter{Trigger: "label", Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "/team/old issue:2", fmt.Sprint(all[len(all)-3].At(), " ", all[len(all)-3].Delivery), "it is not one of the present repository")
	_, err = provider.DownTo(ctx, beforePlaces)
	require.NoError(t, err)
}
