package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/doctor"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge/connect"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check every component and suggest fixes",
		Long: `Checks the configuration, the data folder, git, PostgreSQL, Temporal, workers,
models, forges, triggers, notifications, the sandbox and the processes of the stack, and
suggests how to fix each problem. It changes nothing and spends no tokens.

Exit codes: 0 no check failed (there may be warnings), 1 a check failed.`,
		Example: `  rgpt doctor
  rgpt doctor --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results := doctor.Run(cmd.Context(), doctor.Limit, a.checks()...)
			for i := range results {
				results[i].Message, results[i].Remedy = telemetry.Redact(results[i].Message), telemetry.Redact(results[i].Remedy)
			}
			ill := doctor.Failing(results)
			if a.json {
				a.printJSON(map[string]any{"ok": !ill, "checks": results})
			} else {
				a.printDiagnosis(results)
			}
			if ill {
				return ended{exitError}
			}
			return nil
		},
	}
}

// startAll is the command that starts all missing components of the stack.
const startAll = "rgpt dev --detach"

// checks returns all checks, in dependency order.
func (a *app) checks() []doctor.Check {
	dir, err := a.dataDir()
	if err != nil {
		return []doctor.Check{broken("data folder", err, "set it with --data-dir")}
	}
	checks := []doctor.Check{doctor.Machine(), doctor.Git(), doctor.DataFolder(dir), a.programsCheck()}
	stack, err := a.stack()
	if err != nil {
		return append(checks, broken("stack", err, "stop the processes manually and remove the file; the data is kept"))
	}
	checks = append(checks, stackCheck(stack))
	cfg, err := a.config()
	if err != nil {
		return append(checks, mistakes(err))
	}
	checks = append(checks, found("configuration", doctor.Passed("%s is valid", cmp.Or(a.configFile, "the configuration"))))
	checks = append(checks, serviceChecks(cfg, stack)...)
	checks = append(checks, artifactsCheck(cfg, dir))
	checks = append(checks, modelsCheck(cfg), a.forgesCheck(cfg), a.notificationsCheck(cfg))
	checks = append(checks, a.triggerChecks(cfg)...)
	checks = append(checks, registriesCheck(cfg)...)
	return append(append(checks, sandboxChecks(cfg, dir)...), doctor.Chromium(a.getenv))
}

// sandboxChecks check the isolation and the tools of commands.
func sandboxChecks(cfg *config.Config, dir string) []doctor.Check {
	var once sync.Once
	var commands *setup.Commands
	var failure error
	open := func(ctx context.Context) (*setup.Commands, error) {
		once.Do(func() {
			if commands, failure = setup.OpenSandbox(ctx, cfg, dir, slog.New(slog.DiscardHandler)); failure == nil {
				commands.Close() // nothing is to run; the features are known
			}
		})
		return commands, failure
	}
	isolation := func(ctx context.Context) (doctor.Isolation, error) {
		c, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	if cfg.Execution.Sandbox.Runner == config.RunnerDocker {
		versions := func(ctx context.Context) (map[string]string, error) {
			c, err := open(ctx)
			if err != nil {
				return nil, err
			}
			tools, err := c.Tools(ctx, "")
			delete(tools, environment.ImageTool)
			return tools, err
		}
		d := cfg.Execution.Sandbox.Docker
		build := func(ctx context.Context) error {
			c, err := open(ctx)
			if err != nil {
				return err
			}
			return tryBuild(ctx, c, d.Image)
		}
		return []doctor.Check{doctor.Sandbox("containers", isolation, false), doctor.ImageTools(versions), doctor.ImageBuilds(d.Build.Enabled, d.Images, build)}
	}
	return []doctor.Check{
		doctor.Toolchains(sync.OnceValue(sandbox.DetectToolchains)),
		doctor.Sandbox("bubblewrap", isolation, cfg.Execution.Sandbox.AllowUnisolated),
	}
}

// tryBuild builds a small image, which the engine has from then on.
func tryBuild(ctx context.Context, c *setup.Commands, from string) error {
	dir, err := os.MkdirTemp("", "rgpt-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+from+"\nRUN true\n"), 0o600); err != nil {
		return err
	}
	_, err = c.BuildImage(ctx, docker.Source{Dockerfile: "Dockerfile", Files: func(context.Context) (*os.Root, func(), error) {
		root, err := os.OpenRoot(dir)
		return root, func() { _ = root.Close() }, err
	}})
	return err
}

func found(name string, results []doctor.Result) doctor.Check {
	return doctor.Check{Name: name, Run: func(context.Context) []doctor.Result { return results }}
}

func broken(name string, err error, remedy string) doctor.Check {
	return found(name, doctor.FailedBy(err, remedy))
}

// mistakes lists the errors in the configuration, and the checks that were skipped because of them.
func mistakes(err error) doctor.Check {
	var wrong *config.Error
	if !errors.As(err, &wrong) {
		return broken("configuration", err, "see the settings reference")
	}
	var results []doctor.Result
	for _, m := range wrong.Mistakes {
		remedy := "correct the setting; examples/rgpt.yaml shows all settings"
		if m.Origin.Source == config.SourceEnv {
			remedy = "correct or unset the variable"
		}
		results = append(results, doctor.Result{Status: doctor.Fail, Message: m.String(), Remedy: remedy})
	}
	return found("configuration", append(results, doctor.Result{
		Check: "other parts", Status: doctor.Warn, Message: "services, models and sandbox were not checked", Remedy: "fix the configuration, then check again",
	}))
}

// programsCheck looks for the binaries that rgpt dev starts.
func (a *app) programsCheck() doctor.Check {
	return doctor.Check{Name: "programs", Run: func(ctx context.Context) []doctor.Result {
		if _, err := findPrograms(ctx, a.getenv("TEMPORAL_ADDRESS") == ""); err != nil {
			return doctor.Warned(fault.Of(err).Message, "make build devserver")
		}
		return doctor.Passed("all programs that rgpt dev starts are installed")
	}}
}

// stackCheck reports which processes of the stack are running.
func stackCheck(s *devstack.Stack) doctor.Check {
	if s == nil {
		return found("stack", doctor.Warned("not started in this data folder", startAll+", or set DATABASE_URL and TEMPORAL_ADDRESS to use services running elsewhere"))
	}
	return doctor.Check{Name: "stack", Run: func(ctx context.Context) []doctor.Result {
		var results []doctor.Result
		for _, p := range s.Processes {
			r := doctor.Result{Check: "stack: " + string(p.Role), Status: doctor.OK, Message: fmt.Sprintf("%s, process %d %s", p.State, p.PID, p.Address)}
			switch {
			case p.External:
				r.Message = "runs elsewhere: " + p.Address
			case p.State == "down":
				r.Status, r.Message, r.Remedy = doctor.Fail, "not running; log: "+p.Log, startAll
			case p.Role == devstack.RoleServer:
				r = serverAnswers(ctx, s.Server, r)
			}
			results = append(results, r)
		}
		return results
	}}
}

// serverAnswers asks the server whether it is ready.
func serverAnswers(ctx context.Context, address string, r doctor.Result) doctor.Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", http.NoBody)
	if err == nil {
		req.Close = true // this is the only request
		var answer *http.Response
		if answer, err = http.DefaultClient.Do(req); err == nil {
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // lets the connection close cleanly
			if answer.StatusCode == http.StatusOK {
				return r
			}
			err = fmt.Errorf("the server responded with %s: a component that it needs is unavailable", answer.Status)
		}
	}
	r.Status, r.Message, r.Remedy = doctor.Fail, err.Error(), "fix the other failed checks, then run rgpt dev stop and "+startAll
	return r
}

// serviceChecks check the services that a run needs. If no service was started or configured, these
// checks do not apply yet.
func serviceChecks(cfg *config.Config, stack *devstack.Stack) []doctor.Check {
	var checks []doctor.Check
	if url := cfg.Database.URL; url == "" {
		checks = append(checks, doctor.PostgreSQL())
	} else {
		checks = append(checks, doctor.Database(url), doctor.Clock(url))
	}
	if stack == nil && cfg.Origin("temporal.address").IsDefault() {
		return append(checks, found("temporal", doctor.Warned("not started, and no address is configured", startAll+", or set TEMPORAL_ADDRESS")))
	}
	connect := func(ctx context.Context) (client.Client, error) {
		return temporal.Connect(ctx, cfg.Temporal, slog.New(slog.DiscardHandler))
	}
	var queues []doctor.Queue
	for _, role := range contract.WorkerRoles() {
		queues = append(queues, doctor.Queue{Name: role.Queue, Workflows: role.Workflows})
	}
	return append(checks, doctor.Temporal(connect, cfg.Temporal.Address, cfg.Temporal.Namespace), doctor.Workers(connect, queues))
}

// artifactsCheck checks that the artifact store responds, by requesting a blob that does not exist.
func artifactsCheck(cfg *config.Config, dir string) doctor.Check {
	return doctor.Check{Name: "artifacts", Run: func(ctx context.Context) []doctor.Result {
		if cfg.Artifacts.URL == "" {
			return doctor.Passed("kept in the data folder")
		}
		s, err := setup.Artifacts(ctx, cfg, dir)
		if err == nil {
			defer s.Close()
			_, err = s.Exists(ctx, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
		}
		if err != nil {
			return doctor.FailedBy(err, "correct artifacts.url and its credentials")
		}
		return doctor.Passed("the store at artifacts.url responds")
	}}
}

// registriesCheck asks each registry that the policy gate asks about a package that it must have; nothing
// if it asks none.
func registriesCheck(cfg *config.Config) []doctor.Check {
	if cfg.Gate.Policy == config.GateOff || !cfg.Gate.Dependencies.Lookup {
		return nil
	}
	return []doctor.Check{{Name: "registries", Run: func(ctx context.Context) []doctor.Result {
		client, err := setup.Registries(cfg)
		if err != nil {
			return doctor.FailedBy(err, "correct gate.dependencies.registries")
		}
		defer client.Close()
		all := client.Ecosystems()
		results := make([][]doctor.Result, len(all))
		var wait sync.WaitGroup
		for i, e := range all {
			wait.Go(func() {
				if err := client.Probe(ctx, e); err != nil {
					results[i] = doctor.Warned(fmt.Sprintf("the registry of %s does not answer as expected (%v), so the age of its packages is unknown", e, err),
						"correct its URL in gate.dependencies.registries, or set it to \"\" so that it is not asked")
					return
				}
				results[i] = doctor.Passed("the registry of %s answers", e)
			})
		}
		wait.Wait()
		for _, w := range setup.WidePatterns(cfg) {
			results = append(results, doctor.Warned(fmt.Sprintf("the pattern %s of %s matches every package of %v, so none of them is looked up", w.Pattern, w.From, w.Ecosystems),
				"narrow the pattern to the names of your private packages"))
		}
		return slices.Concat(results...)
	}}}
}

// notificationsCheck connects to the receiver of each notification channel, without sending anything.
func (a *app) notificationsCheck(cfg *config.Config) doctor.Check {
	return doctor.Check{Name: "notifications", Run: func(ctx context.Context) []doctor.Result {
		n := notify.New(notify.Options{Channels: cfg.Notifications, Webhooks: cfg.Server.Webhooks, Dashboard: cfg.Server.URL, Getenv: a.getenv})
		defer n.Close()
		return doctor.Channels(ctx, n.Names(), n.Probe)
	}}
}

// forgesCheck checks the forges, and the rights in the repository of the working directory.
func (a *app) forgesCheck(cfg *config.Config) doctor.Check {
	set, err := connect.New(cfg.Forges, a.getenv)
	if err != nil {
		return broken("forges", err, "correct the section forges")
	}
	return doctor.Check{Name: "forges", Run: func(ctx context.Context) []doctor.Result {
		defer set.Close()
		remote := cfg.Git.Remote
		if !strings.Contains(remote, ":") { // a name, not an address
			// Without a repository or remote, git prints nothing.
			out, _ := exec.CommandContext(ctx, "git", "config", "--get", "remote."+cmp.Or(remote, "origin")+".url").Output()
			remote = strings.TrimSpace(string(out))
		}
		return doctor.ForgeAccess(set, remote).Run(ctx)
	}}
}

// brainModels are the models of searches in repositories, by the section of the configuration.
var brainModels = map[string]func(*config.Config) (contract.ModelChoice, bool, error){
	"brain.embeddings": setup.EmbeddingModel, "brain.rerank": setup.RerankModel,
}

// modelsCheck probes each provider that an agent or searches use, and whether it has their models: those
// of the configuration, and those that people chose.
func modelsCheck(cfg *config.Config) doctor.Check {
	return doctor.Check{Name: "models", Run: func(ctx context.Context) []doctor.Result {
		var results []doctor.Result
		chosen, err := choicesOf(ctx, cfg)
		if err != nil {
			results = doctor.Warned("the models that people chose are unknown, so only those of the configuration were checked: "+fault.Of(err).Message, "fix the database, then check again")
		}
		choices, _, err := setup.EveryModel(setup.WithChoices(cfg, cfg, chosen))
		if err != nil {
			results = append(results, doctor.Failed(fault.Of(err).Message, "set models.default in "+config.FileName+", or run rgpt dev --scenario FILE")...)
		}
		users := map[string]map[string][]string{} // by provider and model
		use := func(c contract.ModelChoice, user string) {
			if users[c.Provider] == nil {
				users[c.Provider] = map[string][]string{}
			}
			users[c.Provider][c.Model] = append(users[c.Provider][c.Model], user)
		}
		for agent, c := range choices {
			use(c, string(agent))
		}
		for _, section := range slices.Sorted(maps.Keys(brainModels)) {
			c, ok, err := brainModels[section](cfg)
			if err != nil {
				results = append(results, doctor.Failed(fault.Of(err).Message, "correct "+section+".provider")...)
			} else if ok {
				use(c, section)
			}
		}
		all := setup.Providers(cfg)
		found := make([][]doctor.Result, len(all))
		var wait sync.WaitGroup
		for i, p := range all {
			if len(users[p.Name]) > 0 {
				wait.Go(func() { found[i] = providerResults(ctx, p, users[p.Name]) })
			}
		}
		wait.Wait()
		return append(results, slices.Concat(found...)...)
	}}
}

// choicesOf returns the models that people chose.
func choicesOf(ctx context.Context, cfg *config.Config) ([]modelchoices.Choice, error) {
	if cfg.Database.URL == "" {
		return nil, nil // nobody could choose any
	}
	st, err := store.Open(ctx, cfg.Database.URL, store.Options{MaxConns: 1, ConnectTimeout: backend.DatabaseTimeout})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	return modelchoices.New(st).List(ctx)
}

// providerResults probes a provider, and its models with the agents that use them.
func providerResults(ctx context.Context, p model.Provider, users map[string][]string) []doctor.Result {
	named := func(results []doctor.Result) []doctor.Result {
		for i := range results {
			results[i].Check = "model: " + p.Name
		}
		return results
	}
	if err := modelclient.Probe(ctx, p); err != nil {
		return named(doctor.FailedBy(err, providerRemedy(p, fault.Of(err).Code)))
	}
	if p.Kind == model.KindScripted {
		return named(doctor.Warned("takes its responses from a scenario; no real model is used", "set models.default in "+config.FileName))
	}
	var results []doctor.Result
	var agents []string
	for _, name := range slices.Sorted(maps.Keys(users)) {
		slices.Sort(users[name])
		agents = append(agents, users[name]...)
		if err := modelclient.ProbeModel(ctx, p, name); err != nil {
			results = append(results, doctor.FailedBy(err, fmt.Sprintf("choose another model for %s (%s)", strings.Join(users[name], ", "), modelSettings(users[name])))...)
		}
	}
	slices.Sort(agents)
	return named(append(doctor.Passed("responds at %s; used by %v", p.Address(), agents), results...))
}

// modelSettings says where the models of agents and searches are chosen.
func modelSettings(users []string) string {
	var settings []string
	for _, user := range users {
		setting := "rgpt models set, models.phases or models.default"
		if brainModels[user] != nil {
			setting = user + ".model"
		}
		if !slices.Contains(settings, setting) {
			settings = append(settings, setting)
		}
	}
	return strings.Join(settings, "; ")
}

func providerRemedy(p model.Provider, code contract.Code) string {
	if code == contract.CodeUnauthorized {
		return "renew the key: " + p.KeySource()
	}
	if p.Kind == model.KindScripted {
		return startAll
	}
	return fmt.Sprintf("check models.providers.%s (base_url, api_key_env), and make sure that this machine can reach %s", p.Name, p.Address())
}

// printDiagnosis prints a table, with each remedy on its own line.
func (a *app) printDiagnosis(results []doctor.Result) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STATE\tCHECK\tMESSAGE")
	count := map[doctor.Status]int{}
	for _, r := range results {
		count[r.Status]++
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Status, terminal.Clean(r.Check), terminal.Clean(r.Message))
		if r.Remedy != "" {
			fmt.Fprintf(w, "\t\t→ %s\n", terminal.Clean(r.Remedy))
		}
	}
	_ = w.Flush()
	fmt.Fprintf(a.out, "\n%d ok, %d warnings, %d failed\n", count[doctor.OK], count[doctor.Warn], count[doctor.Fail])
}
