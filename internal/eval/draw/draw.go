// Package draw makes tasks from the history of a repository: from commits that fix something and bring
// tests that fail before the commit and pass after it. The tests run for real, in the sandbox.
package draw

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/eval/judge"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

const (
	// tries is the number of commits that are tried for each wanted task. Each needs two runs of the
	// tests, and a task two more.
	tries = 4
	// maxPass is the maximum number of tests of a task that must keep passing.
	maxPass = 2000
	// setupFailures is the number of commits in a row that cannot be set up or tested after which the
	// repository is given up.
	setupFailures = 3
)

// Options configure a draw.
type Options struct {
	Repo    string // as it is written to the tasks
	Source  string // git directory of the repository
	Dir     string // directory for repositories
	Count   int    // number of wanted tasks
	Fixes   bool   // only commits whose message speaks of a fix
	Judge   judge.Judge
	Request eval.Task // settings, environment and time limits of the tasks
	// Tell is called with what happened to each commit.
	Tell func(commit, subject, what string)
}

// Drawn are the tasks of a draw.
type Drawn struct {
	Tasks []eval.Task
	Tried int
	Left  []Left // commits that became no task
}

// Left is a commit that became no task, and why.
type Left struct{ Commit, Subject, Why string }

// Draw makes tasks from the newest suitable commits of a repository.
func Draw(ctx context.Context, o Options) (Drawn, error) {
	var out Drawn
	picked, err := commits.Pick(ctx, o.Source, o.Count*tries*4)
	if err != nil {
		return out, err
	}
	repo, err := o.repository(ctx)
	if err != nil {
		return out, err
	}
	failures := 0
	for _, s := range picked.Scripts {
		if len(out.Tasks) == o.Count || out.Tried >= o.Count*tries || failures == setupFailures {
			break
		}
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		t, why, err := o.task(ctx, s)
		if err != nil {
			return out, err
		}
		if why == "" {
			out.Tried++
			failures++
			why, err = o.prove(ctx, repo, s, &t)
			switch {
			case ctx.Err() != nil:
				return out, context.Cause(ctx)
			case err != nil:
				why = fault.Of(err).Message
			default:
				failures = 0
			}
		}
		if why != "" {
			out.Left = append(out.Left, Left{s.ID, s.Subject, why})
			o.tell(s, "left out: "+why)
			continue
		}
		out.Tasks = append(out.Tasks, t)
		o.tell(s, fmt.Sprintf("task %s: tests to fix: %d, to keep: %d", t.ID, len(t.FailToPass), len(t.PassToPass)))
	}
	return out, nil
}

// repository makes the repository in which the tests of all commits run. They share it, and with it
// the copy and the compiled packages that the sandbox keeps for a repository: no agent works here,
// so later commits need not be hidden.
func (o Options) repository(ctx context.Context) (string, error) {
	head, err := commits.Git(ctx, o.Source, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", err
	}
	head = strings.TrimSpace(head)
	repo := filepath.Join(o.Dir, "draw", name(o.Repo)+"-"+head[:12])
	return repo, commits.Truncate(ctx, o.Source, head, repo)
}

func (o Options) tell(s *commits.Script, what string) {
	if o.Tell != nil {
		o.Tell(s.ID, s.Subject, what)
	}
}

// task returns the task of a commit without the names of its tests, or why there is none.
func (o Options) task(ctx context.Context, s *commits.Script) (t eval.Task, why string, err error) {
	message, err := commits.Git(ctx, o.Source, "log", "-1", "--no-show-signature", "--format=%B", s.ID, "--")
	if err != nil {
		return t, "", err
	}
	if o.Fixes && !fixes(message) {
		return t, "its message does not speak of a fix", nil
	}
	t = o.Request
	t.ID = name(o.Repo) + "-" + s.ID[:12]
	t.Repo, t.Base, t.Goal = o.Repo, s.Parent, goalOf(message)
	if t.Goal.Title == "" {
		return t, "its message says nothing", nil
	}
	if t.Tests.Patch, err = commits.Patch(ctx, o.Source, s.Parent, s.ID, commits.IsTest); err != nil {
		return t, "", err
	}
	t.Solution, err = commits.Patch(ctx, o.Source, s.Parent, s.ID, func(path string) bool { return !commits.IsTest(path) })
	if err != nil {
		return t, "", err
	}
	return t, Leak(t), nil
}

