// Package workerhost runs workflows and activities: it connects to Temporal and the database,
// registers the roles of a worker, and keeps them running until it is asked to stop.
package workerhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/cores"
	"github.com/rocketgpt/orchestrator/internal/embedding"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/rerank"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/workflows"
)

// Options are the options of a worker.
type Options struct {
	Config    *config.Config
	DataDir   string
	ReadyFile string // written when all roles poll; empty for none
	Log       *slog.Logger

	tasks   *tasks // what the agents do
	beats   *heartbeats
	limiter *limiter
}

const (
	// stickyTime is how long Temporal waits for the worker that has a workflow in its cache before
	// it offers the task to other workers. It limits how long a run is blocked when its worker
	// dies.
	stickyTime = 2 * time.Second
	// beatThrottle limits how long the SDK delays a heartbeat.
	beatThrottle = 500 * time.Millisecond
)

// Run runs the worker until ctx ends, then gives running activities time to finish.
func Run(ctx context.Context, o Options) error {
	if err := checkRoles(o); err != nil {
		return err
	}
	parts, closeParts, err := assemble(ctx, o)
	if err != nil {
		return err
	}
	defer closeParts()
	starter := newStarter(parts)
	o.limiter = newLimiter(o.Config.Worker.MaxWorkingActivities, parts.Store.ProjectOf)
	o.beats = newHeartbeats(o.Config.Worker.HeartbeatsPerSecond, o.Config.Worker.LongestHeartbeatTimeout)
	c, err := temporal.Connect(ctx, o.Config.Temporal, o.Log, o.beats.intercept, starter.Schedule)
	if err != nil {
		return err
	}
	defer c.Close()
	parts.Temporal = c
	o.tasks = &tasks{}
	expectModelMetrics(o.Config)
	if has(o, "run") { // the pipeline metrics count its records
		telemetry.ExpectPipelines()
		telemetry.ExpectChoices()
		telemetry.ExpectChangeSets()
		telemetry.ExpectMergeQueues()
		retention.ExpectMetrics(retention.OriginSchedule)
	}
	if has(o, "tester") || has(o, "builder") || has(o, "repair") { // their commands run in sandboxes
		telemetry.ExpectEnvironments()
	}
	workers, err := start(c, parts, o)
	if err != nil {
		return err
	}
	here, eagerWorkers, err := startEager(ctx, starter, parts, o)
	if err != nil {
		stop(workers)
		return err
	}
	defer here.Close()
	workers = append(workers, eagerWorkers...)
	group, ctx := errgroup.WithContext(ctx)
	if has(o, "run") {
		group.Go(func() error { return reconcile(ctx, c, parts.Store, o.Log) })
		group.Go(func() error { return startQueued(ctx, c, parts.Store, o.Config.Execution.ConcurrentRuns, o.Log) })
		group.Go(func() error {
			return retention.New(parts.Store, parts.Artifacts, o.Log).Schedule(ctx, o.Config.Retention.Every, setup.RetentionPolicy(o.Config))
		})
		group.Go(func() error { return closeAbandoned(ctx, c, parts.Store, o.Log) })
		group.Go(func() error { return reconcilePipelines(ctx, c, parts.Store, o.Log) })
	}
	group.Go(func() error { return sweep(ctx, parts, o.Log) })
	group.Go(func() error { return followCatalogue(ctx, parts, o.Config, o.Log) })
	group.Go(func() error { return newAgents(parts, o).run(ctx) })
	if address := o.Config.Worker.MetricsAddress; address != "" {
		group.Go(func() error { return serveMetrics(ctx, address) })
	}
	if o.ReadyFile != "" {
		if err := writeReady(o.ReadyFile); err != nil {
			return err
		}
	}
	o.Log.Info("The worker is ready", "roles", roleNames(o), "worker", temporal.Identity())
	<-ctx.Done()
	starter.Close()
	stop(workers)
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// assemble creates the dependencies of activities.
func assemble(ctx context.Context, o Options) (*activities.Activities, func(), error) {
	db, err := store.Open(ctx, o.Config.Database.URL, store.Options{MaxConns: o.Config.Database.MaxConns, ApplicationName: "rgpt-worker", Waiting: setup.LogWaiting(ctx, o.Log)})
	if err != nil {
		return nil, nil, err
	}
	blobs, err := setup.Artifacts(ctx, o.Config, o.DataDir)
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	retention.Exclude(blobs, db)
	closeAll := func() { _ = blobs.Close(); db.Close() }
	workspaces, err := setup.Workspaces(o.Config, o.DataDir, blobs, setup.KeepSpares(o.Config))
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	models, err := setup.Model(o.Config)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	commands, err := setup.OpenSandbox(ctx, o.Config, o.DataDir, o.Log)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	closeAll = func() { commands.Close(); _ = blobs.Close(); db.Close() }
	outlet, err := setup.Proxy(o.Config)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	tools, err := tool.Builtin().Set(tool.Builtin().ForWork()...)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	setupTools, err := tool.Builtin().Set(tool.Builtin().ForSetup()...)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	gate := setup.Admission(o.Config, db, models, o.Log)
	embeddings, err := embedding.ForBrain(o.Config, db, models, gate, o.Log)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	reranking, err := rerank.ForBrain(o.Config, db, models, gate, o.Log)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	forges, err := connect.New(o.Config.Forges, os.Getenv)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	registries, err := setup.Registries(o.Config)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	index := setup.Brain(o.Config, o.DataDir, workspaces, db, embeddings, reranking, o.Log)
	closeAll = func() {
		forges.Close()
		registries.Close()
		index.Close()
		commands.Close()
		_ = blobs.Close()
		db.Close()
	}
	return &activities.Activities{
		Brain: index, Registries: registries, Forges: forges,
		Store: db, Views: views.New(db), Model: models, Admission: gate, Router: setup.Router(db, models, gate), Workspaces: workspaces, Tools: tools, SetupTools: setupTools, Sandbox: commands, Cores: cores.NewQueue(cores.Limit(o.Config.Worker.MaxConcurrentCommands), telemetry.Cores{}), Proxy: outlet, Artifacts: blobs,
		CommandTools: commands.Tools, BuildImage: commands.BuildImage, Scanners: commands.Toolchains.Scanners, Config: o.Config, DataDir: o.DataDir, Log: o.Log,
	}, closeAll, nil
}

// expectModelMetrics exports the metrics of model calls as 0 until there are any. Servers make no model
// calls.
func expectModelMetrics(cfg *config.Config) {
	for _, scope := range store.ScopeKinds() {
		telemetry.BudgetWarnings.WithLabelValues(string(scope))
	}
	telemetry.ExpectLiveTexts()
	telemetry.ExpectModelCalls()
	telemetry.ExpectBrain()
	telemetry.ExpectRegistries()
	for name := range cfg.Models.Providers {
		telemetry.BreakersOpened.WithLabelValues(name, telemetry.AllModels)
		telemetry.ProviderWait.WithLabelValues(name)
	}
	models, _, _ := setup.EveryModel(cfg) // an agent without a model has no metrics
	for _, m := range models {
		telemetry.BudgetExcesses.WithLabelValues(m.Provider, m.Model)
		telemetry.ModelFallbacks.WithLabelValues(m.Provider, m.Model, "", "")
	}
}

// start starts a Temporal worker for each role.
func start(c client.Client, parts *activities.Activities, o Options) ([]worker.Worker, error) {
	worker.SetStickyWorkflowCacheSize(o.Config.Worker.CachedWorkflows)
	var started []worker.Worker
	for _, role := range activities.Roles() {
		if !has(o, role.Name) {
			continue
		}
		options := workerOptions(o)
		options.DisableWorkflowWorker = role.Name != "run" && role.Name != "planner" && role.Name != "builder" && role.Name != "repair"
		options.MaxConcurrentActivityExecutionSize = slots(o, role.Name) - eagerSlots(o, role.Name)
		w := worker.New(c, role.Queue, options)
		switch role.Name {
		case "run":
			workflows.RegisterRun(w)
			workflows.RegisterDeliberation(w)
			workflows.RegisterAttempts(w)
			workflows.RegisterChangeSet(w)
			workflows.RegisterMergeQueue(w)
			workflows.RegisterTrigger(w)
		case "planner":
			workflows.RegisterMember(w)
		case "builder":
			workflows.RegisterStep(w)
		case "repair":
			workflows.RegisterStep(w)
			workflows.RegisterSelfHeal(w)
		}
		role.Register(parts, w)
		if err := w.Start(); err != nil {
			stop(started)
			return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot start the worker's %s role", role.Name)
		}
		started = append(started, w)
	}
	own, err := startOwn(c, parts, o)
	if err != nil {
		stop(started)
		return nil, err
	}
	return append(started, own), nil
}

// mostlyWaits reports whether the activities of a role mostly wait: for a model, or for a free core.
func mostlyWaits(role string) bool {
	return role == "planner" || role == "builder" || role == "repair" || role == "tester"
}

// startOwn serves this worker's own queue with the activities of all its roles, for work that must
// be done here. Such work is rare, so one poller is enough; the workflows that request it run
// anywhere.
func startOwn(c client.Client, parts *activities.Activities, o Options) (worker.Worker, error) {
	options := workerOptions(o)
	options.DisableWorkflowWorker, options.MaxConcurrentActivityTaskPollers = true, 1
	options.MaxConcurrentActivityExecutionSize = max(o.Config.Worker.MaxConcurrentActivities, o.Config.Worker.MaxConcurrentTurns)
	w := worker.New(c, contract.QueueOfWorker(temporal.Identity()), options)
	for _, role := range activities.Roles() {
		if has(o, role.Name) {
			role.Register(parts, w)
		}
	}
	if err := w.Start(); err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot serve the worker's own queue")
	}
	return w, nil
}

