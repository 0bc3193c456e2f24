package activities

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Forges finds the forge of a repository by the address of its remote.
type Forges interface {
	// For returns the forge with its name in the configuration, and the repository's path on it.
	For(remote string) (service forge.Service, name, repo string, err error)
	// Named returns a forge by its name in the configuration.
	Named(name string) (forge.Service, error)
	// Remote returns the address for git of a repository on a forge.
	Remote(name, repo string) (string, error)
}

// Limits of what a pull request gets besides its body.
const (
	maxStatuses     = 30 // checks that are reported as statuses
	maxLineComments = 30 // findings of the reviewer on lines
)

// PullRequest opens the pull request of a released branch, or updates it after another release. A
// repeat finds what an earlier attempt did. The row of the pull request is written with its event.
func (a *Activities) PullRequest(ctx context.Context, in contract.PullRequestInput) (contract.PullRequest, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.PullRequest{}, err
	}
	service, name, repo, err := a.forgeOf(ctx, in.Repo, in.Release)
	if err != nil {
		return contract.PullRequest{}, err
	}
	request, err := a.pullRequestOf(ctx, run, in, pullRequestPlace{service.Kind(), name, repo})
	if err != nil {
		return contract.PullRequest{}, err
	}
	known, err := pullrequests.Of(ctx, a.Store, run.ID)
	if err != nil {
		return contract.PullRequest{}, err
	}
	for _, p := range known {
		if p.Forge == name && p.Repo == repo {
			request.Known = p.Number
		}
	}
	if request.OfBranch, err = pullrequests.OpenFrom(ctx, a.Store, name, repo, request.Head); err != nil {
		return contract.PullRequest{}, err
	}
	done, err := pullrequest.Open(ctx, service, request)
	if err != nil {
		return contract.PullRequest{}, err
	}
	pr := done.PullRequest
	out := contract.PullRequest{
		RunID: run.ID, Forge: name, Repo: repo, Number: pr.Number, URL: pr.URL, Title: pr.Title, Head: pr.Head, Base: pr.Base, Commit: in.Commit,
		State: contract.PullRequestState(pr.State), Draft: pr.Draft,
	}
	for _, note := range done.Notes {
		out.Notes = append(out.Notes, telemetry.Redact(note))
	}
	if err := pullrequests.Save(ctx, a.Store, out, done.Opened); err != nil {
		return contract.PullRequest{}, err
	}
	note, err := a.announce(ctx, run, pr, name, repo)
	if err != nil || note == "" {
		return out, err
	}
	out.Notes = append(out.Notes, telemetry.Redact(note))
	return out, pullrequests.Save(ctx, a.Store, out, false)
}

// forgeOf returns the forge to which a release is pushed.
func (a *Activities) forgeOf(ctx context.Context, repo contract.Repo, release contract.ReleaseSettings) (forge.Service, string, string, error) {
	address, err := a.Workspaces.RemoteAddress(ctx, repo, cmp.Or(pushTarget(release), "origin"))
	if err != nil {
		return nil, "", "", err
	}
	return a.Forges.For(address)
}

// checkForge checks in advance whether a run can open its pull request: otherwise missing rights would
// be found only when everything has been paid for.
func (a *Activities) checkForge(ctx context.Context, repo contract.Repo, run store.Run) error {
	settings := run.Settings.Release
	if settings.PullRequest == nil {
		return nil
	}
	service, name, path, err := a.forgeOf(ctx, repo, settings)
	if err != nil {
		return err
	}
	access, err := service.Access(ctx, path)
	if err != nil {
		return err
	}
	if access.Permission < forge.PermissionWrite {
		return fault.New(contract.ClassConfig, contract.CodeUnauthorized,
			"%s may not write to %s on the forge %s, so run %d could not open its pull request; give it write access, or use other credentials (forges.%[3]s)",
			access.Login, path, name, run.ID)
	}
	if len(access.Missing) > 0 {
		return fault.New(contract.ClassConfig, contract.CodeUnauthorized, "the credentials of the forge %s lack rights for pull requests of %s: %s (docs/FORGES.md)",
			name, path, strings.Join(access.Missing, ", "))
	}
	base := baseOf(run, settings.PullRequest)
	found, err := a.Workspaces.HasRemoteBranch(ctx, repo, cmp.Or(pushTarget(settings), "origin"), base)
	if err == nil && !found {
		err = fault.New(contract.ClassConfig, contract.CodeRepository,
			"run %d could not open its pull request, because %s has no branch %q to merge into; push it, or set git.pull_request.base", run.ID, path, base)
	}
	if err == nil && run.Settings.Gate != nil {
		_, err = a.carried(ctx, run) // the gate cannot judge the release without it
	}
	return err
}