var (
	fixWords = regexp.MustCompile(`(?i)\b(fix|fixes|fixed|fixing|bug|bugs|bugfix|regression|crash|crashes|panic|incorrect|incorrectly|wrong|broken|handle|handles|prevent|prevents|avoid|avoids|resolve|resolves|correct|corrects)\b`)
	// references are what a person with access to the hosting service could follow.
	references = regexp.MustCompile(`(?i)\s*\(?(?:(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?|see|refs?|via|cf\.?)[:\s]+)?(?:[\w.-]+/[\w.-]+)?#\d+\)?|https?://\S+|\b[0-9a-f]{7,64}\b`)
	trailers   = regexp.MustCompile(`(?im)^(signed-off-by|co-authored-by|reviewed-by|change-id|acked-by|cc|tested-by|reported-by|cherry[- ]picked from)\b.*$`)
	blanks     = regexp.MustCompile(`\n{3,}`)
)

func fixes(message string) bool { return fixWords.MatchString(message) }

// goalOf returns the goal that a commit's message describes, without references to where its solution
// can be found.
func goalOf(message string) eval.Goal {
	message = strings.ToValidUTF8(strings.ReplaceAll(message, "\x00", ""), "")
	message = references.ReplaceAllString(trailers.ReplaceAllString(message, ""), "")
	// References at the start leave the punctuation after them.
	title, description, _ := strings.Cut(strings.TrimLeft(message, " \r\n\t,:;"), "\n")
	return eval.Goal{Title: strings.TrimSpace(title), Description: strings.TrimSpace(blanks.ReplaceAllString(description, "\n\n"))}
}

// leakLine is the length of a line of a solution from which on its appearance in the goal is a leak.
const leakLine = 12

// Leak returns how the goal of a task gives its solution or its hidden tests away, "" if it does not:
// it quotes an added line, or names a hidden test.
func Leak(t eval.Task) string {
	goal := t.Goal.Title + "\n" + t.Goal.Description
	for _, patch := range []string{t.Solution, t.Tests.Patch} {
		for line := range strings.Lines(patch) {
			added, ok := strings.CutPrefix(line, "+")
			if !ok || strings.HasPrefix(added, "++") {
				continue
			}
			if added = strings.TrimSpace(added); len(added) >= leakLine && strings.ContainsAny(added, "(=:.{[") && strings.Contains(goal, added) {
				return fmt.Sprintf("its message quotes the solution: %.80q", added)
			}
		}
	}
	files, err := eval.PatchFiles(t.Tests.Patch)
	if err != nil {
		return err.Error()
	}
	for _, f := range files {
		if strings.Contains(goal, f) {
			return fmt.Sprintf("its message names the hidden test file %s", f)
		}
	}
	return ""
}

// leakedTest returns a test of the task whose name is in the goal.
func leakedTest(t eval.Task) string {
	goal := t.Goal.Title + "\n" + t.Goal.Description
	for _, test := range t.FailToPass {
		short := test
		if i := strings.LastIndexAny(test, "./:"); i >= 0 {
			short = test[i+1:]
		}
		if len(short) >= leakLine && strings.Contains(goal, short) {
			return test
		}
	}
	return ""
}

