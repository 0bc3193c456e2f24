package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// slowRepair is a run whose red test is repaired in three turns that take time: a
// command, the patch, the end.
func slowRepair() harness.Rules {
	turn := func(n int, list ...harness.Call) map[string]any {
		return rule(on("agent", "repair", "turn", n), delayed(calls(list...), "600ms"), 100*n)
	}
	return first(makes(wrong),
		turn(1, call("run_command", "command", "sleep 1.37")),
		turn(2, call("edit_file", "path", "made.txt", "old_text", wrong, "new_text", "right")),
		turn(3, harness.Finish("mended it")))
}

// faultyRules are those of the runs into whose heals faults are put.
func faultyRules() harness.Rules {
	var all harness.Rules
	for name, rules := range map[string]harness.Rules{
		"mend":  slowRepair(),
		"ask":   first(makes("right"), rule(on("agent", "builder", "attempt", 1), status(401), 0)),
		"quota": first(makes("right"), rule(on("agent", "builder", "attempt", 1), status(402), 0)),
		// Of two actions the first takes its time and comes to nothing.
		"fruitless": first(makes(wrong), rule(on("agent", "repair"), delayed(calls(harness.Finish("nothing to do")), "4s"), 50)),
		// What was healed fails again, or is stopped before.
		"healed-slowly": first(makes("right"), rule(on("agent", "builder", "attempt", 1), says(declined), 50),
			rule(on("agent", "builder", "attempt", 2), delayed(calls(harness.Finish("late")), "20s"), 50)),
	} {
		all = append(all, rules.Named(name)...)
	}
	return append(all, diamondRules("300ms").Named("slow-diamond")...)
}

// faultTests is a stack whose processes are killed inside heals.
type faultTests struct {
	*stackTests
	first map[string]views.RunDetails // the undisturbed run of each scenario
}

func newFaultTests(t *testing.T) *faultTests {
	t.Helper()
	w := &faultTests{first: map[string]views.RunDetails{}, stackTests: &stackTests{Stack: harness.Start(t, harness.Options{Scenario: faultyRules()})}}
	w.shell = harness.Repo(t, filepath.Join(w.Dir, "mendable"), healableRepo())
	return w
}

// set is what the runs of a scenario are made with.
func set(scenario string) []string {
	if scenario == "quota" {
		return []string{"--set", "execution.quota_wait=3s"}
	}
	return nil
}

// moment is one in a run's heal.
type moment struct {
	name     string
	scenario string
	role     devstack.Role
	reached  func(t *testing.T, w *faultTests, id int64) (bool, string)
}

// eventTime is the moment in which an event was eventTime for the nth time.
func eventTime(kind contract.EventType, about string, nth int) func(*testing.T, *faultTests, int64) (bool, string) {
	return func(t *testing.T, w *faultTests, id int64) (bool, string) {
		t.Helper()
		all, err := w.Store(t).Events(t.Context(), id, 0, 1000)
		n := 0
		for _, e := range all {
			if e.Type == kind && strings.Contains(string(e.Payload), about) {
				n++
			}
		}
		return n >= nth, fmt.Sprint(n, " ", err)
	}
}

// thinks is the moment in which the Repair agent waits for an answer.
func thinks(turn int) func(*testing.T, *faultTests, int64) (bool, string) {
	return func(t *testing.T, w *faultTests, id int64) (bool, string) {
		t.Helper()
		all, err := w.Store(t).ModelCalls(t.Context(), id)
		return slices.ContainsFunc(all, func(c store.ModelCall) bool {
			return c.Agent == contract.AgentRepair && c.Turn == turn && c.Status == "reserved"
		}), fmt.Sprint(len(all), " calls ", err)
	}
}

// waitsFor is the moment in which a run waits for somebody or something.
func waitsFor(what string) func(*testing.T, *faultTests, int64) (bool, string) {
	return func(t *testing.T, w *faultTests, id int64) (bool, string) {
		t.Helper()
		run, err := w.Store(t).Run(t.Context(), id)
		return run.WaitingFor == what, fmt.Sprint(run.Status, " ", run.WaitingFor, " ", err)
	}
}

func commandRuns(*testing.T, *faultTests, int64) (bool, string) {
	return harness.Running("sleep", "1.37"), "no command runs"
}

