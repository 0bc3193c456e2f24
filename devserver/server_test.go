package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// durableStores are the stores whose state outlives the process. Each call of
// the function is a store of its own.
var durableStores = map[string]func(t *testing.T) (args []string){
	"sqlite": func(t *testing.T) []string {
		return []string{"--db-filename", filepath.Join(t.TempDir(), "temporal.db")}
	},
	"postgres": func(t *testing.T) []string { return []string{"--postgres", startPostgres(t).url} },
}

func onDurableStores(t *testing.T, test func(t *testing.T, store []string)) {
	for name, open := range durableStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func TestHistoryAndWaitingWorkflowsOutliveStopAndKill(t *testing.T) {
	t.Parallel()
	onDurableStores(t, func(t *testing.T, store []string) {
		ctx := testContext(t)
		p := startServer(t, store...)
		c := p.dial(t, defaultNamespace)
		stopWorker := work(t, c)

		finished, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: taskQueue, ID: "finished"}, sequence, 3)
		require.NoError(t, err)
		require.NoError(t, finished.Get(ctx, nil))
		before := history(t, c, "finished")
		_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: taskQueue, ID: "waiting"}, greetOnSignal)
		require.NoError(t, err)
		awaitEvent(t, c, "waiting", enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)

		stopWorker()
		require.Zero(t, p.stop(t), p.output)
		p = startServer(t, store...)
		require.Equal(t, before, history(t, p.dial(t, defaultNamespace), "finished"), "after a stop")

		p.kill()
		begin := time.Now()
		p = startServer(t, store...)
		require.Less(t, time.Since(begin), 5*time.Second, "a killed server must not delay the next one")
		c = p.dial(t, defaultNamespace)
		require.Equal(t, before, history(t, c, "finished"), "after a kill")
		work(t, c)
		require.NoError(t, c.SignalWorkflow(ctx, "waiting", "", "name", "again"))
		var greeting string
		require.NoError(t, c.GetWorkflow(ctx, "waiting", "").Get(ctx, &greeting))
		require.Equal(t, "hello again", greeting)
	})
}

func TestKilledServerFreesItsPortsForTheNextOne(t *testing.T) {
	t.Parallel()
	onDurableStores(t, func(t *testing.T, store []string) {
		p := startServer(t, store...)
		work(t, p.dial(t, defaultNamespace)) // open connections at the time of the kill
		port, uiPort := portOf(t, p.Address), portOf(t, p.UI)
		p.kill()
		next := startServer(t, append(store, "--port", port, "--ui-port", uiPort)...)
		require.Equal(t, p.Address, next.Address)
		require.Equal(t, p.UI, next.UI)
	})
}

func TestSearchAttributesCanBeUsedAtOnceAndSurviveARestart(t *testing.T) {
	t.Parallel()
	onDurableStores(t, func(t *testing.T, store []string) {
		args := append(store, "--search-attribute", "RunStatus=Keyword", "--search-attribute", "Cost=Double", "--namespace", "other")
		p := startServer(t, args...)
		for _, namespace := range []string{defaultNamespace, "other"} {
			requireFoundByStatus(t, p, namespace, "first")
		}
		p.kill()
		// The same again, and one more attribute for namespaces that exist.
		p = startServer(t, append(args, "--search-attribute", "Extra=Keyword")...)
		for _, namespace := range []string{defaultNamespace, "other"} {
			requireFoundByStatus(t, p, namespace, "second")
			requireListed(t, p.dial(t, namespace), `RunStatus = "first"`)
			requireListed(t, p.dial(t, namespace), `Extra IS NULL`)
		}
		p.stop(t)

		code, output := runToEnd(t, append(store, "--port", "0", "--search-attribute", "RunStatus=Int")...)
		require.Equal(t, exitError, code)
		require.Contains(t, output, "RunStatus is registered as Keyword, but --search-attribute specifies Int")
	})
}

