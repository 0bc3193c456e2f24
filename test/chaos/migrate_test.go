package chaos

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/migrations"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// gate is the advisory lock that migrations are held up by.
const gate = 4711

// TestAMigrationThatIsKilledInItsMiddleIsCompletedByTheNext kills rgpt migrate at each
// version of the schema, when it has made the first change of the next and not committed
// it. An event trigger holds it up there. In the end the schema is that of migrations
// that nobody killed.
func TestAMigrationThatIsKilledInItsMiddleIsCompletedByTheNext(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	address := storetest.EmptyURL(t)
	conn, err := pgx.Connect(ctx, address)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, fmt.Sprintf(`
		CREATE TABLE hold_at (version bigint NOT NULL);
		INSERT INTO hold_at VALUES (0);
		CREATE FUNCTION hold() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF to_regclass('goose_db_version') IS NULL THEN RETURN; END IF;
			IF (SELECT max(version_id) FROM goose_db_version) = (SELECT version FROM hold_at) THEN PERFORM pg_advisory_xact_lock(%d); END IF;
		END $$;
		CREATE EVENT TRIGGER hold ON ddl_command_end EXECUTE FUNCTION hold()`, gate))
	require.NoError(t, err)
	for version := range migrations.Latest() {
		_, err = conn.Exec(ctx, "UPDATE hold_at SET version = $1", version)
		require.NoError(t, err)
		require.Equal(t, version, killMigration(t, conn, address))
	}
	_, err = conn.Exec(ctx, "DROP EVENT TRIGGER hold; DROP FUNCTION hold; DROP TABLE hold_at")
	require.NoError(t, err)
	out, err := migration(ctx, t, address).CombinedOutput()
	require.NoError(t, err, "%s", out)
	version, err := store.SchemaVersion(ctx, address)
	require.NoError(t, err)
	require.Equal(t, migrations.Latest(), version)
	require.Equal(t, schemaOf(t, storetest.URL(t)), schemaOf(t, address))
}

func migration(ctx context.Context, t *testing.T, address string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(harness.Binaries(t), "rgpt"), "migrate")
	cmd.Env, cmd.Dir = append(cmd.Environ(), "DATABASE_URL="+address), t.TempDir()
	return cmd
}

// killMigration starts a migration and kills it when it is held up, and sees that its
// locks go with it. It returns the schema's version then.
func killMigration(t *testing.T, conn *pgx.Conn, address string) int64 {
	t.Helper()
	ctx := t.Context()
	_, err := conn.Exec(ctx, fmt.Sprintf("SELECT pg_advisory_lock(%d)", gate))
	require.NoError(t, err)
	open := true
	pass := func() {
		if open {
			_, err := conn.Exec(context.WithoutCancel(ctx), fmt.Sprintf("SELECT pg_advisory_unlock(%d)", gate))
			require.NoError(t, err)
		}
		open = false
	}
	defer pass()
	cmd := migration(ctx, t, address)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	count := func(query string) (n int) {
		require.NoError(t, conn.QueryRow(ctx, query).Scan(&n))
		return n
	}
	const others = " FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()"
	harness.Await(t, "the migration to be held up", time.Minute, func() (bool, string) {
		select {
		case err := <-ended:
			t.Fatalf("the migration ended before it was held up: %v\n%s", err, &out)
		default:
		}
		return count("SELECT count(*)"+others+" AND NOT granted") > 0, "it works"
	})
	require.Positive(t, count("SELECT count(*)"+others+" AND granted"), "it holds the lock of migrations")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, <-ended, "it was killed")
	pass() // a server hears of a dead client when it has done what that one asked
	harness.Await(t, "the locks of the killed migration to be gone", 30*time.Second, func() (bool, string) {
		n := count("SELECT count(*)" + others)
		return n == 0, fmt.Sprint(n, " locks")
	})
	version, err := store.SchemaVersion(ctx, address)
	require.NoError(t, err)
	return version
}

// schemaOf describes all columns, indexes, constraints and functions of a database.
func schemaOf(t *testing.T, address string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `
		SELECT concat_ws(' ', 'column', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns WHERE table_schema = 'public'
		UNION ALL SELECT concat_ws(' ', 'index', indexdef) FROM pg_indexes WHERE schemaname = 'public'
		UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
		UNION ALL SELECT concat_ws(' ', 'function', pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'
		UNION ALL SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(oid)) FROM pg_trigger WHERE NOT tgisinternal
		UNION ALL SELECT concat_ws(' ', 'version', version_id) FROM goose_db_version
		ORDER BY 1`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(all), 100)
	return all
}
