package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

const (
	// agentDiffBytes limits the diff that an agent can read in parts.
	agentDiffBytes = 1 << 20
	// restoredBytes limits a file that revert_file restores.
	restoredBytes = 16 << 20
	// reportBytes limits the failures in the report of a check to an agent.
	reportBytes = 8 << 10
	// leastCheckTime divides the time of a call: with less than this part left, no further check begins.
	leastCheckTime = 4
)

// giveMemory lets tools store long outputs and read them, and earlier results, again.
func (a *Activities) giveMemory(env *tool.Env, in contract.ToolInput) {
	env.Keep = func(ctx context.Context, text string) (string, error) {
		name := fmt.Sprintf("output/%s/%d/%d-%d.log", nameOf(in.Execution), in.Execution.Attempt, in.Turn, in.Index)
		return name, a.keep(ctx, in.Execution, name, contract.ArtifactLog, text)
	}
	env.Kept = func(ctx context.Context, id string) (string, bool, error) { return a.keptOutput(ctx, in.Execution, id) }
}

// giveSight lets the tools of agents that work on a goal see more than the workspace: its base, its
// history, and the outcomes of checks.
func (a *Activities) giveSight(env *tool.Env, in contract.ToolInput) {
	base := contract.Workspace{Repo: in.Workspace.Repo, Base: in.Workspace.Base}
	env.Diff = func(ctx context.Context, path string) (string, error) {
		from, err := a.baseOf(ctx, base)
		if err != nil {
			return "", err
		}
		return a.Workspaces.DiffOf(ctx, from, in.Workspace, path, agentDiffBytes)
	}
	env.Earlier = func(ctx context.Context, path string, at tool.Time) (tool.EarlierFile, error) {
		from := in.From.Of(in.Workspace)
		if at == tool.AtBase || in.From.Tree == "" {
			var err error
			if from, err = a.baseOf(ctx, base); err != nil {
				return tool.EarlierFile{}, err
			}
		}
		f, err := a.Workspaces.FileAt(ctx, from, path, restoredBytes)
		return tool.EarlierFile(f), err
	}
	env.History = func(ctx context.Context, q tool.HistoryQuery) (string, bool, error) {
		return a.history(ctx, in, base, q)
	}
	env.Check = func(ctx context.Context, name string, onBase bool) (tool.CheckReport, error) {
		return a.checkForAgent(ctx, in, name, onBase)
	}
}

// baseOf returns the workspace of a base commit without any change.
func (a *Activities) baseOf(ctx context.Context, ws contract.Workspace) (contract.Workspace, error) {
	return a.Workspaces.Start(ctx, contract.Repo{URL: ws.Repo, Base: ws.Base})
}

// history describes a path of the base commit. A history that cannot be fetched is not worth a
// failed step.
func (a *Activities) history(ctx context.Context, in contract.ToolInput, base contract.Workspace, q tool.HistoryQuery) (string, bool, error) {
	text, found, err := a.Workspaces.History(ctx, base, q.Path, workspace.Lines{First: q.First, Last: q.Last})
	switch {
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case err != nil:
		a.Log.WarnContext(ctx, "Could not read the history of a repository", "run", in.Execution.RunID, "error", err)
		return "The history of the repository could not be read. Work without it.", false, nil
	case !found:
		return q.Path + " does not exist in the base commit, so it has no history.", false, nil
	case text == "":
		return "No known commit changed " + q.Path + ".", false, nil
	}
	return telemetry.Redact(text), true, nil
}

// resultID matches the id of a result of a conversation, turn.call, or of a whole turn.
var resultID = regexp.MustCompile(`^(\d{1,6})(?:\.(\d{1,6}))?$`)

// keptOutput returns a stored output: an earlier result or turn of the conversation (12.0, 12), or a
// log of the run by its name.
func (a *Activities) keptOutput(ctx context.Context, e contract.ExecutionRef, id string) (string, bool, error) {
	if m := resultID.FindStringSubmatch(id); m != nil {
		turn, err := strconv.Atoi(m[1])
		if err != nil {
			return "", false, err
		}
		rows, err := a.Store.Transcript(ctx, e.ID)
		if err != nil {
			return "", false, err
		}
		return earlierText(rows, turn, m[2])
	}
	all, err := a.Store.Artifacts(ctx, e.RunID)
	if err != nil {
		return "", false, err
	}
	for _, kept := range all {
		if kept.Name != id || kept.Type != contract.ArtifactLog || kept.Missing() != "" {
			continue
		}
		text, err := a.Artifacts.Get(ctx, kept.Digest)
		if errors.Is(err, artifact.ErrNotFound) {
			return "", false, nil // its time was over
		}
		return strings.ToValidUTF8(telemetry.Redact(string(text)), "\uFFFD"), err == nil, err
	}
	return "", false, nil
}