func moments() []moment {
	worker, temporal := devstack.RoleWorker, devstack.RoleTemporal
	return []moment{
		{"the heal begins", "mend", worker, eventTime(contract.EventHealStarted, "", 1)},
		{"the Repair agent waits for the model", "mend", worker, thinks(1)},
		{"the Repair agent's command runs", "mend", worker, commandRuns},
		{"between two calls of the Repair agent", "mend", worker, thinks(3)},
		{"the repair is judged", "mend", worker, eventTime(contract.EventStepCompleted, contract.StepRepair, 1)},
		{"the directive is applied", "mend", worker, eventTime(contract.EventArtifactAdded, "heal/1/change.patch", 1)},
		{"the tester begins again", "mend", worker, eventTime(contract.PhaseTester.Started(), "", 2)},
		{"the run waits for a person", "ask", worker, waitsFor("intervention")},
		{"the run waits for a quota", "quota", worker, waitsFor("quota")},
		{"the Repair agent waits for the model", "mend", temporal, thinks(1)},
		{"the run waits for a person", "ask", temporal, waitsFor("intervention")},
		{"the run waits for a quota", "quota", temporal, waitsFor("quota")},
		{"the Repair agent waits for the model", "mend", devstack.RolePostgres, thinks(2)},
	}
}

// TestAKillInsideAHealChangesNothingOfWhatARunComesTo kills processes at the
// moments of a heal, one after the other, and compares with the same run
// undisturbed: the same events in the same order, the same heals, the same tree.
func TestAKillInsideAHealChangesNothingOfWhatARunComesTo(t *testing.T) {
	t.Parallel()
	w := newFaultTests(t)
	for _, scenario := range []string{"mend", "ask", "quota"} {
		id := w.start(t, scenario, set(scenario)...)
		w.helpIfAsked(t, scenario, id)
		w.end(t, id, contract.StatusDone)
		w.first[scenario] = w.Inspect(t, id)
		harness.CheckInvariants(t, w.Stack, id)
	}
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair success"}, healsOf(w.first["mend"]))
	require.Equal(t, []string{"CONFIG_ERROR unauthorized ask_person success"}, healsOf(w.first["ask"]))
	require.Equal(t, []string{"INFRA_ERROR quota_exhausted wait success"}, healsOf(w.first["quota"]))
	for _, m := range moments() {
		t.Run(fmt.Sprintf("%s and the %s is killed", m.name, m.role), func(t *testing.T) { w.killedAt(t, m) })
	}
	t.Run("a replay of a healed run is healed again although its worker is killed", w.replayKilledInHeal)
	w.CheckSandboxes(t)
	t.Logf("%d answers lost between the model and their row", w.LostAnswers())
}

// reach waits for a moment of a run.
func (w *faultTests) reach(t *testing.T, id int64, m moment) {
	t.Helper()
	harness.Await(t, fmt.Sprintf("the moment of run %d in which %s", id, m.name), longest, func() (bool, string) { return m.reached(t, w, id) })
}

// helpIfAsked answers the question of a run that asks one.
func (w *faultTests) helpIfAsked(t *testing.T, scenario string, id int64) {
	t.Helper()
	if scenario != "ask" {
		return
	}
	w.reach(t, id, moment{name: "it waits for a person", reached: waitsFor("intervention")})
	w.OK(t, "run", "approve", arg(id), "--reason", "the key is there now")
}

func (w *faultTests) killedAt(t *testing.T, m moment) {
	id := w.start(t, m.scenario, set(m.scenario)...)
	w.reach(t, id, m)
	w.Kill(t, m.role)
	w.Up(t)
	w.helpIfAsked(t, m.scenario, id)
	w.end(t, id, contract.StatusDone)
	run, undisturbed := w.Inspect(t, id), w.first[m.scenario]
	require.Equal(t, eventsOf(undisturbed), eventsOf(run), "what is told of it")
	require.Equal(t, healsOf(undisturbed), healsOf(run))
	require.Len(t, run.Interventions, len(undisturbed.Interventions))
	require.Equal(t, commitsOf(t, undisturbed), commitsOf(t, run), "each change is applied once")
	require.Equal(t, treeOf(t, undisturbed), treeOf(t, run))
	require.Equal(t, undisturbed.Usage.Tokens(), run.Usage.Tokens(), "nothing is paid twice")
	harness.CheckInvariants(t, w.Stack, id)
}

