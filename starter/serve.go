package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/eval/oracle"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/stay"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/trigger"
	"github.com/rocketgpt/orchestrator/internal/trigger/source"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/migrations"
	"github.com/rocketgpt/orchestrator/server"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// newServer serves the HTTP API and the dashboard.
func newServer(a *app) *cobra.Command {
	var address, temporalUI, ready, configDir string
	var checkTrust bool
	cmd := &cobra.Command{
		Use: "server", Short: "Serve the HTTP API and the dashboard", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from := config.Sources{Project: a.configFile, Dir: configDir, Env: a.env}
			if checkTrust {
				from.Trusts = a.trusted().Trusts
			}
			reloader, cfg, err := setup.NewReloader(from, a.getenv(setup.ScriptedURL))
			if err != nil {
				return err
			}
			if address != "" {
				cfg.Server.Address = address
			}
			return a.serveDashboard(cmd.Context(), cfg, reloader, temporalUI, ready)
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "address and port to listen on (default: server.address)")
	cmd.Flags().StringVar(&temporalUI, "temporal-ui", "", "address of the Temporal Web UI, for links")
	cmd.Flags().StringVar(&ready, "ready-file", "", "file to write when the server is listening")
	cmd.Flags().StringVar(&configDir, "config-dir", "", "directory that contains rgpt.yaml")
	cmd.Flags().BoolVar(&checkTrust, "check-trust", false, "use only the settings that a repository may set, unless the directory with rgpt.yaml is trusted (rgpt trust)")
	return cmd
}

func (a *app) serveDashboard(ctx context.Context, cfg *config.Config, reloader *setup.Reloader, temporalUI, ready string) error {
	service, err := setup.StartService(ctx, cfg, "server")
	if err != nil {
		return err
	}
	defer service.Close()
	dir, err := a.dataDir()
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, cfg.Database.URL, store.Options{MaxConns: cfg.Database.MaxConns, ApplicationName: "rgpt-server", Waiting: setup.LogWaiting(ctx, service.Log)})
	if err != nil {
		return err
	}
	defer db.Close()
	shown, events := views.New(db), feed.New(db, feed.Options{})
	defer events.Close()
	blobs, err := setup.Artifacts(ctx, cfg, dir)
	if err != nil {
		return err
	}
	retention.Exclude(blobs, db)
	defer blobs.Close()
	client, err := temporal.Connect(ctx, cfg.Temporal, service.Log)
	if err != nil {
		return err
	}
	defer client.Close()
	hooks := webhook.New(db, events, cfg.Server.Webhooks, service.Log)
	board := health.New(shown, client, cfg.Temporal.Namespace, cfg.Server.WatchInterval, service.Log)
	board.ModelProviders = slices.Sorted(maps.Keys(cfg.Models.Providers))
	beside, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { hooks.Run(beside) })
	notifier := notify.New(notify.Options{
		Store: db, Feed: events, Channels: cfg.Notifications, Webhooks: cfg.Server.Webhooks, Dashboard: cfg.Server.URL, Getenv: a.getenv, Log: service.Log,
	})
	running.Go(func() { notifier.Run(beside) })
	running.Go(func() { board.Watch(beside) })
	defer func() { stop(); running.Wait() }()
	runs := &control.Runs{Store: db, Views: shown, Feed: events, Temporal: client, Artifacts: blobs, Config: cfg, Reload: reloader.Load, DataDir: dir, Log: service.Log}
	defer runs.Close()
	if err := runs.NoteGate(ctx); err != nil { // the same error refuses new runs
		service.Log.WarnContext(ctx, "The settings of the policy gate are not noted in the audit ledger", "error", err)
	}
	running.Go(func() { runs.CheckpointLedgerEvery(beside, cfg.Ledger.CheckpointEvery) })
	running.Go(func() { runs.RemoveLedgerDetails(beside, cfg.Ledger.DetailsAge) })
	staying, err := newStaying(cfg, runs, a.getenv, service.Log)
	if err != nil {
		return err
	}
	var forgeHooks http.HandlerFunc
	if len(cfg.Forges) > 0 {
		sources, err := newSources(cfg, staying, db, a.getenv, service.Log)
		if err != nil {
			return err
		}
		staying.Ask = sources.Ask
		forgeHooks = staying.Receive
		running.Go(func() { staying.Run(beside) })
		running.Go(func() { sources.Run(beside) })
	}
	firing, err := newFiring(cfg, runs, a.getenv, service.Log)
	if err != nil {
		return err
	}
	running.Go(func() { firing.Run(beside) })
	schedules := &trigger.Schedules{Client: client.ScheduleClient(), Triggers: cfg.Triggers, Log: service.Log}
	running.Go(func() { schedules.Run(beside) })
	handler := server.New(server.Options{
		Store: db, Views: shown, Feed: events, Artifacts: blobs, Temporal: client, Runs: runs,
		TemporalUI: temporalUI, Namespace: cfg.Temporal.Namespace, Log: service.Log,
		Hosts: allowedHosts(cfg.Server), MaxBody: cfg.Server.MaxBody.Int64(), Pictures: inBase64(cfg.Execution.Pictures), RequestTimeout: cfg.Server.RequestTimeout, Hooks: hooks, Notifier: notifier, ForgeHooks: forgeHooks, TriggerEvents: firing.Receive, Health: board,
	})
	service.Log.Info("The server is ready", "address", cfg.Server.Address)
	return listen(ctx, cfg.Server, handler, handler.Stop, ready)
}

