package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestTwoStacksWorkBesideEachOther(t *testing.T) {
	t.Parallel()
	first := harness.Start(t, harness.Options{Scenario: quickRules("300ms")})
	second := harness.Start(t, harness.Options{Scenario: quickRules("300ms")})
	seen := map[string]bool{}
	for _, s := range []*harness.Stack{first, second} {
		for _, p := range s.State(t).Processes {
			require.False(t, p.Address != "" && seen[p.Address], "%s of two stacks at %s", p.Role, p.Address)
			seen[p.Address] = true
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State(t).Server+"/readyz", http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	one := first.Create(t, "--repo", harness.ShellRepo(t, filepath.Join(first.Dir, "repo")), "--goal", "One")
	two := second.Create(t, "--repo", harness.ShellRepo(t, filepath.Join(second.Dir, "repo")), "--goal", "Two")
	require.Equal(t, one, two, "each counts for itself")
	for _, s := range []*harness.Stack{first, second} {
		require.Equal(t, contract.StatusDone, s.AwaitEnd(t, s.Store(t), one, longest).Status)
		harness.CheckInvariants(t, s, one)
	}
	takenPort(t, first, second)
	oldSchema(t, second)
}

// takenPort sees that a stack does not take another's port.
func takenPort(t *testing.T, first, second *harness.Stack) {
	t.Helper()
	_, port, ok := strings.Cut(strings.TrimPrefix(first.State(t).Server, "http://"), ":")
	require.True(t, ok)
	second.OK(t, "dev", "stop")
	r := second.RGPT(t, "dev", "--detach", "--port", port)
	require.Equal(t, exitInput, r.Code, "%s", r)
	require.Contains(t, r.Stderr, "port "+port+" is in use")
	require.NotContains(t, second.RGPT(t, "dev", "status").Stdout, "running", "nothing was started")
	second.Up(t)
}

// oldSchema sees that a database of another version is refused.
func oldSchema(t *testing.T, s *harness.Stack) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "DELETE FROM goose_db_version WHERE version_id > 0")
	require.NoError(t, err)
	for _, args := range [][]string{{"run", "list"}, {"run", "create", "--repo", filepath.Join(s.Dir, "repo"), "--goal", "x"}} {
		r := s.RGPT(t, args...)
		require.Equal(t, exitInput, r.Code, "%s", r)
		require.Contains(t, r.Stderr, "rgpt migrate")
	}
	var runs int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM orchestrator_runs").Scan(&runs))
	require.Equal(t, 1, runs, "nothing was made")
}

func TestAStoppedStackResumesWhereItWas(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Options{Scenario: quickRules("500ms")})
	repo := harness.ShellRepo(t, filepath.Join(s.Dir, "repo"))
	id := s.Create(t, "--repo", repo, "--goal", "Outlive a stop")
	db := s.Store(t)
	s.AwaitStatus(t, db, id, contract.PhaseBuilder.Running(), longest)
	s.OK(t, "dev", "stop")
	s.CheckNothingLeft(t)
	r := s.RGPT(t, "dev", "status")
	require.NotZero(t, r.Code)
	s.Up(t)
	require.Equal(t, contract.StatusDone, s.AwaitEnd(t, s.Store(t), id, longest).Status)
	harness.CheckInvariants(t, s, id)
}