// baseOf returns the branch into which the pull request of a run is to be merged.
func baseOf(run store.Run, p *contract.PullRequestSettings) string {
	into := ""
	if f := run.Settings.FollowUp; f != nil {
		into = f.Into
	}
	return cmp.Or(p.Base, into, run.Settings.Repo.Branch)
}

// otherBase reports whether the pull request of a run is to be merged into another branch than that from which
// the run began. The branch that a follow-up continues was judged when it was released.
func otherBase(run store.Run) bool {
	p := run.Settings.Release.PullRequest
	return p != nil && run.Settings.FollowUp == nil && baseOf(run, p) != run.Settings.Repo.Branch
}

// maxCarried is the number of commits of others that a pull request names.
const maxCarried = 20

// carried returns the commits that the pull request of a run merges besides those that the run makes, nil if
// it is merged into the branch from which the run began, or there are none.
func (a *Activities) carried(ctx context.Context, run store.Run) (*change.Carried, error) {
	if !otherBase(run) {
		return nil, nil
	}
	settings := run.Settings.Release
	base := baseOf(run, settings.PullRequest)
	ahead, err := a.Workspaces.Ahead(ctx, run.Settings.Repo, cmp.Or(pushTarget(settings), "origin"), base, maxCarried)
	if err != nil || ahead.Total == 0 {
		return nil, err
	}
	out := &change.Carried{From: run.Settings.Repo.Branch, Into: base, Total: ahead.Total}
	for _, c := range ahead.Commits {
		out.Commits = append(out.Commits, change.Commit{ID: c.Commit, Subject: withoutSecrets(c.Message)})
	}
	return out, nil
}

// pullRequestPlace is where a pull request belongs.
type pullRequestPlace struct {
	kind  forge.Kind
	forge string // name in the configuration
	repo  string // path on the forge
}

// pullRequestOf describes the pull request of a run as it should be.
func (a *Activities) pullRequestOf(ctx context.Context, run store.Run, in contract.PullRequestInput, at pullRequestPlace) (pullrequest.Request, error) {
	s := in.Release.PullRequest
	details, err := a.Views.RunDetails(ctx, run.ID)
	if err != nil {
		return pullrequest.Request{}, err
	}
	base, err := a.mergedBase(ctx, in.Merged, in.Workspace)
	if err != nil {
		return pullrequest.Request{}, err
	}
	stat, err := a.Workspaces.DiffStatBetween(ctx, base, in.Workspace)
	if err != nil {
		return pullrequest.Request{}, err
	}
	checks, err := a.lastChecks(ctx, details.Executions)
	if err != nil {
		return pullrequest.Request{}, err
	}
	link := ""
	if s.Link != "" {
		link = runLink(s.Link, run.ID)
	}
	set, err := a.changeSetOf(ctx, run)
	if err != nil {
		return pullrequest.Request{}, err
	}
	text := report.PullRequest{Run: details, Stat: stat.String(), Checks: checks, Link: link, Closes: closes(run, at.forge, at.repo, set != nil), Set: set}
	var notes []string
	if text.Carried, err = a.carried(ctx, run); err != nil {
		if fault.Of(err).Class == contract.ClassInfra {
			return pullrequest.Request{}, err // a repeat may succeed
		}
		notes = append(notes, "the commits of others that it merges too could not be listed: "+fault.Of(err).Message)
	}
	verdict, judged := report.ReleaseVerdict(details)
	r := pullrequest.Request{
		RunID: run.ID, Repo: at.repo, Head: in.Branch, Base: baseOf(run, s), Commit: in.Commit,
		Title: fault.Clip(defused(withoutSecrets(text.Title())), report.MaxPullRequestTitle), Body: telemetry.Redact(text.Body()),
		Draft:  s.Draft == contract.DraftAlways || s.Draft == contract.DraftByGate && in.Approved || set != nil && set.Draft(),
		Labels: pullRequestLabels(s, verdict, text.Risk()), OwnLabels: ownLabel, Reviewers: reviewers(s.Reviewers), Notes: notes,
	}
	if s.Statuses {
		r.Statuses = statuses(checks, verdict, judged, link)
	}
	if s.Comments {
		r.Comments = text.LineComments(maxLineComments)
	}
	if s.CodeOwners {
		err = a.addOwners(ctx, &r, in, at.kind, stat.Paths())
	}
	if err != nil && fault.Of(err).Class == contract.ClassConfig { // the file is not valid
		r.Notes, err = append(r.Notes, fault.Of(err).Message), nil
	}
	return r, err
}

