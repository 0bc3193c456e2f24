// Package mergequeue does the work of a merge queue on a forge: it decides whether pull requests are ready,
// builds commits with the changes of several of them, reads the results of their checks, and merges.
// Which ones are tested together, and what follows, is decided by package workflows/mergequeue.
//
// All texts are data that strangers may have written. Those that occur in reasons are in Markdown, as
// code, so that they mention nobody and contain no links.
package mergequeue

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

const (
	maxShown     = 80 // bytes of a name in a reason
	maxConflicts = 3  // paths in a reason
	shortCommit  = 12 // characters of a commit in the name of a branch
	maxEarlier   = 10 // heads whose approvals are looked at
)

// ownStatus is the beginning of the names of the statuses that runs set. They are about a pull request,
// so a commit with several of them has none.
const ownStatus = "rgpt/"

// Repository is a repository on a forge, and what git does with it.
type Repository struct {
	Service    forge.Service
	Path       string // on the forge
	Remote     string // address for git
	Workspaces *workspace.Manager

	writers  map[string]bool     // whether people may write to the repository, as far as asked; nil: not kept
	required map[string][]string // names of the checks that branches require, likewise
	absent   map[int64]string    // pull requests whose commit cannot be fetched, with the reason
}

// event matches what Gitea's Actions add to the name of a check: the event for which the job ran, which is a push
// for a candidate.
var event = regexp.MustCompile(` \((push|pull_request(_[a-z]+)?)\)$`)

// checkName returns what a check is called on every commit.
func (r Repository) checkName(name string) string {
	if r.Service.Kind() == forge.Gitea {
		return event.ReplaceAllString(name, "")
	}
	return name
}

// requiredBy returns the names of the checks that a branch requires.
func (r Repository) requiredBy(ctx context.Context, base string) ([]string, error) {
	names, known := r.required[base]
	if known {
		return names, nil
	}
	names, err := r.Service.RequiredChecks(ctx, r.Path, base)
	if err == nil && r.required != nil {
		r.required[base] = names
	}
	return names, err
}

// newerCommits is why a pull request is returned whose head is not the one that was added.
const newerCommits = "it has newer commits than when it was added"

// code returns a text of a stranger as code in Markdown.
func code(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '`':
			return '\''
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, telemetry.Redact(strings.ToValidUTF8(text, "?")))
	return "`" + fault.Clip(strings.Join(strings.Fields(text), " "), maxShown) + "`"
}

// codes returns texts of strangers, the first few of them.
func codes(texts []string) string {
	var out []string
	for i, t := range texts {
		if i == maxConflicts {
			out = append(out, fmt.Sprintf("and %d more", len(texts)-i))
			break
		}
		out = append(out, code(t))
	}
	return strings.Join(out, ", ")
}

// Readiness is whether a pull request can be merged as far as its own state says so.
type Readiness struct {
	Verdict contract.QueueVerdict // included, not_yet or refused
	Reason  string
	// Required are the checks that the forge requires for it.
	Required []string
}

// Ready decides whether a pull request is ready to be merged. Checks that run are waited for until
// deadline.
func (r Repository) Ready(ctx context.Context, pr forge.PullRequest, policy contract.MergePolicy, deadline, now time.Time) (Readiness, error) {
	refused, err := r.refusal(ctx, pr, policy)
	if err != nil || refused != "" {
		return Readiness{Verdict: contract.QueueRefused, Reason: refused}, err
	}
	return r.ownChecks(ctx, pr, policy, deadline, now)
}

// refusal returns why a pull request must not be merged, apart from its checks; "" if nothing forbids it.
func (r Repository) refusal(ctx context.Context, pr forge.PullRequest, policy contract.MergePolicy) (string, error) {
	if pr.State != forge.Open {
		return fmt.Sprintf("it was %s", pr.State), nil
	}
	if pr.Draft {
		return "it is a draft", nil
	}
	for _, label := range policy.Labels {
		if !slices.Contains(pr.Labels, label) {
			return "it does not have the label " + code(label), nil
		}
	}
	for _, label := range policy.BlockedLabels {
		if slices.Contains(pr.Labels, label) {
			return "it has the label " + code(label), nil
		}
	}
	if policy.Approvals == 0 {
		return "", nil
	}
	n, err := r.approvals(ctx, pr, policy)
	if err != nil || n >= policy.Approvals {
		return "", err
	}
	return fmt.Sprintf("it needs the approvals of %d people for its newest commit and has %d; only those of people with write access to the repository count", policy.Approvals, n), nil
}