// eventsOf lists what was told of a run since it was prepared: the types of its
// events and their steps. What was prepared is kept, so later runs tell less of it.
func eventsOf(run views.RunDetails) []string {
	var out []string
	begun := slices.IndexFunc(run.Events, func(e contract.Event) bool { return e.Type == contract.PhasePlanner.Started() })
	for _, e := range run.Events[max(0, begun):] {
		text := string(e.Type)
		for _, step := range []string{"step-001", contract.StepRepair} {
			if strings.Contains(string(e.Payload), `"step": "`+step+`"`) || strings.Contains(string(e.Payload), `"step":"`+step+`"`) {
				text += " " + step
			}
		}
		out = append(out, text)
	}
	return out
}

// commitsOf lists the steps that the commits of a run's branch come from.
func commitsOf(t *testing.T, run views.RunDetails) []string {
	t.Helper()
	return strings.Fields(harness.Git(t, run.Repo, "log", "--format=%(trailers:key=RGPT-Step,valueonly)", run.BaseCommit+".."+run.ReleaseBranch))
}

func treeOf(t *testing.T, run views.RunDetails) string {
	t.Helper()
	return harness.Git(t, run.Repo, "rev-parse", run.ReleaseBranch+"^{tree}")
}

// replayKilledInHeal does the builder of a healed run again, which fails as it
// did before, and kills the worker inside the second repair.
func (w *faultTests) replayKilledInHeal(t *testing.T) {
	before := w.first["mend"]
	w.OK(t, "run", "replay", arg(before.ID), "--phase", "builder")
	harness.Await(t, "the second repair to wait for the model", longest, func() (bool, string) {
		all, err := w.Store(t).ModelCalls(t.Context(), before.ID)
		open := slices.ContainsFunc(all, func(c store.ModelCall) bool { return c.Agent == contract.AgentRepair && c.Status == "reserved" })
		return open, fmt.Sprint(len(all), " calls ", err)
	})
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	w.end(t, before.ID, contract.StatusDone)
	run := w.Inspect(t, before.ID)
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair success", "ASSERTION_ERROR tests_failed repair success"}, healsOf(run))
	require.Equal(t, commitsOf(t, before), commitsOf(t, run))
	require.Equal(t, before.ReleaseCommit, run.ReleaseCommit, "the same content makes the same commits")
	require.Equal(t, 2*executed(before, contract.PhaseTester, ""), executed(run, contract.PhaseTester, ""))
	harness.CheckInvariants(t, w.Stack, before.ID)
}

