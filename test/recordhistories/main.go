// recordhistories makes the recorded histories that the replay test uses: it
// starts a stack, lets runs and deliberations end in every way that there is, and
// writes the histories of their workflows. It writes new files only: a recorded history is
// evidence of what a version did, and is never edited.
package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// ending is one way in which a run can go.
type ending struct {
	name     string
	scenario string   // within examples/go, or quick
	faults   []fault  // that come before what the scenario answers
	args     []string // more arguments of run create
	steer    []string // a command to send once the run waits or works: approve, reject, stop, pause+resume; words after it are its arguments, and RUN among them is the run's place
	when     contract.Status
	thinks   bool     // it is steered once its planner's deliberation is in its exchange
	answers  []string // to its questions to people, one after the other: approve, "heal --action wait"
	floods   bool     // once done, it is sent as many messages as make it continue as new
	prepares bool     // it is no run of a goal: rgpt env build
	attempts bool     // there are several attempts: the histories of all of them and of their group are written
	again    []string // what is done with it once it is over; a fork's own histories are written then
}

// fault is what the model's first calls of an agent are answered with.
type fault struct {
	agent  contract.Agent
	step   string
	status int
	times  int
}

// everyAction is a run that a person heals by each action in turn: those of the planner, then one
// of a step, then those of the tester, of which one finds nothing to do and one mends.
func everyAction() ending {
	e := ending{
		name: "asked", scenario: quick, args: []string{"--set", "models.fallback=[{provider: scripted, model: safer}]", "--set", "execution.quota_wait=1s"},
	}
	ofPlanner := []contract.HealAction{
		contract.HealCorrectJSON, contract.HealRegenerate, contract.HealCompactContext, contract.HealStricterSchema, contract.HealLowerTemperature,
		contract.HealSaferModel, contract.HealWait, contract.HealRerunStrict, contract.HealPolicyCorrection, contract.HealRefinePlan,
	}
	// What cannot be done leads to the next question, not to the next attempt.
	for _, a := range append([]contract.HealAction{contract.HealOtherProvider, contract.HealOtherWorker}, ofPlanner...) {
		e.answers = append(e.answers, "heal --action "+string(a))
	}
	e.answers = append(e.answers, "heal --action "+string(contract.HealRefineStep), "heal --action "+string(contract.HealCreateDefaults))
	e.faults = []fault{
		{agent: contract.AgentPlanner, status: http.StatusUnauthorized, times: len(ofPlanner)},
		{agent: contract.AgentBuilder, step: "step-001", status: http.StatusUnauthorized, times: 1},
		{agent: contract.AgentRepair, status: http.StatusUnauthorized, times: 1},
	}
	return e
}

// reasoning is a run whose planner's model reasons more, and then less.
func reasoning() ending {
	return ending{
		name: "reasoning", scenario: quick,
		args:    []string{"--model", "scripted/reasoning"},
		answers: []string{"heal --action " + string(contract.HealMoreReasoning), "heal --action " + string(contract.HealLessReasoning)},
		faults:  []fault{{agent: contract.AgentPlanner, status: http.StatusUnauthorized, times: 2}},
	}
}

// quick is the scenario of endings that no example shows. It has a repository of
// its own, whose tests take no time.
const quick = "quick"

// deliberate is a scenario on the same repository, of runs whose planner deliberates.
const deliberate = "deliberate"

// compared is a scenario on the same repository, of attempts whose models make different changes.
const compared = "compared"

// reads is a scenario on the same repository, of a planner that reads and asks before it plans.
const reads = "reads"

// checked is a scenario on the same repository, of a builder whose mistake its checks find before it
// finishes.
const checked = "checked"

// reviewed is a scenario on the same repository, of a reviewer whose finding an agent fixes.
const reviewed = "reviewed"

// edited is a scenario on the same repository, of a planner whose plan contains the change.
const edited = "edited"

// own reports whether the scenario is one of this folder.
func (e ending) own() bool {
	return slices.Contains([]string{quick, deliberate, reads, checked, reviewed, edited, compared}, e.scenario)
}

