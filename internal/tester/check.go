package tester

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// CommandEnv is the surroundings of one workspace's commands: its environment, if any, and a
// single-use home and /tmp.
type CommandEnv struct {
	Recipe      environment.Recipe
	Environment *environment.Environment // nil: nothing was set up
	// Failed is the reason why the environment required by the workspace's own manifests could not
	// be created; Environment is then the base commit's.
	Failed    *environment.Failed
	OfBase    bool // Environment is the base commit's
	Home, Tmp string
}

// Close releases the environment.
func (s *CommandEnv) Close() { s.Environment.Close() }

// Outfit sets a command's environment, home and /tmp.
func (s *CommandEnv) Outfit(c *sandbox.Command) {
	s.Recipe.Outfit(c)
	c.Home, c.Tmp = s.Home, s.Tmp
	if s.Environment != nil {
		c.HomeBase, c.WorkspaceBase = s.Environment.Home(), s.Environment.Work()
	}
}

// Unignored returns patterns of files that the environment added to the work tree and that the
// repository does not ignore. They are not a change of the workspace.
func (s *CommandEnv) Unignored() []string {
	if s.Environment == nil {
		return nil
	}
	return s.Environment.Unignored
}

// Task is a check to carry out on a clean checkout.
type Task struct {
	Check     contract.Check
	Workspace contract.Workspace
	Settings  checks.Settings // which the check was planned with
	Timeout   time.Duration
	// Key is that of the working directories; the identifier of the check is appended. BaseKey is
	// that of the base commit's directory.
	Key, BaseKey string
	Who          string // user of the network access, such as "run 42/test-go-1"
	Run          int64  // owner of the build cache's layer
	Layer        string // name of the build cache's layer, which is removed after the check
	// Environment returns the surroundings of commands on a checkout of a workspace, which is
	// closed after the check.
	Environment func(ctx context.Context, ws contract.Workspace, checkout string) (*CommandEnv, error)
	// Follow is called before the first command. It returns the receiver of the output, and a
	// function that is called once when the check has ended. May be nil.
	Follow func() (write func(chunk []byte), ended func())
	// Keep receives the result while the files in it exist.
	Keep func(ctx context.Context, f Files) error
}

// Files are the files of a check: the log of its commands, their network requests, and the files
// that they created.
type Files struct {
	Root      string // of the checkout
	Log       []byte // redacted
	Egress    *Egress
	Artifacts []verify.ArtifactFile
	Unlisted  int // files beyond those in Artifacts
}

// Check carries out a check. A check of a workspace whose environment cannot be created fails.
func (h *Host) Check(ctx context.Context, t Task) (verify.Outcome, contract.CheckResult, error) {
	none := func(err error) (verify.Outcome, contract.CheckResult, error) {
		return verify.Outcome{}, contract.CheckResult{}, err
	}
	dir, err := h.checkout(ctx, t, t.Workspace)
	if err != nil {
		return none(err)
	}
	defer dir.Close()
	ended := false
	defer func() { h.giveBack(ctx, t, dir, ended) }() // after the surroundings were closed
	s, err := h.surround(ctx, t, t.Workspace, dir.Path())
	if err != nil {
		return none(err)
	}
	defer s.close(ctx)
	outcome := brokenSetup(s.cenv)
	if outcome == nil {
		if outcome, err = s.check(ctx); err != nil {
			return none(err)
		}
	}
	redact(outcome)
	if err := t.Keep(ctx, s.files(outcome.Log, outcome.Artifacts, outcome.Unlisted)); err != nil {
		return none(err)
	}
	result := outcome.Result(t.Check)
	result.Code = outcome.Code
	result.Coverage = s.coverage(ctx, outcome)
	ended = true
	return *outcome, result, nil
}

// checkout opens the directory of a task's check with the content of a workspace.
func (h *Host) checkout(ctx context.Context, t Task, ws contract.Workspace) (*workspace.Checkout, error) {
	commands, ok := h.Sandbox.(interface{ Traceable() bool })
	return h.Workspaces.OpenCheckout(ctx, ws, t.Key+"/"+t.Check.ID, ok && commands.Traceable())
}

