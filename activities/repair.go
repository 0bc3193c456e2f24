package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// logTail is the number of bytes that a diagnosis reads from the end of a failed check's log.
	logTail = 256 << 10
	// shownDiff limits the diff of a repair in a heal's row.
	shownDiff = 8 << 10
	// causeBytes limits the root cause that is passed through Temporal.
	causeBytes = 1200
)

// Diagnose examines the results of a failed execution and returns the kind and the cause of the
// failure. Without anything to examine, it returns the failure unchanged.
func (a *Activities) Diagnose(ctx context.Context, in contract.DiagnoseInput) (contract.Diagnosis, error) {
	out := contract.Diagnosis{Failure: in.Failure, RootCause: in.Failure.Cause}
	out.RootCause = cmp.Or(out.RootCause, in.Failure.Message)
	if err := a.readTraits(ctx, in, &out.Model); err != nil {
		return out, err
	}
	out.Asked = a.askedBy(ctx, in)
	if testsPassed(in) {
		return out, nil
	}
	if in.Failure.Code == contract.CodeInvalidOutput && in.Execution.Step != "" {
		return out, a.readRefusal(ctx, in.Execution.ID, &out)
	}
	// A step also has checks if it ran in strict mode.
	if (in.Execution.Phase != contract.PhaseTester || in.Execution.Step != "") && !verdict.Judged(&in.Failure) {
		return out, nil
	}
	checks, err := a.Store.Checks(ctx, in.Execution.ID)
	if err != nil {
		return out, err
	}
	for _, c := range checks {
		if c.Result.OK || c.LogDigest == "" {
			continue
		}
		seen, err := a.readLog(ctx, c.Result.Check, c.LogDigest)
		if err != nil {
			// Healing continues with the information available.
			a.Log.WarnContext(ctx, "Could not read the log of a failed check", "run", in.Execution.RunID, "check", c.Result.Check.ID, "error", err)
			return out, nil
		}
		// A test that fails because of missing configuration or the network does not mean incorrect
		// code.
		elsewhere := seen.Class == contract.ClassConfig || seen.Class == contract.ClassInfra
		if elsewhere && a.goesWithBase(ctx, in.Execution.RunID, c.Result.Check, seen) {
			elsewhere = false
			if seen.Code != contract.CodeMissing { // the log's cause is known; the message has the new one
				seen = fault.OfOutput(fault.Output{Command: c.Result.Check.Name, ExitCode: 1, Text: c.Result.Message})
			}
		}
		if seen.Cause != "" {
			out.RootCause = clipped(telemetry.Redact(seen.Cause), causeBytes)
		}
		if elsewhere {
			out.Failure.Class, out.Failure.Code = seen.Class, seen.Code
		}
		break // the first failed check is the cause of the later ones
	}
	return out, nil
}

// askedBy returns what the reviewer asked for whose comment is healed like a failure, empty if none is.
func (a *Activities) askedBy(ctx context.Context, in contract.DiagnoseInput) string {
	if in.Check == 0 {
		return ""
	}
	m, err := a.Store.BranchMessage(ctx, in.Check)
	switch {
	case err != nil: // the healing continues with the information available
		a.Log.WarnContext(ctx, "Could not read the message about a branch", "run", in.Execution.RunID, "message", in.Check, "error", err)
	case m.Kind == contract.CheckComment:
		return asked(m)
	}
	return ""
}

// testsPassed reports whether the last tests passed, so that their logs do not explain the failure: a
// message about the branch, which was examined on arrival, or a review reported it.
func testsPassed(in contract.DiagnoseInput) bool {
	return in.Check != 0 || in.Failure.Code == contract.CodeReview
}