// approvals returns how many people with write access to the repository approved the newest commit of a pull
// request: on a public one, everybody can approve.
func (r Repository) approvals(ctx context.Context, pr forge.PullRequest, policy contract.MergePolicy) (n int, err error) {
	by, err := r.Service.Approvals(ctx, r.Path, pr.Number)
	if err != nil {
		return 0, err
	}
	earlier, err := r.earlierApprovals(ctx, pr, policy)
	if err != nil {
		return 0, err
	}
	by = append(slices.Clone(by), earlier...)
	slices.Sort(by)
	by = slices.Compact(by)
	for _, login := range by {
		writes, known := r.writers[login]
		if !known {
			permission, err := r.Service.Permission(ctx, r.Path, login)
			if err != nil {
				return 0, err
			}
			if writes = permission >= forge.PermissionWrite; r.writers != nil {
				r.writers[login] = writes
			}
		}
		if writes {
			n++
		}
	}
	return n, nil
}

// versioned is a forge whose pull requests get another head by a rebase before they are merged.
type versioned interface {
	EarlierApprovals(ctx context.Context, repo string, number int64) ([]forge.Approval, error)
}

// rebases reports whether merging a pull request gives it another head first.
func (r Repository) rebases(policy contract.MergePolicy) bool {
	_, ok := r.Service.(versioned)
	return ok && policy.Method == string(forge.MergeRebase) && r.Workspaces != nil
}

// earlierApprovals returns who approved an earlier head of a pull request of which the newest one is nothing but
// a rebase: a queue that was interrupted, or whose merge was refused, has left it behind. An approval from
// when the head was to be merged into a branch with commits that the present base lacks does not count, because
// it was none of these.
func (r Repository) earlierApprovals(ctx context.Context, pr forge.PullRequest, policy contract.MergePolicy) ([]string, error) {
	if !r.rebases(policy) {
		return nil, nil
	}
	found, err := r.Service.(versioned).EarlierApprovals(ctx, r.Path, pr.Number)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range found[:min(len(found), maxEarlier)] {
		same, err := r.rebased(ctx, policy, pr, a.Head)
		if err != nil {
			return nil, err
		}
		if !same {
			continue
		}
		if all, err := r.onBase(ctx, pr, a.Base); err != nil {
			return nil, err
		} else if all {
			out = append(out, a.By...)
		}
	}
	return out, nil
}

// onBase reports whether the base of a pull request has a commit.
func (r Repository) onBase(ctx context.Context, pr forge.PullRequest, commit string) (bool, error) {
	tip, err := r.Service.Branch(ctx, r.Path, pr.Base)
	if err != nil {
		return false, err
	}
	has, err := r.Workspaces.Contains(ctx, r.Remote, tip, commit)
	if fault.Is(err, contract.CodeRepository) {
		return false, nil // the forge did not name it
	}
	return has, err
}

// rebased reports whether the head of a pull request is nothing but a rebase of an earlier one.
func (r Repository) rebased(ctx context.Context, policy contract.MergePolicy, pr forge.PullRequest, earlier string) (bool, error) {
	if !r.rebases(policy) {
		return false, nil
	}
	tip, err := r.Service.Branch(ctx, r.Path, pr.Base)
	if err != nil {
		return false, err
	}
	same, err := r.Workspaces.Rebased(ctx, r.Remote, tip, earlier, pr.HeadCommit)
	if fault.Is(err, contract.CodeRepository) {
		return false, nil // the forge does not have the earlier one any more
	}
	return same, err
}