func workerOptions(o Options) worker.Options {
	return worker.Options{
		MaxConcurrentActivityExecutionSize:      o.Config.Worker.MaxConcurrentActivities,
		MaxConcurrentWorkflowTaskExecutionSize:  o.Config.Worker.MaxConcurrentWorkflowTasks,
		MaxConcurrentLocalActivityExecutionSize: o.Config.Worker.MaxConcurrentActivities,
		DisableEagerActivities:                  !o.Config.Worker.EagerActivities,
		StickyScheduleToStartTimeout:            stickyTime,
		WorkerStopTimeout:                       o.Config.Worker.StopTimeout,
		MaxHeartbeatThrottleInterval:            beatThrottle,
		DefaultHeartbeatThrottleInterval:        beatThrottle,
		DisableRegistrationAliasing:             true,
		Interceptors:                            []interceptor.WorkerInterceptor{temporal.NewSizeLimit(), &timeoutInterceptor{beats: o.beats}, &activityInterceptor{log: o.Log, worker: temporal.Identity(), tasks: o.tasks, beats: o.beats, limiter: o.limiter, most: o.Config.Worker.LostAttempts, stopTime: o.Config.Worker.StopTimeout}},
	}
}

// stop stops all roles at the same time and lets them end their activities.
func stop(workers []worker.Worker) {
	var done sync.WaitGroup
	for _, w := range workers {
		done.Go(w.Stop)
	}
	done.Wait()
}

