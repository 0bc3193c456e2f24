package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Run runs one check of the plan on a checkout. Builds and tests write into the checkout, so give
// it a separate one. A failed check is an Outcome; an error means that the check could not be
// completed, and the Outcome contains the results so far.
func Run(ctx context.Context, root string, check contract.Check, env Env) (Outcome, error) {
	r, err := prepare(root, env, func(p checks.Pipeline) (checks.Job, error) {
		j, ok := p.Job(check.ID)
		if !ok {
			return j, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "check %q is not in this checkout's plan; were the settings changed after planning?", check.ID)
		}
		return j, nil
	})
	if err != nil {
		return Outcome{}, err
	}
	defer r.dir.Close()
	err = r.all(ctx)
	return r.outcome(), err
}

// prepare plans the checks of a checkout and prepares to run one of the jobs.
func prepare(root string, env Env, choose func(p checks.Pipeline) (checks.Job, error)) (*run, error) {
	if env.Runner == nil {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "checks need a sandbox, but none is configured")
	}
	root, err := filepath.Abs(root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be opened")
	}
	p, err := checks.Plan(root, env.Settings)
	if err != nil {
		return nil, err
	}
	j, err := choose(p)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be opened")
	}
	if err := linkPackages(dir, env.NodeModules != ""); err != nil {
		dir.Close()
		return nil, fault.Wrap(err, contract.ClassInfra, "", "the checkout cannot be written to")
	}
	return &run{job: j, env: env, root: root, dir: dir, log: headTail{limit: maxLog}, started: time.Now()}, nil
}

// linkPackages links the packages that the worker provides into the checkout: ES modules are found
// only in directories, never through NODE_PATH. A checkout with its own packages keeps them.
func linkPackages(root *os.Root, given bool) error {
	if !given {
		return nil
	}
	if _, err := root.Lstat("node_modules"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Symlink(NodeModulesInside, "node_modules")
}

// run is a running check.
type run struct {
	job     checks.Job
	env     Env
	root    string
	dir     *os.Root
	log     headTail
	started time.Time

	executions []*execution
	measured   measurement
	installed  *bool // whether Python finds the checkout's packages; nil if not yet checked
}

// execution is one command that ran.
type execution struct {
	checks.Finished
	notes []string
	// counted is true if the tool itself reported the cases, so an empty list means no tests.
	counted bool
	// passedLater is true if all failed cases passed in a re-run.
	passedLater bool
	// unjudged is the reason why a scan could not judge the checkout. Its code is missing_dependency
	// if no scanner is installed, forbidden if the settings do not let it reach its database, or
	// unavailable.
	unjudged     string
	unjudgedCode contract.Code
	// way is how it measured coverage; nil if it did not.
	way     *way
	reports []coverageReport
}

// failed reports whether the command failed.
func (e *execution) failed() bool {
	if e.Invocation.Scan != nil {
		return e.interruption() != ""
	}
	return !e.Result.OK() && !e.Invocation.Advisory && !e.passedLater
}

// interruption returns how a command was interrupted, or "" if it exited by itself.
func (e *execution) interruption() contract.Code {
	r := e.Result
	switch {
	case e.Invocation.Advisory:
		return ""
	case r.TimedOut:
		return contract.CodeTimeout
	case r.Signal != "", r.LimitExceeded != "", e.Invocation.Scan == nil && r.ExitCode > 128 && r.ExitCode < 128+65:
		return contract.CodeCommandCrashed
	}
	return ""
}

// all runs the commands of the check and then reruns failed tests.
func (r *run) all(ctx context.Context) error {
	for _, planned := range r.job.Invocations {
		choose := r.choose
		if planned.Scan != nil {
			choose = r.chooseScan
		}
		inv, ok, err := choose(ctx, planned)
		if err != nil {
			return err
		}
		if !ok {
			if planned.Scan != nil {
				r.executions = append(r.executions, &execution{Finished: checks.Finished{Invocation: planned}, unjudged: notInstalled(planned.Tools()), unjudgedCode: contract.CodeMissing})
			}
			continue
		}
		e, err := r.test(ctx, inv)
		if e != nil {
			r.executions = append(r.executions, e)
		}
		if err != nil {
			return err
		}
		if e.Result.TimedOut || inv.Setup && e.failed() {
			return nil // the rest would only add noise
		}
	}
	return r.rerun(ctx)
}

// choose finds the alternative of an invocation whose tool is installed.
func (r *run) choose(ctx context.Context, inv checks.Invocation) (checks.Invocation, bool, error) {
	for len(inv.Probe) > 0 {
		result, err := r.command(ctx, checks.Invocation{Args: inv.Probe, Dir: inv.Dir, Env: inv.Env}, nil)
		switch {
		case err != nil:
			return inv, false, err
		case result.OK():
			return inv, true, nil
		case inv.Instead == nil:
			return inv, false, nil
		}
		inv = *inv.Instead
	}
	return inv, true, nil
}

// execute runs a command and reads its results. The execution is nil only if there is an error.
func (r *run) execute(ctx context.Context, inv checks.Invocation) (*execution, error) {
	if reason := r.unreachable(inv); reason != "" {
		return &execution{Finished: checks.Finished{Invocation: inv}, unjudged: reason, unjudgedCode: contract.CodeForbidden}, nil
	}
	if err := clearReports(r.dir, inv.Reports); err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, "", "the checkout cannot be written to")
	}
	inv, err := r.withSource(ctx, inv)
	if err != nil {
		return nil, err
	}
	if inv, err = inv.Guard(r.dir); err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, "", "the checkout cannot be written to")
	}
	before, err := stamps(ctx, r.dir, inv.Reports)
	if err != nil {
		return nil, err
	}
	out := r.newOutput(inv)
	result, err := r.command(ctx, inv, out.write)
	out.close(result)
	e := &execution{Finished: checks.Finished{Invocation: inv, Result: result}}
	if err != nil {
		return e, err
	}
	if inv.Scan != nil {
		return e, r.readScan(ctx, e, before)
	}
	return e, r.read(ctx, e, before)
}

