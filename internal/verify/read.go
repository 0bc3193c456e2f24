package verify

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// parseReport reads one report file into the execution. The file's first bytes must match the
// format.
func (e *execution) parseReport(data []byte, s output.Paths) error {
	format := e.Invocation.Format
	if format == "" || format == output.FormatAuto || format == output.FormatExitCode {
		format = output.Sniff(data)
	}
	more, err := output.Parse(format, data, s, false)
	if err == nil {
		e.Parsed.Add(more)
	}
	return err
}

// parseOutput reads the output of a command that wrote no report file. tests reports whether it is
// meant to run tests: then the human-readable output of runners also counts.
func (e *execution) parseOutput(s output.Paths, tests bool) {
	format := e.Invocation.Format
	if format == "" || format == output.FormatAuto {
		format = output.Sniff(e.Result.Stdout)
		if format == output.FormatExitCode && tests {
			text := e.runnersText(s)
			// Next to another runner's summary, TAP is the output of one of its tests.
			if text.NotTAP || !tapStart.Match(e.Result.Stdout) {
				e.takeText(text)
				return
			}
			format = output.FormatTAP
		}
	}
	data, cut := e.Result.Stdout, e.Result.StdoutTruncated
	if format == output.FormatUnittest {
		data, cut = e.Result.Stderr, e.Result.StderrTruncated
	}
	if format == output.FormatExitCode {
		return
	}
	e.counted = true
	more, err := output.Parse(format, data, s, cut)
	if err != nil {
		e.notes = append(e.notes, "the output could not be parsed as "+string(format)+": "+output.Message(err.Error()))
	}
	if cut {
		e.notes = append(e.notes, "the output was too long to store in full: some results are missing")
	}
	e.Parsed.Add(more)
	if e.Invocation.Format == output.FormatGoTest || format == output.FormatGoTest {
		e.Parsed.Problems = append(e.Parsed.Problems, e.goSetupProblems(s)...)
	}
}

// tapStart matches the beginning of TAP after other output.
var tapStart = regexp.MustCompile(`(?m)^TAP version 1[34]\r?$`)

// parseText reads the human-readable output of test runners. Output without a recognized runner
// counts as one test, unless the command is known to start a runner. It reports whether a runner
// was recognized.
func (e *execution) parseText(s output.Paths) bool { return e.takeText(e.runnersText(s)) }

// runnersText parses the human-readable output of test runners. Some, such as vitest, name failures
// on stderr and print their summaries on stdout.
func (e *execution) runnersText(s output.Paths) output.Results {
	return output.ParseRunners(slices.Concat(e.Result.Stderr, []byte("\n"), e.Result.Stdout), s)
}

func (e *execution) takeText(out output.Results) bool {
	e.counted = out.Reported != nil || e.Invocation.Runner && e.failed()
	if e.counted {
		e.Parsed.Add(out)
	}
	if e.counted && (e.Result.StdoutTruncated || e.Result.StderrTruncated) {
		e.notes = append(e.notes, "the output was too long to store in full: some results are missing")
	}
	return out.Reported != nil
}

// goSetupProblems returns the problems on stderr that prevented the go tool from starting.
func (e *execution) goSetupProblems(s output.Paths) []output.Problem {
	if !e.failed() || len(e.Parsed.Failed()) > 0 {
		return nil
	}
	return output.ParseText(e.Result.Stderr, s)
}

// read parses the reports and the output of a finished command.
func (r *run) read(ctx context.Context, e *execution, before map[string]stamp) error {
	s := output.Paths{Root: r.root, Dir: e.Invocation.Dir, GoDirs: e.Invocation.GoDirs}
	if len(e.Invocation.Reports) > 0 {
		reports, notes, err := newReports(ctx, r.dir, e.Invocation.Reports, before)
		if err != nil {
			return err
		}
		e.notes, e.HasReport = notes, len(reports) > 0
		for _, rep := range reports {
			if err := e.parseReport(rep.data, s); err != nil {
				e.notes = append(e.notes, fmt.Sprintf("report %s could not be parsed: %s", output.Name(rep.path), output.Message(err.Error())))
			}
		}
		switch {
		case len(reports) > 0 && e.Invocation.PrintedSummary != nil:
			e.Parsed.Reported = e.Invocation.PrintedSummary(e.Result.Stdout, e.Result.Stderr)
		case len(e.Parsed.Cases) == 0 && e.Invocation.OrText && e.parseText(s):
		case len(reports)+len(e.notes) == 0:
			e.notes = append(e.notes, fmt.Sprintf("the command did not write the report %s", strings.Join(e.Invocation.Reports, ", ")))
		}
		e.counted = true
	} else {
		e.parseOutput(s, r.job.Check.Category == contract.CategoryTest)
	}
	if e.Invocation.Ended != nil {
		e.Invocation.Ended(&e.Finished, s)
	}
	if e.Invocation.Audit != nil {
		e.Invocation.Audit(r.dir, s, &e.Parsed)
	}
	if e.failed() && len(e.Parsed.Problems)+len(e.Parsed.Failed()) == 0 || e.Invocation.Format == output.FormatExitCode && r.job.Check.Category == contract.CategoryLint {
		e.Parsed.Problems = append(e.Parsed.Problems, textProblems(e, s)...)
	}
	return nil
}

// textProblems searches the output of the command for problems with a location.
func textProblems(e *execution, s output.Paths) []output.Problem {
	found := output.ParseText(e.Result.Stderr, s)
	return append(found, output.ParseText(e.Result.Stdout, s)...)
}