// giveBack lets later checks use the directory of a check that has ended: after an error, its commands may not
// have ended.
func (h *Host) giveBack(ctx context.Context, t Task, dir *workspace.Checkout, ended bool) {
	if !ended {
		return
	}
	if err := dir.GiveBack(ctx); err != nil {
		h.Log.DebugContext(ctx, "The directory of a check is removed with those of its run", "directory", t.Key, "check", t.Check.ID, "reason", err)
	}
}

// brokenSetup returns the outcome of each check of a change whose environment cannot be created,
// nil if it can.
func brokenSetup(cenv *CommandEnv) *verify.Outcome {
	f := cenv.Failed
	if f == nil {
		return nil
	}
	text := "the environment that the change needs could not be set up: " + commandFailure(*f)
	return &verify.Outcome{
		Code: contract.CodeCheckFailed, Message: text, Log: []byte(text + "\n\n" + f.Output + "\n"),
		Findings: []contract.Finding{{Severity: contract.SeverityMajor, Category: contract.CategoryBuild, Rule: "environment", Message: text + "\n" + Clipped(f.Output, 1000)}},
	}
}

// redact removes secrets from the output of tests and tools, which is stored, shown in events, and
// included in prompts.
func redact(o *verify.Outcome) {
	o.Message = telemetry.Redact(o.Message)
	for i := range o.Cases {
		o.Cases[i].Message = telemetry.Redact(o.Cases[i].Message)
	}
	for i := range o.Findings {
		o.Findings[i].Message = telemetry.Redact(o.Findings[i].Message)
	}
}

// surroundings are what one task needs to run commands on one checkout.
type surroundings struct {
	host     *Host
	task     Task
	checkout string
	cache    *buildcache.Cache
	cenv     *CommandEnv
	way      *Egress
}