// command runs in the sandbox with the remaining time of the check.
func (r *run) command(ctx context.Context, inv checks.Invocation, onOutput func(sandbox.Stream, []byte)) (sandbox.Result, error) {
	limits := r.env.Limits
	if timeout, bounded := r.timeout(); bounded {
		limits.Timeout = r.left(ctx, timeout)
		if inv.Most > 0 {
			limits.Timeout = min(limits.Timeout, inv.Most)
		}
		if limits.Timeout < time.Millisecond {
			return sandbox.Result{ExitCode: -1, TimedOut: true}, nil
		}
	}
	if readsOutput(inv) && limits.OutputBytes >= 0 {
		limits.OutputBytes = max(limits.OutputBytes, maxOutput)
	}
	command := sandbox.Command{
		Shell: inv.Shell, Args: inv.Args, Root: r.root, Dir: workDir(inv.Dir),
		Env: r.environment(inv), Limits: limits,
		Mounts: r.mounts(), GoCache: r.env.GoCache, OnOutput: onOutput,
	}
	if len(inv.Network) > 0 && r.env.Proxy != nil {
		command.Proxy, command.CACertificates = r.env.Proxy(inv.Network), r.env.CACertificates
	}
	r.env.outfit(&command)
	if inv.Scan != nil && inv.Scan.TreeOnly {
		command.WorkspaceBase = ""
	}
	result, err := r.env.Runner.Run(ctx, command)
	if err != nil {
		return result, runnerError(ctx, err)
	}
	return result, nil
}

// left returns the remaining time of the check. Time that was lost to coverage does not count, as
// far as the context allows.
func (r *run) left(ctx context.Context, timeout time.Duration) time.Duration {
	left := timeout - time.Since(r.started)
	if r.measured.lost == 0 {
		return left
	}
	more := left + r.measured.lost
	if deadline, ok := ctx.Deadline(); ok {
		more = min(more, time.Until(deadline)-keepTime)
	}
	return max(left, more)
}

// timeout returns the time limit of the whole check.
func (r *run) timeout() (time.Duration, bool) {
	switch {
	case r.job.Timeout > 0:
		return r.job.Timeout, true
	case r.env.Limits.Timeout == 0:
		return sandbox.DefaultLimits.Timeout, true
	}
	return r.env.Limits.Timeout, r.env.Limits.Timeout > 0
}

func workDir(dir string) string {
	if dir == "." {
		return ""
	}
	return dir
}

// environment merges the variables of the worker and of the plan. The plan's variables win, but
// paths in PYTHONPATH and NODE_PATH are joined.
func (r *run) environment(inv checks.Invocation) map[string]string {
	env := checks.WithEnv(r.env.Vars, inv.Env)
	for _, list := range []string{"PYTHONPATH", "NODE_PATH"} {
		if ours, theirs := inv.Env[list], r.env.Vars[list]; ours != "" && theirs != "" {
			env[list] = ours + ":" + theirs
		}
	}
	if r.env.NodeModules != "" {
		env["RGPT_NODE_MODULES"] = NodeModulesInside
		env["NODE_PATH"] = strings.TrimSuffix(NodeModulesInside+":"+env["NODE_PATH"], ":")
	}
	return env
}

func (r *run) mounts() []sandbox.Mount {
	if r.env.NodeModules == "" {
		return r.env.Mounts
	}
	return append(slices.Clone(r.env.Mounts), sandbox.Mount{Host: r.env.NodeModules, Inside: NodeModulesInside})
}

// readsOutput reports whether the output is the report, so its middle must not be cut.
func readsOutput(inv checks.Invocation) bool {
	return (len(inv.Reports) == 0 || inv.OrText) && inv.Format != output.FormatExitCode
}

// runnerError classifies an error of the sandbox. If a sandbox cannot be created, the host is at
// fault, not the repository.
func runnerError(ctx context.Context, err error) error {
	var isolation *sandbox.IsolationError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("verify: %w", errors.Join(context.Cause(ctx), err))
	case errors.Is(err, sandbox.ErrInvalid):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the sandbox rejected a check's command")
	case errors.As(err, &isolation):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeIsolation, "checks cannot run: this machine cannot isolate commands")
	case fault.Of(err).Code != contract.CodeUnknown:
		return err // it already has a class
	}
	return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "the sandbox could not run a check")
}
