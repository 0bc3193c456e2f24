package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// clusterName is the same as in the official development server, so each can open the other's
	// SQLite files.
	clusterName = "active"

	loopback = "127.0.0.1"

	readyTimeout = 60 * time.Second
	// stopTimeout is the time limit for stopping. Exceeding it is like a crash, in which no data is
	// lost.
	stopTimeout = 4500 * time.Millisecond
)

// Server is a running Temporal server with its Web UI and its database.
type Server struct {
	temporal  temporal.Server
	ui        *ui
	store     *store
	logger    serverLogger
	ready     Ready
	readyFile string
}

// ports are the ports in use, with those chosen for a 0 in Options.
type ports struct {
	frontend, http, ui, metrics, history, matching, worker int
}

// Start returns once all services are ready and the ready file, if any, is written. The server logs
// to logTo.
func Start(ctx context.Context, o Options, logTo io.Writer) (*Server, error) {
	if o.ReadyFile != "" {
		if err := removeReadyFile(o.ReadyFile); err != nil {
			return nil, err
		}
	}
	logger := newLogger(logTo, o.LogLevel, o.LogFormat)
	p, err := claimPorts(ctx, o)
	if err != nil {
		return nil, err
	}
	dynamic, err := dynamicConfig(o.DynamicConfig)
	if err != nil {
		return nil, err
	}
	st, err := openStore(ctx, o, logger)
	if err != nil {
		return nil, err
	}
	s := &Server{store: st, logger: logger, readyFile: o.ReadyFile, ready: describeServer(o, p, st)}
	if err := s.start(ctx, o, p, dynamic); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options, p ports, dynamic dynamicconfig.Client) error {
	if err := prepareNamespaces(ctx, s.store, o.Namespaces, o.SearchAttributes, s.logger); err != nil {
		return err
	}
	cfg := serverConfig(o, p, s.store)
	server, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(staticHosts(o, p)),
		temporal.WithDynamicConfigClient(dynamic),
		temporal.WithLogger(s.logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
	)
	if err != nil {
		return fmt.Errorf("setting up Temporal's server on the %s store: %w", s.store.kind, err)
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("starting Temporal's server on the %s store: %w", s.store.kind, err)
	}
	s.temporal = server
	if err := awaitServing(ctx, s.ready.Address, o.Namespaces, cfg.Persistence.NumHistoryShards); err != nil {
		return err
	}
	if !o.Headless {
		if s.ui, err = startUI(ctx, o.UIIP, p.ui, s.ready.Address); err != nil {
			return err
		}
	}
	if o.ReadyFile != "" {
		return writeReadyFile(o.ReadyFile, s.ready)
	}
	return nil
}

// Ready tells the addresses.
func (s *Server) Ready() Ready { return s.ready }

// Failed receives an error if the server has to stop unexpectedly.
func (s *Server) Failed() <-chan error { return s.store.failed }

// Stop stops everything within five seconds.
func (s *Server) Stop() {
	s.logger.silence()
	if s.readyFile != "" {
		_ = os.Remove(s.readyFile)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.ui != nil {
			s.ui.Stop()
		}
		if s.temporal != nil {
			_ = s.temporal.Stop()
		}
		s.store.close()
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
	}
}

// claimPorts first checks the given ports, and then chooses the others. The services' internal
// ports are new at every start, so an earlier process cannot block them.
func claimPorts(ctx context.Context, o Options) (ports, error) {
	var p ports
	type claim struct {
		to       *int
		flag, ip string
		port     int
	}
	claims := []claim{
		{&p.frontend, "port", o.IP, o.Port},
		{&p.http, "http-port", o.IP, o.HTTPPort},
		{&p.history, "port", loopback, 0},
		{&p.matching, "port", loopback, 0},
		{&p.worker, "port", loopback, 0},
	}
	if !o.Headless {
		claims = append(claims, claim{&p.ui, "ui-port", o.UIIP, o.UIPort})
	}
	if o.MetricsPort != 0 {
		claims = append(claims, claim{&p.metrics, "metrics-port", o.IP, o.MetricsPort})
	}
	for _, c := range claims {
		var err error
		if *c.to, err = claimPort(ctx, c.flag, c.ip, c.port); err != nil {
			return ports{}, err
		}
	}
	return p, nil
}