func (h *Host) surround(ctx context.Context, t Task, ws contract.Workspace, checkout string) (*surroundings, error) {
	cache, err := h.OpenCache(ws.Repo, t.Run, t.Layer)
	if err != nil {
		return nil, err
	}
	s := &surroundings{host: h, task: t, checkout: checkout, cache: cache, way: h.Egress(t.Who, checks.NetworkSetting(t.Check.Category))}
	if s.cenv, err = t.Environment(ctx, ws, checkout); err == nil {
		s.cenv.Home, s.cenv.Tmp, err = cache.Home("check")
	}
	if err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// close releases the environment and removes the build cache's layer. Any remains are swept later.
func (s *surroundings) close(ctx context.Context) {
	if s.cenv != nil {
		s.cenv.Close()
	}
	if err := s.cache.Discard(); err != nil {
		s.host.Log.WarnContext(ctx, "Could not remove a check's build cache", "directory", s.task.Key, "check", s.task.Check.ID, "error", err)
	}
}

func (s *surroundings) files(log []byte, artifacts []verify.ArtifactFile, unlisted int) Files {
	return Files{Root: s.checkout, Log: []byte(telemetry.Redact(string(log))), Egress: s.way, Artifacts: artifacts, Unlisted: unlisted}
}

func (s *surroundings) check(ctx context.Context) (*verify.Outcome, error) {
	env := s.env(ctx)
	s.limit(ctx, &env)
	if s.task.Check.Retest > 0 {
		env.Settings.RerunFailed = 0 // a second attempt would hide the failures that re-tests look for
		if env.Settings.Recordings != checks.RecordAlways {
			env.Settings.Recordings = checks.RecordOff // the tests passed without being recorded
		}
		env.Settings.Coverage = checks.CoverageOff
	}
	if s.task.Follow != nil {
		write, ended := s.task.Follow()
		defer ended()
		env.OnOutput = func(_ sandbox.Stream, chunk []byte) { write(chunk) }
	}
	outcome, err := verify.Run(ctx, s.checkout, s.task.Check.Original(), env)
	return &outcome, err
}

// env returns the environment of the check.
func (s *surroundings) env(ctx context.Context) verify.Env {
	h := s.host
	command := h.Command(s.cache)
	if checks.UsesDatabase(s.task.Check) {
		command.Mounts = append(command.Mounts, h.databases(ctx, s.task.Settings.Databases)...)
	}
	for _, name := range []string{"RGPT_CHROMIUM", "PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH"} {
		if value := os.Getenv(name); value != "" {
			command.Env[name] = value
		}
	}
	env := verify.Env{
		Runner: h.Sandbox, Settings: s.task.Settings, Limits: command.Limits, Vars: command.Env, GoCache: command.GoCache,
		Mounts: command.Mounts, NodeModules: os.Getenv("RGPT_NODE_MODULES"), Outfit: s.cenv.Outfit,
	}
	if h.Proxy != nil {
		env.CACertificates = h.Proxy.CACertificate()
		env.Proxy = s.way.Serve
	}
	return env
}

// databases makes the copies of vulnerability databases visible that this host has. A scan that needs
// another one is skipped.
func (h *Host) databases(ctx context.Context, d checks.Databases) []sandbox.Mount {
	var mounts []sandbox.Mount
	for inside, host := range d.Inside() {
		path, err := filepath.EvalSymlinks(host)
		if err != nil {
			h.Log.WarnContext(ctx, "A vulnerability database is not on this host", "directory", host, "error", err)
			continue
		}
		mounts = append(mounts, sandbox.Mount{Host: path, Inside: inside})
	}
	return mounts
}

// limit sets the time limit of the check, after it has compiled the base commit.
func (s *surroundings) limit(ctx context.Context, env *verify.Env) {
	started := time.Now()
	if s.cenv.OfBase {
		s.fillBase(ctx, *env)
	}
	env.Limits.Timeout = max(s.task.Timeout-time.Since(started), s.task.Timeout/4)
}

// fillBase compiles the commit that the workspace started from, once per host for each set of
// dependencies, so a check does not have to compile everything in its own layer. It takes up to
// half of the check's time, which the check would otherwise spend on the same compilation. A
// failure only makes the check slower.
func (s *surroundings) fillBase(ctx context.Context, env verify.Env) {
	dependencies := checks.Dependencies(s.checkout)
	if dependencies == "" {
		return
	}
	if env.Settings.Coverage.On() {
		dependencies += "-covered" // compiled differently
	}
	h, t := s.host, s.task
	err := s.cache.Fill(ctx, dependencies, func(ctx context.Context, dir string) error {
		ctx, cancel := context.WithTimeout(ctx, t.Timeout/2)
		defer cancel()
		base, err := h.Workspaces.Start(ctx, contract.Repo{URL: t.Workspace.Repo, Base: t.Workspace.Base})
		if err != nil {
			return err
		}
		tree, err := h.Workspaces.Open(ctx, base, t.BaseKey)
		if err != nil {
			return err
		}
		defer tree.Close()
		env.GoCache = sandbox.GoCache{Dir: dir}
		env.Outfit = compilerOutfit(env.Outfit)
		env.Mounts = slices.DeleteFunc(slices.Clone(env.Mounts), func(m sandbox.Mount) bool { return m.Writable })
		env.Limits.Timeout = t.Timeout / 2
		return verify.Compile(ctx, tree.Path(), env)
	})
	if err != nil && ctx.Err() == nil {
		h.Log.WarnContext(ctx, "Could not compile the base commit for the build cache", "directory", t.Key, "base", t.Workspace.Base, "error", err)
	}
}

// compilerOutfit returns only the part of an environment that the compiler needs: its modules, and
// nothing that selects the compiler or the programs that it runs. All users of the repository rely
// on its output.
func compilerOutfit(all func(*sandbox.Command)) func(*sandbox.Command) {
	return func(c *sandbox.Command) {
		env := maps.Clone(c.Env)
		if env == nil {
			env = map[string]string{}
		}
		if all != nil {
			all(c)
		}
		c.Env, c.Path = env, nil
		c.Env["GOENV"] = "off"
	}
}