// earlierText returns a result of a conversation, or a whole turn if no call is given.
func earlierText(rows []store.TranscriptEntry, turn int, call string) (string, bool, error) {
	var b strings.Builder
	found := false
	for _, row := range rows {
		if row.Turn != turn || call != "" && resultName(row) != strconv.Itoa(turn)+"."+call {
			continue
		}
		var m model.Message
		if err := json.Unmarshal(row.Content, &m); err != nil {
			return "", false, fmt.Errorf("read turn %d of a conversation: %w", turn, err)
		}
		if call != "" {
			return m.Text, true, nil
		}
		found = true
		fmt.Fprintf(&b, "--- %s ---\n%s\n", m.Role, m.Text)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "%s %s\n", shownName(c.Name), c.Arguments)
		}
	}
	return b.String(), found, nil
}

// resultName returns the id by which read_output finds a message of a conversation. The results of a
// turn follow its response; a forked conversation begins with a copy of another one as turn 0.
func resultName(row store.TranscriptEntry) string {
	if row.Turn == 0 {
		return fmt.Sprintf("0.%d", row.Position)
	}
	return fmt.Sprintf("%d.%d", row.Turn, row.ResultIndex())
}

// checkForAgent carries out a check of the project that an agent names. On the base commit, a known
// outcome is reported.
func (a *Activities) checkForAgent(ctx context.Context, in contract.ToolInput, name string, onBase bool) (tool.CheckReport, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return tool.CheckReport{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return tool.CheckReport{}, err
	}
	baseline, err := a.baselineOf(ctx, run)
	if err != nil {
		return tool.CheckReport{}, err
	}
	ws := in.Workspace
	if onBase {
		ws = run.Settings.Repo.Workspace()
	}
	wanted, names, err := a.checksNamed(ctx, ws, spec.Verification, name)
	if err != nil || len(wanted) == 0 {
		return tool.CheckReport{Unknown: true, Names: names}, err
	}
	report := tool.CheckReport{OK: true}
	began := time.Now()
	for i, c := range wanted {
		var known store.BaselineCheck
		log, found := "", false
		if onBase && baseline != nil {
			known, found = baseline.Check(c.ID)
		}
		if !found {
			// Checks with the same name share the time of the call.
			now := in
			if i > 0 {
				now.Timeout = (in.Timeout - time.Since(began)).Round(time.Second)
			}
			if now.Timeout < in.Timeout/leastCheckTime {
				report.OK = false
				report.Text += fmt.Sprintf("%s was not run: the checks before it used the time of one call (execution.command_timeout). Call check with the name %q.\n", c.Name, c.ID)
				continue
			}
			if known, log, err = a.checkNow(ctx, now, run, spec.Verification, ws, c, i, onBase); err != nil {
				return tool.CheckReport{}, err
			}
		}
		report.OK = report.OK && known.Result.OK
		report.Text += describeCheck(known.Result, known.Cases, known.Findings) + afterCheck(known.Result, log, in.Timeout, run.Settings.VerifyTimeout)
	}
	return report, nil
}

// afterCheck returns what else an agent must know about a check: what a time-out means, and how to read
// the whole output.
func afterCheck(r contract.CheckResult, log string, had, verification time.Duration) string {
	text := ""
	if r.Code == contract.CodeTimeout && verification > had {
		text = fmt.Sprintf("This does not mean that it fails: the final verification gives it %s, a call of a tool only %s (execution.command_timeout).\n", verification, had)
	}
	if log != "" && !r.OK {
		text += fmt.Sprintf("[the whole output: read_output {\"id\": %q}]\n", log)
	}
	return text
}

// checksNamed returns the checks of a workspace with a name or id, and the names of all.
func (a *Activities) checksNamed(ctx context.Context, ws contract.Workspace, s checks.Settings, name string) (wanted []contract.Check, names []string, err error) {
	dir, err := a.Workspaces.OpenShared(ctx, ws)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	pipeline, err := checks.Plan(dir.Path(), s)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range slices.Concat(pipeline.Stages...) {
		names = append(names, c.Name)
		if c.ID == name || strings.EqualFold(c.Name, name) {
			wanted = append(wanted, c)
		}
	}
	return wanted, slices.Compact(names), nil
}