// newFiring returns the service that creates runs for what fires triggers.
func newFiring(cfg *config.Config, runs *control.Runs, getenv func(string) string, log *slog.Logger) (*trigger.Service, error) {
	forges, err := connect.New(cfg.Forges, getenv)
	if err != nil {
		return nil, err
	}
	return trigger.New(trigger.Options{
		Store: runs.Store, Runs: runs, Triggers: cfg.Triggers, Forges: forges, MaxGoal: int(cfg.Execution.MaxGoalBytes.Int64()), Log: log, Getenv: getenv,
	}), nil
}

// newStaying returns the service that informs runs that watch their branches of what happens on forges.
func newStaying(cfg *config.Config, runs *control.Runs, getenv func(string) string, log *slog.Logger) (*stay.Service, error) {
	forges, err := connect.New(cfg.Forges, getenv)
	if err != nil {
		return nil, err
	}
	return stay.New(stay.Options{
		Store: runs.Store, Runs: runs, Forges: forges, Merges: runs, Settings: cfg.Forges, Mention: cfg.Git.PullRequest.Mention,
		Commenters: stay.PermissionOf(cfg.Git.PullRequest.Commenters), Ignore: cfg.Git.PullRequest.Ignore, Log: log, Getenv: getenv,
	}), nil
}

// newSources returns the service that finds on forges what fires triggers. It asks forges within the
// limits of staying.
func newSources(cfg *config.Config, staying *stay.Service, db *store.Store, getenv func(string) string, log *slog.Logger) (*source.Service, error) {
	forges, err := connect.New(cfg.Forges, getenv)
	if err != nil {
		return nil, err
	}
	return source.New(source.Options{
		Store: db, Forges: forges, Settings: cfg.Forges, Triggers: cfg.Triggers, Limit: staying.Limit, Log: log,
		Mention: cfg.Git.PullRequest.Mention, Commenters: stay.PermissionOf(cfg.Git.PullRequest.Commenters),
		Ignores: stay.Ignores(cfg.Git.PullRequest.Ignore),
	}), nil
}

// allowedHosts returns the host names that requests may use besides the loopback names: the address
// on which the server listens, unless it listens on all addresses, and the configured names.
func allowedHosts(s config.Server) []string {
	hosts := slices.Clone(s.AllowedHosts)
	host, _, err := net.SplitHostPort(s.Address)
	if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
		hosts = append(hosts, host)
	}
	return hosts
}

// newScripted serves the scripted model.
func newScripted() *cobra.Command {
	var address, log, ready, file, solutions string
	cmd := &cobra.Command{
		Use: "scripted", Short: "Serve a scripted model with responses from a scenario file", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scenario, err := scripted.Parse("no scenario", []byte("rules: []\n"))
			if file != "" {
				scenario, err = scripted.Load(file)
			}
			if err != nil {
				return err
			}
			o := scripted.Options{LogPath: log}
			if solutions != "" {
				o.Player = &oracle.Player{Dir: solutions}
			}
			s, err := scripted.New(scenario, o)
			if err != nil {
				return err
			}
			defer s.Close()
			settings := config.Default().Server
			settings.Address, settings.ReadTimeout = address, 0 // prompts may be large and slow
			return listen(cmd.Context(), settings, s, func(context.Context) {}, ready)
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:0", "address and port to listen on")
	cmd.Flags().StringVar(&log, "log", "", "append one JSON line per request to this file")
	cmd.Flags().StringVar(&ready, "ready-file", "", "file to write when the model is listening")
	cmd.Flags().StringVar(&file, "scenario", "", "scenario file")
	cmd.Flags().StringVar(&solutions, "solutions", "", "directory with the solutions that rgpt eval run --oracle plays")
	return cmd
}

// newMigrate migrates a database to the current schema.
func newMigrate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Migrate the database to the current schema", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config()
			if err != nil {
				return err
			}
			if cfg.Database.URL == "" {
				return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "no database is configured; set DATABASE_URL, or use rgpt dev, which starts its own database")
			}
			if err := store.Migrate(cmd.Context(), cfg.Database.URL); err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"schema_version": migrations.Latest()})
				return nil
			}
			fmt.Fprintln(a.out, "The database schema is up to date.")
			return nil
		},
	}
}