func TestSearchAttributesRegisteredLaterCanBeUsedWithinASecond(t *testing.T) {
	t.Parallel()
	p := startServer(t, "--headless")
	c := p.dial(t, defaultNamespace)
	_, err := c.OperatorService().AddSearchAttributes(testContext(t), &operatorservice.AddSearchAttributesRequest{
		Namespace:        defaultNamespace,
		SearchAttributes: map[string]enumspb.IndexedValueType{"RunStatus": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	})
	require.NoError(t, err)
	registered := time.Now()
	await(t, "the attribute to be known", func(ctx context.Context) error {
		_, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "RunStatus IS NULL"})
		return err
	})
	require.Less(t, time.Since(registered), 2*time.Second) // the machine may be busy
	requireFoundByStatus(t, p, defaultNamespace, "later")
}

func TestDynamicConfigValuesWinOverTheBuiltInOnes(t *testing.T) {
	t.Parallel()
	p := startServer(t, "--headless", // the server looks at the error limit only above the warning limit
		"--dynamic-config-value", "limit.blobSize.warn=512", "--dynamic-config-value", "limit.blobSize.error=1024")
	c := p.dial(t, defaultNamespace)
	_, err := c.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{TaskQueue: taskQueue}, "any", strings.Repeat("x", 2000))
	require.ErrorContains(t, err, "exceeds limit")
}

func TestWorkersAreListedWhileTheyRun(t *testing.T) {
	t.Parallel()
	p := startServer(t, "--headless")
	c := p.dial(t, defaultNamespace)
	work(t, c)
	await(t, "the worker's heartbeat", func(ctx context.Context) error {
		listed, err := c.WorkflowService().ListWorkers(ctx, &workflowservice.ListWorkersRequest{Namespace: defaultNamespace})
		if err == nil && len(listed.GetWorkers()) == 0 {
			err = errors.New("no workers yet")
		}
		return err
	})
}

func TestWorkflowWithAPendingChildCanBeReset(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	p := startServer(t, "--headless")
	c := p.dial(t, defaultNamespace)
	work(t, c)
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: taskQueue, ID: "parent"}, parent)
	require.NoError(t, err)
	awaitEvent(t, c, "parent", enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED)
	started := lastEvent(t, c, "parent", enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED)
	await(t, "the parent to know that its child runs", func(context.Context) error {
		if lastEvent(t, c, "parent", enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) < started {
			return errors.New("not yet")
		}
		return nil
	})
	_, err = c.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace:                 defaultNamespace,
		WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: "parent", RunId: run.GetRunID()},
		WorkflowTaskFinishEventId: lastEvent(t, c, "parent", enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED),
		RequestId:                 "reset-once",
	})
	require.NoError(t, err)
	require.NoError(t, c.SignalWorkflow(ctx, "child", "", "name", "child"))
	var greeting string
	require.NoError(t, c.GetWorkflow(ctx, "parent", "").Get(ctx, &greeting))
	require.Equal(t, "hello child", greeting)
}

func TestUpdateWithStartStartsAndAnswers(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	p := startServer(t, "--headless")
	c := p.dial(t, defaultNamespace)
	work(t, c)
	start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		TaskQueue:                taskQueue,
		ID:                       "updated",
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, greetOnSignal)
	update, err := c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions:          client.UpdateWorkflowOptions{UpdateName: "double", Args: []any{21}, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	require.NoError(t, err)
	var doubled int
	require.NoError(t, update.Get(ctx, &doubled))
	require.Equal(t, 42, doubled)
}

func TestWebUIMetricsAndHTTPAPIAreServed(t *testing.T) {
	t.Parallel()
	metricsPort, err := claimPort(t.Context(), "metrics-port", loopback, 0)
	require.NoError(t, err)
	p := startServer(t, "--metrics-port", strconv.Itoa(metricsPort))
	require.Contains(t, get(t, p.UI+"/namespaces/default/workflows"), "<html")
	require.Contains(t, get(t, p.UI+"/api/v1/namespaces/default"), `"default"`, "the UI reaches the frontend")
	require.Contains(t, get(t, p.HTTP+"/api/v1/namespaces/default"), `"default"`)
	require.Contains(t, get(t, p.Metrics), "service_requests")

	for _, address := range []string{p.UI + "/api/v1/namespaces/default", p.HTTP + "/api/v1/namespaces/default"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		request.Host = "rebound.example.com"
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		require.Contains(t, []int{http.StatusMisdirectedRequest, http.StatusForbidden}, response.StatusCode, "a web site whose name leads here reads nothing")
	}

	headless := startServer(t, "--headless")
	require.Empty(t, headless.UI)
}

