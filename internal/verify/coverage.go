package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/coverage"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Coverage is measured by the command whose outcome counts, because a second one would double the
// duration of most checks. It must not change that outcome, so what fails with coverage is run
// without it, and then only that counts.

const (
	// measuredShare is the part of a check's time after which a command is stopped if it measures
	// coverage, and starts again without.
	measuredShare = 2
	// maxCoverageReports limits the reports of one command.
	maxCoverageReports = 100
	// maxCoverageBytes limits the reports of all commands of a check, which are held in memory.
	maxCoverageBytes = 64 << 20
	// maxConvert limits the time in which data is turned into reports.
	maxConvert = 2 * time.Minute
	// keepTime is the part of an activity's time that repeated commands leave for storing results.
	keepTime = 30 * time.Second
)

// measurement is the coverage of a check.
type measurement struct {
	note string
	// lost is the time that coverage took: that of commands whose outcome does not count because of
	// it, and half of the time of all other measured commands.
	lost time.Duration
	read int64 // bytes of reports
	// asked reports whether the code asks whether coverage is measured; nil if that is unknown.
	asked *bool
}

// way is how an execution measured coverage.
type way struct {
	checks.Coverage
	plain checks.Invocation // the command without it
}

// measures reports whether the check measures coverage.
func (r *run) measures() bool {
	return r.env.Settings.Coverage.On() && r.job.Check.Category == contract.CategoryTest
}

// test runs a command of the check. If it is a test and its runner can measure coverage, it does.
func (r *run) test(ctx context.Context, inv checks.Invocation) (*execution, error) {
	if !r.measures() || inv.Setup {
		return r.execute(ctx, inv)
	}
	how, err := r.chooseCoverage(ctx, inv)
	if err != nil {
		return nil, err
	}
	dir := checks.CoverageDir()
	globs := append(checks.OwnCoverage(inv.Dir), how.Reports...)
	if how.With == nil {
		return r.collect(ctx, inv, how, dir, globs)
	}
	timeout, _ := r.timeout()
	started := time.Now()
	e, err := r.collect(ctx, inv.Measured(how, dir, timeout/measuredShare), how, dir, []string{path.Join(dir, "*")})
	if err != nil {
		return e, err
	}
	e.way = &way{Coverage: how, plain: inv}
	if (e.undisturbed() || e.explained()) && !r.hidesTests(e) {
		r.measured.lost += time.Since(started) / measuredShare
		return e, nil
	}
	return r.withoutCoverage(ctx, e, started)
}

// hidesTests reports whether tests may have been skipped because coverage was measured.
func (r *run) hidesTests(e *execution) bool {
	sum := output.Summarize(e.Parsed.Cases)
	if sum.Skipped == 0 {
		return false
	}
	if r.measured.asked == nil {
		asked := e.way.AskedFor(r.root)
		r.measured.asked = &asked
	}
	return *r.measured.asked || sum.Ran() == 0
}

// chooseCoverage returns the first way to measure coverage that is possible. Without one, only the
// reports of the command itself count.
func (r *run) chooseCoverage(ctx context.Context, inv checks.Invocation) (checks.Coverage, error) {
	for _, c := range inv.Coverage {
		if len(c.Probe) == 0 {
			return c, nil
		}
		result, err := r.command(ctx, checks.Invocation{Args: c.Probe, Dir: inv.Dir, Env: inv.Env}, nil)
		if err != nil {
			return c, err
		}
		if result.OK() {
			return c, nil
		}
	}
	return checks.Coverage{}, nil
}

// collect runs a command and reads the coverage reports that it wrote.
func (r *run) collect(ctx context.Context, inv checks.Invocation, how checks.Coverage, dir string, globs []string) (*execution, error) {
	if err := checks.MakeScratch(r.dir); err != nil {
		return r.execute(ctx, inv) // which reports it
	}
	if err := r.dir.Mkdir(dir, 0o755); err != nil {
		return r.execute(ctx, inv)
	}
	before, err := stamps(ctx, r.dir, globs)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return r.execute(ctx, inv) // coverage must not make a check fail
	}
	e, err := r.execute(ctx, inv)
	if err != nil {
		return e, err
	}
	if how.Convert != nil && e.interruption() == "" {
		started := time.Now()
		if _, err := r.command(ctx, checks.Invocation{Shell: how.Convert(dir), Dir: inv.Dir, Env: e.Invocation.Env, Network: inv.Network, Most: maxConvert}, nil); err != nil {
			return e, err
		}
		r.measured.lost += time.Since(started)
	}
	return e, r.readCoverage(ctx, e, append(globs, path.Join(dir, "*")), before)
}