// ownChecks decides by the checks of the head of a pull request. One that its base requires and that was not
// reported yet is waited for, like one that runs.
func (r Repository) ownChecks(ctx context.Context, pr forge.PullRequest, policy contract.MergePolicy, deadline, now time.Time) (Readiness, error) {
	required, err := r.requiredBy(ctx, pr.Base)
	if err != nil {
		return Readiness{}, err
	}
	checks, err := r.Service.Checks(ctx, r.Path, pr.HeadCommit)
	if err != nil {
		return Readiness{}, err
	}
	out := Readiness{Verdict: contract.QueueIncluded}
	missing := slices.Clone(required)
	for _, name := range required {
		out.require(r.checkName(name))
	}
	for _, c := range checks {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.Name })
		byForge := c.Required || slices.Contains(required, c.Name)
		if byForge {
			out.require(r.checkName(c.Name))
		}
		if !byForge && !slices.Contains(policy.Checks, c.Name) {
			continue
		}
		switch c.State {
		case forge.CheckFailure, forge.CheckError:
			out.Verdict, out.Reason = contract.QueueRefused, fmt.Sprintf("its check %s failed%s", code(c.Name), link(c.URL))
			return out, nil
		case forge.CheckPending:
			out.wait(c.Name, "has not ended", link(c.URL), now.After(deadline))
		default:
		}
	}
	for _, name := range missing {
		out.wait(name, "was not reported", "", now.After(deadline))
	}
	if service, ok := r.Service.(pipelined); ok && len(checks) == 0 {
		// After a rebase, GitLab makes the pipeline some seconds later.
		if needed, err := service.RequiresPipeline(ctx, r.Path); err != nil {
			return Readiness{}, err
		} else if needed {
			out.wait("pipeline", "was not reported", "", now.After(deadline))
		}
	}
	return out, nil
}

// pipelined is a forge that may only merge what has a successful pipeline, whatever its checks are called.
type pipelined interface {
	RequiresPipeline(ctx context.Context, repo string) (bool, error)
}

// require notes a check that candidates need too. Statuses of runs are about one pull request.
func (r *Readiness) require(name string) {
	if !strings.HasPrefix(name, ownStatus) && !slices.Contains(r.Required, name) {
		r.Required = append(r.Required, name)
	}
}

// wait notes that a check has no result, which is too late after the deadline.
func (r *Readiness) wait(name, why, where string, late bool) {
	switch {
	case r.Verdict == contract.QueueRefused:
	case late:
		r.Verdict, r.Reason = contract.QueueRefused, fmt.Sprintf("its check %s %s in time%s", code(name), why, where)
	default:
		r.Verdict, r.Reason = contract.QueueNotYet, fmt.Sprintf("its check %s %s", code(name), why)
	}
}

// plainURL matches addresses that can be part of Markdown as they are.
var plainURL = regexp.MustCompile(`^https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%-]{1,300}$`)

// link returns the address of a check in parentheses, "" if it has none that can be shown.
func link(address string) string {
	address = telemetry.Redact(address)
	if !plainURL.MatchString(address) {
		return ""
	}
	return " (<" + address + ">)"
}

// Build makes a commit with the changes of pull requests on top of their base, and pushes it to a branch
// of its own. Those that are not ready or conflict are left out. A repeat makes the same commit, unless
// something has changed meanwhile.
func (r Repository) Build(ctx context.Context, in contract.QueueCandidateInput) (contract.QueueCandidate, error) {
	r.writers, r.required = map[string]bool{}, map[string][]string{}
	out, err := r.build(ctx, in)
	if !fault.Is(err, contract.CodeRepository) {
		return out, err
	}
	// A commit disappeared meanwhile, or can only be read from the forge's API. Look again; then find out
	// which one it is, so that the others do not wait for it.
	if out, err = r.build(ctx, in); !fault.Is(err, contract.CodeRepository) {
		return out, err
	}
	if _, failure := r.Workspaces.TreeOf(ctx, r.Remote, out.Base); out.Base == "" || failure != nil {
		return out, err // nothing can be fetched, not only one commit
	}
	r.absent = map[int64]string{}
	for _, w := range in.Wanted {
		if _, err := r.Workspaces.TreeOf(ctx, r.Remote, w.Head); fault.Is(err, contract.CodeRepository) {
			r.absent[w.Number] = "its commit cannot be fetched: " + code(fault.Of(err).Message)
		} else if err != nil {
			return contract.QueueCandidate{}, err
		}
	}
	if len(r.absent) == 0 {
		return out, err
	}
	return r.build(ctx, in)
}

