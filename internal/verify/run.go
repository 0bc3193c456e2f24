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
)

// Run carries out one check of the plan on a checkout. It writes into the
// checkout, as builds and tests do: give it one of its own. A red check is an
// Outcome; an error means that it could not be carried out, and the Outcome
// holds what there was until then.
func Run(ctx context.Context, root string, check contract.Check, env Env) (Outcome, error) {
	if env.Runner == nil {
		return Outcome{}, badSetting("no sandbox is set up to run checks in")
	}
	root, err := filepath.Abs(root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return Outcome{}, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be opened")
	}
	p, err := Plan(root, env.Settings)
	if err != nil {
		return Outcome{}, err
	}
	j, ok := p.jobs[check.ID]
	if !ok {
		return Outcome{}, badSetting("check %q is not part of the plan of this checkout; were the settings changed after planning?", check.ID)
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return Outcome{}, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be opened")
	}
	defer dir.Close()
	if err := linkPackages(dir, env.NodeModules != ""); err != nil {
		return Outcome{}, fault.Wrap(err, contract.ClassInfra, "", "the checkout cannot be written")
	}
	r := &run{job: j, env: env, root: root, dir: dir, log: headTail{limit: maxLog}, started: time.Now()}
	err = r.all(ctx)
	return r.outcome(), err
}

// linkPackages lets the checkout find the packages that the worker gives:
// modules of the kind that import loads are looked for in folders only, never
// in NODE_PATH. A checkout with packages of its own keeps those.
func linkPackages(root *os.Root, given bool) error {
	if !given {
		return nil
	}
	if _, err := root.Lstat("node_modules"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Symlink(NodeModulesInside, "node_modules")
}

// run is one check under way.
type run struct {
	job     job
	env     Env
	root    string
	dir     *os.Root
	log     headTail
	started time.Time

	executions []*execution
	installed  *bool // whether Python finds the checkout's packages; nil: not asked yet
}

// execution is one command that ran.
type execution struct {
	run    invocation
	result sandbox.Result
	parsed parsed
	notes  []string
	// counted says that cases are the tool's own, so that none means none.
	counted bool
	// reported says that the command left a report.
	reported bool
	// cured says that everything that failed has passed when run again.
	cured bool
}

// red: the command did not end well.
func (e *execution) red() bool { return !e.result.OK() && !e.run.advisory && !e.cured }

// broken says how a command ended that did not come to its own end.
func (e *execution) broken() contract.Code {
	r := e.result
	switch {
	case e.run.advisory:
		return ""
	case r.TimedOut:
		return contract.CodeTimeout
	case r.Signal != "", r.LimitExceeded != "", r.ExitCode > 128 && r.ExitCode < 128+65:
		return contract.CodeCommandCrashed
	}
	return ""
}

// all runs the commands of the check, then failed tests again.
func (r *run) all(ctx context.Context) error {
	for _, inv := range r.job.runs {
		inv, ok, err := r.choose(ctx, inv)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		e, err := r.execute(ctx, inv)
		if e != nil {
			r.executions = append(r.executions, e)
		}
		if err != nil {
			return err
		}
		if e.result.TimedOut || inv.setup && e.red() {
			return nil // the rest would only add noise
		}
	}
	return r.rerun(ctx)
}

// choose finds the alternative of an invocation whose tool is installed.
func (r *run) choose(ctx context.Context, inv invocation) (invocation, bool, error) {
	for len(inv.probe) > 0 {
		result, err := r.command(ctx, invocation{args: inv.probe, dir: inv.dir, env: inv.env}, nil)
		switch {
		case err != nil:
			return inv, false, err
		case result.OK():
			return inv, true, nil
		case inv.instead == nil:
			return inv, false, nil
		}
		inv = *inv.instead
	}
	return inv, true, nil
}

// execute runs a command and reads what it left. A nil execution comes with an
// error only.
func (r *run) execute(ctx context.Context, inv invocation) (*execution, error) {
	if err := clearReports(r.dir, inv.reports); err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, "", "the checkout cannot be written")
	}
	inv, err := r.withSource(ctx, inv)
	if err != nil {
		return nil, err
	}
	if inv, err = r.guarded(inv); err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, "", "the checkout cannot be written")
	}
	before, err := stamps(ctx, r.dir, inv.reports)
	if err != nil {
		return nil, err
	}
	out := r.output(inv)
	result, err := r.command(ctx, inv, out.write)
	out.close(result)
	e := &execution{run: inv, result: result}
	if err != nil {
		return e, err
	}
	return e, r.read(ctx, e, before)
}

// guarded makes the results of a command hard to forge; see canary.go.
func (r *run) guarded(inv invocation) (invocation, error) {
	inv = hideReports(inv, secret())
	if inv.canary == nil {
		return inv, nil
	}
	return inv.canary(r.dir, inv, secret())
}

