// Package storetest gives each test its own database, with the schema, on a real PostgreSQL server.
// The server is the first available one of these:
//
//   - the server of TEST_DATABASE_URL, whose user may create databases;
//   - a container, if a Docker engine responds;
//   - a private cluster of the installed PostgreSQL programs (downloaded ones
//     if there are none), without fsync.
//
// A server that the package starts serves one test process, from its first test on. It stops with
// the process, even if the process is killed. A TestMain that looks for leaks stops it first:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }
package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/migrations"
)

// New returns a store on the test's own database. It is closed at the end of the test.
func New(tb testing.TB) *store.Store {
	tb.Helper()
	return Open(tb, URL(tb))
}

// Open returns a store on a database, as another process would. It is closed at the end of the
// test.
func Open(tb testing.TB, url string) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), url, store.Options{MaxConns: 8, ApplicationName: "rgpt-test"})
	if err != nil {
		tb.Fatalf("open the test database: %v", err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Feed returns a feed of a store. It is closed at the end of the test.
func Feed(tb testing.TB, st *store.Store, o feed.Options) *feed.Feed {
	tb.Helper()
	f := feed.New(st, o)
	tb.Cleanup(f.Close)
	return f
}

// URL returns the URL of a new database with the schema, which is dropped at the end of the test.
func URL(tb testing.TB) string {
	tb.Helper()
	return create(tb, true)
}

// EmptyURL returns the URL of a new database without a schema, which is dropped at the end of the
// test.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return create(tb, false)
}

// runner is the argument of goleak.VerifyTestMain.
type runner struct{ m *testing.M }

// Main wraps m so that its Run also stops the server that tests used.
func Main(m *testing.M) interface{ Run() int } { return runner{m} }

// Run runs the tests, then stops the server.
func (r runner) Run() int {
	code := r.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		if err := shared.server.close(); err != nil {
			fmt.Fprintln(os.Stderr, "storetest:", err)
			code = max(code, 1)
		}
		shared.server = nil
	}
	return code
}

// server is a PostgreSQL server with a pool for creating databases.
type server struct {
	url      *url.URL // of its maintenance database
	admin    *pgxpool.Pool
	template string
	strategy string // of copying it
	stop     func() error
}

var shared struct {
	mu     sync.Mutex
	server *server
	err    error // of the first attempt: the next would fail as well
}

func create(tb testing.TB, migrated bool) string {
	tb.Helper()
	s, err := get()
	if err != nil {
		tb.Fatalf("start a PostgreSQL server for tests: %v", err)
	}
	name := "t_" + strings.ToLower(rand.Text()[:16])
	sql := "CREATE DATABASE " + name
	if migrated {
		sql += " TEMPLATE " + s.template + s.strategy
	}
	if _, err := s.admin.Exec(tb.Context(), sql); err != nil {
		tb.Fatalf("create the test database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own is over
		defer cancel()
		if _, err := s.admin.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop the test database: %v", err)
		}
	})
	return s.database(name)
}

// database returns the URL of a database on the server.
func (s *server) database(name string) string {
	u := *s.url
	u.Path = "/" + name
	return u.String()
}

func (s *server) close() error {
	s.admin.Close()
	return s.stop()
}

// get returns the server, and starts it on the first call.
func get() (*server, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(context.Background()) // it outlives the first test
	}
	return shared.server, shared.err
}

func start(ctx context.Context) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	address, stop, err := find(ctx)
	if err != nil {
		return nil, err
	}
	s, err := prepare(ctx, address, stop)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return s, nil
}

// find returns the address of a server and the function that stops it.
func find(ctx context.Context) (string, func() error, error) {
	if address := os.Getenv("TEST_DATABASE_URL"); address != "" {
		return address, func() error { return nil }, nil
	}
	if engine(ctx) {
		return container(ctx)
	}
	return cluster(ctx)
}

// prepare creates the template from which databases are copied. Its name identifies its schema, so
// that processes that share a server also share the template.
func prepare(ctx context.Context, address string, stop func() error) (*server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the server address is not a URL: %w", err)
	}
	version, err := digest()
	if err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("read the server address: %w", err)
	}
	cfg.MaxConns = 4
	admin, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	s := &server{url: u, admin: admin, template: "rgpt_template_" + version, stop: stop}
	err = pgx.BeginFunc(ctx, admin, func(tx pgx.Tx) error { return s.makeTemplate(ctx, tx) })
	if err != nil {
		admin.Close()
		return nil, err
	}
	return s, nil
}

// makeTemplate creates the template if it does not exist, holding a lock that excludes other
// processes. The database gets its final name when it is complete.
func (s *server) makeTemplate(ctx context.Context, lock pgx.Tx) error {
	if _, err := lock.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('rgpt storetest'))"); err != nil {
		return fmt.Errorf("wait for other processes: %w", err)
	}
	var there bool
	// The FILE_COPY strategy requires a checkpoint, which is fast without fsync. It is the default
	// before PostgreSQL 15.
	err := lock.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1),
			CASE WHEN current_setting('fsync') = 'off' AND current_setting('server_version_num')::int >= 150000
			     THEN ' STRATEGY FILE_COPY' ELSE '' END`, s.template).Scan(&there, &s.strategy)
	if err != nil || there {
		return err
	}
	half := s.template + "_new"
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + half + " WITH (FORCE)", "CREATE DATABASE " + half} {
		if _, err := s.admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create the template database: %w", err)
		}
	}
	if err := store.Migrate(ctx, s.database(half)); err != nil {
		return err
	}
	if err := s.warm(ctx, half); err != nil {
		return err
	}
	_, err = s.admin.Exec(ctx, "ALTER DATABASE "+half+" RENAME TO "+s.template)
	return err
}

// warm makes PostgreSQL write its cache of the catalogs into a database. Copies of it contain the
// cache, which would take the first connection to each of them 20 ms.
func (s *server) warm(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, s.database(database))
	if err != nil {
		return fmt.Errorf("connect to the template database: %w", err)
	}
	return conn.Close(ctx)
}

// digest is a short digest of all migrations.
func digest() (string, error) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range names {
		content, err := migrations.FS.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}