// addOwners adds the owners of the changed files to the reviewers.
func (a *Activities) addOwners(ctx context.Context, r *pullrequest.Request, in contract.PullRequestInput, kind forge.Kind, changed []string) error {
	found, err := pullrequest.Owners(ctx, kind, changed, func(ctx context.Context, name string, most int64) ([]byte, bool, error) {
		return a.Workspaces.BaseFile(ctx, in.Workspace, name, most)
	})
	if err != nil {
		return err
	}
	for _, p := range found.People {
		if !slices.Contains(r.Reviewers.People, p) {
			r.Reviewers.People = append(r.Reviewers.People, p)
		}
	}
	for _, t := range found.Teams {
		if !slices.Contains(r.Reviewers.Teams, t) {
			r.Reviewers.Teams = append(r.Reviewers.Teams, t)
		}
	}
	return nil
}

// lastChecks returns the results of the last execution of the tester.
func (a *Activities) lastChecks(ctx context.Context, executions []store.Execution) ([]contract.CheckResult, error) {
	var last int64
	for _, e := range executions {
		if e.Phase == contract.PhaseTester && e.Step == "" {
			last = e.ID
		}
	}
	if last == 0 {
		return nil, nil
	}
	rows, err := a.Store.Checks(ctx, last)
	out := make([]contract.CheckResult, len(rows))
	for i, c := range rows {
		out[i] = c.Result
	}
	return out, err
}

// The labels that runs set besides the configured ones.
const (
	gateLabel = "gate/"
	riskLabel = "risk/"
)

func ownLabel(label string) bool {
	return strings.HasPrefix(label, gateLabel) || strings.HasPrefix(label, riskLabel)
}

// pullRequestLabels returns the labels of a pull request: the configured ones, the gate's decision and the risk
// of the plan.
func pullRequestLabels(s *contract.PullRequestSettings, v contract.GateRecord, risk contract.Level) []string {
	labels := slices.Clone(s.Labels)
	switch {
	case v.ApprovedBy != "":
		labels = append(labels, gateLabel+"approved")
	case v.Decision == contract.GateAllow:
		labels = append(labels, gateLabel+"allowed")
	}
	if risk != "" {
		labels = append(labels, riskLabel+string(risk))
	}
	return labels
}

// reviewers splits the configured reviewers into people and teams.
func reviewers(names []string) (out forge.Reviewers) {
	for _, name := range names {
		if strings.Contains(name, "/") {
			out.Teams = append(out.Teams, name)
		} else {
			out.People = append(out.People, name)
		}
	}
	return out
}

// statusContext is the beginning of the contexts of statuses.
const statusContext = "rgpt/"

// statuses returns the results of checks and of the policy gate as statuses.
func statuses(checks []contract.CheckResult, v contract.GateRecord, judged bool, link string) []forge.Status {
	var out []forge.Status
	for _, c := range checks[:min(len(checks), maxStatuses)] {
		state := forge.CheckFailure
		switch {
		case c.Skipped:
			continue // it judged nothing
		case c.OK:
			state = forge.CheckSuccess
		}
		out = append(out, forge.Status{Context: statusContext + c.Check.Name, State: state, Description: withoutSecrets(report.Outcome(c)), URL: link})
	}
	if !judged {
		return out
	}
	decision := report.DecisionText(v.Decision)
	state := forge.CheckSuccess
	switch {
	case v.ApprovedBy != "":
		decision = "Approved by " + v.ApprovedBy
	case v.Decision != contract.GateAllow:
		state = forge.CheckFailure
	}
	return append(out, forge.Status{Context: statusContext + "policy gate", State: state, Description: withoutSecrets(decision), URL: link})
}