// readTraits finds out which settings of a failed execution's model can change its next response.
func (a *Activities) readTraits(ctx context.Context, in contract.DiagnoseInput, out *contract.Traits) error {
	if in.Model.Model == "" {
		return nil
	}
	entry, _ := a.Model.Entry(in.Model)
	out.FixedTemperature, out.Effort = entry.Can(model.CapabilityFixedTemperature), entry.Can(model.CapabilityEffort)
	if !out.Effort || in.Failure.Code != contract.CodeTruncated {
		return nil
	}
	last, err := a.Store.LastUsage(ctx, in.Execution.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	out.ReasonedMost = last.ReasoningTokens > 0 && 2*last.ReasoningTokens >= last.CompletionTokens
	return err
}

// readLog returns the failure that the log of a failed check describes.
func (a *Activities) readLog(ctx context.Context, check contract.Check, digest string) (*contract.Failure, error) {
	log, err := a.Artifacts.Get(ctx, digest)
	if err != nil {
		return nil, err
	}
	return fault.OfOutput(fault.Output{Command: check.Name, ExitCode: 1, Text: string(log[max(0, len(log)-logTail):])}), nil
}

// goesWithBase reports whether a machine problem in the log of a failed check does not explain the
// new failures: either the base commit's log speaks of the same problem, or the base commit had the
// missing part, so the change removed it. In both cases an agent can fix the new failures. If the base
// passed nevertheless, its log only mentions the problem, as in the name of a test.
func (a *Activities) goesWithBase(ctx context.Context, runID int64, check contract.Check, seen *contract.Failure) bool {
	run, err := a.Store.Run(ctx, runID)
	if err != nil {
		return false
	}
	b, err := a.baselineOf(ctx, run)
	if err != nil || b == nil {
		return false
	}
	base, ok := b.Check(check.Original().ID)
	if !ok {
		return false
	}
	if seen.Code == contract.CodeMissing {
		return base.Result.Code != contract.CodeMissing
	}
	if base.LogDigest == "" {
		return false
	}
	before, err := a.readLog(ctx, check, base.LogDigest)
	return err == nil && before.Class == seen.Class && before.Code == seen.Code
}

// readRefusal distinguishes a model that declined from one whose responses are invalid: an agent's
// conversation continues after both, but they heal in different ways.
func (a *Activities) readRefusal(ctx context.Context, execution int64, out *contract.Diagnosis) error {
	last, err := a.lastAnswer(ctx, execution)
	if err != nil || len(last.ToolCalls) > 0 {
		return err
	}
	if f := fault.OfAnswer(fault.Answer{Text: last.Text}); f != nil && f.Code == contract.CodeRefusal {
		out.Failure.Code, out.RootCause = f.Code, clipped(telemetry.Redact(f.Message), causeBytes)
	}
	return nil
}

// lastAnswer returns a model's last response in a conversation, or "" if there is none.
func (a *Activities) lastAnswer(ctx context.Context, execution int64) (model.Message, error) {
	messages, err := a.Store.Conversation(ctx, execution)
	if err != nil {
		return model.Message{}, err
	}
	for _, m := range slices.Backward(messages) {
		if m.Role != string(model.RoleAssistant) {
			continue
		}
		var answer model.Message
		if err := json.Unmarshal(m.Content, &answer); err != nil {
			return answer, fmt.Errorf("read the last response of execution %d: %w", execution, err)
		}
		return answer, nil
	}
	return model.Message{}, nil
}

// repairPrompt returns the prompt of the Repair agent for a heal.
func (a *Activities) repairPrompt(ctx context.Context, runID, planID int64, task contract.HealTask, generation int, start contract.Workspace, local bool) (prompt.Prompt, error) {
	run, err := a.Store.Run(ctx, runID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	plan, err := a.Store.PlanByID(ctx, runID, planID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	executions, err := a.Store.Executions(ctx, runID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	var evidence string
	var logs []prompt.Check
	if task.Check != 0 {
		if evidence, err = a.evidenceOfCheck(ctx, task.Check, start); err != nil {
			return prompt.Prompt{}, err
		}
	} else if e, ok := executionWith(executions, task.Execution.ID); ok {
		if evidence, err = a.evidence(ctx, e); err != nil {
			return prompt.Prompt{}, err
		}
		if logs, err = a.logsOf(ctx, e); err != nil {
			return prompt.Prompt{}, err
		}
	}
	findings, err := a.findingsToAnswer(ctx, runID, task.Review)
	if err != nil {
		return prompt.Prompt{}, err
	}
	heals, err := a.Store.Heals(ctx, runID)
	if err != nil {
		return prompt.Prompt{}, err
	}
	var earlier []string // outcome and diff of each
	for _, h := range heals {
		if out := h.Output(); h.Phase == task.Execution.Phase && h.Number < task.Number && h.Status == contract.HealFailed && out.Diff != "" {
			earlier = append(earlier, clipped(out.Result+"\n"+out.Diff, evidenceBytes/2))
		}
	}
	handoff, err := a.handoffTo(ctx, runID, contract.AgentRepair, generation)
	if err != nil {
		return prompt.Prompt{}, err
	}
	files, err := a.Workspaces.Files(ctx, start)
	if err != nil {
		return prompt.Prompt{}, err
	}
	step, _ := plan.Step(task.Step)
	project, err := a.project(ctx, run)
	if err != nil {
		return prompt.Prompt{}, err
	}
	work, err := a.workSoFar(ctx, executions, start)
	if err != nil {
		return prompt.Prompt{}, err
	}
	view, err := a.viewRepository(ctx, run, start, files, slices.Concat(step.Files, work.paths), local)
	if err != nil {
		return prompt.Prompt{}, err
	}
	before, err := a.earlierWork(ctx, run, 0)
	if err != nil {
		return prompt.Prompt{}, err
	}
	out := prompt.RepairTask{
		EarlierWork: before, GoalPictures: namesOf(run.Settings.Pictures),
		GoalTitle: issue.GoalTitle(run.Settings.Issue, run.GoalTitle), GoalDescription: run.GoalDescription, PlanSummary: plan.Summary, Step: step, Phase: task.Execution.Phase,
		ErrorType: task.Failure.Class, Code: task.Failure.Code, Message: task.Failure.Message, RootCause: task.RootCause,
		Evidence: evidence, Review: prompt.ReviewFindings(findings), Earlier: earlier[max(0, len(earlier)-2):],
		Generation: generation, Handoff: handoff, Project: project, Repository: view.prompt(),
		Summaries: work.summaries, Diff: work.diff, Logs: logs,
	}
	shots, err := a.screenshots(ctx, &out, task, executions, run.Settings.RepairPictures)
	if err != nil {
		return prompt.Prompt{}, err
	}
	p, err := prompt.Repair(out)
	goalPictures(&p, run)
	p.Pictures = append(p.Pictures, shots...)
	return p, err
}

// Judge compares the state before and after a repair, stores the difference as an artifact, and
// rejects it if it removes tests instead of fixing code.
func (a *Activities) Judge(ctx context.Context, in contract.JudgeInput) (contract.Judgement, error) {
	if in.LocalOnly && !a.Workspaces.Cached(in.From.Repo, in.From.Base) {
		return contract.Judgement{Cold: true}, nil
	}
	var out contract.Judgement
	diff, err := a.Workspaces.DiffBetween(ctx, in.From, in.To, patchBytes)
	if err != nil {
		return out, err
	}
	diff = telemetry.Redact(diff)
	out.Diff = clipped(diff, shownDiff)
	if err := a.keep(ctx, in.Execution, fmt.Sprintf("heal/%d/change.patch", in.Number), contract.ArtifactPatch, diff); err != nil {
		return out, err
	}
	touched, err := a.Workspaces.Changed(ctx, in.From, in.To, a.protects, 0)
	if err != nil {
		return out, err
	}
	if len(touched) > 0 {
		out.Refused, out.Code = "the patch was discarded because it changes "+touched[0].Path+", which agents must not change", contract.CodeForbidden
		return out, nil
	}
	changed, err := a.host().TestFiles(ctx, in.From, in.To)
	if err != nil {
		return out, err
	}
	problems, err := pin.Check(ctx, changed)
	if err != nil {
		return out, err
	}
	var broken []string
	for _, p := range pin.Forbidden(problems) {
		broken = append(broken, p.Message)
	}
	if len(broken) > 0 {
		out.Refused = "the repair was discarded because it removes tests: " + clipped(strings.Join(broken, "; "), causeBytes)
		out.Code = contract.CodeFindings
		return out, nil
	}
	edited, err := a.editedTests(ctx, in, problems)
	if err != nil {
		return out, err
	}
	if len(edited) > 0 {
		out.Refused = "the repair was discarded because it changes what the base commit's tests expect: " + clipped(strings.Join(edited, "; "), causeBytes)
		out.Code = contract.CodeFindings
		return out, nil
	}
	if out.Refused, err = a.deniedRepair(ctx, in); out.Refused != "" {
		out.Code = contract.CodeDenied
	}
	if errors.Is(err, errLookups) {
		return contract.Judgement{Cold: true}, nil
	}
	return out, err
}

// editedTests returns the tests of a run's base commit whose expectations a repair changes: a wrong
// result passes a test that expects it. Tests that the run itself wrote or edited earlier may be
// wrong, so the agent may fix them.
func (a *Activities) editedTests(ctx context.Context, in contract.JudgeInput, problems []pin.Problem) ([]string, error) {
	if !slices.ContainsFunc(problems, demandsOther) {
		return nil, nil
	}
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return nil, err
	}
	spec, err := specOf(run)
	if err != nil || spec.Verification.PinnedTests != verdict.PinnedEnforce {
		return nil, err
	}
	base, err := a.Workspaces.Start(ctx, contract.Repo{URL: in.From.Repo, Base: in.From.Base})
	if err != nil {
		return nil, err
	}
	before, err := a.demands(ctx, base, in.From)
	if err != nil {
		return nil, err
	}
	after, err := a.demands(ctx, base, in.To)
	var edited []string
	for _, p := range after {
		if !slices.ContainsFunc(before, func(b pin.Problem) bool { return b.Path == p.Path && b.Test == p.Test }) {
			edited = append(edited, p.Message)
		}
	}
	return edited, err
}

// demands returns the tests whose expectations differ after a change.
func (a *Activities) demands(ctx context.Context, from, to contract.Workspace) ([]pin.Problem, error) {
	files, err := a.host().TestFiles(ctx, from, to)
	if err != nil {
		return nil, err
	}
	problems, err := pin.Check(ctx, files)
	return slices.DeleteFunc(problems, func(p pin.Problem) bool { return !demandsOther(p) }), err
}

// demandsOther reports whether a test is edited in any way other than by adding checks.
func demandsOther(p pin.Problem) bool {
	return p.Kind == pin.Edited && p.Severity != contract.SeverityMinor
}

// examples are the suffixes with which repositories document a configuration file that they do not
// contain: .env.example, config.yaml.sample, settings.dist.json.
var examples = []string{".example", ".sample", ".dist", ".template", ".default"}

const (
	// defaultFiles is the maximum number of configuration files that a heal creates.
	defaultFiles = 20
	// defaultBytes limits the size of each.
	defaultBytes = 64 << 10
)

// CreateDefaults creates the configuration files named in a failure from the documented examples
// beside them. It does not change existing files, and creates nothing that runs: no code, no CI
// workflow.
func (a *Activities) CreateDefaults(ctx context.Context, in contract.DefaultsInput) (contract.DefaultsResult, error) {
	out := contract.DefaultsResult{Workspace: in.Workspace}
	files, err := a.Workspaces.Files(ctx, in.Workspace)
	if err != nil {
		return out, err
	}
	dir, err := a.Workspaces.Open(ctx, in.Workspace, directory(in.Execution))
	if err != nil {
		return out, err
	}
	defer dir.Close()
	root, err := os.OpenRoot(dir.Path())
	if err != nil {
		return out, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	for _, example := range files {
		name, ok := exampleOf(example)
		if !ok || slices.Contains(files, name) || !a.isSettings(name) || !names(in.Wanted, name) || len(out.Created) == defaultFiles {
			continue
		}
		if info, err := root.Lstat(filepath.FromSlash(example)); err != nil || !info.Mode().IsRegular() || info.Size() > defaultBytes {
			continue
		}
		text, err := root.ReadFile(filepath.FromSlash(example))
		if err != nil {
			return out, fmt.Errorf("read the example %s: %w", example, err)
		}
		if err := root.WriteFile(filepath.FromSlash(name), text, 0o644); err != nil {
			return out, fmt.Errorf("create %s from %s: %w", name, example, err)
		}
		out.Created = append(out.Created, name)
	}
	if len(out.Created) == 0 {
		return out, dir.Unchanged()
	}
	out.Workspace, err = dir.Save(ctx)
	if err == nil && out.Workspace.Tree == in.Workspace.Tree {
		out.Created = nil // git ignores them: they are not part of the repository, so not of a run
	}
	return out, err
}

// isSettings reports whether a file contains settings, in a directory from which tools do not read
// commands.
func (a *Activities) isSettings(name string) bool {
	for _, folder := range strings.Split(path.Dir(name), "/") {
		if strings.HasPrefix(folder, ".") && folder != "." {
			return false
		}
	}
	base := path.Base(name)
	if base == ".env" || strings.HasPrefix(base, ".env.") {
		return true
	}
	switch path.Ext(base) {
	case ".env", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties":
		return !strings.HasPrefix(base, ".") && !a.protects(name)
	}
	return false
}

// names reports whether a failure refers to a file: by its name or, for .env files, by mentioning
// an environment variable.
func names(failure, name string) bool {
	base := path.Base(name)
	if strings.Contains(failure, base) {
		return true
	}
	return strings.HasPrefix(base, ".env") && strings.Contains(strings.ToLower(failure), "environment variable")
}

// exampleOf returns the name of the file that an example documents.
func exampleOf(example string) (string, bool) {
	dir, base := path.Split(example)
	for _, suffix := range examples {
		if name, ok := strings.CutSuffix(base, suffix); ok && name != "" {
			return dir + name, true
		}
		if head, tail, ok := strings.Cut(base, suffix+"."); ok && head != "" {
			return dir + head + "." + tail, true
		}
	}
	return "", false
}

func handoffName(agent contract.Agent, generation int) string {
	return fmt.Sprintf("handoff/%s-%d.md", agent, generation)
}

// handoffTo returns the previous agent's handoff, or "" for the first agent.
func (a *Activities) handoffTo(ctx context.Context, runID int64, agent contract.Agent, generation int) (string, error) {
	if generation < 2 {
		return "", nil
	}
	all, err := a.Store.Artifacts(ctx, runID)
	if err != nil {
		return "", err
	}
	for _, kept := range slices.Backward(all) {
		if kept.Name == handoffName(agent, generation-1) {
			text, err := a.Artifacts.Get(ctx, kept.Digest)
			return clipped(string(text), evidenceBytes), err
		}
	}
	return "", nil // it could not be written, which the run has reported
}

// Handoff writes a revoked agent's handoff for the next one.
func (a *Activities) Handoff(ctx context.Context, in contract.HandoffInput) (contract.HandoffResult, error) {
	runID := in.Execution.RunID
	heals, err := a.Store.Heals(ctx, runID)
	if err != nil {
		return contract.HandoffResult{}, err
	}
	executions, err := a.Store.Executions(ctx, runID)
	if err != nil {
		return contract.HandoffResult{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Handoff of %s %d, run %d\n\nRevoked: %s.\n\n## Attempts\n\n", in.Agent, in.Generation, runID, in.Reason)
	for _, e := range executions {
		if e.Agent != in.Agent {
			continue
		}
		fmt.Fprintf(&b, "- %s %s, attempt %d: %s", e.Phase, e.Step, e.Attempt, e.Status)
		if e.Failure != nil {
			fmt.Fprintf(&b, ", %s", e.Failure.Error())
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n## Heals\n\n")
	for _, h := range heals {
		fmt.Fprintf(&b, "- %d: %s after %s (%s): %s\n", h.Number, h.HealAction, h.ErrorType, h.RootCause, h.Status)
	}
	name := handoffName(in.Agent, in.Generation)
	return contract.HandoffResult{Artifact: name}, a.keep(ctx, in.Execution, name, contract.ArtifactFile, b.String())
}