// unhealed lets a run end with its first failure.
var unhealed = []string{"--set", "execution.max_retries=0"}

// failingSetup is a set-up that nobody can carry out.
var failingSetup = []string{"--set", "environment.setup=[echo there is no such registry; exit 3]"}

// redCheck is a check of a released branch that fails.
const redCheck = "check --name docs/lint --failed --summary codes-are-missing"

var endings = []ending{
	{name: "good", scenario: "good"},
	{name: "plan-only", scenario: "good", args: []string{"--plan-only"}},
	{name: "approved", scenario: "good", args: []string{"--approve-release"}, steer: []string{"approve"}, when: contract.StatusWaitingForApproval},
	{name: "protected-approved", scenario: quick, args: []string{"--push", "--set", "git.protected=[one.txt]"}, steer: []string{"approve"}, when: contract.StatusWaitingForApproval},
	{name: "rejected", scenario: "good", args: []string{"--approve-plan"}, steer: []string{"reject"}, when: contract.StatusWaitingForApproval},
	{name: "expired", scenario: "good", args: []string{"--approve-plan", "--set", "execution.approval.wait=1s"}},
	{name: "stopped", scenario: "good", steer: []string{"stop"}, when: "builder_running"},
	{name: "paused", scenario: "good", steer: []string{"pause", "resume"}, when: "builder_running"},
	{name: "outgrown", scenario: "good", steer: []string{"pause", outgrow, "resume"}, when: "builder_running"},
	{name: "timed-out", scenario: "good", args: []string{"--timeout", "1s"}},
	{name: "rate-limited", scenario: "fault-rate-limit"},
	{name: "server-error", scenario: "fault-server-error"},
	{name: "invalid-plan", scenario: "fault-invalid-plan", args: unhealed},
	{name: "cycle", scenario: "fault-cycle", args: unhealed},
	{name: "loop", scenario: "fault-loop", args: unhealed},
	{name: "escape", scenario: "fault-escape", args: unhealed},
	{name: "red-test", scenario: "fault-red-test", args: unhealed},
	{name: "healed", scenario: "heal-red-test"},
	{name: "healed-many", scenario: "heal-many"},
	{name: "unhelped", scenario: "heal-skips-test", args: []string{"--set", "execution.intervention.wait=2s"}},
	{name: "given-up", scenario: "heal-skips-test", steer: []string{"reject"}, when: contract.StatusWaitingForApproval},
	{name: "helped", scenario: quick, faults: []fault{{agent: contract.AgentPlanner, status: http.StatusUnauthorized, times: 1}}, answers: []string{"approve"}},
	{
		name: "quota-waited", scenario: quick, faults: []fault{{agent: contract.AgentBuilder, step: "step-001", status: http.StatusPaymentRequired, times: 1}},
		args: []string{"--set", "models.fallback=[]", "--set", "execution.quota_wait=1s"},
	},
	{
		name: "quota-approved", scenario: quick, faults: []fault{{agent: contract.AgentPlanner, status: http.StatusPaymentRequired, times: 1}},
		args: []string{"--set", "models.fallback=[]"}, answers: []string{"approve"},
	},
	everyAction(),
	reasoning(),
	{name: "replayed", scenario: quick, again: []string{"replay", "--phase", "tester"}},
	{name: "resumed", scenario: quick, args: unhealed, again: []string{"resume"}},
	{name: "forked", scenario: quick, again: []string{"fork", "--step", "step-002"}},
	{name: "attempts", scenario: compared, attempts: true, args: []string{"--attempt-model", "scripted/one", "--attempt-model", "scripted/two"}},
	{
		name: "attempts-failed", scenario: compared, attempts: true,
		args: append([]string{"--attempt-model", "scripted/one", "--attempt-model", "scripted/broken"}, unhealed...),
	},
	{
		name: "attempts-stopped", scenario: compared, attempts: true, args: []string{"--attempt-model", "scripted/one", "--attempt-model", "scripted/two"},
		steer: []string{"stop --attempts"}, when: contract.PhasePlanner.Running(),
	},
	{
		name: "deliberated", scenario: deliberate,
		args: []string{"--set", "deliberation.plan_by=deliberation", "--set", "deliberation.iterations=2", "--set", "deliberation.recoveries=1"},
	},
	{
		name: "deliberating-stopped", scenario: deliberate, args: []string{"--plan-by", "deliberation"},
		steer: []string{"stop"}, when: contract.PhasePlanner.Running(), thinks: true,
	},
	{
		name: "deliberating-switched", scenario: deliberate,
		args:  []string{"--set", "deliberation.plan_by=deliberation", "--set", "deliberation.iterations=2", "--set", "deliberation.recoveries=1"},
		steer: []string{"switch-model --agent beta --model scripted/other"}, when: contract.PhasePlanner.Running(), thinks: true,
	},
	{name: "planner-asked", scenario: reads, steer: []string{"answer RUN 2"}, when: contract.StatusWaitingForInput},
	{name: "planner-unanswered", scenario: reads, args: []string{"--set", "execution.planner.question_deadline=1s"}},
	{name: "planner-asking-stopped", scenario: reads, steer: []string{"stop"}, when: contract.StatusWaitingForInput},
	{name: "checked-at-finish", scenario: checked},
	{name: "edited-by-planner", scenario: edited},
	{
		name: "reviewed", scenario: reviewed,
		args: []string{"--set", "gate.review=on", "--set", "models.fallback=[{provider: scripted, model: safer}]"},
	},
	{
		name: "approval-reminded", scenario: quick,
		args: []string{"--approve-release", "--set", "execution.approval.wait=4s", "--set", "execution.approval.reminders=[{after: 1s, to: [page]}, {before: 1s, to: [page], escalate: true}]"},
	},
	{
		name: "not-author", scenario: quick, args: []string{"--approve-release", "--set", "gate.approver=not_author"},
		steer: []string{approveAs + " ann"}, when: contract.StatusWaitingForApproval,
	},
	{
		name: "approved-before", scenario: quick, args: []string{"--approve-release"},
		steer: []string{"approve"}, when: contract.StatusWaitingForApproval, again: []string{"replay", "--phase", "tester"},
	},
	{
		name: "relabelled", scenario: quick, args: []string{"--approve-release"},
		steer: []string{"label add RUN rgpt:needs-approval", approveAs + " ann"}, when: contract.StatusWaitingForApproval,
	},
	{
		name: "blocked-by-label", scenario: quick, args: []string{"--approve-release"},
		steer: []string{"label add RUN rgpt:blocked"}, when: contract.StatusWaitingForApproval,
	},
	{name: "set-up", scenario: quick, args: []string{"--set", "environment.setup=[mkdir -p node_modules/found]"}},
	{name: "set-up-by-agent", scenario: quick, args: failingSetup},
	{
		name: "set-up-given-up", scenario: quick, args: failingSetup, answers: []string{"approve", "reject"},
		faults: []fault{{agent: contract.AgentEnvironment, status: http.StatusUnauthorized, times: 10}},
	},
	{name: "base-red", scenario: quick, args: []string{"--base", redBranch, "--set", "verification.baseline_red=ask"}, answers: []string{"approve"}},
	{name: "base-unbuildable", scenario: quick, args: []string{"--base", unbuildableBranch}},
	{name: "prepared", scenario: quick, prepares: true},
	{name: "stayed", scenario: "good", args: []string{"--stay", "2s"}},
	{name: "stay-stopped", scenario: "good", args: []string{"--stay", "1h"}, steer: []string{"stop"}, when: contract.StatusDone},
	{name: "stay-mended", scenario: "stay-check", args: []string{"--stay", "20s"}, steer: []string{redCheck}, when: contract.StatusDone},
	{name: "stay-continued", scenario: "good", args: []string{"--stay", "20s"}, floods: true},
	{name: "stay-unmended", scenario: "good", args: []string{"--stay", "1h", "--set", "execution.intervention.wait=2s"}, steer: []string{redCheck}, when: contract.StatusDone},
}

