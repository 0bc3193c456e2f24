package activities

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"maps"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

const (
	patchBytes = 16 << 20 // of a change in the patch artifact
	zipBytes   = 4 << 30  // largest zip of a run's artifacts
)

// Release creates the branch with one commit for each step that changed something, and the report,
// patch and zip. Everything in it is derived from the run, so a repeat creates the same commits and
// finds them in the repository.
func (a *Activities) Release(ctx context.Context, in contract.ReleaseInput) (contract.ReleaseResult, error) {
	if !verified(in) {
		return contract.ReleaseResult{}, fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"the release of run %d does not match the verified code; nothing was released", in.Execution.RunID)
	}
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.ReleaseResult{}, err
	}
	if err := a.mayRelease(ctx, run, in); err != nil {
		return contract.ReleaseResult{}, err
	}
	messages, err := a.commitMessages(ctx, in)
	if err != nil {
		return contract.ReleaseResult{}, err
	}
	commit, err := a.commitsOf(ctx, in, messages)
	if err != nil {
		return contract.ReleaseResult{}, err
	}
	result := contract.ReleaseResult{Branch: in.Release.Branch, Commit: commit, Pushed: contract.Pushes(in.Repo, in.Release)}
	var files []contract.Artifact
	written := a.beside(ctx, "the report of a release", func() (err error) {
		files, err = a.writeReport(ctx, in, result)
		return err
	})
	options := workspace.PublishOptions{Replaces: cmp.Or(in.Replaces, replacedCommit(run)), Remote: pushTarget(in.Release)}
	err = a.Workspaces.Publish(ctx, in.Repo, commit, in.Release.Branch, options)
	failed := written()
	if err != nil {
		return contract.ReleaseResult{}, explainRelease(err, run)
	}
	if failed == nil {
		failed = a.Store.AddArtifacts(ctx, in.Execution.RunID, files)
	}
	return result, failed
}

// verified reports whether a release ends with the code that was verified. After people pushed to the
// branch, a run may have nothing to add.
func verified(in contract.ReleaseInput) bool {
	switch n := len(in.Stages); {
	case n > 0:
		return in.Stages[n-1].Tree == in.Workspace.Tree
	case in.Onto != nil:
		return in.Onto.Workspace.Tree == in.Workspace.Tree
	default:
		return false
	}
}

// commitMessages returns a message for each step. The dates are those of the run's first release,
// so a repeated release of the same content, even in a replay, creates the same commits.
func (a *Activities) commitMessages(ctx context.Context, in contract.ReleaseInput) ([]workspace.CommitMessage, error) {
	plan, err := a.Store.PlanByID(ctx, in.Execution.RunID, in.PlanID)
	if err != nil {
		return nil, err
	}
	executions, err := a.Store.Executions(ctx, in.Execution.RunID)
	if err != nil {
		return nil, err
	}
	var at time.Time
	for _, e := range executions {
		if e.Phase == contract.PhaseReleaser && e.Step == "" && e.Attempt == 1 {
			at = e.StartedAt.UTC().Truncate(time.Second)
		}
	}
	heals, err := a.Store.Heals(ctx, in.Execution.RunID)
	if err != nil {
		return nil, err
	}
	text := withoutSecrets
	if contract.Pushes(in.Repo, in.Release) {
		text = func(s string) string { return defused(withoutSecrets(s)) }
	}
	out := make([]workspace.CommitMessage, len(in.Credits))
	for i, c := range in.Credits {
		step, planned := plan.Step(c.Step)
		if !planned {
			step = healed(heals, c.Step)
		}
		out[i] = workspace.CommitMessage{
			Subject: text(step.Name), Body: text(step.Description), Date: at,
			AuthorName: in.Release.AuthorName, AuthorEmail: in.Release.AuthorEmail,
			Trailers: [][2]string{
				{"RGPT-Run", fmt.Sprint(in.Execution.RunID)}, {"RGPT-Step", c.Step}, {"RGPT-Model", c.Model}, {"RGPT-Prompt", c.Prompt},
			},
		}
	}
	return out, nil
}