func TestReadyFileDescribesTheRunningServer(t *testing.T) {
	t.Parallel()
	p := startServer(t, "--headless")
	require.Equal(t, p.cmd.Process.Pid, p.PID)
	require.Equal(t, "memory", p.Store)
	require.Contains(t, p.output.String(), p.Address, "and so does the line for humans")
	entries, err := os.ReadDir(filepath.Dir(p.readyFile))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")

	p.kill()
	require.FileExists(t, p.readyFile)
	port := occupiedPort(t)
	code, _ := runToEnd(t, "--port", strconv.Itoa(port), "--ready-file", p.readyFile)
	require.Equal(t, exitPortInUse, code)
	require.NoFileExists(t, p.readyFile, "a server that fails to start does not leave the file of a dead one")

	p = startServer(t, "--headless")
	p.stop(t)
	require.NoFileExists(t, p.readyFile)
}

func TestServerStopsWithinFiveSecondsUnderLongPolls(t *testing.T) {
	t.Parallel()
	onDurableStores(t, func(t *testing.T, store []string) {
		p := startServer(t, store...)
		work(t, p.dial(t, defaultNamespace))
		begin := time.Now()
		require.Zero(t, p.stop(t), p.output)
		require.Less(t, time.Since(begin), 5*time.Second)
	})
}

func TestPortInUseIsNamedWithItsFlag(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"port", "ui-port", "http-port", "metrics-port"} {
		port := strconv.Itoa(occupiedPort(t))
		code, output := runToEnd(t, "--port", "0", "--"+flag, port)
		require.Equal(t, exitPortInUse, code, output)
		require.Contains(t, output, "127.0.0.1:"+port)
		require.Contains(t, output, "--"+flag)
	}
}

func TestSecondServerOnTheSameStoreIsRefused(t *testing.T) {
	t.Parallel()
	onDurableStores(t, func(t *testing.T, store []string) {
		p := startServer(t, store...)
		code, output := runToEnd(t, append(store, "--port", "0")...)
		require.Equal(t, exitError, code, output)
		require.Contains(t, output, "another temporal-devserver")
		requireAlive(t, p)
	})
}

func TestServerOutlivesAPostgresRestart(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"fast", "immediate"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			pg := startPostgres(t)
			p := startServer(t, "--postgres", pg.url)
			c := p.dial(t, defaultNamespace)
			work(t, c)
			_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: taskQueue, ID: "waiting"}, greetOnSignal)
			require.NoError(t, err)
			awaitEvent(t, c, "waiting", enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)

			pg.control(t, "stop", "-m", how)
			await(t, "the outage to be felt", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if _, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{}); err == nil {
					return errors.New("still answered")
				}
				return nil
			})
			// An outage must look like one. "Not found" would make workers and
			// clients give up, and the server drop tasks.
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err = c.ExecuteWorkflow(short, client.StartWorkflowOptions{TaskQueue: taskQueue}, greetOnSignal)
			var notFound *serviceerror.NamespaceNotFound
			require.Error(t, err)
			require.NotErrorAs(t, err, &notFound)
			pg.start(t)
			require.NoError(t, c.SignalWorkflow(ctx, "waiting", "", "name", "again"))
			require.NoError(t, c.GetWorkflow(ctx, "waiting", "").Get(ctx, nil))
			requireAlive(t, p)
			await(t, "the lock on the database to be taken again", func(context.Context) error {
				if n := pg.query(t, "temporal", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"); n != "1" {
					return errors.New(n + " locks")
				}
				return nil
			})
		})
	}
}