func describeServer(o Options, p ports, st *store) Ready {
	r := Ready{
		PID:     os.Getpid(),
		Address: hostPort(o.IP, p.frontend),
		HTTP:    "http://" + hostPort(o.IP, p.http),
		Store:   st.kind,
		Version: headers.ServerVersion,
	}
	if !o.Headless {
		r.UI = "http://" + hostPort(o.UIIP, p.ui)
	}
	if p.metrics != 0 {
		r.Metrics = "http://" + hostPort(o.IP, p.metrics) + "/metrics"
	}
	return r
}

// staticHosts replaces the gossip protocol with which Temporal's hosts find each other, because
// there is only one host. With gossip, a restarted process would find its former self in the
// database, and the shards would have to wait until that host is detected as dead.
func staticHosts(o Options, p ports) map[primitives.ServiceName]static.Hosts {
	return map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: static.SingleLocalHost(hostPort(o.IP, p.frontend)),
		primitives.HistoryService:  static.SingleLocalHost(hostPort(loopback, p.history)),
		primitives.MatchingService: static.SingleLocalHost(hostPort(loopback, p.matching)),
		primitives.WorkerService:   static.SingleLocalHost(hostPort(loopback, p.worker)),
	}
}

func serverConfig(o Options, p ports, st *store) *config.Config {
	frontend := hostPort(o.IP, p.frontend)
	cfg := &config.Config{
		Persistence: st.persistence,
		Services: map[string]config.Service{
			string(primitives.FrontendService): {RPC: config.RPC{BindOnIP: o.IP, GRPCPort: p.frontend, HTTPPort: p.http}},
			string(primitives.HistoryService):  {RPC: config.RPC{BindOnIP: loopback, GRPCPort: p.history}},
			string(primitives.MatchingService): {RPC: config.RPC{BindOnIP: loopback, GRPCPort: p.matching}},
			string(primitives.WorkerService):   {RPC: config.RPC{BindOnIP: loopback, GRPCPort: p.worker}},
		},
		PublicClient: config.PublicClient{HostPort: frontend},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             frontend,
				HTTPAddress:            hostPort(o.IP, p.http),
			}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}
	if p.metrics != 0 {
		cfg.Global.Metrics = &metrics.Config{Prometheus: &metrics.PrometheusConfig{
			ListenAddress: net.JoinHostPort(o.IP, strconv.Itoa(p.metrics)),
			HandlerPath:   "/metrics",
		}}
	}
	return cfg
}

// awaitServing waits until each service handles a request: the frontend for the namespaces, history
// for a workflow on every shard, matching for a task queue, visibility for a list.
func awaitServing(ctx context.Context, address string, namespaces []string, shards int32) error {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the frontend at %s: %w", address, err)
	}
	defer func() { _ = conn.Close() }()
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	for _, namespace := range namespaces {
		err := eventually(ctx, readyTimeout, func(ctx context.Context) error {
			return probe(ctx, frontend, namespace, shards)
		})
		if err != nil {
			return fmt.Errorf("waiting for namespace %q at %s: %w: see the log (--log-level info shows more)", namespace, address, err)
		}
	}
	return nil
}

func probe(ctx context.Context, frontend workflowservice.WorkflowServiceClient, namespace string, shards int32) error {
	described, err := frontend.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return err
	}
	seen := map[int32]bool{}
	for i := 0; len(seen) < int(shards); i++ {
		id := fmt.Sprintf("temporal-devserver-probe-%d", i)
		shard := common.WorkflowIDToHistoryShard(described.GetNamespaceInfo().GetId(), id, shards)
		if seen[shard] {
			continue
		}
		seen[shard] = true
		_, err := frontend.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: namespace,
			Execution: &commonpb.WorkflowExecution{WorkflowId: id},
		})
		var notFound *serviceerror.NotFound
		if err := serviceerror.FromStatus(status.Convert(err)); err != nil && !errors.As(err, &notFound) {
			return fmt.Errorf("history shard %d: %w", shard, err)
		}
	}
	_, err = frontend.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace:     namespace,
		TaskQueue:     &taskqueuepb.TaskQueue{Name: "temporal-devserver-probe", Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return fmt.Errorf("matching: %w", err)
	}
	_, err = frontend.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace, PageSize: 1})
	if err != nil {
		return fmt.Errorf("visibility: %w", err)
	}
	return nil
}

// eventually calls try until it succeeds, and returns its last error at the time limit.
func eventually(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up after %s: %w", limit, cmp.Or(last, err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