// build makes a candidate, as Build does, in one attempt. If it fails, only the base that it returns counts.
func (r Repository) build(ctx context.Context, in contract.QueueCandidateInput) (contract.QueueCandidate, error) {
	base, err := r.Service.Branch(ctx, r.Path, in.Queue.Base)
	if err != nil {
		return contract.QueueCandidate{}, err
	}
	out := contract.QueueCandidate{Base: base}
	for _, name := range in.Policy.Checks {
		out.Required = append(out.Required, r.checkName(name))
	}
	for wanted := in.Wanted; len(wanted) > 0 && included(out) < in.Most; {
		for len(wanted) > 0 && included(out) < in.Most {
			part, required, err := r.part(ctx, in, wanted[0])
			if err != nil {
				return out, err
			}
			out.Parts = append(out.Parts, part)
			out.Required = append(out.Required, required...)
			wanted = wanted[1:]
		}
		// Those that conflict make room for others.
		if err := r.mergeParts(ctx, in, &out); err != nil {
			return out, err
		}
	}
	slices.Sort(out.Required)
	out.Required = slices.Compact(out.Required)
	if out.Commit == "" {
		return out, nil
	}
	out.Branch = in.Policy.Prefix + unmarked.ReplaceAllString(in.Queue.Base, "-") + "-" + out.Commit[:shortCommit]
	return out, r.Workspaces.PushCandidate(ctx, r.Remote, out.Commit, out.Branch)
}

// included returns the number of parts that a candidate includes.
func included(c contract.QueueCandidate) (n int) {
	for _, p := range c.Parts {
		if p.Verdict == contract.QueueIncluded {
			n++
		}
	}
	return n
}

// part decides whether a pull request can be part of a candidate.
func (r Repository) part(ctx context.Context, in contract.QueueCandidateInput, w contract.QueueWanted) (contract.QueuePart, []string, error) {
	part := contract.QueuePart{Number: w.Number, Wanted: w.Head, Verdict: contract.QueueRefused}
	pr, err := r.Service.PullRequest(ctx, r.Path, w.Number)
	switch {
	case fault.Is(err, contract.CodeRepository):
		part.Reason = "it cannot be read: " + code(fault.Of(err).Message)
		return part, nil, nil
	case err != nil:
		return part, nil, err
	case pr.State == forge.Merged:
		part.Verdict, part.Reason, part.Head, part.Commit = contract.QueueIsMerged, "it was merged already", pr.HeadCommit, pr.MergeCommit
		return part, nil, nil
	case pr.Base != in.Queue.Base:
		part.Reason = "its base is now " + code(pr.Base)
		return part, nil, nil
	case r.absent[w.Number] != "":
		part.Reason = r.absent[w.Number]
		return part, nil, nil
	}
	if pr.HeadCommit != w.Head {
		same, err := r.rebased(ctx, in.Policy, pr, w.Head)
		if err != nil || !same {
			part.Reason = newerCommits
			return part, nil, err
		}
	}
	ready, err := r.Ready(ctx, pr, in.Policy, w.Since.Add(in.Policy.CheckTime), in.At)
	part.Verdict, part.Reason, part.Head = ready.Verdict, ready.Reason, pr.HeadCommit
	return part, ready.Required, err
}

// mergeParts merges the parts of a candidate that are ready.
func (r Repository) mergeParts(ctx context.Context, in contract.QueueCandidateInput, out *contract.QueueCandidate) error {
	var heads []workspace.MergeHead
	var at []int
	for i, p := range out.Parts {
		if p.Verdict == contract.QueueIncluded {
			heads, at = append(heads, workspace.MergeHead{Commit: p.Head, Message: workspace.QueueMessage(p.Number)}), append(at, i)
		}
	}
	if len(heads) == 0 {
		return nil
	}
	made, err := r.Workspaces.Candidate(ctx, r.Remote, out.Base, heads, in.Policy.Method == string(forge.MergeCommit), in.At)
	if err != nil {
		return err
	}
	for i, h := range made.Heads {
		p := &out.Parts[at[i]]
		switch {
		case len(h.Conflicts) == 0:
			p.Tree = h.Tree
		case h.Alone:
			p.Verdict, p.Reason = contract.QueueRefused, fmt.Sprintf("it conflicts with %s in %s", code(in.Queue.Base), codes(h.Conflicts))
		default:
			p.Verdict, p.Reason = contract.QueueDeferred, "it conflicts with a pull request before it in "+codes(h.Conflicts)
		}
	}
	if made.Commit != out.Base {
		out.Commit, out.Tree = made.Commit, made.Tree
	}
	return nil
}