// healed describes the change of a heal as a step of the plan.
func healed(heals []store.HealEvent, name string) contract.Step {
	for _, h := range slices.Backward(heals) {
		if name != fmt.Sprintf("heal-%d", h.Number) {
			continue
		}
		cause, _, _ := strings.Cut(h.RootCause, "\n")
		said := strings.TrimSpace(h.Output().Said)
		why := fmt.Sprintf("%s: %s", h.ErrorType, cause)
		subject := subjectOf(said)
		if asked := h.Output().Asked; asked != "" { // by a person: nothing failed
			why, subject = "A reviewer asked: "+asked, cmp.Or(subject, subjectOf(asked))
		}
		if subject == "" {
			return contract.Step{Name: "Fix the " + string(h.Phase) + " failure", Description: why}
		}
		if said != "" && said != subject {
			why = said + "\n\n" + why
		}
		return contract.Step{Name: subject, Description: why}
	}
	return contract.Step{Name: "Repair"}
}

// maxSubject is the number of characters in the subject of the commit of a repair.
const maxSubject = 72

// subjectOf returns the first sentence of what an agent says, as the subject of a commit.
func subjectOf(said string) string {
	line, _, _ := strings.Cut(said, "\n")
	line, _, _ = strings.Cut(strings.Join(strings.Fields(line), " "), ". ")
	line = strings.TrimRight(line, ".:;, ")
	if letters := []rune(line); len(letters) > maxSubject {
		line = strings.TrimSpace(string(letters[:maxSubject-1])) + "…"
	}
	return line
}

// writeReport writes the report, the patch, the run as JSON, and a zip of all artifacts.
func (a *Activities) writeReport(ctx context.Context, in contract.ReleaseInput, result contract.ReleaseResult) ([]contract.Artifact, error) {
	details, err := a.Views.RunDetails(ctx, in.Execution.RunID)
	if err != nil {
		return nil, err
	}
	// The status the run will have once this is stored, unless someone stops it right now.
	details.ReleaseBranch, details.ReleaseCommit, details.Status = result.Branch, result.Commit, contract.StatusDone
	base, err := a.mergedBase(ctx, in.Merged, in.Workspace)
	if err != nil {
		return nil, err
	}
	patch, err := a.Workspaces.DiffBetween(ctx, base, in.Workspace, patchBytes)
	if err != nil {
		return nil, err
	}
	stat, err := a.Workspaces.DiffStatBetween(ctx, base, in.Workspace)
	if err != nil {
		return nil, err
	}
	asJSON, err := report.JSON(details)
	if err != nil {
		return nil, err
	}
	var kept []contract.Artifact
	for _, f := range []struct {
		name string
		kind contract.ArtifactType
		text string
	}{
		{"report.md", contract.ArtifactReport, report.Markdown(details, stat.String())},
		{"change.patch", contract.ArtifactPatch, patch},
		{"run.json", contract.ArtifactJSON, string(asJSON)},
	} {
		text := telemetry.Redact(f.text)
		digest, err := a.Artifacts.Put(ctx, []byte(text))
		if err != nil {
			return nil, err
		}
		kept = append(kept, contract.Artifact{ExecutionID: in.Execution.ID, Name: attemptName(f.name, in.Execution.Attempt), Type: f.kind, Size: int64(len(text)), Digest: digest})
	}
	zip, err := a.zip(ctx, in.Execution, kept)
	if err != nil {
		return nil, err
	}
	return append(kept, zip), nil
}