// newClean deletes what is no longer needed.
func newClean(a *app) *cobra.Command {
	var c control.Cleaning
	var olderThan, maxSize string
	var only []string
	var history bool
	cmd := &cobra.Command{
		Use: "clean", Short: "Delete files of old runs, unused environments and unreferenced contents", Args: noArgs,
		Long: `Deletes what the configuration (retention, environment.age) or the flags say is no longer needed:
files of runs (reports, logs, screenshots, patches), archives of environments, and contents that
nothing refers to. Runs that have not ended, that are on hold (rgpt run hold) or from which another
run continues keep their files. A run without its files remains readable, but can no longer be
repeated. Space is freed once no run can use the contents, which may take a few hours.

Workers clean up in the same way every retention.every. They remove working directories, unpacked
environments and build caches of their own hosts themselves, every ten minutes. With --dry-run on a
worker's host, rgpt clean also shows how much space these take.`,
		Example: `  rgpt clean --dry-run
  rgpt clean --older-than 720h --max-size 50GiB
  rgpt clean --only logs --older-than 168h
  rgpt clean --history`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := readCleaning(&c, olderThan, maxSize, only); err != nil {
				return usageError{err}
			}
			c.By = caller()
			return a.with(cmd.Context(), backend.NeedArtifacts, func(h backend.Backend) error {
				if history {
					list, err := h.Cleanups(cmd.Context(), 50)
					if err == nil {
						a.printCleanups(list)
					}
					return err
				}
				report, err := h.Clean(cmd.Context(), c)
				if err == nil || report.ID != 0 {
					a.printCleaned(report, a.hostUsage(cmd.Context(), h, c))
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&olderThan, "older-than", "", "delete what belongs to runs that ended longer ago, such as 720h (default: as configured)")
	cmd.Flags().StringVar(&maxSize, "max-size", "", "delete files of the oldest runs until the files of all runs fit, such as 50GiB (default: as configured)")
	cmd.Flags().StringSliceVar(&only, "only", nil, "delete only these: files, logs, environments, blobs")
	cmd.Flags().BoolVar(&c.DryRun, "dry-run", false, "only show what would be deleted")
	cmd.Flags().BoolVar(&history, "history", false, "list earlier clean-ups instead")
	return cmd
}

func readCleaning(c *control.Cleaning, olderThan, maxSize string, only []string) error {
	for _, k := range only {
		c.Only = append(c.Only, retain.Kind(k))
	}
	if olderThan != "" {
		age, err := time.ParseDuration(olderThan)
		if err != nil || age < 0 {
			return fmt.Errorf("--older-than %q is not a duration; example: 720h", olderThan)
		}
		seconds := int64(age / time.Second)
		c.OlderThanSeconds = &seconds
	}
	if maxSize != "" {
		size, err := config.ParseSize(maxSize)
		if err != nil || size < 1 {
			return fmt.Errorf("--max-size %q is not a size; example: 50GiB", maxSize)
		}
		bytes := size.Int64()
		c.MaxBytes = &bytes
	}
	return nil
}

// hostUsage returns what else takes space on this host, if a dry run asks for everything and the data
// folder is here; otherwise, nothing.
func (a *app) hostUsage(ctx context.Context, b backend.Backend, c control.Cleaning) []setup.HostUsage {
	local, ok := b.(*backend.Local)
	if !ok || !c.DryRun || len(c.Only) > 0 {
		return nil
	}
	list, err := setup.UsageOfHost(ctx, local.Config, local.DataDir)
	if err != nil { // the answer about the clean-up is complete without it
		fmt.Fprintf(a.errs, "%v\n", err)
	}
	return list
}

func (a *app) printCleaned(r retention.CleanupReport, host []setup.HostUsage) {
	if a.json {
		a.printJSON(struct {
			retention.CleanupReport
			Host []setup.HostUsage `json:"host,omitempty"`
		}{r, host})
		return
	}
	verb := "Deleted"
	if r.DryRun {
		verb = "Would delete"
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, run := range r.Runs {
		fmt.Fprintf(w, "run %d\tended %s ago\t%d files\t%s\n", run.RunID, age(run.EndedAt), run.Count, ui.Size(run.Bytes))
	}
	_ = w.Flush()
	fmt.Fprintf(a.out, "%s: %d files and %d logs of runs (%s), %d environments (%s).\n", verb,
		r.Files.Count, r.Logs.Count, ui.Size(r.Files.Bytes+r.Logs.Bytes), r.Environments.Count, ui.Size(r.Environments.Bytes))
	if r.DryRun {
		fmt.Fprintf(a.out, "Would free: %s (%d contents). The files of all runs take %s.\n", ui.Size(r.Blobs.Bytes), r.Blobs.Count, ui.Size(r.Total))
	} else {
		fmt.Fprintf(a.out, "Freed: %s (%d contents).\n", ui.Size(r.Blobs.Bytes), r.Blobs.Count)
	}
	if r.Responses > 0 {
		fmt.Fprintf(a.out, "%s: %d responses that were too old to answer identical requests.\n", verb, r.Responses)
	}
	if r.Extracts.Count > 0 {
		fmt.Fprintf(a.out, "%s: what was extracted from %d files of repositories and not used for long (%s).\n", verb, r.Extracts.Count, ui.Size(r.Extracts.Bytes))
	}
	if r.Queue > 0 {
		fmt.Fprintf(a.out, "%s: %d old entries of merge queues.\n", verb, r.Queue)
	}
	if r.Later.Count > 0 {
		fmt.Fprintf(a.out, "Freed by a later clean-up, because a run may still use them: %s (%d contents).\n", ui.Size(r.Later.Bytes), r.Later.Count)
	}
	if r.Files.Count+r.Logs.Count+r.Environments.Count > 0 {
		fmt.Fprintln(a.out, "Contents that were stored in the last two hours, or since the oldest unfinished run was created, are freed by a later clean-up.")
	}
	if r.Held+r.Continued > 0 {
		fmt.Fprintf(a.out, "Kept: %d expired runs on hold, %d from which another run continues.\n", r.Held, r.Continued)
	}
	if r.Over > 0 {
		fmt.Fprintf(a.out, "The maximum size is exceeded by %s of files that may not be deleted: of unfinished runs, runs on hold, and those from which they continue.\n", ui.Size(r.Over))
	}
	a.printHostUsage(host)
}

func (a *app) printHostUsage(list []setup.HostUsage) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(a.out)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ON THIS HOST\tSIZE\tLIMIT\tREMOVED")
	for _, u := range list {
		limit := ""
		if u.Limit > 0 {
			limit = ui.Size(u.Limit)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Kind, ui.Size(u.Bytes), limit, u.Removed)
	}
	_ = w.Flush()
}

func (a *app) printCleanups(list []retain.Cleanup) {
	printList(a, "cleanups", list, "No clean-ups yet.", "ID\tSTARTED\tBY\tFILES\tLOGS\tENVIRONMENTS\tFREED\tERROR", func(w io.Writer, c retain.Cleanup) {
		by := cmp.Or(terminal.Clean(c.By), c.Origin)
		var r retention.CleanupReport
		if c.Report == nil || json.Unmarshal(c.Report, &r) != nil {
			fmt.Fprintf(w, "%d\t%s ago\t%s\t\t\t\t\tnot finished\n", c.ID, age(c.StartedAt), by)
			return
		}
		fmt.Fprintf(w, "%d\t%s ago\t%s\t%d\t%d\t%d\t%s\t%s\n", c.ID, age(c.StartedAt), by, r.Files.Count, r.Logs.Count, r.Environments.Count, ui.Size(r.Blobs.Bytes), terminal.Clean(r.Error))
	})
}

// listen serves until the context ends, then gives open requests time to finish. stop ends the
// requests that would otherwise last until the client disconnects.
func listen(ctx context.Context, s config.Server, handler http.Handler, stop func(context.Context), ready string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fault.Wrap(err, contract.ClassHuman, contract.CodeInvalidConfig, "cannot listen on %s; choose another address or port", s.Address)
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: s.ReadHeaderTimeout, ReadTimeout: s.ReadTimeout, IdleTimeout: s.IdleTimeout, ConnContext: middleware.Connection,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	if ready != "" {
		if err := writeReady(ready, l.Addr().String()); err != nil {
			return err
		}
	}
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", s.Address, err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.ShutdownTimeout, time.Second))
	defer cancel()
	stopped := make(chan struct{})
	srv.RegisterOnShutdown(func() { defer close(stopped); stop(last) }) // no client can reconnect by then
	err = srv.Shutdown(last)
	<-stopped
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving on %s: %w", s.Address, err)
	}
	return srv.Close()
}

func writeReady(file, address string) error {
	content, err := json.Marshal(map[string]any{"pid": os.Getpid(), "address": address})
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return nil
}

// inBase64 returns the size of the most and largest pictures of a goal in a request.
func inBase64(p config.Pictures) int64 {
	const perPicture = 1024 // name and punctuation
	return int64(p.Max) * (int64(base64.StdEncoding.EncodedLen(int(p.MaxSize.Int64()))) + perPicture)
}
