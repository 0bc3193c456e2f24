package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/test/harness"
)

// conflictsEach is how many statements on each table fail. A few: each is tried again
// after a longer wait than the one before.
const conflictsEach = 3

// TestSerializationFailuresAndDeadlocksAreTriedAgainUntilTheyPass lets every fifth
// statement on each table that runs write fail as PostgreSQL lets the loser of a
// conflict fail, by turns for one reason and the other. A sequence counts, since a
// transaction that is rolled back takes no number back.
func TestSerializationFailuresAndDeadlocksAreTriedAgainUntilTheyPass(t *testing.T) {
	d := newFaultTrial(t, harness.Options{})
	first, second := d.run(t, "Conflicts, run 1"), d.run(t, "Conflicts, run 2")
	conn, err := pgx.Connect(t.Context(), d.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE n bigint := nextval('met_' || TG_TABLE_NAME);
		BEGIN
			IF n %% 5 <> 0 OR n > %d THEN RETURN NULL; END IF;
			IF n %% 2 = 0 THEN
				RAISE EXCEPTION 'could not serialize access due to concurrent update' USING ERRCODE = '40001';
			END IF;
			RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01';
		END $$`, 5*conflictsEach))
	require.NoError(t, err)
	tables := []string{"orchestrator_runs", "orchestrator_executions", "orchestrator_events", "orchestrator_model_calls", "orchestrator_budgets", "orchestrator_transcripts", "orchestrator_records"}
	for _, table := range tables {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(`
			CREATE SEQUENCE met_%[1]s;
			CREATE TRIGGER conflict AFTER INSERT OR UPDATE ON %[1]s FOR EACH STATEMENT EXECUTE FUNCTION conflict()`, table))
		require.NoError(t, err, table)
	}
	d.requireDone(t, 2*time.Minute, first, second)
	for _, table := range tables {
		var met int64
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT last_value FROM met_"+table).Scan(&met))
		require.GreaterOrEqual(t, met, int64(5*conflictsEach), "%s was written often enough for all conflicts", table)
	}
}