// zip packs a run's artifacts: the given ones and those stored before.
func (a *Activities) zip(ctx context.Context, execution contract.ExecutionRef, more []contract.Artifact) (contract.Artifact, error) {
	all, err := a.Store.Artifacts(ctx, execution.RunID)
	if err != nil {
		return contract.Artifact{}, err
	}
	name := attemptName(fmt.Sprintf("run-%d.zip", execution.RunID), execution.Attempt)
	var entries []artifact.Entry
	for _, f := range append(all, more...) {
		if f.Type != contract.ArtifactZip && f.Missing() == "" && !hasEntry(entries, f.Name) {
			entries = append(entries, artifact.Entry{Name: path.Clean(f.Name), Digest: f.Digest})
		}
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(a.Artifacts.Zip(ctx, writer, entries)) }()
	digest, size, err := a.Artifacts.PutReader(ctx, reader, zipBytes)
	reader.CloseWithError(io.ErrClosedPipe) // stops the writer if the store gave up
	return contract.Artifact{ExecutionID: execution.ID, Name: name, Type: contract.ArtifactZip, Size: size, Digest: digest}, err
}

// attemptName returns an artifact's name for an attempt, so that earlier artifacts are kept:
// report.md, then attempt-2/report.md.
func attemptName(name string, attempt int) string {
	if attempt <= 1 {
		return name
	}
	return fmt.Sprintf("attempt-%d/%s", attempt, name)
}

func hasEntry(entries []artifact.Entry, name string) bool {
	return slices.ContainsFunc(entries, func(e artifact.Entry) bool { return e.Name == name })
}

// maxProtected is the maximum number of protected files listed by name.
const maxProtected = 20

// Protected returns the files that a run may push only with an approval: those that differ in the
// workspace, or in any commit leading to it, from where the run's changes begin. A file that a later
// commit reverts still reaches the remote.
func (a *Activities) Protected(ctx context.Context, in contract.ProtectedInput) (contract.ProtectedFiles, error) {
	from := in.From.Of(in.Workspace)
	if in.From.Tree == "" {
		base, err := a.Workspaces.Start(ctx, contract.Repo{URL: in.Workspace.Repo, Base: in.Workspace.Base})
		if err != nil {
			return contract.ProtectedFiles{}, err
		}
		from = base
	}
	found, seen := map[string]bool{}, map[string]bool{}
	for _, stage := range append(slices.Clone(in.Stages), in.Workspace) {
		if seen[stage.Tree] {
			continue
		}
		seen[stage.Tree] = true
		stat, err := a.Workspaces.DiffStatBetween(ctx, from, stage.Of(in.Workspace))
		if err != nil {
			return contract.ProtectedFiles{}, err
		}
		for _, f := range stat.Files {
			if matches(in.Patterns, f.Path) {
				found[f.Path] = true
			}
		}
	}
	paths := slices.Sorted(maps.Keys(found))
	return contract.ProtectedFiles{Paths: paths[:min(len(paths), maxProtected)], Total: len(paths)}, nil
}

// mayRelease returns an error if a release was not judged, or not approved by the person that it needs,
// whatever the workflow did.
func (a *Activities) mayRelease(ctx context.Context, run store.Run, in contract.ReleaseInput) error {
	if err := a.approved(ctx, in); err != nil || run.Settings.Gate == nil {
		return err
	}
	return a.passedGate(ctx, run, in)
}

// approved returns an error if a push contains protected files that no one has approved, whatever
// the workflow did.
func (a *Activities) approved(ctx context.Context, in contract.ReleaseInput) error {
	if !contract.Pushes(in.Repo, in.Release) || len(in.Release.Protected) == 0 || in.ApprovedBy != "" {
		return nil
	}
	files, err := a.Protected(ctx, contract.ProtectedInput{Workspace: in.Workspace, Stages: in.Stages, Patterns: in.Release.Protected, From: pushedBefore(in)})
	if err != nil || files.Total == 0 {
		return err
	}
	return fault.New(contract.ClassHuman, contract.CodeRejected,
		"run %d changes protected files (%s) without approval; nothing was released", in.Execution.RunID, files.Summary())
}

// protects reports whether repairs must not change a path: files that are protected by default
// remain protected here, regardless of the worker's configuration.
func (a *Activities) protects(name string) bool {
	return matches(config.ProtectedFiles(), name) || matches(a.Config.Git.Protected, name)
}

// matches reports whether one of the patterns matches a path. Case is ignored, because
// some of the programs that read these files ignore it.
func matches(patterns []string, name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(strings.ToLower(p), name) })
}
