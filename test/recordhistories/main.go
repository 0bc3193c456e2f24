// recordhistories makes the recorded histories that the replay test uses: it
// starts a stack, lets runs end in every way that there is, and writes the
// histories of their workflows. It writes new files only: a recorded history is
// evidence of what a version did, and is never edited.
package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// ending is one way in which a run can go.
type ending struct {
	name     string
	scenario string   // within examples/go
	args     []string // more arguments of run create
	steer    []string // a command to send once the run waits or works: approve, reject, stop, pause+resume
	when     contract.Status
}

// unhealed lets a run end with its first failure.
var unhealed = []string{"--set", "execution.max_retries=0"}

var endings = []ending{
	{name: "good", scenario: "good"},
	{name: "plan-only", scenario: "good", args: []string{"--plan-only"}},
	{name: "approved", scenario: "good", args: []string{"--approve-release"}, steer: []string{"approve"}, when: contract.StatusWaitingForApproval},
	{name: "rejected", scenario: "good", args: []string{"--approve-plan"}, steer: []string{"reject"}, when: contract.StatusWaitingForApproval},
	{name: "expired", scenario: "good", args: []string{"--approve-plan", "--set", "execution.approval.wait=1s"}},
	{name: "stopped", scenario: "good", steer: []string{"stop"}, when: "builder_running"},
	{name: "paused", scenario: "good", steer: []string{"pause", "resume"}, when: "builder_running"},
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
}

func main() {
	out := flag.String("out", "workflows/testdata/histories/v1", "folder to write to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := record(ctx, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recordhistories:", err)
		os.Exit(1)
	}
}

func record(ctx context.Context, out string) error {
	data, err := os.MkdirTemp("", "rgpt-histories-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	sample := filepath.Join(data, "sample")
	if err := command(ctx, "examples/make-sample.sh", "go", sample); err != nil {
		return err
	}
	defer func() { _ = command(context.WithoutCancel(ctx), "bin/rgpt", "dev", "stop", "--data-dir", data) }()
	for _, e := range endings {
		if err := recordOne(ctx, out, data, sample, e); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		fmt.Println("recorded", e.name)
	}
	return nil
}

func recordOne(ctx context.Context, out, data, sample string, e ending) error {
	raw, err := exec.CommandContext(ctx, "bin/rgpt", "dev", "--detach", "--json", "--port", "0", "--data-dir", data,
		"--scenario", "examples/go/"+e.scenario+".yaml").Output()
	if err != nil {
		return fmt.Errorf("start the stack: %w", err)
	}
	var stack struct {
		Temporal string `json:"temporal_address"`
	}
	if err := json.Unmarshal(raw, &stack); err != nil {
		return fmt.Errorf("read where the stack is: %w", err)
	}
	args := append([]string{"run", "create", "--json", "--data-dir", data, "--repo", sample, "--goal", "Record " + e.name}, e.args...)
	raw, err = exec.CommandContext(ctx, "bin/rgpt", args...).Output()
	if err != nil {
		return fmt.Errorf("create the run: %w", err)
	}
	var run struct {
		ID int64 `json:"runId"`
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		return fmt.Errorf("read which run it is: %w", err)
	}
	c, err := client.DialContext(ctx, client.Options{HostPort: stack.Temporal})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range e.steer {
		if err := await(ctx, c, run.ID, func(v contract.RunView) bool { return v.Status == e.when || v.Status == contract.StatusPaused }); err != nil {
			return err
		}
		if err := command(ctx, "bin/rgpt", "run", name, fmt.Sprint(run.ID), "--data-dir", data); err != nil {
			return err
		}
	}
	if err := await(ctx, c, run.ID, func(v contract.RunView) bool { return v.Status.Terminal() }); err != nil {
		return err
	}
	return write(ctx, c, out, e.name, run.ID)
}

// await waits until a run's state is as wanted.
func await(ctx context.Context, c client.Client, id int64, wanted func(contract.RunView) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		value, err := c.QueryWorkflow(ctx, contract.RunWorkflowID(id), "", contract.QueryState)
		var view contract.RunView
		if err == nil {
			err = value.Get(&view)
		}
		if err == nil && wanted(view) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("run %d is %s and does not get further", id, view.Status), err)
		case <-tick.C:
		}
	}
}

// mostHeals is how many heals of a run are looked for.
const mostHeals = 12

// write writes the histories of a run, of its steps and of its heals.
func write(ctx context.Context, c client.Client, out, name string, id int64) error {
	ids := map[string]string{contract.RunWorkflowID(id): name + "-run"}
	for _, step := range []string{"step-001", "step-002", "step-003"} {
		ids[contract.StepWorkflowID(id, step)] = name + "-" + step
	}
	for n := 1; n <= mostHeals; n++ {
		ids[contract.HealWorkflowID(id, n)] = fmt.Sprintf("%s-heal-%d", name, n)
		ids[contract.RepairWorkflowID(id, n)] = fmt.Sprintf("%s-heal-%d-repair", name, n)
	}
	for workflowID, file := range ids {
		h, err := history(ctx, c, workflowID)
		if err != nil {
			continue // a step that never started, a heal that was not needed
		}
		if err := writeHistory(filepath.Join(out, file+".json.gz"), h); err != nil {
			return err
		}
	}
	return nil
}

func history(ctx context.Context, c client.Client, workflowID string) (*historypb.History, error) {
	if err := c.GetWorkflow(ctx, workflowID, "").Get(ctx, nil); err != nil && strings.Contains(err.Error(), "not found") {
		return nil, err
	}
	h := &historypb.History{}
	events := c.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
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