// unmarked matches what cannot be part of a branch's name in every case.
var unmarked = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// Checks waits until the required checks of a candidate have ended or one has failed, for at most a time.
func (r Repository) Checks(ctx context.Context, in contract.QueueChecksInput) (contract.QueueChecks, error) {
	ends := time.NewTimer(in.Wait)
	defer ends.Stop()
	tick := time.NewTicker(max(in.Poll, time.Millisecond))
	defer tick.Stop()
	for {
		checks, err := r.Service.Checks(ctx, r.Path, in.Commit)
		if err != nil {
			return contract.QueueChecks{}, err
		}
		out := r.judge(checks, in.Required)
		if out.Result != contract.QueuePending {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-ends.C:
			return out, nil
		case <-tick.C:
		}
	}
}

// judge returns the result of checks of which some are required. What else the protection of a branch requires
// is not asked here, because no pull request shows which branch a candidate is for; GitLab requires its
// pipelines to succeed whatever the branch.
func (r Repository) judge(checks []forge.Check, required []string) contract.QueueChecks {
	out := contract.QueueChecks{Result: contract.QueueGreen}
	missing := slices.Clone(required)
	for _, c := range checks {
		name := r.checkName(c.Name)
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		byPipeline := c.Required && r.Service.Kind() == forge.GitLab
		if !byPipeline && !slices.Contains(required, name) {
			continue
		}
		switch c.State {
		case forge.CheckFailure, forge.CheckError:
			return contract.QueueChecks{Result: contract.QueueRed, Reason: fmt.Sprintf("the check %s failed%s", code(c.Name), link(c.URL))}
		case forge.CheckPending:
			out = contract.QueueChecks{Result: contract.QueuePending, Reason: fmt.Sprintf("the check %s has not ended in time%s", code(c.Name), link(c.URL))}
		default:
		}
	}
	if len(missing) > 0 {
		return contract.QueueChecks{Result: contract.QueuePending, Reason: fmt.Sprintf("the check %s was not reported in time", code(missing[0]))}
	}
	return out
}

// Merge merges a pull request, if its head and its base are still what was tested and nothing forbids it
// meanwhile, and checks the result. It succeeds if an earlier attempt merged it.
func (r Repository) Merge(ctx context.Context, in contract.QueueMergeInput) (contract.QueueMergeResult, error) {
	pr, err := r.Service.PullRequest(ctx, r.Path, in.Part.Number)
	switch {
	case err != nil:
		return contract.QueueMergeResult{}, err
	case pr.State == forge.Merged:
		return r.merged(ctx, in, pr)
	case pr.State == forge.Closed:
		return contract.QueueMergeResult{Refused: "it was closed"}, nil
	case pr.Base != in.Queue.Base:
		return contract.QueueMergeResult{Refused: "its base is now " + code(pr.Base)}, nil
	}
	if other, err := r.otherHead(ctx, in, pr); err != nil || other != nil {
		return *other, err
	}
	if refused, err := r.refusal(ctx, pr, in.Policy); err != nil || refused != "" {
		return contract.QueueMergeResult{Refused: refused}, err
	}
	base, err := r.Service.Branch(ctx, r.Path, in.Queue.Base)
	if err != nil || base != in.Base {
		return contract.QueueMergeResult{Moved: true}, err
	}
	commit, err := r.Service.Merge(ctx, r.Path, in.Part.Number, forge.Merge{Method: forge.MergeMethod(in.Policy.Method), HeadCommit: pr.HeadCommit})
	if err != nil {
		return r.notMerged(ctx, in, err)
	}
	pr.State, pr.MergeCommit = forge.Merged, commit
	return r.merged(ctx, in, pr)
}

// otherHead returns what follows from the head of a pull request that is not what was tested; nil if it is. One
// that GitLab has rebased for a merge that was interrupted is what was tested, if it has exactly these files.
func (r Repository) otherHead(ctx context.Context, in contract.QueueMergeInput, pr forge.PullRequest) (*contract.QueueMergeResult, error) {
	if pr.HeadCommit == in.Part.Head {
		return nil, nil
	}
	if same, err := r.rebased(ctx, in.Policy, pr, in.Part.Head); err != nil || !same {
		return &contract.QueueMergeResult{Refused: newerCommits}, err
	}
	tree, err := r.Workspaces.TreeOf(ctx, r.Remote, pr.HeadCommit)
	if err != nil || tree != in.Part.Tree {
		return &contract.QueueMergeResult{Moved: true}, err
	}
	return nil, nil
}