func main() {
	out := flag.String("out", "workflows/testdata/histories/v0.1.0", "folder to write to")
	only := flag.String("only", "", "names of the endings to record, with commas between; empty for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := record(ctx, *out, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recordhistories:", err)
		os.Exit(1)
	}
}

func record(ctx context.Context, out, only string) error {
	data, err := os.MkdirTemp("", "rgpt-histories-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	sample := filepath.Join(data, "sample")
	if err := command(ctx, "examples/make-sample.sh", "go", sample); err != nil {
		return err
	}
	if err := quickRepository(ctx, filepath.Join(data, quick)); err != nil {
		return err
	}
	defer func() { _ = command(context.WithoutCancel(ctx), "bin/rgpt", "dev", "stop", "--data-dir", data) }()
	for _, e := range endings {
		if only != "" && !slices.Contains(strings.Split(only, ","), e.name) {
			continue
		}
		if err := recordOne(ctx, out, data, sample, e); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		fmt.Println("recorded", e.name)
	}
	for _, d := range deliberations {
		if only != "" && !slices.Contains(strings.Split(only, ","), d.name) {
			continue
		}
		if err := d.record(ctx, out, data); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		fmt.Println("recorded", d.name)
	}
	if only == "" || slices.Contains(strings.Split(only, ","), triggered) {
		if err := recordTriggered(ctx, out, data); err != nil {
			return fmt.Errorf("%s: %w", triggered, err)
		}
		fmt.Println("recorded", triggered)
	}
	if only != "" && !slices.Contains(strings.Split(only, ","), stoppedFirst) {
		return nil
	}
	if err := recordStoppedFirst(ctx, out, data); err != nil {
		return fmt.Errorf("%s: %w", stoppedFirst, err)
	}
	fmt.Println("recorded", stoppedFirst)
	return nil
}

// stoppedFirst is the ending of those that are stopped before their first task.
const stoppedFirst = "stopped-first"

// beforeFirst is how long the first task of a workflow is put off, for it to be stopped before.
const beforeFirst = 2 * time.Second

// recordStoppedFirst writes the histories of a member and of a step that are stopped before their
// first task. Both are of a deliberation that is over, whose input says what they need.
func recordStoppedFirst(ctx context.Context, out, data string) error {
	c, err := startStack(ctx, data, pipelineScenario)
	if err != nil {
		return err
	}
	defer c.Close()
	id, err := deliberation{name: stoppedFirst, says: "votes"}.live(ctx, c, data)
	if err != nil {
		return err
	}
	h, err := history(ctx, c, contract.PipelineWorkflowID(id))
	if err != nil {
		return err
	}
	var in contract.DeliberationInput
	input := h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()
	if err := json.Unmarshal(input[0].GetData(), &in); err != nil {
		return fmt.Errorf("read the input of pipeline %d: %w", id, err)
	}
	for _, w := range []struct {
		name, id, kind, queue string
		input                 any
	}{
		{"member-alpha", contract.MemberWorkflowID(id, contract.Alpha), contract.WorkflowMember, contract.QueuePlanner, contract.MemberInput{
			PipelineID: id, RunID: in.RunID, Attempt: in.Attempt, Member: contract.Alpha, Model: in.Settings.Models[contract.Alpha.Agent()],
		}},
		{"step-001", contract.StepWorkflowID(in.RunID, "step-001"), contract.WorkflowStep, contract.QueueBuilder, contract.StepInput{
			RunID: in.RunID, Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder, Model: in.Settings.Models[contract.Alpha.Agent()],
		}},
	} {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: w.id, TaskQueue: w.queue, StartDelay: beforeFirst}, w.kind, w.input)
		if err != nil {
			return fmt.Errorf("start %s: %w", w.id, err)
		}
		if err := c.CancelWorkflow(ctx, w.id, run.GetRunID()); err != nil {
			return fmt.Errorf("stop %s: %w", w.id, err)
		}
		if h, err = history(ctx, c, w.id); err != nil {
			return err
		}
		if err := writeHistory(filepath.Join(out, stoppedFirst+"-"+w.name+".json.gz"), h); err != nil {
			return err
		}
	}
	return nil
}

