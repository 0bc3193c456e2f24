package store_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestADatabaseThatHasNoRoomIsWaitedForAndNeverFailsARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g"})
	require.NoError(t, err)
	for state, failing := range map[string]string{
		"53100": "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'",
		"53200": "RAISE EXCEPTION 'out of memory' USING ERRCODE = '53200'",
		"58030": "RAISE EXCEPTION 'could not read block' USING ERRCODE = '58030'",
		"25006": "RAISE EXCEPTION 'cannot execute UPDATE in a read-only transaction' USING ERRCODE = '25006'",
	} {
		storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
			_, err := conn.Exec(ctx, `CREATE OR REPLACE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+failing+`; END $$`)
			require.NoError(t, err)
			_, err = conn.Exec(ctx, `CREATE OR REPLACE TRIGGER fails BEFORE UPDATE ON orchestrator_runs FOR EACH ROW EXECUTE FUNCTION fails()`)
			require.NoError(t, err)
		})
		err := b.SetRunEnvironment(t.Context(), run.ID, "", 0)
		f := fault.Of(err)
		require.Equal(t, contract.CodeDatabaseDown, f.Code, "%s: %v", state, err)
		require.Contains(t, f.Message, "the database cannot process the request right now")
		var again *fault.Error
		require.ErrorAs(t, err, &again)
		_, more := again.RetryDelay(100_000)
		require.True(t, more, state)
	}
}
