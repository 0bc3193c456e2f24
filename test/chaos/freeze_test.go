package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestAProcessFrozenForLongerThanItsLeasesContinuesNormally freezes each
// process in mid-run, for longer than heartbeats (2 s), workflow tasks (3 s) and
// agents (4 s, by its configuration) may be silent. What a frozen worker held was
// given away meanwhile; it finds that out when it goes on, and pays nothing again.
func TestAProcessFrozenForLongerThanItsLeasesContinuesNormally(t *testing.T) {
	d := newFaultTrial(t, harness.Options{Config: "worker:\n  heartbeat: 1s\n  offline_after: 4s\n"})
	still := 8 * time.Second
	if long(t) { // than statements (30 s) and transactions (60 s), too
		still = 75 * time.Second
	}
	for _, role := range []devstack.Role{devstack.RoleWorker, devstack.RoleServer, devstack.RoleTemporal, devstack.RolePostgres} {
		id := d.midRun(t, "Freeze the "+string(role))
		thaw := d.Freeze(t, role)
		require.Error(t, d.awaitHealthy(t, role, id), "the %s stands still", role)
		if role == devstack.RoleWorker {
			d.awaitAgents(t, contract.HealthOffline)
		}
		<-time.After(still) // the fault itself
		require.Error(t, d.awaitHealthy(t, role, id), "the %s stands still to the end", role)
		thaw()
		thawed := time.Now()
		if role != devstack.RoleServer { // which no run needs
			d.underWay(t, id)
		}
		harness.Await(t, "the "+string(role)+" to answer again", 30*time.Second, func() (bool, string) {
			err := d.awaitHealthy(t, role, id)
			return err == nil, fmt.Sprint(err)
		})
		d.requireDone(t, time.Minute, id)
		took := time.Since(thawed)
		d.awaitAgents(t, contract.HealthHealthy)
		repeated := d.repeated(t, id)
		t.Logf("the %s stood still for %s, its run was over and checked %s later; done again: %v", role, still, took.Round(time.Second), repeated)
		if role == devstack.RoleWorker {
			given := d.events(t, id, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT) + len(repeated)
			require.Positive(t, given, "Temporal took away what the frozen worker held")
		}
	}
}

// awaitAgents waits until all agents are of one health.
func (d *faultTrial) awaitAgents(t *testing.T, want contract.Health) {
	t.Helper()
	harness.Await(t, "all agents to be "+string(want), time.Minute, func() (bool, string) {
		all, err := views.New(d.db).Agents(t.Context())
		require.NoError(t, err)
		return len(all) > 0 && !slices.ContainsFunc(all, func(a views.Agent) bool { return a.HealthStatus != want }), fmt.Sprint(all)
	})
}

// awaitHealthy asks a process something that it must answer at once.
func (d *faultTrial) awaitHealthy(t *testing.T, role devstack.Role, run int64) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	state := d.State(t)
	switch role {
	case devstack.RolePostgres:
		conn, err := pgx.Connect(ctx, state.Database)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	case devstack.RoleTemporal:
		_, err := d.Temporal(t).CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	case devstack.RoleServer:
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, state.Server+"/healthz", nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	default:
		_, err := d.Temporal(t).QueryWorkflow(ctx, contract.RunWorkflowID(run), "", contract.QueryState)
		return err
	}
}