// read parses reports and output of a command that has ended.
func (r *run) read(ctx context.Context, e *execution, before map[string]stamp) error {
	s := site{root: r.root, dir: e.run.dir, goDirs: e.run.goDirs}
	if len(e.run.reports) > 0 {
		reports, notes, err := newReports(ctx, r.dir, e.run.reports, before)
		if err != nil {
			return err
		}
		e.notes, e.reported = notes, len(reports) > 0
		for _, rep := range reports {
			if err := e.parseReport(rep.data, s); err != nil {
				e.notes = append(e.notes, fmt.Sprintf("report %s was not understood: %s", name(rep.path), message(err.Error())))
			}
		}
		switch {
		case len(reports) > 0 && e.run.printed != nil:
			e.parsed.sum = e.run.printed(e.result.Stdout, e.result.Stderr)
		case len(e.parsed.cases) == 0 && e.run.orText && e.parseText(s):
		case len(reports)+len(e.notes) == 0:
			e.notes = append(e.notes, fmt.Sprintf("the command wrote no report %s", strings.Join(e.run.reports, ", ")))
		}
		e.counted = true
	} else {
		e.parseOutput(s, r.job.check.Category == contract.CategoryTest)
	}
	if e.run.ended != nil {
		e.run.ended(e, s)
	}
	if e.run.audit != nil {
		e.run.audit(r.dir, s, &e.parsed)
	}
	if e.red() && len(e.parsed.problems)+len(e.parsed.failed()) == 0 || e.run.format == FormatExitCode && r.job.check.Category == contract.CategoryLint {
		e.parsed.problems = append(e.parsed.problems, textProblems(e, s)...)
	}
	return nil
}

// textProblems looks for places in what the command printed.
func textProblems(e *execution, s site) []problem {
	found := parseText(e.result.Stderr, s)
	return append(found, parseText(e.result.Stdout, s)...)
}

// command runs in the sandbox with what is left of the check's time.
func (r *run) command(ctx context.Context, inv invocation, onOutput func(sandbox.Stream, []byte)) (sandbox.Result, error) {
	limits := r.env.Limits
	if timeout, bounded := r.timeout(); bounded {
		limits.Timeout = timeout - time.Since(r.started)
		if limits.Timeout < time.Millisecond {
			return sandbox.Result{ExitCode: -1, TimedOut: true}, nil
		}
	}
	if readsOutput(inv) && limits.OutputBytes >= 0 {
		limits.OutputBytes = max(limits.OutputBytes, maxOutput)
	}
	command := sandbox.Command{
		Shell: inv.shell, Args: inv.args, Root: r.root, Dir: workDir(inv.dir),
		Env: r.environment(inv), Limits: limits,
		Mounts: r.mounts(), GoCache: r.env.GoCache, OnOutput: onOutput,
	}
	if len(inv.network) > 0 && r.env.Proxy != nil {
		command.Proxy, command.CACertificates = r.env.Proxy(inv.network), r.env.CACertificates
	}
	r.env.outfit(&command)
	result, err := r.env.Runner.Run(ctx, command)
	if err != nil {
		return result, runnerError(ctx, err)
	}
	return result, nil
}

func (e Env) outfit(c *sandbox.Command) {
	if e.Outfit != nil {
		e.Outfit(c)
	}
}

// timeout is the time that the whole check may take.
func (r *run) timeout() (time.Duration, bool) {
	switch {
	case r.job.timeout > 0:
		return r.job.timeout, true
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

// environment: what the plan says wins over what the worker gives, but for
// PYTHONPATH and NODE_OPTIONS nothing is in both.
func (r *run) environment(inv invocation) map[string]string {
	env := withEnv(r.env.Vars, inv.env)
	for _, list := range []string{"PYTHONPATH", "NODE_PATH"} {
		if ours, theirs := inv.env[list], r.env.Vars[list]; ours != "" && theirs != "" {
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

// readsOutput: the output is the report, so that its middle must not be lost.
func readsOutput(inv invocation) bool {
	return (len(inv.reports) == 0 || inv.orText) && inv.format != FormatExitCode
}

// runnerError gives an error of the sandbox a class. That a sandbox cannot be
// made is the host's fault, not the repository's.
func runnerError(ctx context.Context, err error) error {
	var isolation *sandbox.IsolationError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("verify: %w", errors.Join(context.Cause(ctx), err))
	case errors.Is(err, sandbox.ErrInvalid):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the sandbox refused the command of a check")
	case errors.As(err, &isolation):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeIsolation, "checks cannot run: this machine cannot isolate commands")
	case fault.Of(err).Code != contract.CodeUnknown:
		return err // somebody knows better what it is
	}
	return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "the sandbox could not run a check")
}
