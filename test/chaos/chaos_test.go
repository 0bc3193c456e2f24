// Package chaos kills processes of a running stack, at random moments, and
// checks that nothing is lost, doubled, overspent or unexplained.
package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestMain(m *testing.M) {
	code := m.Run()
	harness.RemoveBinaries()
	os.Exit(code)
}

// The environment: RGPT_CHAOS=long kills many more, RGPT_CHAOS_SEED repeats.
const (
	modeEnv = "RGPT_CHAOS"
	seedEnv = "RGPT_CHAOS_SEED"
)

// size is how much is killed.
type size struct {
	kills     int // of each role
	runs      int // at work at the same time
	endWithin time.Duration
}

func sizeOf(tb testing.TB) size {
	tb.Helper()
	switch mode := os.Getenv(modeEnv); mode {
	case "":
		return size{kills: 2, runs: 2, endWithin: 90 * time.Second}
	case "long":
		return size{kills: 20, runs: 4, endWithin: 3 * time.Minute}
	default:
		tb.Fatalf("%s=%s is neither empty nor long", modeEnv, mode)
		return size{}
	}
}

func seed(tb testing.TB) uint64 {
	tb.Helper()
	text := os.Getenv(seedEnv)
	if text == "" {
		return rand.Uint64() % 1_000_000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(tb, err, seedEnv)
	return n
}

// work is a run of six steps, three of them side by side, with commands in the
// sandbox and a model that takes its time, so that kills meet all kinds of work.
// It is healed twice: its first plan is none, and its test is red until the
// Repair agent has been there.
func work() harness.Rules {
	step := func(id string, needs ...string) harness.Step {
		file := id + ".txt"
		return harness.Step{ID: id, Needs: needs, Turns: [][]harness.Call{
			{{Name: "list_files", Arguments: map[string]any{}}, {Name: "read_file", Arguments: map[string]any{"path": "notes.txt"}}},
			{{Name: "create_file", Arguments: map[string]any{"path": file, "content": verb(id) + " by " + id + "\n"}}},
			{{Name: "run_command", Arguments: map[string]any{"command": "echo more >> " + file + " && ./test.sh"}}},
			{{Name: "read_file", Arguments: map[string]any{"path": file}}, harness.Finish("made " + file)},
		}}
	}
	const latency = "120ms"
	usage := map[string]any{"prompt_tokens": 50, "completion_tokens": 10}
	return append(harness.Rules{
		{"when": map[string]any{"agent": "planner", "attempt": 1}, "latency": latency, "usage": usage, "reply": map[string]any{"text": "Here is the plan: first"}},
		{"when": map[string]any{"agent": "repair", "turn": 1}, "latency": latency, "usage": usage, "reply": map[string]any{"tool_calls": []any{
			map[string]any{"name": "edit_file", "arguments": map[string]any{"path": "step-006.txt", "old_text": "wrong", "new_text": "made"}},
		}}},
		{"when": map[string]any{"agent": "repair", "turn": 2}, "latency": latency, "usage": usage, "reply": map[string]any{"tool_calls": []any{
			map[string]any{"name": "finish", "arguments": map[string]any{"summary": "mended it"}},
		}}},
	}, harness.PlanRules(latency,
		step("step-001"), step("step-002", "step-001"), step("step-003", "step-001"),
		step("step-004", "step-001"), step("step-005", "step-002", "step-003"), step("step-006", "step-005"))...)
}

// verb is what a step says that it did: the last one is wrong.
func verb(id string) string {
	if id == "step-006" {
		return "wrong"
	}
	return "made"
}

// repository is one whose test is red where something is wrong.
func repository(tb testing.TB, dir string) string {
	tb.Helper()
	return harness.Repo(tb, dir, map[string]string{
		"notes.txt": "one\ntwo\nthree\n",
		"test.sh":   "#!/bin/sh\nif grep -n wrong *.txt; then echo '--- FAIL: wrong'; exit 1; fi\necho ok\n",
		"rgpt.yaml": "verification:\n  auto_detect: false\n  test:\n    command: ./test.sh\n    format: exit-code\n",
	})
}

// wanted is what the branch of a good run adds to the repository.
func wanted() map[string]string {
	out := map[string]string{}
	for i := range 6 {
		out[fmt.Sprintf("step-%03d.txt", i+1)] = fmt.Sprintf("made by step-%03d\nmore", i+1)
	}
	return out
}

// trial is one kill: of what, and what became of the runs under way.
type trial struct {
	role      devstack.Role
	after     time.Duration // of the runs' creation
	at        []string      // what the runs were at
	runs      []store.Run
	next      time.Duration // from the start of the new process to the next activity
	recovered bool
}

func TestKillingAnyProcessAtAnyMomentLosesRepeatsAndOverspendsNothing(t *testing.T) {
	size, seed := sizeOf(t), seed(t)
	t.Logf("seed %d; %s=%d repeats it", seed, seedEnv, seed)
	random := rand.New(rand.NewPCG(seed, seed))
	s := harness.Start(t, harness.Options{Scenario: work()})
	db := s.Store(t)
	repo := repository(t, filepath.Join(s.Dir, "repo"))

	var order []devstack.Role
	for range size.kills {
		order = append(order, devstack.Roles()...)
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var trials []trial
	for _, role := range order {
		k := killer{TB: t, s: s, db: db, repo: repo, size: size}
		trials = append(trials, k.trial(role, time.Duration(random.Int64N(int64(longest)))))
	}
	report(t, s, trials)
	s.CheckSandboxes(t)
}

// longest is the latest moment of a kill after the runs were created.
// Undisturbed, they take about as long.
const longest = 5 * time.Second

// longestGap is the time from the restart of a killed worker to the next activity. All runs may have been in workflow
// tasks, which another worker gets when they time out; the rest is for the start of the worker on a busy machine.
const longestGap = contract.TaskTimeout + 2*time.Second

type killer struct {
	testing.TB
	s    *harness.Stack
	db   *store.Store
	repo string
	size size
}

// trial starts runs, kills a process in their middle, starts it again, and
// checks what became of them.
func (k killer) trial(role devstack.Role, after time.Duration) trial {
	k.Helper()
	out := trial{role: role, after: after}
	ids := k.create()
	// Where all runs were faster than the kill, others get an earlier one.
	for out.at = k.statusesAfter(ids, out.after); !out.midRun(); out.at = k.statusesAfter(ids, out.after) {
		out.after /= 2
		ids = append(ids, k.create()...)
	}
	k.s.Kill(k, role)
	k.s.Up(k)
	for _, id := range ids {
		out.runs = append(out.runs, k.s.AwaitEnd(k, k.db, id, k.size.endWithin))
	}
	harness.CheckInvariants(k, k.s, ids...)
	for _, run := range out.runs {
		k.complete(run)
	}
	out.next, out.recovered = k.next(ids)
	k.Logf("killed the %s after %s at %s: %s", role, after.Round(time.Millisecond), strings.Join(out.at, ", "), isFinished(out.runs))
	return out
}

// create makes the runs of a trial.
func (k killer) create() []int64 {
	k.Helper()
	var ids []int64
	for i := range k.size.runs {
		ids = append(ids, k.s.Create(k, "--repo", k.repo, "--goal", fmt.Sprintf("Chaos, run %d", i+1)))
	}
	return ids
}

// statusesAfter lets a time pass and returns what the runs are at then.
func (k killer) statusesAfter(ids []int64, after time.Duration) []string {
	k.Helper()
	<-time.After(after)
	var out []string
	for _, id := range ids {
		run, err := k.db.Run(k.Context(), id)
		require.NoError(k, err)
		out = append(out, string(run.Status))
	}
	return out
}

// midRun reports whether a run was under way when the process was killed.
func (t trial) midRun() bool {
	return slices.ContainsFunc(t.at, func(status string) bool { return !contract.Status(status).Terminal() })
}

// complete checks that the branch of a done run holds all that it should.
func (k killer) complete(run store.Run) {
	k.Helper()
	if run.Status != contract.StatusDone {
		return
	}
	for file, text := range wanted() {
		require.Equal(k, text, harness.Git(k, k.repo, "show", run.ReleaseBranch+":"+file), "run %d", run.ID)
	}
	heals, err := k.db.Heals(k.Context(), run.ID)
	require.NoError(k, err)
	heals = slices.DeleteFunc(heals, func(h store.HealEvent) bool { return h.HealAction == contract.HealAskPerson })
	require.Len(k, heals, 2, "run %d was healed twice", run.ID)
}

// next is how long after the start of the new process the first activity of the
// runs began.
func (k killer) next(ids []int64) (time.Duration, bool) {
	k.Helper()
	kills := k.s.Kills()
	back := kills[len(kills)-1].Back
	var first time.Time
	for _, id := range ids {
		for _, h := range k.s.Histories(k, id) {
			if at := h.FirstStartAfter(back); !at.IsZero() && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first.Sub(back), !first.IsZero()
}

func isFinished(runs []store.Run) string {
	var out []string
	for _, r := range runs {
		text := fmt.Sprintf("run %d %s", r.ID, r.Status)
		if r.Failure != nil {
			text += fmt.Sprintf(" (%s %s: %s; %s)", r.Failure.Class, r.Failure.Code, r.Failure.Message, r.Failure.Cause)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// report prints the table and checks what must hold over all trials.
func report(t *testing.T, s *harness.Stack, trials []trial) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FAULT\tFIRED\tIN MID-RUN\tRUNS\tDONE\tNEXT ACTIVITY (MEDIAN, MOST)")
	all, done := 0, 0
	for _, role := range devstack.Roles() {
		row := rowOf(role, trials)
		all, done = all+row.runs, done+row.done
		fmt.Fprintf(w, "kill -9 %s\t%d\t%d\t%d\t%d\t%s\n", role, row.fired, row.midRun, row.runs, row.done, row.latency())
		require.GreaterOrEqual(t, row.midRun, 2, "the %s was killed in mid-run", role)
		if role == devstack.RoleWorker && len(row.next) > 0 {
			require.Less(t, slices.Max(row.next), longestGap, "after kill -9 of the worker the next activity starts soon after its restart")
		}
	}
	_ = w.Flush()
	t.Logf("\n%s%d of %d runs done; %d answers lost between the model and their row\n", &text, done, all, s.LostAnswers())
	require.GreaterOrEqual(t, 10*done, 9*all, "at least 90 %% of the runs end well")
}

type row struct {
	fired, midRun, runs, done int
	next                      []time.Duration
}

func rowOf(role devstack.Role, trials []trial) row {
	var r row
	for _, t := range trials {
		if t.role != role {
			continue
		}
		r.fired++
		if t.midRun() {
			r.midRun++
		}
		for _, run := range t.runs {
			r.runs++
			if run.Status == contract.StatusDone {
				r.done++
			}
		}
		if t.recovered {
			r.next = append(r.next, t.next)
		}
	}
	slices.Sort(r.next)
	return r
}

func (r row) latency() string {
	if len(r.next) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s, %s", r.next[len(r.next)/2].Round(10*time.Millisecond), r.next[len(r.next)-1].Round(10*time.Millisecond))
}

// TestWorkThatTakesItsWorkerAlongIsGivenUpAndAPersonIsAsked kills the worker whenever
// it has begun a check, as one does that needs all of its memory.
func TestWorkThatTakesItsWorkerAlongIsGivenUpAndAPersonIsAsked(t *testing.T) {
	const most = 2
	s := harness.Start(t, harness.Options{Scenario: work(), Config: "worker:\n  lost_attempts: 2\n"})
	db := s.Store(t)
	repo := harness.Repo(t, filepath.Join(s.Dir, "repo"), map[string]string{
		"notes.txt": "one\n", "test.sh": "#!/bin/sh\nif [ -f step-006.txt ]; then exec sleep 600; fi\n",
		"rgpt.yaml": "verification:\n  auto_detect: false\n  test:\n    command: ./test.sh\n    format: exit-code\n",
	})
	id := s.Create(t, "--repo", repo, "--goal", "Poison")
	for lost := range most {
		harness.Await(t, "the check is at work", time.Minute, func() (bool, string) {
			d, err := s.Temporal(t).DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(id), "")
			require.NoError(t, err)
			for _, a := range d.GetPendingActivities() {
				if a.GetActivityType().GetName() == contract.ActivityVerify && int(a.GetAttempt()) == lost+1 && a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED {
					return true, ""
				}
			}
			return false, fmt.Sprint(d.GetPendingActivities())
		})
		s.Kill(t, devstack.RoleWorker)
		s.Up(t)
	}
	s.AwaitRun(t, db, id, "asking for help", time.Minute, func(r store.Run) bool { return r.WaitingFor != "" })
	questions, err := views.New(db).Questions(t.Context(), id, 1)
	require.NoError(t, err)
	require.Len(t, questions, 1)
	require.Contains(t, questions[0].Reason, contract.ActivityVerify+" started 2 times")
	s.OK(t, "run", "reject", fmt.Sprint(id))
	run := s.AwaitStatus(t, db, id, contract.StatusFailed, time.Minute)
	require.Equal(t, contract.CodeQuarantined, run.Failure.Code)
	harness.CheckInvariants(t, s, id)
}
