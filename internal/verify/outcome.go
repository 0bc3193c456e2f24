package verify

import (
	"cmp"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// outcome summarizes what ran.
func (r *run) outcome() Outcome {
	o := Outcome{Duration: time.Since(r.started)}
	f := findings{category: r.job.Check.Category, list: r.job.Known}
	for _, e := range r.executions {
		r.judge(&f, e)
	}
	cases := r.cases()
	if r.ranNothing() {
		f.list = append(f.list, r.noTests())
	}
	o.Cases, o.Summary = caseList(cases, &f), r.summary()
	o.Unnamed = r.job.Check.Category == contract.CategoryTest && slices.ContainsFunc(r.executions, func(e *execution) bool {
		return !e.Invocation.Setup && e.startFailure() == nil && !e.counted
	})
	o.Summary.DurationMS = o.Duration.Milliseconds()
	o.Findings = f.bounded()
	o.Artifacts, o.Unlisted = r.artifacts()
	o.Coverage, o.CoverageNote = r.coverage()
	o.Log = []byte(output.Clean(string(r.log.Bytes())))
	o.Code = r.code(o, f)
	o.OK = o.Code == ""
	if !o.OK {
		o.Message = r.mainMessage(o)
		o.OnlyTests = r.onlyTests(o, f)
	}
	o.Started = true
	if e := r.unstarted(); e != nil {
		o.Started, o.Cause = false, e.startFailure().what
	}
	r.judgeSkipped(&o)
	return o
}

// onlyTests reports whether the failed cases of a failed check are the only reason for its failure,
// and all of them are listed by name. A report of fewer failures than the runner counted, a command
// that failed without a failed case, or a finding that is not about a case, is another reason.
func (r *run) onlyTests(o Outcome, f findings) bool {
	if o.Code != contract.CodeTestsFailed || o.Unnamed || f.dropped > 0 {
		return false
	}
	for _, e := range r.executions {
		if e.failed() && !e.explained() {
			return false
		}
	}
	failed := map[string]bool{}
	listed := 0
	for _, c := range o.Cases {
		if c.Status == contract.TestFailed {
			failed[c.Name] = true
			listed++
		}
	}
	return listed > 0 && listed == o.Summary.Failed && !slices.ContainsFunc(o.Findings, func(f contract.Finding) bool {
		return f.Severity == contract.SeverityMajor && !failed[f.Rule]
	})
}

func (r *run) artifacts() (listed []ArtifactFile, unlisted int) {
	var all []ArtifactFile
	for _, e := range r.executions {
		s := output.Paths{Root: r.root, Dir: e.Invocation.Dir}
		all = append(all, artifactFiles(r.dir, s, e.Parsed.Attachments)...)
	}
	slices.SortStableFunc(all, func(a, b ArtifactFile) int { return cmp.Compare(a.rank(), b.rank()) })
	listed = all[:min(len(all), maxArtifacts)]
	return uniqueNames(listed), len(all) - len(listed)
}

// ranks order files by how much they say about a failure for their size.
var ranks = []contract.ArtifactType{
	contract.ArtifactScreenshot, contract.ArtifactLog, contract.ArtifactReport, contract.ArtifactJSON, contract.ArtifactPatch,
	contract.ArtifactFile, contract.ArtifactTrace, contract.ArtifactVideo, contract.ArtifactZip,
}

// rank is lower for a file that helps more: files of failed tests come before all others.
func (f ArtifactFile) rank() int {
	rank := slices.Index(ranks, f.Type)
	if !f.failed {
		rank += len(ranks)
	}
	return rank
}

// code returns the reason why the check is not OK.
func (r *run) code(o Outcome, f findings) contract.Code {
	red := o.Summary.Failed > 0 || f.majors > 0
	for _, want := range []contract.Code{contract.CodeTimeout, contract.CodeCommandCrashed} {
		for _, e := range r.executions {
			if e.interruption() == want {
				return want
			}
		}
	}
	lint := r.job.Check.Category == contract.CategoryLint
	for _, e := range r.executions {
		red = red || e.failed() && (!lint || e.startFailure() == nil)
	}
	if r.unstarted() != nil && !lint && o.Summary.Failed == 0 {
		return contract.CodeMissing
	}
	none := false
	for _, finding := range o.Findings {
		if finding.Severity == contract.SeverityMajor {
			none = none || finding.Rule == checks.RuleNoTests
			red = red || finding.Rule != checks.RuleNoTests
		}
	}
	switch {
	case red && r.job.Check.Category == contract.CategoryTest:
		return contract.CodeTestsFailed
	case red:
		return contract.CodeCheckFailed
	case none:
		return contract.CodeNoTests
	}
	return ""
}