func TestServerEndsWhenAnotherTookItsDatabase(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t)
	p := startServer(t, "--postgres", pg.url)
	cfg, err := parsePostgresURL(pg.url)
	require.NoError(t, err)
	// The other server waits for the lock that the restart sets free.
	other, err := connect(testContext(t), withDatabase(cfg, "temporal"))
	require.NoError(t, err)
	defer closeQuickly(t.Context(), other)
	taken := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.Background(), "SELECT pg_advisory_lock($1)", int64(postgresLock))
		taken <- err
	}()
	await(t, "the other to wait", func(context.Context) error {
		if pg.query(t, "temporal", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != "1" {
			return errors.New("not yet")
		}
		return nil
	})
	require.Equal(t, "true", pg.query(t, "temporal", "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"))
	require.NoError(t, <-taken)
	select {
	case <-p.exited:
	case <-time.After(waitLimit):
		require.FailNow(t, "the server goes on with a database that is another's")
	}
	require.Equal(t, exitError, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.output.String(), "another temporal-devserver is using it")
}

func TestPostgresIsSetUpOnceAndItsPasswordNeverShown(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t)
	cmd := serverCommand("--port", "0", "--headless", "--ready-file", filepath.Join(t.TempDir(), "r.json"),
		"--postgres-db", "tdb", "--postgres-visibility-db", "tdb_vis", "--log-level", "debug")
	cmd.Env = append(cmd.Env, postgresEnv+"="+pg.url)
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	await(t, "the server to be ready", func(context.Context) error {
		if !strings.Contains(out.String(), "is ready at") {
			return errors.New(out.String())
		}
		return nil
	})
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NotContains(t, out.String(), postgresPassword)
	steps := pg.query(t, "tdb_vis", "SELECT count(*) FROM schema_update_history")

	p := startServer(t, "--headless", "--postgres", pg.url, "--postgres-db", "tdb", "--postgres-visibility-db", "tdb_vis")
	p.stop(t)
	// The setup step writes version 0.0 only where there is none.
	require.Equal(t, steps, pg.query(t, "tdb_vis", "SELECT count(*) FROM schema_update_history"))
	require.Equal(t, "1", pg.query(t, "tdb", "SELECT count(*) FROM namespaces WHERE name = 'default'"))

	wrong := strings.Replace(pg.url, "s3cret", "wr0ng", 1)
	for _, url := range []string{
		wrong,
		strings.Replace(pg.url, strconv.Itoa(pg.port), strconv.Itoa(pg.port)+"x", 1),
		"postgres://dev:" + postgresPassword + "@127.0.0.1/x",
		strings.Replace(pg.url, "sslmode=disable", "sslmode=wrong", 1),
	} {
		code, output := runToEnd(t, "--port", "0", "--postgres", url)
		require.Equal(t, exitError, code)
		require.Contains(t, output, "Postgres")
		require.NotContains(t, output, "s3cret")
		require.NotContains(t, output, "wr0ng")
		require.NotContains(t, output, "signs")
	}
}

func TestURLMayNameADatabaseThatDoesNotExistYet(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t)
	p := startServer(t, "--headless", "--postgres", strings.Replace(pg.url, "/postgres?", "/temporal?", 1))
	require.Equal(t, "postgres", p.Store)
}

func TestHalfMadeSchemaIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "temporal.db")
		require.NoError(t, os.WriteFile(file, nil, 0o600)) // what a kill before the commit leaves
		startServer(t, "--headless", "--db-filename", file)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		pg := startPostgres(t)
		cfg, err := parsePostgresURL(pg.url)
		require.NoError(t, err)
		// The official schema tool commits each statement: it can leave a
		// table without the version that says so.
		require.NoError(t, createDatabases(ctx, cfg, "temporal"))
		conn, err := connect(ctx, withDatabase(cfg, "temporal"))
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "CREATE TABLE namespace_metadata (partition_id INTEGER NOT NULL, notification_version BIGINT NOT NULL, PRIMARY KEY (partition_id))")
		require.NoError(t, err)
		require.NoError(t, conn.Close(ctx))
		startServer(t, "--headless", "--postgres", pg.url)
	})
}