// startStack starts the stack with a scenario, or lets that which runs go on with
// it, and connects to its Temporal.
func startStack(ctx context.Context, data, scenario string) (client.Client, error) {
	return startStackBy(ctx, "bin/rgpt", data, scenario)
}

func startStackBy(ctx context.Context, rgpt, data, scenario string) (client.Client, error) {
	raw, err := exec.CommandContext(ctx, rgpt, "dev", "--detach", "--json", "--port", "0", "--data-dir", data, "--scenario", scenario).Output()
	if err != nil {
		return nil, fmt.Errorf("start the stack: %w", err)
	}
	var stack struct {
		Temporal string `json:"temporal_address"`
	}
	if err := json.Unmarshal(raw, &stack); err != nil {
		return nil, fmt.Errorf("read where the stack is: %w", err)
	}
	return client.DialContext(ctx, client.Options{HostPort: stack.Temporal})
}

func recordOne(ctx context.Context, out, data, sample string, e ending) error {
	scenario, err := e.file(data)
	if err != nil {
		return err
	}
	c, err := startStack(ctx, data, scenario)
	if err != nil {
		return err
	}
	defer c.Close()
	repo := sample
	if e.own() {
		repo = filepath.Join(data, quick)
	}
	args := []string{"run", "create", "--goal", "Record " + e.name}
	if e.prepares {
		args = []string{"env", "build"}
	}
	args = append(append(args, "--json", "--data-dir", data, "--repo", repo), e.args...)
	raw, err := exec.CommandContext(ctx, "bin/rgpt", args...).Output()
	if err != nil {
		return fmt.Errorf("create the run: %w", err)
	}
	var run struct {
		ID       int64 `json:"runId"`
		Attempts group `json:"attempts"`
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		return fmt.Errorf("read which run it is: %w", err)
	}
	if err := e.steerRun(ctx, c, data, run.ID); err != nil {
		return err
	}
	if e.floods {
		if err := flood(ctx, c, run.ID); err != nil {
			return err
		}
	}
	if err := e.answer(ctx, c, data, run.ID); err != nil {
		return err
	}
	over := func(v contract.RunView) bool { return v.Status.Terminal() && v.Staying == nil }
	if err := await(ctx, c, contract.RunWorkflowID(run.ID), contract.QueryState, over); err != nil {
		return err
	}
	if len(e.again) > 0 {
		if run.ID, err = again(ctx, data, run.ID, e.again); err != nil {
			return err
		}
		if err := await(ctx, c, contract.RunWorkflowID(run.ID), contract.QueryState, over); err != nil {
			return err
		}
	}
	if e.attempts {
		return run.Attempts.write(ctx, c, out, e.name)
	}
	return write(ctx, c, out, e.name, run.ID)
}