// prove runs the tests of a commit before and after its change, and sets the names of the tests of
// the task. It returns why the commit makes no task.
func (o Options) prove(ctx context.Context, repo string, s *commits.Script, t *eval.Task) (why string, err error) {
	after, err := commits.Lay(ctx, repo, t.Base, t.Base, t.Tests.Patch, t.Solution)
	if err != nil {
		return "", err
	}
	if why, err := sameTree(ctx, repo, after, o.Source, s.ID); why != "" || err != nil {
		return why, err
	}
	passedAfter, r, err := o.passed(ctx, *t, repo, after, judge.PinnedTests)
	if err != nil {
		return "", err
	}
	if why := weakens(r); why != "" {
		return why, nil
	}
	if len(passedAfter) == 0 {
		return "none of its tests pass after it" + failure(r), nil
	}
	before, err := commits.Lay(ctx, repo, t.Base, t.Base, t.Tests.Patch)
	if err != nil {
		return "", err
	}
	passedBefore, _, err := o.passed(ctx, *t, repo, before, judge.PinnedTests)
	if err != nil {
		return "", err
	}
	if len(without(passedAfter, passedBefore)) == 0 {
		return "its tests also pass without it", nil
	}
	// Once more: a test that does not always pass decides nothing. This time, the results are compared
	// with those of the base, as in a run.
	again, r, err := o.passed(ctx, *t, repo, after, judge.Baseline)
	if err != nil {
		return "", err
	}
	if why := named(t, passedBefore, passedAfter, again); why != "" {
		return why, nil
	}
	return unreleasable(r), nil
}

// named sets the names of the tests of a task, all of them sorted: of those that passed before the
// change, and twice after it. It returns why the commit makes no task.
func named(t *eval.Task, before, after, again []string) (why string) {
	lost := without(after, again)
	always := without(after, lost)
	t.FailToPass = without(always, before)
	t.PassToPass = without(always, t.FailToPass)
	t.PassToPass = t.PassToPass[:min(len(t.PassToPass), maxPass)]
	if len(t.FailToPass) == 0 {
		return fmt.Sprintf("none of the tests that it fixes always pass, such as %s", without(lost, before)[0])
	}
	if leaked := leakedTest(*t); leaked != "" {
		return fmt.Sprintf("its message names the hidden test %s", leaked)
	}
	return ""
}

// without returns the names that are not in a sorted list.
func without(names, list []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, found := slices.BinarySearch(list, name)
		return found
	})
}

// sameTree checks that the patches of a task make the tree of its commit.
func sameTree(ctx context.Context, repo, commit, source, original string) (why string, err error) {
	got, err := commits.Git(ctx, repo, "rev-parse", commit+"^{tree}")
	if err != nil {
		return "", err
	}
	want, err := commits.Git(ctx, source, "rev-parse", original+"^{tree}")
	if err == nil && got != want {
		return "its patches do not reproduce it", nil
	}
	return "", err
}

// passed returns the names of the tests that pass on a commit. A failed build is a result: none pass.
func (o Options) passed(ctx context.Context, t eval.Task, repo, commit string, compare judge.Comparison) (names []string, r standalone.Report, err error) {
	j := o.Judge
	j.Compare = compare
	r, err = j.Run(ctx, t, repo, commit)
	if err == nil && r.Failure != nil && !r.Judged() {
		err = errors.New(r.Failure.Message)
	}
	return judge.Passed(r.Results), r, err
}

// weakens returns why a run may not release a change that removes or weakens tests.
func weakens(r standalone.Report) string {
	for _, c := range r.Checks {
		if c.Check.ID == contract.CheckPinnedTests && !c.OK {
			return "it removes or weakens tests, which a run may not do: " + c.Message
		}
	}
	return ""
}

// unreleasable returns why a run may not release a change that was compared with its base.
func unreleasable(r standalone.Report) string {
	for _, c := range r.Checks {
		if !c.OK || c.Major > 0 {
			return fmt.Sprintf("a run may not release it: %s: %s", c.Check.ID, fault.FirstLine(c.Message))
		}
	}
	return ""
}

// failure describes the first check that failed.
func failure(r standalone.Report) string {
	for _, c := range r.Checks {
		if c.StopsRun() {
			return fmt.Sprintf(": %s: %s", c.Check.ID, fault.FirstLine(c.Message))
		}
	}
	return ""
}

var other = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// name returns the short name of a repository, for task IDs.
func name(repo string) string {
	repo = strings.TrimSuffix(strings.TrimRight(repo, "/"), ".git")
	parts := strings.FieldsFunc(repo, func(r rune) bool { return r == '/' || r == ':' })
	short := strings.Join(parts[max(0, len(parts)-2):], "-")
	return strings.Trim(other.ReplaceAllString(short, "-"), "-._")
}