// checkNow carries out a check, compares it with the base commit and stores its log. Nothing else of
// it is stored: it is not part of the run's verification.
func (a *Activities) checkNow(ctx context.Context, in contract.ToolInput, run store.Run, s checks.Settings, ws contract.Workspace, c contract.Check, number int, onBase bool) (store.BaselineCheck, string, error) {
	verify := contract.VerifyInput{Execution: in.Execution, Workspace: ws, Check: c, Timeout: in.Timeout}
	spec, err := specOf(run)
	if err != nil {
		return store.BaselineCheck{}, "", err
	}
	spec.Verification = s
	var kept keptFiles
	task := a.task(run, spec, verify, &kept)
	task.Key = directory(in.Execution) + "/check"
	task.Layer = fmt.Sprintf("%d/tool/%d-%d/%s", in.Execution.ID, in.Turn, in.Index, c.ID)
	name := fmt.Sprintf("output/%s/%d/%d-%d-%d.log", nameOf(in.Execution), in.Execution.Attempt, in.Turn, in.Index, number)
	task.Keep = func(ctx context.Context, f tester.Files) error {
		return a.keep(ctx, in.Execution, name, contract.ArtifactLog, string(f.Log))
	}
	task.Follow = func() (func([]byte), func()) {
		out := a.output(ctx, in.Execution.RunID, nameOf(in.Execution))
		return out.write, out.close
	}
	var done checked
	if done.outcome, done.result, err = a.host().Check(ctx, task); err == nil && !onBase {
		err = a.compare(ctx, run, s, verify, &done)
	}
	return store.BaselineCheck{Result: done.result, Cases: done.outcome.Cases, Findings: done.outcome.Findings}, name, err
}

// describeCheck describes the outcome of a check for an agent. A test that fails on the base commit too
// is only named.
func describeCheck(r contract.CheckResult, cases []contract.TestCase, findings []contract.Finding) string {
	var b strings.Builder
	failing, known := failingCases(cases, findings)
	switch {
	case r.Skipped:
		fmt.Fprintf(&b, "%s was skipped: %s\n", r.Check.Name, fault.Clip(r.Message, caseBytes))
	case r.KnownOnly:
		fmt.Fprintf(&b, "%s fails only as it does on the base commit, which does not count: %s\n", r.Check.Name, fault.Clip(r.Message, caseBytes))
	case r.OK:
		fmt.Fprintf(&b, "%s passed\n", r.Check.Name)
	case len(failing) > 0 && failing[0].Message != "" && strings.Contains(r.Message, failing[0].Message): // described below
		fmt.Fprintf(&b, "%s failed\n", r.Check.Name)
	default:
		fmt.Fprintf(&b, "%s failed: %s\n", r.Check.Name, fault.Clip(r.Message, caseBytes))
	}
	if s := r.Summary; s.Passed+s.Failed+s.Skipped+s.Flaky > 0 {
		fmt.Fprintf(&b, "%d tests passed, %d failed, %d skipped, %d flaky\n", s.Passed, s.Failed, s.Skipped, s.Flaky)
	}
	if r.OK && !r.KnownOnly {
		return telemetry.Redact(b.String())
	}
	if len(known) > 0 && !r.KnownOnly {
		fmt.Fprintf(&b, "Of these, %d fail on the base commit too, which does not count: %s\n", len(known), fault.Clip(strings.Join(known, ", "), caseBytes))
	}
	described := map[string]bool{} // names and messages
	more := 0
	for _, c := range failing {
		if b.Len() > reportBytes {
			more++
			continue
		}
		described[c.Name], described[c.Message] = c.Name != "", c.Message != ""
		fmt.Fprintf(&b, "FAILED %s", c.Name)
		if c.Location != "" {
			fmt.Fprintf(&b, " at %s", c.Location)
		}
		fmt.Fprintf(&b, "\n%s\n", clipped(c.Message, caseBytes))
	}
	for _, f := range findings {
		if f.Status == contract.FindingKnown || described[f.Rule] || described[f.Message] {
			continue
		}
		if b.Len() > reportBytes {
			more++
			continue
		}
		fmt.Fprintf(&b, "%s %s %s\n", strings.ToUpper(string(f.Severity)), f.Location, clipped(f.Message, caseBytes))
	}
	if more > 0 {
		fmt.Fprintf(&b, "[%d more failures and findings]\n", more)
	}
	return telemetry.Redact(b.String())
}

// failingCases returns the failed tests, and apart from them the names of those that fail on the base
// commit too.
func failingCases(cases []contract.TestCase, findings []contract.Finding) (failing []contract.TestCase, known []string) {
	before := map[string]bool{}
	for _, f := range findings {
		if f.Rule != "" && f.Status == contract.FindingKnown {
			before[f.Rule] = true
		}
	}
	for _, c := range cases {
		switch {
		case c.Status != contract.TestFailed:
		case before[c.Name]:
			known = append(known, c.Name)
		default:
			failing = append(failing, c)
		}
	}
	return failing, known
}