// TestAHealAppliesCommandsAndEndsWithItsRun pauses, stops, cancels and replays runs that
// heal themselves.
func TestAHealAppliesCommandsAndEndsWithItsRun(t *testing.T) {
	t.Parallel()
	w := newFaultTests(t)
	t.Run("side by side", func(t *testing.T) {
		t.Run("a pause holds the Repair agent", parallel(w.pauseRepair))
		t.Run("a paused run begins no other action", parallel(w.pauseBetweenActions))
		t.Run("a run that is cancelled in Temporal settles its heals", parallel(w.cancelled))
		t.Run("a heal whose phase never ended says that the run ended first", parallel(w.endedFirst))
		t.Run("a healed run is replayed from any point", parallel(w.replayHealed))
	})
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

func (w *faultTests) pauseRepair(t *testing.T) {
	id := w.start(t, "mend")
	w.reach(t, id, moment{name: "the Repair agent waits for the model", reached: thinks(1)})
	w.OK(t, "run", "pause", arg(id))
	w.AwaitStatus(t, w.Store(t), id, contract.StatusPaused, longest)
	w.requireStopped(t, id)
	require.Len(t, w.Inspect(t, id).SelfHealEvents, 1)
	w.OK(t, "run", "resume", arg(id))
	w.end(t, id, contract.StatusDone)
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair success"}, healsOf(w.Inspect(t, id)))
}

// pauseBetweenActions pauses in the last turn of a repair that comes to nothing.
func (w *faultTests) pauseBetweenActions(t *testing.T) {
	id := w.start(t, "fruitless")
	w.reach(t, id, moment{name: "the Repair agent waits for the model", reached: thinks(1)})
	w.OK(t, "run", "pause", arg(id))
	w.requireStopped(t, id)
	run := w.Inspect(t, id)
	require.Equal(t, contract.StatusPaused, run.Status)
	require.Equal(t, 1, countEvents(run, contract.EventHealStarted), "a paused run begins no other action")
	require.Empty(t, run.Interventions)
	w.OK(t, "run", "resume", arg(id))
	w.reach(t, id, moment{name: "it asks a person", reached: waitsFor("intervention")})
	w.OK(t, "run", "reject", arg(id))
	w.end(t, id, contract.StatusFailed)
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair failed", "ASSERTION_ERROR tests_failed ask_person failed"}, healsOf(w.Inspect(t, id)))
}

// cancelled ends runs by Temporal's own means, at moments of their heals. Those
// that are resumed go on from there.
func (w *faultTests) cancelled(t *testing.T) {
	for _, c := range []struct {
		moment
		heal string
	}{
		{moment{name: "the Repair agent waits for the model", scenario: "mend", reached: thinks(1)}, "ASSERTION_ERROR tests_failed repair failed"},
		{moment{name: "it waits for a person", scenario: "ask", reached: waitsFor("intervention")}, "CONFIG_ERROR unauthorized ask_person failed"},
		{moment{name: "it waits for a quota", scenario: "quota", reached: waitsFor("quota")}, "INFRA_ERROR quota_exhausted wait failed"},
	} {
		id := w.start(t, c.scenario)
		w.reach(t, id, c.moment)
		require.NoError(t, w.Temporal(t).CancelWorkflow(t.Context(), contract.RunWorkflowID(id), ""))
		run := w.end(t, id, contract.StatusCancelled)
		require.Contains(t, run.Failure.Message, "cancelled in Temporal")
		details := w.Inspect(t, id)
		require.Equal(t, []string{c.heal}, healsOf(details), c.name)
		require.NotEmpty(t, details.SelfHealEvents[0].Output().Result, c.name)
		for _, i := range details.Interventions {
			require.Equal(t, "expired", i.Status, c.name)
		}
		harness.CheckInvariants(t, w.Stack, id)
		after := w.again(t, id, "resume")
		require.Equal(t, c.heal, healsOf(after)[0], "what was told stays")
	}
}

func (w *faultTests) endedFirst(t *testing.T) {
	id := w.start(t, "healed-slowly")
	w.reach(t, id, moment{name: "the builder begins again", reached: eventTime(contract.PhaseBuilder.Started(), "", 2)})
	w.OK(t, "run", "stop", arg(id))
	w.end(t, id, contract.StatusCancelled)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"LLM_ERROR refusal regenerate failed"}, healsOf(run))
	require.Equal(t, "the run ended first", run.SelfHealEvents[0].Output().Result)
	require.Equal(t, 1, countEvents(run, contract.EventHealFailed), "and whoever follows the run is told")
}

// replayHealed does a healed run again from each point, and again from there.
func (w *faultTests) replayHealed(t *testing.T) {
	first := w.done(t, "mend")
	require.Equal(t, []string{"step-001", "heal-1"}, reversed(commitsOf(t, first)))
	heals := 1
	for _, r := range []struct {
		args  []string
		asked []string
	}{
		{[]string{"--phase", "tester"}, nil},                                                       // after the heal: what was repaired is tested
		{[]string{"--phase", "builder"}, []string{"builder step-001", "repair repair"}},            // before it: all fails and is healed as before
		{[]string{"--step", "step-001"}, []string{"builder step-001", "repair repair"}},            // the same for a step
		{[]string{"--phase", "tester"}, nil},                                                       // a replay of a replay
		{[]string{"--phase", "releaser"}, nil},                                                     // and of that
		{[]string{"--phase", "planner"}, []string{"builder step-001", "planner", "repair repair"}}, // from the beginning
	} {
		paid := len(w.Requests(t, first.ID))
		run := w.again(t, first.ID, append([]string{"replay"}, r.args...)...)
		require.Equal(t, r.asked, askedFor(w.Requests(t, first.ID)[paid:]), "%v", r.args)
		if r.asked != nil {
			heals++
		}
		require.Len(t, run.SelfHealEvents, heals, "%v", r.args)
		require.Equal(t, 1, run.RetryCount, "%v: as the run is now, it was healed once", r.args)
		for _, h := range run.SelfHealEvents {
			require.Equal(t, contract.HealSuccess, h.Status, "%v", r.args)
		}
		require.Equal(t, first.ReleaseCommit, run.ReleaseCommit, "%v: the same content makes the same commits", r.args)
		require.Equal(t, heals, countEvents(run, contract.EventHealSuccess), "%v", r.args)
		harness.CheckInvariants(t, w.Stack, first.ID)
	}
}

func reversed(list []string) []string {
	slices.Reverse(list)
	return list
}