// has reports whether the worker has a role; it has all roles if none is configured.
func has(o Options, role string) bool {
	return len(o.Config.Worker.Roles) == 0 || slices.Contains(o.Config.Worker.Roles, role)
}

// checkRoles warns about configured roles that are not implemented yet, and refuses a worker that
// would do nothing at all.
func checkRoles(o Options) error {
	var idle []string
	for _, name := range o.Config.Worker.Roles {
		if !slices.ContainsFunc(activities.Roles(), func(r activities.Role) bool { return r.Name == name }) {
			idle = append(idle, name)
		}
	}
	if len(idle) > 0 && len(idle) == len(o.Config.Worker.Roles) {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"worker.roles lists only roles that are not implemented yet (%v); add other roles, or leave the list empty to enable all roles", idle)
	}
	if len(idle) > 0 {
		o.Log.Warn("Some roles in worker.roles are not implemented yet", "roles", idle)
	}
	return nil
}

func roleNames(o Options) []string {
	var names []string
	for _, role := range activities.Roles() {
		if has(o, role.Name) {
			names = append(names, role.Name)
		}
	}
	return names
}

// writeReady writes the file that shows that the worker polls.
func writeReady(file string) error {
	content, err := json.Marshal(map[string]int{"pid": os.Getpid()})
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Clean(file), content, 0o600); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return nil
}
