package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // goose works through database/sql
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/freeport"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/migrations"
)

func TestMigrationsGoUpDownAndUpAgain(t *testing.T) {
	t.Parallel()
	address := storetest.EmptyURL(t)
	conn, err := sql.Open("pgx", address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, migrations.FS)
	require.NoError(t, err)
	relations := func() (names []string) {
		rows, err := conn.QueryContext(t.Context(), "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' ORDER BY 1")
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var name string
			require.NoError(t, rows.Scan(&name))
			names = append(names, name)
		}
		require.NoError(t, rows.Err())
		return names
	}
	require.NoError(t, store.Migrate(t.Context(), address))
	full := relations()
	_, err = provider.DownTo(t.Context(), 0)
	require.NoError(t, err)
	for _, name := range relations() {
		require.True(t, strings.HasPrefix(name, "goose_"), name)
	}
	version, err := store.SchemaVersion(t.Context(), address)
	require.NoError(t, err)
	require.Zero(t, version)
	require.NoError(t, store.Migrate(t.Context(), address))
	require.Equal(t, full, relations())
	version, err = store.SchemaVersion(t.Context(), address)
	require.NoError(t, err)
	require.Equal(t, migrations.Latest(), version)
}

func TestSeveralMayMigrateAtOnce(t *testing.T) {
	t.Parallel()
	address := storetest.EmptyURL(t)
	version, err := store.SchemaVersion(t.Context(), address)
	require.NoError(t, err)
	require.Zero(t, version)
	var g errgroup.Group
	for range 4 {
		g.Go(func() error { return store.Migrate(t.Context(), address) })
	}
	require.NoError(t, g.Wait())
	s, err := store.Open(t.Context(), address, store.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Ping(t.Context()))
	s.Close()
}

func TestOpenRefusesASchemaThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), storetest.EmptyURL(t), store.Options{})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "rgpt migrate")
	require.ErrorContains(t, err, "rgpt dev")

	newer := storetest.URL(t)
	storetest.Query(t, newer, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
		require.NoError(t, err)
	})
	_, err = store.Open(t.Context(), newer, store.Options{})
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "version 999, newer than")
	require.Equal(t, contract.ClassConfig, fault.Of(store.Migrate(t.Context(), newer)).Class)
}

func TestDatabaseThatCannotBeReachedIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	const password = "hunter2-canary"
	port, err := freeport.Take(t.Context())
	require.NoError(t, err)
	address := fmt.Sprint("127.0.0.1:", port)
	open := func(address string) error {
		_, err := store.Open(t.Context(), address, store.Options{ConnectTimeout: 200 * time.Millisecond})
		require.Error(t, err)
		require.NotContains(t, err.Error(), password)
		require.NotContains(t, fault.Of(err).Cause, password)
		return err
	}
	err = open("postgres://rgpt:" + password + "@" + address + "/rgpt?sslmode=disable")
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
	require.Equal(t, contract.CodeUnavailable, fault.Of(err).Code)
	require.ErrorContains(t, err, address)

	folder := t.TempDir()
	err = open("postgres://rgpt:" + password + "@" + address + "/rgpt?host=" + folder)
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class, "a socket that does not exist is a server that is down")
	require.Equal(t, contract.CodeUnavailable, fault.Of(err).Code)
	require.ErrorContains(t, err, fmt.Sprintf("PostgreSQL at %s/.s.PGSQL.%d", folder, port))

	for _, wrong := range []string{"postgres://rgpt:" + password + "@host:port/rgpt", "mysql://rgpt:" + password + "@host/", "rgpt:" + password} {
		require.Equal(t, contract.ClassConfig, fault.Of(open(wrong)).Class, wrong)
	}
	u, err := url.Parse(storetest.URL(t))
	require.NoError(t, err)
	u.Path = "/nowhere"
	err = open(u.String())
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, `database "nowhere"`)
}

func TestOpenWaitsForADatabaseThatIsNotUpYet(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(storetest.URL(t))
	require.NoError(t, err)
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u.Host = l.Addr().String()
	refused := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error { return proxy(l, server, refused) })
	s, err := store.Open(t.Context(), u.String(), store.Options{MaxConns: 1, ConnectTimeout: 30 * time.Second})
	require.NoError(t, err)
	<-refused
	s.Close()
	require.NoError(t, l.Close())
	require.NoError(t, g.Wait())
}

// proxy hangs up on the first three connections and passes the others on, until
// its listener is closed.
func proxy(l net.Listener, to string, refused chan<- struct{}) error {
	var g errgroup.Group
	for n := 0; ; n++ {
		client, err := l.Accept()
		if err != nil {
			return g.Wait()
		}
		if n < 3 {
			client.Close()
			if n == 2 {
				close(refused)
			}
			continue
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			return err
		}
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			g.Go(func() error {
				_, _ = io.Copy(pair[0], pair[1])
				pair[0].Close()
				pair[1].Close()
				return nil
			})
		}
	}
}

func TestAnUpgradeKeepsWhatIsThereAndSendsNothingOfThePast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plan, err := b.SavePlan(t.Context(), b.First.ID, 0, "ann", contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "n", Description: "d"}}})
	require.NoError(t, err)
	b.Apply(t, contract.Record{RunID: b.First.ID, Run: &contract.RunChange{Status: contract.StatusPending, Phase: contract.PhasePlanner, PlanID: plan}, Events: storetest.Drafts(3)})
	require.NoError(t, b.Heartbeat(t.Context(), beat("w", contract.HealthHealthy, "builder")))
	before := b.all(t)
	conn, err := sql.Open("pgx", b.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, migrations.FS)
	require.NoError(t, err)
	_, err = provider.DownTo(t.Context(), 5)
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "INSERT INTO orchestrator_plans (run_id, author, plan) SELECT run_id, author, '{\"steps\": 7}' FROM orchestrator_plans")
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context(), b.URL))

	s, err := store.Open(t.Context(), b.URL, store.Options{})
	require.NoError(t, err)
	defer s.Close()
	after, err := s.Events(t.Context(), b.First.ID, 0, 1000)
	require.NoError(t, err)
	require.Equal(t, before, after)
	got, err := s.Plan(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, got.Steps, 1)
	var steps []int
	rows, err := conn.QueryContext(t.Context(), "SELECT step_count FROM orchestrator_plans ORDER BY id")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var n int
		require.NoError(t, rows.Scan(&n))
		steps = append(steps, n)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []int{1, 0}, steps)
	agents, err := views.New(s).Agents(t.Context())
	require.NoError(t, err)
	require.Len(t, agents, 1)
	_, _, _, err = s.CreateWebhook(t.Context(), store.NewWebhook{URL: "https://example.com", Secret: "x", Enabled: true, Most: 1})
	require.NoError(t, err)
	_, err = s.Record(t.Context(), b.Source(), contract.Record{RunID: b.First.ID, Seq: b.NextSeq(), Events: storetest.Drafts(1)})
	require.NoError(t, err)
	// An event is queued once no older transaction of the cluster is open, of which the
	// other tests may have some.
	pending := func() int64 {
		_, _, err := s.QueueDeliveries(t.Context())
		require.NoError(t, err)
		hooks, err := s.Webhooks(t.Context())
		require.NoError(t, err)
		return hooks[0].Pending
	}
	await.Until(t, "the event to be queued", func() bool { return pending() > 0 })
	require.EqualValues(t, 1, pending())
}
