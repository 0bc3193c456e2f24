package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// A scan searches for vulnerabilities or secrets. It differs from other commands in two ways: its
// exit code does not decide, because scanners use it to say that they found something, and it may be
// unable to judge the checkout. Then the check is skipped.

// unreachable returns why a scan cannot reach its database, known before it runs, or "".
func (r *run) unreachable(inv checks.Invocation) string {
	if inv.Scan == nil || inv.Scan.Reaches(nil) || r.env.Proxy != nil && inv.Scan.Reaches(inv.Network) {
		return ""
	}
	return "the vulnerability database of " + inv.Scan.Tool + " cannot be reached: " + inv.Scan.Remedy()
}

// chooseScan finds the first scanner that is installed and can reach its database. Without one, it
// returns the first installed one. The choice depends only on the environment and the settings, so
// that the base commit and the change are judged by the same scanner.
func (r *run) chooseScan(ctx context.Context, planned checks.Invocation) (checks.Invocation, bool, error) {
	first, found := planned, false
	for at := &planned; at != nil; {
		inv, ok, err := r.choose(ctx, *at)
		if err != nil || !ok {
			return first, found, err
		}
		if r.unreachable(inv) == "" {
			return inv, true, nil
		}
		if !found {
			first, found = inv, true
		}
		at = inv.Instead
	}
	return first, found, nil
}

// readScan reads the report of a scan.
func (r *run) readScan(ctx context.Context, e *execution, before map[string]stamp) error {
	if e.interruption() != "" {
		return nil
	}
	s := output.Paths{Root: r.root, Dir: e.Invocation.Dir, GoDirs: e.Invocation.GoDirs}
	reports, notes, err := newReports(ctx, r.dir, e.Invocation.Reports, before)
	if err != nil {
		return err
	}
	reason := ""
	for _, rep := range reports {
		if e.Result.ExitCode != 0 && len(bytes.TrimSpace(rep.data)) == 0 {
			continue // its error is on standard error
		}
		if err := e.parseReport(rep.data, s); err != nil {
			reason = output.Message(err.Error())
		}
	}
	switch found := len(e.Parsed.Problems) > 0; {
	case len(notes) > 0:
		reason = notes[0]
	case !e.Invocation.Scan.Reports(e.Result.ExitCode):
		reason = strings.TrimPrefix(because(e), ": ")
	case len(reports) == 0 && e.Result.ExitCode == 0:
		reason = "it wrote no report"
	case reason == "" && e.Result.ExitCode == 1 && !found: // it neither succeeded nor found something
		reason = strings.TrimPrefix(because(e), ": ")
	case reason == "":
		e.audit(r, s)
		r.showFound(e)
		return nil
	}
	e.Parsed = output.Results{}
	e.unjudged, e.unjudgedCode = r.unjudged(e, reason), contract.CodeUnavailable
	return nil
}

// audit completes the results with what the files of the checkout show.
func (e *execution) audit(r *run, s output.Paths) {
	if e.Invocation.Audit != nil {
		e.Invocation.Audit(r.dir, s, &e.Parsed)
	}
}

// unjudged returns why a scan that ran could not judge the checkout.
func (r *run) unjudged(e *execution, reason string) string {
	scan := e.Invocation.Scan
	if len(e.Result.Refused) > 0 {
		return fmt.Sprintf("the vulnerability database of %s cannot be reached, because %s is not allowed: %s",
			scan.Tool, strings.Join(refusedHosts(e.Result.Refused), ", "), scan.Remedy())
	}
	text := fmt.Sprintf("`%s` exited with code %d", fault.Clip(output.Clean(e.Invocation.String()), 200), e.Result.ExitCode)
	if reason != "" {
		text += ": " + fault.Clip(reason, 300)
	}
	if !scan.Reaches(nil) && offline.MatchString(reason) {
		text = fmt.Sprintf("the vulnerability database of %s cannot be reached (%s): %s", scan.Tool, text, scan.Remedy())
	}
	return output.Message(text)
}

// showFound adds what a scan found to the log, which does not contain its report.
func (r *run) showFound(e *execution) {
	var b strings.Builder
	for _, p := range e.Parsed.Problems[:min(len(e.Parsed.Problems), output.MaxFindings)] {
		fmt.Fprintf(&b, "%s: %s: %s (%s)\n", p.Location(), p.Rule, p.Message, r.graded(p))
	}
	if b.Len() == 0 {
		b.WriteString(e.Invocation.Scan.Tool + " found nothing\n")
	}
	r.show([]byte(b.String()))
}

// show adds a text to the output of the check.
func (r *run) show(text []byte) {
	_, _ = r.log.Write(text) // it never fails
	if r.env.OnOutput != nil {
		r.env.OnOutput(sandbox.Stdout, text)
	}
}

// graded returns the severity of a problem: the tool's own, or that of its level.
func (r *run) graded(p output.Problem) contract.Severity {
	if p.Severity != "" {
		return p.Severity
	}
	return r.severity(p.Level)
}

// notInstalled says that none of the alternative scanners is installed.
func notInstalled(tools []string) string {
	return strings.Join(tools, " or ") + " is not installed where checks run: install it on the workers or in the repository's own environment"
}

// absent reports whether no scanner of the check is installed.
func (r *run) absent() bool {
	return !slices.ContainsFunc(r.executions, func(e *execution) bool { return e.unjudgedCode != contract.CodeMissing })
}

// skipped returns why no scan of the check could judge the checkout, or "" if one did. Of several
// reasons, the one counts that may be different the next time.
func (r *run) skipped() (reason string, code contract.Code) {
	for _, e := range r.executions {
		switch {
		case e.unjudged == "":
			return "", ""
		case reason == "" || code != contract.CodeUnavailable && e.unjudgedCode == contract.CodeUnavailable:
			reason, code = e.unjudged, e.unjudgedCode
		}
	}
	return reason, code
}

// judgeSkipped turns a check that could not judge anything into a skipped one. If its scanner is not
// installed although the stage is always to run, it fails.
func (r *run) judgeSkipped(o *Outcome) {
	reason, code := r.skipped()
	if reason == "" {
		return
	}
	text := "skipped: " + reason
	if r.absent() && r.job.Required {
		text = fmt.Sprintf("verification.%s is enabled, but %s", r.job.Check.Category, reason)
		o.Findings = append(o.Findings, contract.Finding{Severity: contract.SeverityMajor, Category: r.job.Check.Category, Message: text, Rule: verdict.RuleUnavailable})
		o.Code, o.Message, o.OK = contract.CodeCheckFailed, text, false
	} else {
		o.Skipped, o.Code, o.Message, o.OK = true, code, text, true
	}
	o.Log = append(o.Log, text+"\n"...)
}