// group is a group of attempts.
type group struct {
	ID       int64 `json:"group"`
	Attempts []struct {
		ID int64 `json:"runId"`
	} `json:"attempts"`
}

// write writes the histories of a group of attempts, once all of them are over.
func (g group) write(ctx context.Context, c client.Client, out, name string) error {
	for i, a := range g.Attempts {
		if err := await(ctx, c, contract.RunWorkflowID(a.ID), contract.QueryState, func(v contract.RunView) bool { return v.Status.Terminal() }); err != nil {
			return err
		}
		if err := write(ctx, c, out, fmt.Sprintf("%s-%d", name, i+1), a.ID); err != nil {
			return err
		}
	}
	h, err := history(ctx, c, contract.AttemptsWorkflowID(g.ID))
	if err != nil {
		return err
	}
	return writeHistory(filepath.Join(out, name+"-group.json.gz"), h)
}

// steerRun sends the ending's commands, each once the run waits or works.
func (e ending) steerRun(ctx context.Context, c client.Client, data string, id int64) error {
	for _, name := range e.steer {
		if err := await(ctx, c, contract.RunWorkflowID(id), contract.QueryState, func(v contract.RunView) bool { return v.Status == e.when || v.Status == contract.StatusPaused }); err != nil {
			return err
		}
		if e.thinks {
			if err := inExchange(ctx, c, data, id); err != nil {
				return err
			}
		}
		if name == outgrow {
			if err := lengthen(ctx, c, id); err != nil {
				return err
			}
			continue
		}
		args := strings.Fields(name)
		if args[0] == approveAs {
			if err := approve(ctx, c, id, args[1]); err != nil {
				return err
			}
			continue
		}
		if at := slices.Index(args, "RUN"); at >= 0 {
			args[at] = fmt.Sprint(id)
		} else {
			args = append(args, fmt.Sprint(id))
		}
		if err := command(ctx, "bin/rgpt", append([]string{"run"}, append(args, "--data-dir", data)...)...); err != nil {
			return err
		}
	}
	return nil
}