func TestSQLiteFileOfAnotherVersionIsRefusedWithAWayOut(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal.db")
	p := startServer(t, "--headless", "--db-filename", file)
	p.stop(t)
	execSQLite(t, file, "PRAGMA user_version = 7")
	code, output := runToEnd(t, "--port", "0", "--db-filename", file)
	require.Equal(t, exitError, code)
	require.Contains(t, output, "another version of Temporal's SQLite schema")
	require.Contains(t, output, "move the file elsewhere")

	code, output = runToEnd(t, "--port", "0", "--db-filename", filepath.Join(t.TempDir(), "no", "such.db"))
	require.Equal(t, exitError, code)
	require.Contains(t, output, "check that its directory exists")
}

func TestWorkersThatStopLoseNoTask(t *testing.T) {
	t.Parallel()
	p := startServer(t, "--headless")
	c := p.dial(t, defaultNamespace)
	ctx := testContext(t)
	// A task given to a worker that has just stopped would come back only by
	// its time-out, ten seconds later.
	for i := range 3 {
		stop := work(t, c)
		stop()
		begin := time.Now()
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: taskQueue, ID: fmt.Sprint("run-", i)}, sequence, 1)
		require.NoError(t, err)
		stop = work(t, c)
		require.NoError(t, run.Get(ctx, nil))
		require.Less(t, time.Since(begin), 5*time.Second)
		stop()
	}
}

func history(t testing.TB, c client.Client, id string) (events []string) {
	t.Helper()
	for iter := c.GetWorkflowHistory(testContext(t), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); iter.HasNext(); {
		event, err := iter.Next()
		require.NoError(t, err)
		events = append(events, event.String())
	}
	return events
}

func awaitEvent(t testing.TB, c client.Client, id string, want enumspb.EventType) {
	t.Helper()
	iter := c.GetWorkflowHistory(testContext(t), id, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iter.HasNext() {
		event, err := iter.Next()
		require.NoError(t, err)
		if event.GetEventType() == want {
			return
		}
	}
	require.FailNow(t, "the workflow ended without the event", want.String())
}

func lastEvent(t testing.TB, c client.Client, id string, want enumspb.EventType) (eventID int64) {
	t.Helper()
	for iter := c.GetWorkflowHistory(testContext(t), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); iter.HasNext(); {
		event, err := iter.Next()
		require.NoError(t, err)
		if event.GetEventType() == want {
			eventID = event.GetEventId()
		}
	}
	require.NotZero(t, eventID)
	return eventID
}

func requireFoundByStatus(t testing.TB, p *process, namespace, status string) {
	t.Helper()
	c := p.dial(t, namespace)
	_, err := c.ExecuteWorkflow(testContext(t), client.StartWorkflowOptions{
		ID:                    "run-" + status,
		TaskQueue:             taskQueue,
		TypedSearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword("RunStatus").ValueSet(status)),
	}, greetOnSignal)
	require.NoError(t, err)
	requireListed(t, c, fmt.Sprintf("RunStatus = %q", status))
}

// requireListed allows for visibility's short delay.
func requireListed(t testing.TB, c client.Client, query string) {
	t.Helper()
	await(t, query, func(ctx context.Context) error {
		listed, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err, query)
		if len(listed.GetExecutions()) == 0 {
			return errors.New("nothing found")
		}
		return nil
	})
}

func requireAlive(t testing.TB, p *process) {
	t.Helper()
	c := p.dial(t, defaultNamespace)
	// After an outage of its database it takes a moment to own its shards again.
	await(t, "an answer about a workflow that does not exist", func(ctx context.Context) error {
		_, err := c.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: defaultNamespace,
			Execution: &commonpb.WorkflowExecution{WorkflowId: "no such workflow"},
		})
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("it is not said to be not found: %w", err)
	})
}

func get(t testing.TB, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, string(body))
	return string(body)
}

func portOf(t testing.TB, address string) string {
	t.Helper()
	i := strings.LastIndex(address, ":")
	require.Positive(t, i)
	return address[i+1:]
}