// notMerged explains why a forge did not merge a pull request.
func (r Repository) notMerged(ctx context.Context, in contract.QueueMergeInput, why error) (contract.QueueMergeResult, error) {
	if !fault.Is(why, contract.CodeMergeConflict) && !fault.Is(why, contract.CodeBadRequest) {
		return contract.QueueMergeResult{}, why
	}
	pr, err := r.Service.PullRequest(ctx, r.Path, in.Part.Number)
	if err != nil {
		return contract.QueueMergeResult{}, err
	}
	if pr.State == forge.Merged {
		return r.merged(ctx, in, pr)
	}
	if other, err := r.otherHead(ctx, in, pr); err != nil || other != nil {
		return *other, err
	}
	base, err := r.Service.Branch(ctx, r.Path, in.Queue.Base)
	if err != nil || base != in.Base || pr.HeadCommit != in.Part.Head { // it was rebased just now, so that its own checks run again
		return contract.QueueMergeResult{Moved: true}, err
	}
	return contract.QueueMergeResult{Refused: "the forge does not merge it: " + code(fault.Of(why).Message)}, nil
}

// merged checks what a merge has made of the base, and removes the branch of the pull request.
func (r Repository) merged(ctx context.Context, in contract.QueueMergeInput, pr forge.PullRequest) (contract.QueueMergeResult, error) {
	base, err := r.Service.Branch(ctx, r.Path, in.Queue.Base)
	if err != nil {
		return contract.QueueMergeResult{}, err
	}
	tree, err := r.Workspaces.TreeOf(ctx, r.Remote, base)
	if err != nil {
		return contract.QueueMergeResult{}, err
	}
	out := contract.QueueMergeResult{Merged: true, Commit: pr.MergeCommit, Base: base, Moved: tree != in.Part.Tree}
	if !in.Policy.DeleteBranch || !in.OfRun || pr.FromFork || pr.Head == in.Queue.Base {
		return out, nil
	}
	note, err := r.deleteBranch(ctx, in.Part.Number)
	if note != "" {
		out.Notes = append(out.Notes, note)
	}
	return out, err
}

// deleteBranch deletes the branch of the pull request of a run that was merged, unless it has newer commits.
// Other branches may be of use to people, such as one that is merged into another again and again.
func (r Repository) deleteBranch(ctx context.Context, number int64) (note string, err error) {
	pr, err := r.Service.PullRequest(ctx, r.Path, number)
	if err != nil {
		return "", err
	}
	newest, err := r.Service.Branch(ctx, r.Path, pr.Head)
	switch {
	case fault.Is(err, contract.CodeRepository):
		return "", nil // the forge has deleted it
	case err == nil && newest != pr.HeadCommit:
		return "its branch has newer commits, so it was kept", nil
	case err == nil:
		err = r.Service.DeleteBranch(ctx, r.Path, pr.Head)
	}
	if err != nil && fault.Of(err).Class == contract.ClassConfig {
		return "its branch could not be deleted: " + code(fault.Of(err).Message), nil
	}
	return "", err
}

// Return says on a pull request why it left the queue, once, and removes the required labels if the policy
// says so.
func (r Repository) Return(ctx context.Context, in contract.QueueReturnInput) error {
	_, err := pullrequest.Answer(ctx, r.Service, pullrequest.Reply{
		Repo: r.Path, Number: in.Entry.Number, ID: "queue/" + in.Entry.Key,
		Text: fmt.Sprintf("The merge queue of %s returned this pull request: %s.", code(in.Queue.Base), in.Entry.Reason),
	})
	if err != nil || !in.Policy.RemoveLabels {
		return err
	}
	for _, label := range in.Policy.Labels {
		if err := r.Service.RemoveLabel(ctx, r.Path, forge.OnPullRequest(in.Entry.Number), label); err != nil {
			return err
		}
	}
	return nil
}