// outgrow makes the history of a run so long that Temporal suggests to continue as new.
const outgrow = "outgrow"

// suggested is the number of events at which Temporal suggests that.
const suggested = 4096

// lengthen sends a run signals that it ignores.
func lengthen(ctx context.Context, c client.Client, id int64) error {
	for range suggested {
		if err := c.SignalWorkflow(ctx, contract.RunWorkflowID(id), "", "ignored", nil); err != nil {
			return err
		}
	}
	return nil
}

// approveAs is the command to approve as a named person, not as the user of this process.
const approveAs = "approve-as"

// approve approves what a run asks about, once it is not being judged again.
func approve(ctx context.Context, c client.Client, id int64, by string) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		name := fmt.Sprint("approve-", n)
		update, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: contract.RunWorkflowID(id), UpdateName: contract.UpdateApprove, UpdateID: name, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{contract.Command{ID: name, By: by}},
		})
		if err == nil {
			err = update.Get(ctx, nil)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("approve as %s: %w", by, err)
		case <-tick.C:
		}
	}
}

// flood sends a run that is done as many checks as make it continue as new.
func flood(ctx context.Context, c client.Client, id int64) error {
	run := contract.RunWorkflowID(id)
	if err := await(ctx, c, run, contract.QueryState, func(v contract.RunView) bool { return v.Staying != nil }); err != nil {
		return err
	}
	for n := range contract.MaxUpdates {
		if err := c.SignalWorkflow(ctx, run, "", contract.UpdateCheck, contract.CheckMessage{
			ID: fmt.Sprint("check-", n), Name: "docs/lint", Conclusion: contract.ConclusionSuccess, By: "ci",
		}); err != nil {
			return err
		}
	}
	return nil
}

// redBranch is a branch of the quick repository whose tests fail.
const redBranch = "red"

// unbuildableBranch is one whose build fails, and whose tests pass.
const unbuildableBranch = "unbuildable"