// readCoverage adds the new reports to the coverage of an execution. A report that cannot be read is
// noted.
func (r *run) readCoverage(ctx context.Context, e *execution, globs []string, before map[string]stamp) error {
	now, err := stamps(ctx, r.dir, globs)
	if err != nil {
		return context.Cause(ctx) // nil unless the check was cancelled
	}
	s := output.Paths{Root: r.root, Dir: e.Invocation.Dir, GoDirs: e.Invocation.GoDirs}
	read := 0
	for _, p := range slices.Sorted(maps.Keys(now)) {
		if before[p] == now[p] || path.Base(p) == "data" {
			continue
		}
		if read++; read > maxCoverageReports {
			break
		}
		most := min(coverage.MaxReportBytes, maxCoverageBytes-r.measured.read)
		data, err := output.ReadRegular(r.dir, p, most)
		if err == nil {
			r.measured.read += int64(len(data))
			e.reports = append(e.reports, coverageReport{path: p, data: data, s: s})
			continue
		}
		if errors.Is(err, output.ErrTooLarge) && most < coverage.MaxReportBytes {
			err = errCoverageBytes
		}
		r.noteCoverage("the coverage report %s was not read: %s", output.Name(path.Base(p)), coverageReason(err))
	}
	return nil
}

// coverageReport is a report on coverage of one execution.
type coverageReport struct {
	path string
	data []byte
	s    output.Paths
}

var errCoverageBytes = fmt.Errorf("the coverage reports of the check are larger than %d MiB together", maxCoverageBytes>>20)

func coverageReason(err error) string {
	switch {
	case errors.Is(err, output.ErrTooLarge):
		return fmt.Sprintf("it is larger than %d MiB", coverage.MaxReportBytes>>20)
	case errors.Is(err, output.ErrNotRegular):
		return "it is not a regular file"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "it cannot be opened"
	}
	return output.Message(err.Error())
}

func (r *run) noteCoverage(format string, args ...any) {
	if r.measured.note == "" {
		r.measured.note = output.Message(fmt.Sprintf(format, args...))
	}
}

// undisturbed reports whether nothing in the outcome of a command can be due to coverage, because
// everything passed.
func (e *execution) undisturbed() bool {
	bad := func(p output.Problem) bool { return p.Level == output.Error || p.Level == output.Warning }
	return !e.failed() && len(e.Parsed.Failed()) == 0 && !slices.ContainsFunc(e.Parsed.Problems, bad)
}

// withoutCoverage runs the command of an execution again, without coverage. That outcome counts.
func (r *run) withoutCoverage(ctx context.Context, e *execution, started time.Time) (*execution, error) {
	r.measured.lost += time.Since(started)
	fmt.Fprint(&r.log, "\n[coverage was measured above; that outcome does not count, and the command runs again without it]\n")
	plain, err := r.execute(ctx, e.way.plain)
	if err != nil {
		return plain, err
	}
	r.judgeMeasured(e, plain)
	return plain, nil
}

// judgeMeasured keeps the coverage of a command that ran again without it, unless the first attempt
// was not complete, or coverage was the reason why it failed.
func (r *run) judgeMeasured(e, plain *execution) {
	switch {
	case e.undisturbed():
		plain.reports = e.reports
	case e.Result.TimedOut:
		r.noteCoverage("the tests took longer than half of verification.timeout while coverage was measured, so they ran again without it")
	case plain.undisturbed():
		r.noteCoverage("the tests failed while coverage was measured, so they ran again without it")
	case e.interruption() == "":
		plain.reports = e.reports
	}
}

// confirm makes sure that tests which failed while coverage was measured also fail without it. If one
// of them passes, the whole command runs again, and that outcome counts.
func (r *run) confirm(ctx context.Context, e *execution) (*execution, error) {
	if e.way == nil || !e.explained() {
		return e, nil
	}
	started := time.Now()
	plain := e.way.plain
	if plain.RerunFailed == nil {
		again, err := r.execute(ctx, plain)
		if err == nil && again.interruption() == "" && !failsLike(again, e) {
			r.measured.lost += time.Since(started)
			r.judgeMeasured(e, again)
			return again, nil
		}
		return e, err
	}
	narrow, err := r.execute(ctx, plain.RerunFailed(e.Parsed.Failed(), 1))
	if err != nil || failsLike(narrow, e) {
		return e, err
	}
	return r.withoutCoverage(ctx, e, started)
}

// failsLike reports whether all tests that failed in an execution failed again.
func failsLike(again, e *execution) bool {
	failed := map[string]bool{}
	for _, c := range again.Parsed.Failed() {
		failed[c.Name] = true
	}
	for _, c := range e.Parsed.Failed() {
		if !failed[c.Name] {
			return false
		}
	}
	return true
}

// coverage returns the coverage of all executions together; nil if it was not measured.
func (r *run) coverage() (*coverage.Profile, string) {
	if !r.measures() {
		return nil, ""
	}
	p := coverage.New(r.dir)
	for _, e := range r.executions {
		for _, rep := range e.reports {
			if err := p.Read(rep.data, rep.s); err != nil {
				r.noteCoverage("the coverage report %s could not be read: %s", output.Name(path.Base(rep.path)), coverageReason(err))
			}
		}
	}
	p.Finish(func(p string) bool { return !pin.IsCode(p) })
	if p.Empty() {
		return nil, r.measured.note
	}
	return p, r.measured.note
}