// quickRepository makes a repository whose tests look for a word.
func quickRepository(ctx context.Context, dir string) error {
	for name, text := range map[string]string{
		"test.sh":   "#!/bin/sh\nif grep -n wrong *.txt; then\n  echo '--- FAIL: TestNotes'\n  exit 1\nfi\necho ok\n",
		"notes.txt": "right\n",
		"rgpt.yaml": "verification:\n  auto_detect: false\n  test:\n    command: sh test.sh\n    format: exit-code\n",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	git := func(args ...string) error {
		return command(ctx, "git", append([]string{"-C", dir, "-c", "user.name=Recorder", "-c", "user.email=recorder@localhost"}, args...)...)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch", "main"}, {"init", "--quiet", "--bare", dir + ".git"}, {"remote", "add", "origin", dir + ".git"}, {"add", "--all"}, {"commit", "--quiet", "--message", "Start"}, {"switch", "--quiet", "--create", redBranch},
	} {
		if err := git(args...); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("wrong\n"), 0o644); err != nil {
		return err
	}
	if err := errors.Join(git("commit", "--quiet", "--all", "--message", "Break the tests"), git("switch", "--quiet", "--create", unbuildableBranch, "main")); err != nil {
		return err
	}
	rules, err := os.OpenFile(filepath.Join(dir, "rgpt.yaml"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = rules.WriteString("  build:\n    command: echo no rule to make it; exit 2\n    format: exit-code\n")
	return errors.Join(err, rules.Close(), git("commit", "--quiet", "--all", "--message", "Break the build"), git("switch", "--quiet", "main"))
}

// file returns the scenario's file: that of the example, or a copy of it that
// begins with the faults.
func (e ending) file(data string) (string, error) {
	example := "examples/go/" + e.scenario + ".yaml"
	if e.own() {
		example = "test/recordhistories/" + e.scenario + ".yaml"
	}
	if len(e.faults) == 0 {
		return example, nil
	}
	raw, err := os.ReadFile(example)
	if err != nil {
		return "", err
	}
	var doc struct {
		Rules []map[string]any `yaml:"rules"`
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return "", fmt.Errorf("read %s: %w", example, err)
	}
	var rules []map[string]any
	for _, f := range e.faults {
		when := map[string]any{"agent": f.agent}
		if f.step != "" {
			when["step"] = f.step
		}
		rules = append(rules, map[string]any{"when": when, "times": f.times, "fault": map[string]any{"status": f.status}})
	}
	text, err := json.Marshal(map[string]any{"rules": append(rules, doc.Rules...)}) // JSON is YAML
	if err != nil {
		return "", err
	}
	file := filepath.Join(data, e.name+".yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// answer answers the questions that a run asks, each once.
func (e ending) answer(ctx context.Context, c client.Client, data string, id int64) error {
	answered := ""
	for _, words := range e.answers {
		args := strings.Fields(words)
		var asks string
		err := await(ctx, c, contract.RunWorkflowID(id), contract.QueryState, func(v contract.RunView) bool {
			asks = v.ApprovalID
			// The clock answers while a run waits for a quota; nobody has to.
			return asks != "" && asks != answered && (args[0] != "heal" || v.WaitingFor == "intervention")
		})
		if err != nil {
			return fmt.Errorf("before the answer %q: %w", words, err)
		}
		answered = asks
		if err := command(ctx, "bin/rgpt", append([]string{"run", args[0], fmt.Sprint(id), "--data-dir", data}, args[1:]...)...); err != nil {
			return err
		}
	}
	return nil
}

// again does something with a run that is over and returns the run that is at
// work then: the same, or its fork.
func again(ctx context.Context, data string, id int64, args []string) (int64, error) {
	raw, err := exec.CommandContext(ctx, "bin/rgpt", append([]string{"run", args[0], fmt.Sprint(id), "--json", "--data-dir", data}, args[1:]...)...).Output()
	if err != nil {
		return 0, fmt.Errorf("rgpt run %s: %w: %s", strings.Join(args, " "), err, raw)
	}
	var run struct {
		ID int64 `json:"runId"`
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		return 0, fmt.Errorf("read which run it is: %w: %s", err, raw)
	}
	return run.ID, nil
}

// longest is how long a run may take to get anywhere, also on a busy machine.
const longest = 10 * time.Minute

// await waits until what a workflow answers to a query is as wanted.
func await[View any](ctx context.Context, c client.Client, workflow, query string, wanted func(View) bool) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		value, err := c.QueryWorkflow(ctx, workflow, "", query)
		var view View
		if err == nil {
			err = value.Get(&view)
		}
		if err == nil && wanted(view) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not get further than %+v", workflow, view), err)
		case <-tick.C:
		}
	}
}

// maxHeals is how many heals of a run are looked for.
const maxHeals = 60

// write writes the histories of a run, of its steps and of its heals. Of heals
// that went the same way one is enough.
func write(ctx context.Context, c client.Client, out, name string, id int64) error {
	ids := [][2]string{{contract.RunWorkflowID(id), name + "-run"}}
	for _, step := range []string{"step-001", "step-002", "step-003"} {
		ids = append(ids, [2]string{contract.StepWorkflowID(id, step), name + "-" + step})
	}
	for n := 1; n <= maxHeals; n++ {
		ids = append(ids, [2]string{contract.HealWorkflowID(id, n), fmt.Sprintf("%s-heal-%d", name, n)},
			[2]string{contract.RepairWorkflowID(id, n), fmt.Sprintf("%s-heal-%d-repair", name, n)})
	}
	seen := map[string]bool{}
	for i := 0; i < len(ids); i++ { // which grows by what the run began
		w := ids[i]
		h, err := history(ctx, c, w[0])
		if err != nil {
			continue // a step that never started, a heal that was not needed
		}
		if strings.Contains(w[0], "/heal/") {
			key := way(h)
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		if err := writeHistory(filepath.Join(out, w[1]+".json.gz"), h); err != nil {
			return err
		}
		if before := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes(); before.GetInitiator() == enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW {
			earlier, err := historyOf(ctx, c, w[0], before.GetContinuedExecutionRunId())
			if err != nil {
				return err
			}
			if err := writeHistory(filepath.Join(out, w[1]+"-before.json.gz"), earlier); err != nil {
				return err
			}
		}
		if w[0] == contract.RunWorkflowID(id) {
			ids = append(ids, pipelines(ctx, c, name, h)...)
		}
	}
	return nil
}

// pipelines names the deliberations that a run began, those that recovered them, and their members.
func pipelines(ctx context.Context, c client.Client, name string, of *historypb.History) [][2]string {
	var ids [][2]string
	for children := childrenOf(of); len(children) > 0; {
		id := children[0]
		children = children[1:]
		if !strings.HasPrefix(id, "pipeline-") {
			continue
		}
		_, rest, _ := strings.Cut(id, "-")
		ids = append(ids, [2]string{id, name + "-pipeline-" + strings.ReplaceAll(rest, "/", "-")})
		if h, err := history(ctx, c, id); err == nil {
			children = append(children, childrenOf(h)...)
		}
	}
	return ids
}

// childrenOf names the workflows that a workflow began.
func childrenOf(h *historypb.History) []string {
	var ids []string
	for _, e := range h.Events {
		if a := e.GetStartChildWorkflowExecutionInitiatedEventAttributes(); a != nil {
			ids = append(ids, a.GetWorkflowId())
		}
	}
	return ids
}

// way tells histories apart that went another way: what happened, and of a heal by which action.
func way(h *historypb.History) string {
	var b strings.Builder
	for _, e := range h.Events {
		fmt.Fprintf(&b, "%d ", e.GetEventType())
	}
	var d contract.Directive
	payloads := h.Events[len(h.Events)-1].GetWorkflowExecutionCompletedEventAttributes().GetResult().GetPayloads()
	if len(payloads) > 0 && json.Unmarshal(payloads[0].GetData(), &d) == nil {
		fmt.Fprintf(&b, "%s %t", d.Action, d.Failed != "")
	}
	return b.String()
}

func history(ctx context.Context, c client.Client, workflowID string) (*historypb.History, error) {
	if err := c.GetWorkflow(ctx, workflowID, "").Get(ctx, nil); err != nil && strings.Contains(err.Error(), "not found") {
		return nil, err
	}
	return historyOf(ctx, c, workflowID, "")
}

// historyOf reads the history of one workflow run, the newest for "".
func historyOf(ctx context.Context, c client.Client, workflowID, workflowRun string) (*historypb.History, error) {
	h := &historypb.History{}
	events := c.GetWorkflowHistory(ctx, workflowID, workflowRun, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, err
		}
		h.Events = append(h.Events, e)
	}
	return h, nil
}

func writeHistory(file string, h *historypb.History) error {
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	packed := gzip.NewWriter(f)
	if _, err := packed.Write(raw); err != nil {
		return err
	}
	return packed.Close()
}

func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
